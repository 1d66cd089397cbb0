// Operators of the domain `lamina`: what graph rewrites make of patterns for which ai.onnx and com.microsoft
// have no operator.
//
//   SwiGLU(gate, up; alpha = 1): gate * sigmoid(alpha * gate) * up, as ai.onnx has it from opset 28 on.
//   SwiGLU(gate_up [.., 2n]; alpha = 1) -> [.., n]: the same of the halves of the last axis.
//   MatMulAdd(x [.., k], w [k, n], bias [n]) -> [.., n]: x w + bias.
//   CausalMask(attention_mask [batch, keys], tokens [batch, sequence, ..]; masked, window = 0)
//     -> [batch, 1, sequence, keys]: 0 where query i of the sequence, which stands at key position
//     keys - sequence + i, sees key j: j is not behind it, attention_mask[b, j] is not 0, and j is one of the
//     last `window` (> 0) keys up to the query's own; else `masked`. Of `tokens` the shape counts.
#include "model/shape_inference/lamina_ops.h"

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

Status InferSwiGlu(InferenceContext& context) {
  if (context.HasInput(1)) return InferSameShape(context);
  const SymbolicShape* packed = context.InputShape(0);
  if (packed == nullptr || packed->rank() == 0) return {};
  SymbolicShape shape = *packed;
  shape.dims.back() = DimExpr::FloorDiv(shape.dims.back(), DimExpr(2));
  context.SetOutputShape(0, std::move(shape));
  return {};
}

Status InferCausalMask(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2, Shape::kMaxRank));
  context.SetOutputType(0, ValueType::Tensor(DataType::kFloat));
  const SymbolicShape* mask = context.InputShape(0);
  const SymbolicShape* tokens = context.InputShape(1);
  if (mask == nullptr || tokens == nullptr) return {};
  context.SetOutputShape(0, {{mask->dims[0], 1, tokens->dims[1], mask->dims[1]}});
  return {};
}

Status InferMatMulAdd(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  if (x == nullptr || w == nullptr) return {};
  SymbolicShape shape = *x;
  shape.dims.back() = w->dims[1];
  context.SetOutputShape(0, std::move(shape));
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"CausalMask", 1, "M T -> f32 | M=bool,i32,i64", InferCausalMask},
    {"MatMulAdd", 1, "T T T -> T | T=f32,f16,bf16", InferMatMulAdd},
    {"SwiGLU", 1, "T T? -> T | T=float", InferSwiGlu},
};

}  // namespace

std::span<const OperatorEntry> LaminaOperators() { return kOperators; }

}  // namespace lamina
