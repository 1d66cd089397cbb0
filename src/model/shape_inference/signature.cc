#include "model/shape_inference/signature.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <iterator>

namespace lamina {
namespace {

constexpr uint32_t Bit(DataType type) { return uint32_t{1} << static_cast<int>(type); }
constexpr uint8_t Bit(ValueKind kind) { return static_cast<uint8_t>(1U << static_cast<int>(kind)); }

constexpr uint32_t kFloat =
    Bit(DataType::kFloat16) | Bit(DataType::kFloat) | Bit(DataType::kDouble) | Bit(DataType::kBfloat16);
constexpr uint32_t kSigned =
    Bit(DataType::kInt8) | Bit(DataType::kInt16) | Bit(DataType::kInt32) | Bit(DataType::kInt64);
constexpr uint32_t kUnsigned =
    Bit(DataType::kUint8) | Bit(DataType::kUint16) | Bit(DataType::kUint32) | Bit(DataType::kUint64);
constexpr uint32_t kFloat8 = Bit(DataType::kFloat8E4M3Fn) | Bit(DataType::kFloat8E4M3Fnuz) |
                             Bit(DataType::kFloat8E5M2) | Bit(DataType::kFloat8E5M2Fnuz) |
                             Bit(DataType::kFloat8E8M0);
constexpr int kLastType = static_cast<int>(DataType::kInt2);
constexpr uint32_t kAny = (uint32_t{2} << kLastType) - 2;
constexpr uint8_t kAllKinds = Bit(ValueKind::kSequence) | Bit(ValueKind::kOptional) | Bit(ValueKind::kMap) |
                              Bit(ValueKind::kSparseTensor);

struct NamedTypes {
  std::string_view name;
  TypeSet types;
};
constexpr NamedTypes kNamedTypes[] = {
    {"f16", {Bit(DataType::kFloat16)}},
    {"f32", {Bit(DataType::kFloat)}},
    {"f64", {Bit(DataType::kDouble)}},
    {"bf16", {Bit(DataType::kBfloat16)}},
    {"f4", {Bit(DataType::kFloat4E2M1)}},
    {"i2", {Bit(DataType::kInt2)}},
    {"i4", {Bit(DataType::kInt4)}},
    {"i8", {Bit(DataType::kInt8)}},
    {"i16", {Bit(DataType::kInt16)}},
    {"i32", {Bit(DataType::kInt32)}},
    {"i64", {Bit(DataType::kInt64)}},
    {"u2", {Bit(DataType::kUint2)}},
    {"u4", {Bit(DataType::kUint4)}},
    {"u8", {Bit(DataType::kUint8)}},
    {"u16", {Bit(DataType::kUint16)}},
    {"u32", {Bit(DataType::kUint32)}},
    {"u64", {Bit(DataType::kUint64)}},
    {"bool", {Bit(DataType::kBool)}},
    {"string", {Bit(DataType::kString)}},
    {"c64", {Bit(DataType::kComplex64)}},
    {"c128", {Bit(DataType::kComplex128)}},
    {"f8", {kFloat8}},
    {"float", {kFloat}},
    {"sint", {kSigned}},
    {"uint", {kUnsigned}},
    {"int", {kSigned | kUnsigned}},
    {"numeric", {kSigned | kUnsigned | kFloat}},
    {"any", {kAny}},
    {"seq", {0, Bit(ValueKind::kSequence)}},
    {"opt", {0, Bit(ValueKind::kOptional)}},
    {"map", {0, Bit(ValueKind::kMap)}},
    {"value", {kAny, kAllKinds}},
};

const TypeSet* FindNamedTypes(std::string_view name) {
  const auto* found = std::find_if(std::begin(kNamedTypes), std::end(kNamedTypes),
                                   [name](const NamedTypes& named) { return named.name == name; });
  return found == std::end(kNamedTypes) ? nullptr : &found->types;
}

// Takes the text up to `separator` off the front of `text`.
std::string_view TakeUntil(std::string_view& text, std::string_view separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
  return part;
}

template <typename Visitor>
void EachWord(std::string_view text, Visitor&& visit) {
  while (!text.empty()) {
    const std::string_view word = TakeUntil(text, " ");
    if (!word.empty()) visit(word);
  }
}

TypeSet ParseTypes(std::string_view text) {
  TypeSet types;
  while (!text.empty()) {
    const TypeSet* named = FindNamedTypes(TakeUntil(text, ","));
    assert(named != nullptr && "unknown type in a signature");
    types.tensors |= named->tensors;
    types.kinds |= named->kinds;
  }
  return types;
}

int FindOrAddVariable(std::vector<TypeVariable>& variables, std::string_view name) {
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].name == name) return static_cast<int>(i);
  }
  const TypeSet* named = FindNamedTypes(name);
  variables.push_back({std::string(name), named ? *named : TypeSet{kAny}, named != nullptr});
  return static_cast<int>(variables.size()) - 1;
}

std::vector<Parameter> ParseParameters(std::string_view text, std::vector<TypeVariable>& variables,
                                       int& min_count, int& max_count) {
  std::vector<Parameter> parameters;
  EachWord(text, [&](std::string_view word) {
    Parameter parameter;
    const char suffix = word.back();
    parameter.optional = suffix == '?' || suffix == '*';
    parameter.variadic = suffix == '*' || suffix == '+';
    if (parameter.optional || parameter.variadic) word.remove_suffix(1);
    parameter.variable = FindOrAddVariable(variables, word);
    parameters.push_back(parameter);
    if (!parameter.optional) min_count = static_cast<int>(parameters.size());
    max_count = parameter.variadic ? INT_MAX : static_cast<int>(parameters.size());
  });
  return parameters;
}

const Parameter& At(const std::vector<Parameter>& parameters, int index) {
  return parameters[std::min(static_cast<size_t>(index), parameters.size() - 1)];
}

}  // namespace

bool TypeSet::Contains(const ValueType& type) const {
  if (type.is_tensor()) return (tensors & Bit(type.element)) != 0;
  return (kinds & Bit(type.kind)) != 0;
}

ValueType TypeSet::Single() const {
  if (kinds != 0 || tensors == 0 || (tensors & (tensors - 1)) != 0) return {};
  return ValueType::Tensor(static_cast<DataType>(__builtin_ctz(tensors)));
}

std::string TypeSet::ToString() const {
  if (tensors == kAny && kinds == 0) return "a tensor";
  if (tensors == kAny && kinds == kAllKinds) return "any value";
  std::string text;
  const auto append = [&text](std::string_view item) {
    if (!text.empty()) text += ", ";
    text += item;
  };
  if (tensors == kAny) {
    append("a tensor");
  } else if (tensors != 0) {
    std::string elements;
    for (int type = 1; type <= kLastType; ++type) {
      if ((tensors & Bit(static_cast<DataType>(type))) == 0) continue;
      if (!elements.empty()) elements += " | ";
      elements += DataTypeName(static_cast<DataType>(type));
    }
    append("tensor(" + elements + ")");
  }
  if ((kinds & Bit(ValueKind::kSequence)) != 0) append("a sequence");
  if ((kinds & Bit(ValueKind::kOptional)) != 0) append("an optional");
  if ((kinds & Bit(ValueKind::kMap)) != 0) append("a map");
  if ((kinds & Bit(ValueKind::kSparseTensor)) != 0) append("a sparse tensor");
  return text;
}

Signature Signature::Parse(std::string_view text) {
  Signature signature;
  std::string_view constraints = text;
  std::string_view outputs = TakeUntil(constraints, "|");
  const std::string_view inputs = TakeUntil(outputs, "->");
  EachWord(constraints, [&](std::string_view word) {
    TypeVariable variable;
    variable.name = TakeUntil(word, "=");
    if (!word.empty() && word[0] == '~') {
      variable.heterogeneous = true;
      word.remove_prefix(1);
    }
    variable.types = ParseTypes(word);
    signature.variables.push_back(std::move(variable));
  });
  signature.inputs = ParseParameters(inputs, signature.variables, signature.min_inputs, signature.max_inputs);
  signature.outputs =
      ParseParameters(outputs, signature.variables, signature.min_outputs, signature.max_outputs);
  return signature;
}

const Parameter& Signature::Input(int index) const { return At(inputs, index); }
const Parameter& Signature::Output(int index) const { return At(outputs, index); }

}  // namespace lamina
