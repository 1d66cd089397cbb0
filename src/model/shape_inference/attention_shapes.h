// Shapes of attention, shared by the operators of ai.onnx and com.microsoft.
#pragma once

#include "model/shape_inference/inference_context.h"

namespace lamina {

// What an attention operator works on.
struct AttentionDims {
  DimExpr batch = DimExpr::Unknown();
  DimExpr sequence = DimExpr::Unknown();     // of the queries
  DimExpr kv_sequence = DimExpr::Unknown();  // of the keys and values given beside the past
  DimExpr past = 0;
  DimExpr heads = DimExpr::Unknown();
  DimExpr kv_heads = DimExpr::Unknown();
  DimExpr head_size = DimExpr::Unknown();
  DimExpr v_head_size = DimExpr::Unknown();
};

// Takes batch, KV heads, past length and head sizes from past_key and past_value [batch, kv_heads, past,
// head_size], where present, and unifies them with what is known: a head size that the file leaves symbolic
// becomes the number that the operator needs. `packing` elements of a head share one stored element.
Status MergePast(InferenceContext& context, int past_key, int past_value, AttentionDims& dims,
                 int64_t packing = 1);

}  // namespace lamina
