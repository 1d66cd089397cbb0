#include "providers/cpu/elementwise/binary.h"

namespace lamina {

BinaryKernel::BinaryKernel(const NodeInfo& node, BinaryRowFunction row, int64_t work)
    : row_(row),
      work_(work),
      legacy_(node.domain().empty() && node.opset_version() < 7),
      broadcast_(node.Int("broadcast", 0) != 0),
      has_axis_(node.FindAttribute("axis") != nullptr),
      axis_(node.Int("axis", 0)) {}

Status BinaryKernel::Compute(KernelContext& context) const {
  LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
  LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
  if (a->type() != b->type()) {
    return InvalidArgumentError("the operands' types differ: {} and {}", DataTypeName(a->type()),
                                DataTypeName(b->type()));
  }
  Shape b_shape = b->shape();
  if (legacy_) {
    LAMINA_ASSIGN_OR_RETURN(b_shape, AlignLegacyOperand(a->shape(), b_shape, broadcast_, axis_, has_axis_));
  }
  LAMINA_ASSIGN_OR_RETURN(const Shape out_shape, BroadcastShapes(a->shape(), b_shape));
  LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
  if (!out) return Status();
  const BroadcastOperand operands[] = {{a->raw_data(), a->shape(), ElementBytes(a->type())},
                                       {b->raw_data(), b_shape, ElementBytes(b->type())}};
  ForEachBroadcastRow(context.threads(), operands, out_shape, out->mutable_raw_data(),
                      ElementBytes(out->type()), work_, row_);
  return Status();
}

Result<std::unique_ptr<Kernel>> CreateBinaryKernel(const NodeInfo& node, BinaryRowFunction row,
                                                   int64_t work) {
  if (!row) {
    return UnsupportedError("{} of {} is not supported", node.op_type(), node.input_type(0).ToString());
  }
  return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(node, row, work));
}

}  // namespace lamina
