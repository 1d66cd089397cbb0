// Equal, Greater, Less and their relatives.
#include <string>

#include "providers/cpu/elementwise/binary.h"

namespace lamina {
namespace {

struct EqualOp {
  template <typename T>
  static bool Apply(const T& a, const T& b) {
    return a == b;
  }
};
struct GreaterOp {
  template <typename T>
  static bool Apply(T a, T b) {
    return a > b;
  }
};
struct LessOp {
  template <typename T>
  static bool Apply(T a, T b) {
    return a < b;
  }
};
struct GreaterOrEqualOp {
  template <typename T>
  static bool Apply(T a, T b) {
    return a >= b;
  }
};
struct LessOrEqualOp {
  template <typename T>
  static bool Apply(T a, T b) {
    return a <= b;
  }
};

template <typename Op>
Result<std::unique_ptr<Kernel>> CreateOrder(const NodeInfo& node) {
  return CreateBinaryKernel(
      node, FindPredicateRow<Op, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                             uint16_t, uint32_t, uint64_t>(node.input_type(0).element));
}

Result<std::unique_ptr<Kernel>> CreateEqual(const NodeInfo& node) {
  const DataType type = node.input_type(0).element;
  switch (type) {  // integers are equal where their bits are
    case DataType::kBool:
    case DataType::kInt8:
      return CreateBinaryKernel(node, FindPredicateRow<EqualOp, uint8_t>(DataType::kUint8));
    case DataType::kInt16:
      return CreateBinaryKernel(node, FindPredicateRow<EqualOp, uint16_t>(DataType::kUint16));
    case DataType::kUint32:
      return CreateBinaryKernel(node, FindPredicateRow<EqualOp, int32_t>(DataType::kInt32));
    case DataType::kUint64:
      return CreateBinaryKernel(node, FindPredicateRow<EqualOp, int64_t>(DataType::kInt64));
    default:
      return CreateBinaryKernel(node, FindPredicateRow<EqualOp, float, double, Float16, Bfloat16, int32_t,
                                                       int64_t, uint8_t, uint16_t, std::string>(type));
  }
}

}  // namespace

void RegisterCompareKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, TypeSet types, int since, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Since(since).Input(0, types).Input(1, types).Output(0, DataType::kBool),
                 create);
  };
  add("Equal", kNumericTypes | TypeSet{DataType::kBool, DataType::kString}, 1, CreateEqual);
  add("Greater", kNumericTypes, 1, CreateOrder<GreaterOp>);
  add("Less", kNumericTypes, 1, CreateOrder<LessOp>);
  add("GreaterOrEqual", kNumericTypes, 12, CreateOrder<GreaterOrEqualOp>);
  add("LessOrEqual", kNumericTypes, 12, CreateOrder<LessOrEqualOp>);
}

}  // namespace lamina
