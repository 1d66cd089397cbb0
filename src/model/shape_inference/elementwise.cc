// Operators that compute every element of the output from the elements at its place: arithmetic, comparison,
// logic, activations, casts.
#include <array>

#include "model/shape_inference/element_arithmetic.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Before opset 7 the second operand was broadcast to the first.
constexpr int kNumpyBroadcastOpset = 7;

Status InferBinary(InferenceContext& context, BinaryElementFunction combine) {
  if (context.node().domain.empty() && context.opset() < kNumpyBroadcastOpset) return InferSameShape(context);
  LAMINA_RETURN_IF_ERROR(InferBroadcast(context));
  if (combine != nullptr) context.SetOutputElements(0, CombineElements(context, 0, 1, combine));
  return {};
}

template <BinaryElementFunction combine>
Status InferBinaryWith(InferenceContext& context) {
  return InferBinary(context, combine);
}

DimExpr Add(const DimExpr& a, const DimExpr& b) { return a + b; }
DimExpr Sub(const DimExpr& a, const DimExpr& b) { return a - b; }
DimExpr Mul(const DimExpr& a, const DimExpr& b) { return a * b; }

constexpr int64_t kLowest = kUnboundedBelow;
constexpr int64_t kHighest = kUnboundedDim;
DimExpr Equal(const DimExpr& a, const DimExpr& b) { return TruthOfRange(a - b, 0, 0); }
DimExpr Less(const DimExpr& a, const DimExpr& b) { return TruthOfRange(a - b, kLowest, -1); }
DimExpr LessOrEqual(const DimExpr& a, const DimExpr& b) { return TruthOfRange(a - b, kLowest, 0); }
DimExpr Greater(const DimExpr& a, const DimExpr& b) { return TruthOfRange(a - b, 1, kHighest); }
DimExpr GreaterOrEqual(const DimExpr& a, const DimExpr& b) { return TruthOfRange(a - b, 0, kHighest); }

// Truth values are 0, 1 or unknown.
DimExpr And(const DimExpr& a, const DimExpr& b) {
  return a.Is(0) || b.Is(0) ? DimExpr(0) : a.Is(1) ? b : b.Is(1) ? a : DimExpr::Unknown();
}
DimExpr Or(const DimExpr& a, const DimExpr& b) {
  return a.Is(1) || b.Is(1) ? DimExpr(1) : a.Is(0) ? b : b.Is(0) ? a : DimExpr::Unknown();
}
DimExpr Xor(const DimExpr& a, const DimExpr& b) {
  return a.is_constant() && b.is_constant() ? DimExpr(a == b ? 0 : 1) : DimExpr::Unknown();
}

Status InferDiv(InferenceContext& context) {
  const DataType type = context.InputElement(0);
  const bool is_float = type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
                        type == DataType::kBfloat16;
  return InferBinary(context, is_float ? ExactDiv : TruncatingDiv);
}

Status InferMod(InferenceContext& context) {
  return InferBinary(context, context.Int("fmod", 0) == 0 ? DimExpr::Mod : TruncatingMod);
}

// Variadic Max, Min, Sum; Mean has no elements.
template <BinaryElementFunction combine>
Status InferVariadic(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(InferBroadcast(context));
  if (context.num_inputs() == 1) context.SetOutputElements(0, context.SharedInputElements(0));
  if (combine != nullptr && context.num_inputs() == 2) {
    context.SetOutputElements(0, CombineElements(context, 0, 1, combine));
  }
  return {};
}

template <DimExpr (*map)(const DimExpr&)>
Status InferUnaryWith(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(InferSameShape(context));
  const std::vector<DimExpr>* elements = context.InputElements(0);
  if (elements == nullptr) return {};
  std::vector<DimExpr> result;
  result.reserve(elements->size());
  for (const DimExpr& element : *elements) result.push_back(map(element));
  context.SetOutputElements(0, std::move(result));
  return {};
}

DimExpr Neg(const DimExpr& a) { return DimExpr(0) - a; }
DimExpr Abs(const DimExpr& a) { return DimExpr::Max(a, DimExpr(0) - a); }
DimExpr Not(const DimExpr& a) { return a.is_constant() ? DimExpr(a.Is(0) ? 1 : 0) : DimExpr::Unknown(); }
// Of known elements, which are whole numbers.
DimExpr WholeNumber(const DimExpr& a) { return a; }

Status InferWhere(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(InferBroadcast(context));
  const std::vector<DimExpr>* condition = context.InputElements(0);
  const std::vector<DimExpr>* x = context.InputElements(1);
  const std::vector<DimExpr>* y = context.InputElements(2);
  if (condition == nullptr || x == nullptr || y == nullptr) return {};
  const size_t size = std::max({condition->size(), x->size(), y->size()});
  for (const std::vector<DimExpr>* operand : {condition, x, y}) {
    if (operand->size() != size && operand->size() != 1) return {};
  }
  const SymbolicShape& shape = context.output(0).shape ? *context.output(0).shape : SymbolicShape();
  if (shape.num_elements() != DimExpr(static_cast<int64_t>(size))) return {};
  std::vector<DimExpr> result(size);
  for (size_t i = 0; i < size; ++i) {
    const DimExpr& truth = (*condition)[condition->size() == 1 ? 0 : i];
    const DimExpr& if_true = (*x)[x->size() == 1 ? 0 : i];
    const DimExpr& if_false = (*y)[y->size() == 1 ? 0 : i];
    if (truth.is_constant()) {
      result[i] = truth.Is(0) ? if_false : if_true;
    } else {
      result[i] = if_true.known() && if_true == if_false ? if_true : DimExpr::Unknown();
    }
  }
  context.SetOutputElements(0, std::move(result));
  return {};
}

Status InferClip(InferenceContext& context) {
  for (const int bound : {1, 2}) {
    if (context.HasInput(bound)) LAMINA_RETURN_IF_ERROR(context.CheckRank(bound, 0, 1));
  }
  return InferSameShape(context);
}

Status InferPRelu(InferenceContext& context) {
  if (context.opset() >= kNumpyBroadcastOpset) LAMINA_RETURN_IF_ERROR(InferBroadcast(context));
  return InferSameShape(context);  // the slope is broadcast to the input
}

// Elements after a conversion to `to`.
void CastElements(InferenceContext& context, DataType to) {
  const SymbolicElements elements = context.SharedInputElements(0);
  if (!elements || to == DataType::kString) return;
  if (to != DataType::kBool || context.InputElement(0) == DataType::kBool) {
    context.SetOutputElements(0, elements);
    return;
  }
  std::vector<DimExpr> truths;
  for (const DimExpr& element : *elements) truths.push_back(Not(TruthOfRange(element, 0, 0)));
  context.SetOutputElements(0, std::move(truths));
}

Status InferCastTo(InferenceContext& context, DataType to) {
  context.SetOutputElement(0, to);
  CastElements(context, to);
  return InferSameShape(context);
}

Status InferCast(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(const DataType to, DataTypeFromNumber(context, context.RequiredInt("to")));
  return InferCastTo(context, to);
}

// Versions 1 to 5 name the type: "FLOAT", "INT64".
Status InferCastToNamedType(InferenceContext& context) {
  context.Require("to");
  std::string name(context.String("to", "FLOAT"));
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (int number = 1; number <= static_cast<int>(DataType::kInt2); ++number) {
    const auto type = static_cast<DataType>(number);
    if (DataTypeName(type) == name) return InferCastTo(context, type);
  }
  return context.Error("there is no data type '{}'", name);
}

Status InferCastLike(InferenceContext& context) { return InferCastTo(context, context.InputElement(1)); }

Status InferBitCast(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(const DataType to, DataTypeFromNumber(context, context.RequiredInt("to")));
  const DataType from = context.InputElement(0);
  if (from != DataType::kUndefined && DataTypeBits(from) != DataTypeBits(to)) {
    return context.Error("{} and {} have different sizes", DataTypeName(from), DataTypeName(to));
  }
  context.SetOutputElement(0, to);
  return InferSameShape(context);
}

Status InferDropout(InferenceContext& context) {
  // Version 1 to 9 give the mask the type of the data.
  constexpr int kBoolMaskOpset = 10;
  if (context.opset() < kBoolMaskOpset) context.SetOutputType(1, context.InputType(0));
  return InferSameShape(context);
}

constexpr OperatorEntry kOperators[] = {
    {"Abs", 1, "T -> T | T=numeric", InferUnaryWith<Abs>},
    {"Acos", 7, "T -> T | T=float", InferSameShape},
    {"Acosh", 9, "T -> T | T=float", InferSameShape},
    {"Add", 1, "T T -> T | T=numeric", InferBinaryWith<Add>},
    {"And", 1, "bool bool -> bool", InferBinaryWith<And>},
    {"Asin", 7, "T -> T | T=float", InferSameShape},
    {"Asinh", 9, "T -> T | T=float", InferSameShape},
    {"Atan", 7, "T -> T | T=float", InferSameShape},
    {"Atanh", 9, "T -> T | T=float", InferSameShape},
    {"BitCast", 26, "T1 -> T2", InferBitCast},
    {"BitShift", 11, "T T -> T | T=uint", InferBroadcast},
    {"BitwiseAnd", 18, "T T -> T | T=int", InferBroadcast},
    {"BitwiseNot", 18, "T -> T | T=int", InferSameShape},
    {"BitwiseOr", 18, "T T -> T | T=int", InferBroadcast},
    {"BitwiseXor", 18, "T T -> T | T=int", InferBroadcast},
    {"Cast", 1, "T1 -> T2", InferCastToNamedType},
    {"Cast", 6, "T1 -> T2", InferCast},
    {"CastLike", 15, "T1 T2 -> T2", InferCastLike},
    {"Ceil", 1, "T -> T | T=float", InferUnaryWith<WholeNumber>},
    {"Celu", 12, "T -> T | T=float", InferSameShape},
    {"Clip", 1, "T -> T | T=numeric", InferSameShape},
    {"Clip", 11, "T T? T? -> T | T=numeric", InferClip},
    {"Cos", 7, "T -> T | T=float", InferSameShape},
    {"Cosh", 9, "T -> T | T=float", InferSameShape},
    {"Div", 1, "T T -> T | T=numeric", InferDiv},
    {"Dropout", 1, "T -> T T? | T=float", InferDropout},
    {"Dropout", 10, "T -> T bool? | T=float,f8", InferDropout},
    {"Dropout", 12, "T T1? bool? -> T M? | T=float,f8 T1=float,f8 M=bool", InferDropout},
    {"Elu", 1, "T -> T | T=float", InferSameShape},
    {"Equal", 1, "T T -> bool", InferBinaryWith<Equal>},
    {"Erf", 9, "T -> T | T=numeric", InferSameShape},
    {"Exp", 1, "T -> T | T=float", InferSameShape},
    {"Floor", 1, "T -> T | T=float", InferUnaryWith<WholeNumber>},
    {"Gelu", 20, "T -> T | T=float", InferSameShape},
    {"Greater", 1, "T T -> bool | T=numeric", InferBinaryWith<Greater>},
    {"GreaterOrEqual", 12, "T T -> bool | T=numeric", InferBinaryWith<GreaterOrEqual>},
    {"HardSigmoid", 1, "T -> T | T=float", InferSameShape},
    {"HardSwish", 14, "T -> T | T=float", InferSameShape},
    {"Identity", 1, "V -> V | V=value", InferIdentity},
    {"IsInf", 10, "T -> bool | T=float,f8", InferSameShape},
    {"IsNaN", 9, "T -> bool | T=float,f8", InferSameShape},
    {"LeakyRelu", 1, "T -> T | T=float", InferSameShape},
    {"Less", 1, "T T -> bool | T=numeric", InferBinaryWith<Less>},
    {"LessOrEqual", 12, "T T -> bool | T=numeric", InferBinaryWith<LessOrEqual>},
    {"Log", 1, "T -> T | T=float", InferSameShape},
    {"Max", 1, "T+ -> T | T=numeric", InferVariadic<DimExpr::Max>},
    {"Mean", 1, "T+ -> T | T=float", InferVariadic<nullptr>},
    {"Min", 1, "T+ -> T | T=numeric", InferVariadic<DimExpr::Min>},
    {"Mish", 18, "T -> T | T=float", InferSameShape},
    {"Mod", 10, "T T -> T | T=numeric", InferMod},
    {"Mul", 1, "T T -> T | T=numeric", InferBinaryWith<Mul>},
    {"Neg", 1, "T -> T | T=numeric", InferUnaryWith<Neg>},
    {"Not", 1, "bool -> bool", InferUnaryWith<Not>},
    {"Or", 1, "bool bool -> bool", InferBinaryWith<Or>},
    {"PRelu", 1, "T T -> T | T=numeric", InferPRelu},
    {"Pow", 1, "T T1 -> T | T=numeric T1=numeric", InferBinaryWith<nullptr>},
    {"Reciprocal", 1, "T -> T | T=float", InferSameShape},
    {"Relu", 1, "T -> T | T=numeric", InferSameShape},
    {"Round", 11, "T -> T | T=float", InferUnaryWith<WholeNumber>},
    {"Selu", 1, "T -> T | T=float", InferSameShape},
    {"Shrink", 9, "T -> T | T=numeric", InferSameShape},
    {"Sigmoid", 1, "T -> T | T=float", InferSameShape},
    {"Sign", 9, "T -> T | T=numeric", InferSameShape},
    {"Sin", 7, "T -> T | T=float", InferSameShape},
    {"Sinh", 9, "T -> T | T=float", InferSameShape},
    {"Softplus", 1, "T -> T | T=float", InferSameShape},
    {"Softsign", 1, "T -> T | T=float", InferSameShape},
    {"Sqrt", 1, "T -> T | T=float", InferSameShape},
    {"Sub", 1, "T T -> T | T=numeric", InferBinaryWith<Sub>},
    {"Sum", 1, "T+ -> T | T=float", InferVariadic<Add>},
    {"SwiGLU", 28, "T T -> T | T=float", InferBroadcast},
    {"Swish", 24, "T -> T | T=float", InferSameShape},
    {"Tan", 7, "T -> T | T=float", InferSameShape},
    {"Tanh", 1, "T -> T | T=float", InferSameShape},
    {"ThresholdedRelu", 1, "T -> T | T=float", InferSameShape},
    {"Where", 9, "bool T T -> T", InferWhere},
    {"Xor", 1, "bool bool -> bool", InferBinaryWith<Xor>},
};

}  // namespace

std::span<const OperatorEntry> ElementwiseOperators() { return kOperators; }

}  // namespace lamina
