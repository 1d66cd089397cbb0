// Quantised operators of com.microsoft.
#include "model/shape_inference/matmul.h"
#include "model/shape_inference/shape_helpers.h"
#include "model/shape_inference/sliding_window.h"

namespace lamina {
namespace {

// A [..., K] times a quantised matrix of N rows and K columns, whose sizes are attributes.
Status InferQuantizedMatMul(InferenceContext& context) {
  const int64_t k = context.RequiredInt("K");
  const int64_t n = context.RequiredInt("N");
  context.Require("block_size");
  if (k < 1 || n < 1) return context.Error("K is {} and N is {}", k, n);
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, Shape::kMaxRank));
  const SymbolicShape* a = context.InputShape(0);
  if (a == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.Unify(a->dims.back(), k, "K").status());
  SymbolicShape result = *a;
  result.dims.back() = n;
  context.SetOutputShape(0, std::move(result));
  return {};
}

// B is [N, blocks, bytes of a block]; see reference of the operator.
Status InferMatMulNBits(InferenceContext& context) {
  const int64_t bits = context.Int("bits", 4);
  const int64_t block = context.Int("block_size", 32);
  if (bits < 2 || bits > 8) return context.Error("bits is {}", bits);
  if (block < 16 || (block & (block - 1)) != 0 || block > (1 << 20)) {
    return context.Error("block_size {} is not a power of two of at least 16", block);
  }
  const SymbolicShape* b = context.InputShape(1);
  const std::optional<int64_t> stored = b != nullptr ? b->num_elements().constant() : std::nullopt;
  const int64_t k = context.Int("K", 0);
  const int64_t n = context.Int("N", 0);
  if (stored && context.InputElement(1) == DataType::kUint8 && k > 0 && n > 0 && k < (int64_t{1} << 40) &&
      n < (int64_t{1} << 40)) {
    const DimExpr expected = DimExpr(n) * DimExpr::CeilDiv(k, block) * DimExpr::FloorDiv(block * bits, 8);
    if (expected.is_constant() && !expected.Is(*stored)) {
      return context.Error(
          "input 1 of shape {} does not hold {} rows of {} columns in blocks of {} with {} "
          "bits",
          b->ToString(), n, k, block, bits);
    }
  }
  return InferQuantizedMatMul(context);
}

// Rows of block-quantised data; uint8 data of fewer bits holds several values to a byte along the last axis.
Status InferGatherBlockQuantized(InferenceContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  const int64_t bits = context.Int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return context.Error("bits is {}", bits);
  if (data == nullptr || indices == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("gather_axis", 0), data->rank()));
  LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("quantize_axis", 1), data->rank()).status());
  SymbolicShape values = *data;
  if (context.InputElement(0) == DataType::kUint8) values.dims.back() = values.dims.back() * (8 / bits);
  SymbolicShape result;
  result.dims.assign(values.dims.begin(), values.dims.begin() + axis);
  result.dims.insert(result.dims.end(), indices->dims.begin(), indices->dims.end());
  result.dims.insert(result.dims.end(), values.dims.begin() + axis + 1, values.dims.end());
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferContribQuantizeLinear(InferenceContext& context) {
  context.SetOutputElement(0, context.HasInput(2) ? context.InputElement(2) : DataType::kUint8);
  return InferSameShape(context);
}

// Shapes of the tensors among (tensor, scale, zero point) triples from input `first` on, `count` of them.
Status InferQLinearBinary(InferenceContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(3);
  if (a == nullptr || b == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, BroadcastShapes(context, *a, *b));
  context.SetOutputShape(0, std::move(result));
  return {};
}

// condition, then X and Y as triples.
Status InferQLinearWhere(InferenceContext& context) {
  const SymbolicShape* condition = context.InputShape(0);
  const SymbolicShape* x = context.InputShape(1);
  const SymbolicShape* y = context.InputShape(4);
  if (condition == nullptr || x == nullptr || y == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const SymbolicShape branches, BroadcastShapes(context, *x, *y));
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, BroadcastShapes(context, *condition, branches));
  context.SetOutputShape(0, std::move(result));
  return {};
}

// The output's scale and zero point, then one triple per input.
Status InferQLinearConcat(InferenceContext& context) {
  context.SetOutputType(0, context.InputType(1));
  const int64_t given_axis = context.RequiredInt("axis");
  constexpr int kFirst = 2;
  constexpr int kPerInput = 3;
  if ((context.num_inputs() - kFirst) % kPerInput != 0) {
    return context.Error("{} inputs are no triples of tensor, scale and zero point",
                         context.num_inputs() - kFirst);
  }
  std::optional<SymbolicShape> result;
  for (int i = kFirst; i < context.num_inputs(); i += kPerInput) {
    const SymbolicShape* shape = context.InputShape(i);
    if (shape == nullptr || (result && shape->rank() != result->rank())) return {};
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(given_axis, shape->rank()));
    if (!result) {
      result = *shape;
    } else {
      DimExpr& dim = result->dims[static_cast<size_t>(axis)];
      dim = dim + shape->dims[static_cast<size_t>(axis)];
    }
  }
  if (result) context.SetOutputShape(0, *std::move(result));
  return {};
}

Status InferQLinearPool(InferenceContext& context) {
  return InferPool(context, context.Int("channels_last", 0) != 0);
}

Status InferQLinearGlobalPool(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, Shape::kMaxRank));
  const bool channels_last = context.Int("channels_last", 0) != 0;
  SymbolicShape result = *x;
  for (int i = 2; i < x->rank(); ++i) result.dims[static_cast<size_t>(channels_last ? i - 1 : i)] = 1;
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferQLinearReduceMean(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  std::vector<bool> reduced(x->dims.size(), !context.HasAttribute("axes"));
  if (const auto* axes = context.Ints("axes")) {
    for (const int64_t given : *axes) {
      LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(given, x->rank()));
      reduced[static_cast<size_t>(axis)] = true;
    }
  }
  const bool keep = context.Int("keepdims", 1) != 0;
  SymbolicShape result;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      result.dims.push_back(x->dims[i]);
    } else if (keep) {
      result.dims.emplace_back(1);
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// A, scale, zero point, B, scale, zero point, C, output scale, output zero point: float without an output
// zero point.
Status InferQGemm(InferenceContext& context) {
  constexpr int kOutputZeroPoint = 8;
  context.SetOutputElement(
      0, context.HasInput(kOutputZeroPoint) ? context.InputElement(kOutputZeroPoint) : DataType::kFloat);
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(3, 2));
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(3);
  if (a == nullptr || b == nullptr) return {};
  const size_t inner_a = context.Int("transA", 0) != 0 ? 0 : 1;
  const size_t inner_b = context.Int("transB", 0) != 0 ? 1 : 0;
  LAMINA_RETURN_IF_ERROR(context.Unify(a->dims[inner_a], b->dims[inner_b], "the inner dimensions").status());
  context.SetOutputShape(0, {{a->dims[1 - inner_a], b->dims[1 - inner_b]}});
  return {};
}

Status InferMatMulOfFirstTwo(InferenceContext& context) { return InferMatMulOf(context, 0, 1); }

constexpr OperatorEntry kOperators[] = {
    {"DequantizeLinear", 1, "Q S Q? -> S | Q=i8,u8,i16,u16,i32,i4,u4,f8 S=float", InferSameShape},
    {"DynamicQuantizeMatMul", 1, "T Q T Q? T? -> T | T=float Q=i8,u8", InferMatMulOfFirstTwo},
    {"GatherBlockQuantized", 1, "Q I S Q? -> S | Q=u8,i4,u4 I=i32,i64 S=float", InferGatherBlockQuantized},
    {"MatMulBnb4", 1, "T u8 T -> T | T=float", InferQuantizedMatMul},
    {"MatMulIntegerToFloat", 1, "A B T T A? B? T? -> T | A=i8,u8 B=i8,u8 T=float", InferMatMulOfFirstTwo},
    {"MatMulNBits", 1, "T B S Z? i32? T? -> T | T=float B=u8,i32 S=float,u8 Z=u8,i32,float",
     InferMatMulNBits},
    {"QGemm", 1, "A T A B T B i32? T? Z? -> Y | A=i8,u8 B=i8,u8 T=float Z=i8,u8 Y=i8,u8,float", InferQGemm},
    {"QLinearAdd", 1, "T f32 T? T f32 T? f32 T? -> T | T=i8,u8", InferQLinearBinary},
    {"QLinearAveragePool", 1, "T f32 T? f32 T? -> T | T=i8,u8", InferQLinearPool},
    {"QLinearConcat", 1, "f32 T V+ -> T | T=i8,u8 V=~i8,u8,f32", InferQLinearConcat},
    {"QLinearGlobalAveragePool", 1, "T f32 T f32 T -> T | T=i8,u8", InferQLinearGlobalPool},
    {"QLinearLeakyRelu", 1, "T f32 T? f32 T? -> T | T=i8,u8", InferSameShape},
    {"QLinearMul", 1, "T f32 T? T f32 T? f32 T? -> T | T=i8,u8", InferQLinearBinary},
    {"QLinearReduceMean", 1, "T f32 T? f32 T? -> T | T=i8,u8", InferQLinearReduceMean},
    {"QLinearSigmoid", 1, "T f32 T? f32 T? -> T | T=i8,u8", InferSameShape},
    {"QLinearSoftmax", 1, "T f32 T? f32 T -> T | T=i8,u8", InferSameShape},
    {"QLinearWhere", 1, "bool T f32 T T f32 T f32 T -> T | T=i8,u8", InferQLinearWhere},
    {"QuantizeLinear", 1, "T S Q? -> Q | T=float S=float Q=i8,u8,i16,u16,i4,u4,f8",
     InferContribQuantizeLinear},
};

}  // namespace

std::span<const OperatorEntry> ContribQuantizationOperators() { return kOperators; }

}  // namespace lamina
