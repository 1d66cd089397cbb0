// Optional, OptionalGetElement, OptionalHasElement.
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

class MakeOptional : public Kernel {
 public:
  explicit MakeOptional(const NodeInfo& node) {
    if (const Attribute* attribute = node.FindAttribute("type")) {
      if (const auto* type = std::get_if<TypeAndShape>(&attribute->value)) type_ = type->type;
    }
  }

  Status Compute(KernelContext& context) const override {
    Optional optional;
    optional.type = type_;
    if (context.num_inputs() > 0 && context.InputValue(0).defined()) {
      const Value& input = context.InputValue(0);
      optional.type = input.type();
      if (input.is_tensor()) {  // the memory of an input belongs to the run
        LAMINA_ASSIGN_OR_RETURN(Tensor copy, input.tensor().Clone());
        optional.value = std::make_unique<Value>(std::move(copy));
      } else {
        optional.value = std::make_unique<Value>(input);
      }
    }
    return context.SetOutputValue(0, Value(std::move(optional)));
  }

 private:
  ValueType type_;
};

// Values that are no optionals count as present (since opset 18).
class OptionalGetElement : public Kernel {
 public:
  explicit OptionalGetElement(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    const Value& input = context.InputValue(0);
    if (input.kind() != ValueKind::kOptional) {
      if (!input.is_tensor()) return context.SetOutputValue(0, input);
      LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input.tensor().shape()));
      if (out && out->raw_data() != input.tensor().raw_data()) {
        CopyElements(out->type(), input.tensor().raw_data(), out->mutable_raw_data(), out->num_elements());
      }
      return Status();
    }
    if (!input.optional().value) return InvalidArgumentError("the optional holds no value");
    return context.SetOutputValue(0, *input.optional().value);
  }
};

class OptionalHasElement : public Kernel {
 public:
  explicit OptionalHasElement(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    bool present = context.num_inputs() > 0 && context.InputValue(0).defined();
    if (present && context.InputValue(0).kind() == ValueKind::kOptional) {
      present = context.InputValue(0).optional().value != nullptr;
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {}));
    if (out) *out->mutable_data<bool>() = present;
    return Status();
  }
};

}  // namespace

void RegisterOptionalKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Optional").Since(15), CreateKernel<MakeOptional>);
  registry.Add(KernelDef("OptionalGetElement").Since(15), CreateKernel<OptionalGetElement>);
  registry.Add(KernelDef("OptionalHasElement").Since(15).Output(0, DataType::kBool),
               CreateKernel<OptionalHasElement>);
}

}  // namespace lamina
