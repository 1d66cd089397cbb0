// And, Or, Xor, Not, and the bitwise operators.
#include "providers/cpu/elementwise/binary.h"

namespace lamina {
namespace {

struct BitAndOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOrOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXorOp {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// A shift by the width of the type or more gives 0.
struct ShiftLeftOp {
  template <typename T>
  static T Apply(T a, T b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b);
  }
};
struct ShiftRightOp {
  template <typename T>
  static T Apply(T a, T b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a >> b);
  }
};

// Bitwise operators do not care for signs: one loop for each width. A bool is a byte of 0 or 1.
template <typename Op>
Result<std::unique_ptr<Kernel>> CreateBitwise(const NodeInfo& node) {
  constexpr DataType kUnsignedOfBytes[] = {DataType::kUndefined, DataType::kUint8,     DataType::kUint16,
                                           DataType::kUndefined, DataType::kUint32,    DataType::kUndefined,
                                           DataType::kUndefined, DataType::kUndefined, DataType::kUint64};
  const int64_t bytes = ElementBytes(node.input_type(0).element);
  if (bytes > 8) return CreateBinaryKernel(node, nullptr);
  return CreateBinaryKernel(
      node, FindArithmeticRow<Op, uint8_t, uint16_t, uint32_t, uint64_t>(kUnsignedOfBytes[bytes]));
}

Result<std::unique_ptr<Kernel>> CreateBitShift(const NodeInfo& node) {
  const std::string_view direction = node.String("direction", "");
  if (direction == "LEFT") return CreateBitwise<ShiftLeftOp>(node);
  if (direction == "RIGHT") return CreateBitwise<ShiftRightOp>(node);
  return InvalidModelError("BitShift: direction must be LEFT or RIGHT, found '{}'", direction);
}

// Inverts the bits of every byte, or, for bool, the lowest.
class NotKernel : public Kernel {
 public:
  explicit NotKernel(const NodeInfo& node) : mask_(node.op_type() == "Not" ? 0x01 : 0xff) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    const auto* source = static_cast<const uint8_t*>(input->raw_data());
    auto* target = static_cast<uint8_t*>(out->mutable_raw_data());
    context.threads().ParallelFor(static_cast<int64_t>(input->size_bytes()), GrainOf(1),
                                  [&](int64_t begin, int64_t end, int) {
                                    for (int64_t i = begin; i < end; ++i) target[i] = source[i] ^ mask_;
                                  });
    return Status();
  }

 private:
  uint8_t mask_;
};

}  // namespace

void RegisterLogicalKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, TypeSet types, int since, KernelCreateFunc create) {
    registry.Add(
        KernelDef(name).Since(since).Input(0, types).Input(1, types).Output(0, types).MayInplace(0, 0),
        create);
  };
  add("And", DataType::kBool, 1, CreateBitwise<BitAndOp>);
  add("Or", DataType::kBool, 1, CreateBitwise<BitOrOp>);
  add("Xor", DataType::kBool, 1, CreateBitwise<BitXorOp>);
  add("BitwiseAnd", kIntTypes, 18, CreateBitwise<BitAndOp>);
  add("BitwiseOr", kIntTypes, 18, CreateBitwise<BitOrOp>);
  add("BitwiseXor", kIntTypes, 18, CreateBitwise<BitXorOp>);
  add("BitShift", kUnsignedIntTypes, 11, CreateBitShift);
  registry.Add(KernelDef("Not").Input(0, DataType::kBool).Output(0, DataType::kBool).MayInplace(0, 0),
               CreateKernel<NotKernel>);
  registry.Add(KernelDef("BitwiseNot").Since(18).Input(0, kIntTypes).Output(0, kIntTypes).MayInplace(0, 0),
               CreateKernel<NotKernel>);
}

}  // namespace lamina
