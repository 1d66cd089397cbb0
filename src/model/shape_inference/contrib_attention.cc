// Attention and normalisation operators of com.microsoft.
#include "model/shape_inference/attention_shapes.h"
#include "model/shape_inference/normalization.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// The elements of a KV cache that share one stored element: two 4-bit numbers to a byte.
Result<int64_t> CachePacking(InferenceContext& context) {
  const int64_t bits = context.Int("kv_cache_bit_width", 0);
  if (bits != 0 && bits != 4 && bits != 8) return context.Error("kv_cache_bit_width is {}", bits);
  return bits == 4 ? 2 : 1;
}

// The length of present: the past buffer where it is as long as the total length, else the total length. The
// elements of the input `total` tell it; without them it is past and sequence together.
DimExpr PresentLength(const InferenceContext& context, int total_input, const AttentionDims& dims) {
  const std::vector<DimExpr>* total = context.InputElements(total_input);
  if (total != nullptr && total->size() == 1 && (*total)[0].known()) {
    return DimExpr::Max(dims.past, (*total)[0]);
  }
  return dims.past + dims.kv_sequence;
}

// query [batch, seq, heads * head_size], or Q, K and V packed along the last axis.
Status InferGroupQueryAttention(InferenceContext& context) {
  constexpr int kKey = 1;
  constexpr int kValue = 2;
  constexpr int kPastKey = 3;
  constexpr int kPastValue = 4;
  constexpr int kTotalLength = 6;
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  const int64_t heads = context.RequiredInt("num_heads");
  const int64_t kv_heads = context.RequiredInt("kv_num_heads");
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return context.Error("num_heads {} must be a multiple of kv_num_heads {}", heads, kv_heads);
  }
  if (context.HasInput(kPastKey) != context.HasInput(kPastValue)) {
    return context.Error("past_key and past_value must be given together");
  }
  if (context.HasInput(kKey) != context.HasInput(kValue)) {
    return context.Error("key and value must be given together");
  }
  LAMINA_ASSIGN_OR_RETURN(const int64_t packing, CachePacking(context));
  if (!context.HasInput(kPastKey)) {
    context.SetOutputType(1, context.InputType(0));
    context.SetOutputType(2, context.InputType(0));
  }
  AttentionDims dims;
  dims.heads = heads;
  dims.kv_heads = kv_heads;
  if (const SymbolicShape* query = context.InputShape(0)) {
    dims.batch = query->dims[0];
    dims.sequence = query->dims[1];
    dims.kv_sequence = query->dims[1];
    const int64_t heads_in_query = context.HasInput(kKey) ? heads : heads + 2 * kv_heads;
    if (query->dims[2].is_constant() && *query->dims[2].constant() % heads_in_query != 0) {
      return context.Error("input 0 of shape {} does not hold {} heads", query->ToString(), heads_in_query);
    }
    dims.head_size = DimExpr::FloorDiv(query->dims[2], heads_in_query);
    dims.v_head_size = dims.head_size;
  }
  LAMINA_RETURN_IF_ERROR(MergePast(context, kPastKey, kPastValue, dims, packing));
  const DimExpr present = PresentLength(context, kTotalLength, dims);
  context.SetOutputShape(0, {{dims.batch, dims.sequence, dims.head_size * heads}});
  const SymbolicShape cache{{dims.batch, kv_heads, present, DimExpr::FloorDiv(dims.head_size, packing)}};
  context.SetOutputShape(1, cache);
  context.SetOutputShape(2, cache);
  context.SetOutputShape(3, {{dims.batch, heads, dims.sequence, present}});
  return {};
}

// Which inputs hold what in the multi-head operators.
struct MultiHeadInputs {
  int past_key;
  int past_value;
};

// query [batch, seq, hidden] with key and value [batch, kv_seq, hidden], or [batch, heads, kv_seq,
// head_size]; or packed: query [batch, seq, heads, 3, head_size], key [batch, kv_seq, heads, 2, head_size].
Status InferMultiHead(InferenceContext& context, MultiHeadInputs inputs, bool shares_past_buffer) {
  const int64_t heads = context.RequiredInt("num_heads");
  if (heads < 1) return context.Error("num_heads is {}", heads);
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, 5));
  const SymbolicShape* query = context.InputShape(0);
  const SymbolicShape* key = context.InputShape(1);
  const SymbolicShape* value = context.InputShape(2);
  for (const int output : {1, 2, 3}) context.SetOutputType(output, context.InputType(0));
  if (query == nullptr) return {};
  if (query->rank() == 4) return context.Error("input 0: expected 3 or 5 axes, found {}", query->ToString());
  AttentionDims dims;
  dims.heads = heads;
  dims.kv_heads = heads;
  dims.batch = query->dims[0];
  dims.sequence = query->dims[1];
  dims.head_size = query->rank() == 5 ? query->dims[4] : DimExpr::FloorDiv(query->dims[2], heads);
  dims.v_head_size = dims.head_size;
  dims.kv_sequence = dims.sequence;
  if (key != nullptr && key->rank() == 4) {
    dims.kv_sequence = key->dims[2];
  } else if (key != nullptr && key->rank() >= 3) {
    dims.kv_sequence = key->dims[1];
  }
  if (value != nullptr && value->rank() == 4) {
    dims.v_head_size = value->dims[3];
  } else if (value != nullptr && value->rank() == 3) {
    dims.v_head_size = DimExpr::FloorDiv(value->dims[2], heads);
  }
  LAMINA_RETURN_IF_ERROR(MergePast(context, inputs.past_key, inputs.past_value, dims));
  // Of a shared buffer the run's valid tokens are known to past_sequence_length alone.
  const DimExpr total = dims.past + dims.kv_sequence;
  const DimExpr capacity = shares_past_buffer ? dims.past : total;
  context.SetOutputShape(0, {{dims.batch, dims.sequence, dims.v_head_size * heads}});
  context.SetOutputShape(1, {{dims.batch, heads, capacity, dims.head_size}});
  context.SetOutputShape(2, {{dims.batch, heads, capacity, dims.v_head_size}});
  context.SetOutputShape(
      3, {{dims.batch, heads, dims.sequence, shares_past_buffer ? DimExpr::Unknown() : total}});
  return {};
}

Status InferMultiHeadAttention(InferenceContext& context) {
  // The past length as an input means that past and present are one buffer.
  constexpr int kPastLength = 8;
  return InferMultiHead(context, {6, 7}, context.HasInput(kPastLength));
}

Status InferDecoderMaskedMultiHeadAttention(InferenceContext& context) {
  return InferMultiHead(context, {5, 6}, context.Int("past_present_share_buffer", 0) != 0);
}

// input [batch, seq, hidden], weights [hidden, q + k + v] -> [batch, seq, v], present [2, batch, heads,
// total, head_size]
Status InferContribAttention(InferenceContext& context) {
  constexpr int kPast = 4;
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(kPast, 5));
  const int64_t heads = context.RequiredInt("num_heads");
  if (heads < 1) return context.Error("num_heads is {}", heads);
  const SymbolicShape* input = context.InputShape(0);
  const SymbolicShape* weights = context.InputShape(1);
  if (input == nullptr || weights == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.Unify(input->dims[2], weights->dims[0], "the hidden size").status());
  DimExpr hidden = DimExpr::FloorDiv(weights->dims[1], 3);
  DimExpr v_hidden = hidden;
  if (const auto* sizes = context.Ints("qkv_hidden_sizes"); sizes && !sizes->empty()) {
    if (sizes->size() != 3) return context.Error("qkv_hidden_sizes has {} values", sizes->size());
    hidden = (*sizes)[0];
    v_hidden = (*sizes)[2];
  }
  context.SetOutputShape(0, {{input->dims[0], input->dims[1], v_hidden}});
  DimExpr total = input->dims[1];
  if (const SymbolicShape* past = context.InputShape(kPast)) {
    const bool shared = context.Int("past_present_share_buffer", 0) != 0;
    total = shared ? past->dims[3] : past->dims[3] + total;
  }
  context.SetOutputShape(1, {{2, input->dims[0], heads, total, DimExpr::FloorDiv(hidden, heads)}});
  return {};
}

Status InferContribRotaryEmbedding(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, 4));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 0, 2));
  // Without position_ids, as rewrites write it, the caches have a row for each token.
  const int cache_rank = context.HasInput(1) ? 2 : 3;
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, cache_rank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(3, cache_rank));
  return InferSameShape(context);
}

// Outputs: the normalised sum, mean, inverse deviation, and the sum itself.
Status InferSkipNormalization(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, 3));
  if (const SymbolicShape* skip = context.InputShape(1)) {
    LAMINA_RETURN_IF_ERROR(BroadcastShapes(context, *input, *skip).status());
  }
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  if (const SymbolicShape* gamma = context.InputShape(2)) {
    LAMINA_RETURN_IF_ERROR(context.Unify(input->dims.back(), gamma->dims[0], "the hidden size").status());
  }
  SymbolicShape statistics = *input;
  statistics.dims.back() = 1;
  context.SetOutputShape(0, *input);
  context.SetOutputShape(1, statistics);
  context.SetOutputShape(2, std::move(statistics));
  context.SetOutputShape(3, *input);
  return {};
}

// Token, position and segment embeddings summed and normalised.
Status InferEmbedLayerNormalization(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 2));
  const SymbolicShape* ids = context.InputShape(0);
  const SymbolicShape* embedding = context.InputShape(2);
  if (ids == nullptr) return {};
  const SymbolicShape result{
      {ids->dims[0], ids->dims[1], embedding != nullptr ? embedding->dims[1] : DimExpr::Unknown()}};
  context.SetOutputShape(0, result);
  context.SetOutputShape(1, {{ids->dims[0]}});
  context.SetOutputShape(2, result);
  return {};
}

// Packed tokens [tokens, heads * head_size] over a paged cache, which is updated in place.
Status InferPagedAttention(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  const int64_t heads = context.RequiredInt("num_heads");
  const int64_t kv_heads = context.RequiredInt("kv_num_heads");
  if (heads < 1 || kv_heads < 1) return context.Error("num_heads is {}, kv_num_heads {}", heads, kv_heads);
  if (const SymbolicShape* query = context.InputShape(0)) {
    const bool packed = !context.HasInput(1);
    const DimExpr width =
        packed ? DimExpr::FloorDiv(query->dims[1], heads + 2 * kv_heads) * heads : query->dims[1];
    context.SetOutputShape(0, {{query->dims[0], width}});
  }
  for (const int output : {1, 2}) {
    const int cache = output + 2;
    context.SetOutputType(output, context.InputType(cache));
    if (const SymbolicShape* shape = context.InputShape(cache)) context.SetOutputShape(output, *shape);
  }
  return {};
}

// The tokens go through the experts and keep their shape.
Status InferMoe(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2));
  return InferSameShape(context);
}

// input [batch, channels, length], weight [channels, 1, kernel] -> the same, and the state [batch, channels,
// kernel - 1]. Input 2 is the bias, 3 the past state, as in ai.onnx.
Status InferContribCausalConv(InferenceContext& context) {
  const OperatorDef* standard = FindOperator("", "CausalConvWithState", std::numeric_limits<int>::max());
  return standard->infer(context);
}

Status InferContribLinearAttention(InferenceContext& context) {
  const OperatorDef* standard = FindOperator("", "LinearAttention", std::numeric_limits<int>::max());
  return standard->infer(context);
}

constexpr OperatorEntry kOperators[] = {
    {"Attention", 1, "T T T? i32? T? T? i32? -> T T? | T=float", InferContribAttention},
    {"CausalConvWithState", 1, "T T T? T? -> T T? | T=float", InferContribCausalConv},
    {"DecoderMaskedMultiHeadAttention", 1,
     "T T? T? i32? T? T? T? i32? i32? i32? T? -> T T? T? Q? | T=float Q=float",
     InferDecoderMaskedMultiHeadAttention},
    {"EmbedLayerNormalization", 1, "i32 i32? T T T? T T i32? i32? -> T i32? T? | T=float",
     InferEmbedLayerNormalization},
    {"GemmaRotaryEmbedding", 1, "U T T T T -> T T | T=float U=float", InferNothing},
    {"GroupQueryAttention", 1,
     "T T? T? C? C? i32? i32? T? T? i64? T? T? f32? f32? T? T? -> T C? C? T? | T=float "
     "C=float,i8,u8,f8",
     InferGroupQueryAttention},
    {"LinearAttention", 1, "T T T S? T? T? -> T S? | T=float S=float", InferContribLinearAttention},
    {"MoE", 1, "T T T T? T T? T? T? -> T | T=float", InferMoe},
    {"MultiHeadAttention", 1, "T T? T? T? i32? T? T? T? i32? i32? -> T T? T? Q? | T=float Q=float",
     InferMultiHeadAttention},
    {"PagedAttention", 1, "T T? T? C C i32 i32 i32 T? T? -> T C? C? | T=float C=float,i8,u8,f8",
     InferPagedAttention},
    {"QMoE", 1, "T T U S? T? U S? T? U? S? T? U? U? U? T? G? G? -> T | T=float U=u8,f8 S=float G=float",
     InferMoe},
    {"RotaryEmbedding", 1, "T i64? T T -> T | T=float", InferContribRotaryEmbedding},
    {"SkipLayerNormalization", 1, "T T T T? T? -> T U? U? T? | T=float U=f32", InferSkipNormalization},
    {"SkipSimplifiedLayerNormalization", 1, "T T T T? -> T U? U? T? | T=float U=f32", InferSkipNormalization},
};

}  // namespace

std::span<const OperatorEntry> ContribAttentionOperators() { return kOperators; }

}  // namespace lamina
