// Attention, rotary embedding and the state-space operators of ai.onnx.
#include "model/shape_inference/attention_shapes.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

DimExpr DivideExact(const DimExpr& a, const DimExpr& b) { return DimExpr::FloorDiv(a, b); }

// Q, K, V of 3 axes [batch, seq, heads * head_size].
Status ReadPackedHeads(InferenceContext& context, AttentionDims& dims) {
  const SymbolicShape* q = context.InputShape(0);
  const SymbolicShape* k = context.InputShape(1);
  const SymbolicShape* v = context.InputShape(2);
  const int64_t q_heads = context.RequiredInt("q_num_heads");
  const int64_t kv_heads = context.RequiredInt("kv_num_heads");
  if (q_heads < 1 || kv_heads < 1) {
    return context.Error("q_num_heads is {} and kv_num_heads {}", q_heads, kv_heads);
  }
  dims.heads = q_heads;
  dims.kv_heads = kv_heads;
  dims.batch = q->dims[0];
  dims.sequence = q->dims[1];
  dims.head_size = DivideExact(q->dims[2], dims.heads);
  if (k != nullptr) {
    dims.kv_sequence = k->dims[1];
    LAMINA_ASSIGN_OR_RETURN(
        dims.head_size,
        context.Unify(dims.head_size, DivideExact(k->dims[2], dims.kv_heads), "the head size"));
  }
  if (v != nullptr) dims.v_head_size = DivideExact(v->dims[2], dims.kv_heads);
  return {};
}

// Q, K, V of 4 axes [batch, heads, seq, head_size].
Status ReadHeads(InferenceContext& context, AttentionDims& dims) {
  const SymbolicShape* q = context.InputShape(0);
  const SymbolicShape* k = context.InputShape(1);
  const SymbolicShape* v = context.InputShape(2);
  dims.batch = q->dims[0];
  dims.heads = q->dims[1];
  dims.sequence = q->dims[2];
  dims.head_size = q->dims[3];
  if (k != nullptr) {
    dims.kv_heads = k->dims[1];
    dims.kv_sequence = k->dims[2];
    LAMINA_ASSIGN_OR_RETURN(dims.head_size, context.Unify(dims.head_size, k->dims[3], "the head size"));
  }
  if (v != nullptr) dims.v_head_size = v->dims[3];
  return {};
}

Status ReadQkv(InferenceContext& context, AttentionDims& dims) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, 4));
  const int rank = context.InputShape(0)->rank();
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, rank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, rank));
  return rank == 3 ? ReadPackedHeads(context, dims) : ReadHeads(context, dims);
}

Status InferAttention(InferenceContext& context) {
  constexpr int kPastKey = 4;
  constexpr int kPastValue = 5;
  if (context.HasInput(kPastKey) != context.HasInput(kPastValue)) {
    return context.Error("past_key and past_value must be given together");
  }
  context.SetOutputType(2, context.InputType(2));
  const SymbolicShape* q = context.InputShape(0);
  if (q == nullptr) return {};
  AttentionDims dims;
  LAMINA_RETURN_IF_ERROR(ReadQkv(context, dims));
  LAMINA_RETURN_IF_ERROR(MergePast(context, kPastKey, kPastValue, dims));
  const DimExpr total = dims.past + dims.kv_sequence;
  if (q->rank() == 3) {
    context.SetOutputShape(0, {{dims.batch, dims.sequence, dims.heads * dims.v_head_size}});
  } else {
    context.SetOutputShape(0, {{dims.batch, dims.heads, dims.sequence, dims.v_head_size}});
  }
  context.SetOutputShape(1, {{dims.batch, dims.kv_heads, total, dims.head_size}});
  context.SetOutputShape(2, {{dims.batch, dims.kv_heads, total, dims.v_head_size}});
  context.SetOutputShape(3, {{dims.batch, dims.heads, dims.sequence, total}});
  return {};
}

Status InferRotaryEmbedding(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, 4));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(3, 2));
  const int cache_rank = context.HasInput(3) ? 2 : 3;
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, cache_rank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, cache_rank));
  const SymbolicShape* x = context.InputShape(0);
  if (x != nullptr && x->rank() == 3 && context.Int("num_heads", 0) < 1) {
    return context.Error("the attribute 'num_heads' is required for an input of shape {}", x->ToString());
  }
  return InferSameShape(context);
}

// input [batch, channels, length], weight [channels, 1, kernel] -> [batch, channels, length], and the last
// kernel - 1 inputs as state.
Status InferCausalConvWithState(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(3, 3));
  const SymbolicShape* input = context.InputShape(0);
  const SymbolicShape* weight = context.InputShape(1);
  if (input == nullptr) return {};
  SymbolicShape state{{input->dims[0], input->dims[1], DimExpr::Unknown()}};
  if (weight != nullptr) {
    LAMINA_ASSIGN_OR_RETURN(state.dims[1], context.Unify(input->dims[1], weight->dims[0], "the channels"));
    state.dims[2] = weight->dims[2] - 1;
  }
  if (const SymbolicShape* past = context.InputShape(3)) {
    for (size_t i = 0; i < 3; ++i) {
      LAMINA_ASSIGN_OR_RETURN(state.dims[i], context.Unify(state.dims[i], past->dims[i], "the past state"));
    }
  }
  context.SetOutputShape(0, *input);
  context.SetOutputShape(1, std::move(state));
  return {};
}

// query [batch, seq, q_heads * key_size], key [batch, seq, kv_heads * key_size], value [batch, seq, kv_heads
// * value_size] -> output [batch, seq, q_heads * value_size], state [batch, kv_heads, key_size, value_size].
Status InferLinearAttention(InferenceContext& context) {
  for (int i = 0; i < 3; ++i) LAMINA_RETURN_IF_ERROR(context.CheckRank(i, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(3, 4));
  if (!context.HasInput(3)) context.SetOutputType(1, context.InputType(0));
  const SymbolicShape* q = context.InputShape(0);
  const SymbolicShape* v = context.InputShape(2);
  const int64_t q_heads = context.RequiredInt("q_num_heads");
  const int64_t kv_heads = context.RequiredInt("kv_num_heads");
  if (q_heads < 1 || kv_heads < 1) {
    return context.Error("q_num_heads is {} and kv_num_heads {}", q_heads, kv_heads);
  }
  if (q == nullptr || v == nullptr) return {};
  SymbolicShape state{
      {q->dims[0], kv_heads, DivideExact(q->dims[2], q_heads), DivideExact(v->dims[2], kv_heads)}};
  if (const SymbolicShape* past = context.InputShape(3)) {
    for (size_t i = 0; i < 4; ++i) {
      LAMINA_ASSIGN_OR_RETURN(state.dims[i], context.Unify(state.dims[i], past->dims[i], "the past state"));
    }
  }
  context.SetOutputShape(0, {{q->dims[0], q->dims[1], state.dims[3] * q_heads}});
  context.SetOutputShape(1, std::move(state));
  return {};
}

// Q [batch, heads, seq, head_size], K and V with their own heads and lengths; the attributes score_mod and
// prob_mod are graphs that change the scores, and keep their shape.
Status InferFlexAttention(InferenceContext& context) {
  const SymbolicShape* q = context.InputShape(0);
  if (q == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 4));
  AttentionDims dims;
  LAMINA_RETURN_IF_ERROR(ReadQkv(context, dims));
  const InferredValue scores{context.InputType(0),
                             SymbolicShape{{dims.batch, dims.heads, dims.sequence, dims.kv_sequence}}};
  for (const char* name : {"score_mod", "prob_mod"}) {
    if (Graph* body = context.Subgraph(name)) {
      LAMINA_RETURN_IF_ERROR(context.InferBody(*body, {&scores, 1}).status());
    }
  }
  context.SetOutputShape(0, {{dims.batch, dims.heads, dims.sequence, dims.v_head_size}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"Attention", 23, "T1 T1 T2 U? T1? T2? -> T1 T1? T2? T1? | T1=float T2=float U=numeric,bool",
     InferAttention},
    {"Attention", 24, "T1 T1 T2 U? T1? T2? i64? -> T1 T1? T2? T1? | T1=float T2=float U=numeric,bool",
     InferAttention},
    {"CausalConvWithState", 27, "T T T? T? -> T T | T=float", InferCausalConvWithState},
    {"LinearAttention", 27, "T T T S? T? T? -> T S? | T=float S=float", InferLinearAttention},
    {"RotaryEmbedding", 23, "T T T i64? -> T | T=float", InferRotaryEmbedding},
};

constexpr OperatorEntry kPreviewOperators[] = {
    {"FlexAttention", 1, "T T T -> T | T=float", InferFlexAttention},
};

}  // namespace

Status MergePast(InferenceContext& context, int past_key, int past_value, AttentionDims& dims,
                 int64_t packing) {
  const auto merge = [&](int input, DimExpr& head_size) -> Status {
    LAMINA_RETURN_IF_ERROR(context.CheckRank(input, 4));
    const SymbolicShape* past = context.InputShape(input);
    if (past == nullptr) {
      if (context.HasInput(input)) dims.past = DimExpr::Unknown();
      return {};
    }
    LAMINA_ASSIGN_OR_RETURN(dims.batch, context.Unify(dims.batch, past->dims[0], "the batch of the past"));
    LAMINA_ASSIGN_OR_RETURN(dims.kv_heads,
                            context.Unify(dims.kv_heads, past->dims[1], "the heads of the past"));
    dims.past = past->dims[2];
    LAMINA_ASSIGN_OR_RETURN(const DimExpr stored, context.Unify(DimExpr::FloorDiv(head_size, packing),
                                                                past->dims[3], "the head size of the past"));
    if (!head_size.is_constant() && stored.known()) head_size = stored * packing;
    return {};
  };
  LAMINA_RETURN_IF_ERROR(merge(past_key, dims.head_size));
  return merge(past_value, dims.v_head_size);
}

std::span<const OperatorEntry> AttentionOperators() { return kOperators; }
std::span<const OperatorEntry> PreviewOperators() { return kPreviewOperators; }

}  // namespace lamina
