// Turns an fp32 model into one that computes in fp16 or bf16 where that is safe.
#pragma once

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// Nodes that read a large fp32 weight, and what follows from them through operators that are exact enough in
// half precision (products, attention, normalisation, activations, moving of elements), work in `type`; their
// weights become derived initializers, their inputs and outputs of the graph change type with them. What
// comes before (angles of a rotary embedding, masks) stays fp32, with a Cast between. Main graph only.
// Returns the number of nodes converted; types and shapes are inferred again. INVALID_ARGUMENT unless `type`
// is kFloat16 or kBfloat16. REQUIRES: inferred types.
Result<int> ConvertToHalf(Model& model, DataType type);

}  // namespace lamina
