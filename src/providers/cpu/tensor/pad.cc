// Pad: constant, reflected, repeated (edge) or wrapped borders; negative pads cut off.
#include <cstring>
#include <string>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

enum class PadMode { kConstant, kReflect, kEdge, kWrap };

Result<PadMode> ParseMode(std::string_view mode) {
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  return InvalidModelError("unknown mode '{}'", mode);
}

// Where output position `position` of an axis of `extent` elements is read. REQUIRES: not constant, extent >
// 0.
int64_t SourcePosition(PadMode mode, int64_t position, int64_t extent) {
  if (mode == PadMode::kEdge) return std::clamp<int64_t>(position, 0, extent - 1);
  const int64_t period = mode == PadMode::kWrap ? extent : std::max<int64_t>(1, 2 * (extent - 1));
  int64_t phase = position % period;
  if (phase < 0) phase += period;
  return phase < extent ? phase : period - phase;
}

class Pad : public Kernel {
 public:
  explicit Pad(const NodeInfo& node)
      : from_attributes_(node.opset_version() < 11),
        pads_(node.Ints(node.opset_version() < 2 ? "paddings" : "pads").begin(),
              node.Ints(node.opset_version() < 2 ? "paddings" : "pads").end()),
        value_(node.Float("value", 0)),
        mode_(*ParseMode(node.String("mode", "constant"))) {}
  static Status Validate(const NodeInfo& node) { return ParseMode(node.String("mode", "constant")).status(); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    IntList before(shape.rank(), 0);
    IntList after(shape.rank(), 0);
    LAMINA_RETURN_IF_ERROR(ReadPads(context, shape.rank(), &before, &after));
    Shape out_shape = shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      int64_t extent = 0;
      if (__builtin_add_overflow(before[axis], after[axis], &extent) ||
          __builtin_add_overflow(extent, shape[axis], &extent) || extent < 0) {
        return InvalidArgumentError("axis {} of input {} cannot be padded by {} and {}", axis,
                                    shape.ToString(), before[axis], after[axis]);
      }
      if (mode_ != PadMode::kConstant && shape[axis] == 0 && extent > 0) {
        return InvalidArgumentError("axis {} of input {} has nothing to repeat", axis, shape.ToString());
      }
      out_shape[axis] = extent;
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out || out->num_elements() == 0) return Status();
    if (mode_ == PadMode::kConstant) return PadConstant(context, *input, before, *out);
    PadRepeating(context.threads(), *input, before, *out);
    return Status();
  }

 private:
  Status ReadPads(const KernelContext& context, int rank, IntList* before, IntList* after) const {
    IntList pads;
    IntList axes;
    if (from_attributes_) {
      if (pads_.size() > IntList::kCapacity) return InvalidModelError("pads is too long");
      pads = IntList(pads_);
    } else {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* pads_input, RequireInput(context, 1));
      Tensor list = *pads_input;  // a matrix [1, n] in some early files
      if (list.shape().rank() == 2 && list.shape()[0] == 1) list = list.Reshaped({list.shape()[1]});
      LAMINA_ASSIGN_OR_RETURN(pads, ReadInts(list));
      if (const Tensor* axes_input = context.Input(3)) {
        LAMINA_ASSIGN_OR_RETURN(axes, ReadInts(*axes_input));
        LAMINA_RETURN_IF_ERROR(AxisMask(axes.span(), rank).status());
      }
    }
    const bool all = axes.empty() && !context.Input(3);
    const int count = all ? rank : axes.size();
    if (pads.size() != 2 * count) return InvalidArgumentError("{} pads for {} axes", pads.size(), count);
    for (int i = 0; i < count; ++i) {
      const int axis = all ? i : static_cast<int>(axes[i] < 0 ? axes[i] + rank : axes[i]);
      (*before)[axis] = pads[i];
      (*after)[axis] = pads[count + i];
    }
    return Status();
  }

  // Fills the output, then copies what remains of the input over it.
  Status PadConstant(KernelContext& context, const Tensor& input, const IntList& before, Tensor& out) const {
    const DataType type = input.type();
    const int64_t bytes = ElementBytes(type);
    auto* target = static_cast<std::byte*>(out.mutable_raw_data());
    alignas(16) std::byte zero[16] = {};
    const void* value = zero;
    const Tensor* given = from_attributes_ ? nullptr : context.Input(2);
    if (given && given->num_elements() != 1) return InvalidArgumentError("the pad value must be a scalar");
    if (given && given->type() != type)
      return InvalidArgumentError("the pad value's type is not the input's");
    if (given) {
      value = given->raw_data();
    } else if (from_attributes_ && value_ != 0) {
      WriteFloats(type, &value_, zero, 0, 1);
    }
    if (type == DataType::kString && !given) {
      for (std::string& text : out.mutable_elements<std::string>()) text.clear();
    } else {
      context.threads().ParallelFor(out.num_elements(), GrainOf(1), [&](int64_t begin, int64_t end, int) {
        FillElements(type, value, target + begin * bytes, end - begin);
      });
    }
    StridedCopy copy;
    copy.type = type;
    copy.source = input.raw_data();
    copy.target = target;
    copy.source_strides = ContiguousStrides(input.shape());
    copy.target_strides = ContiguousStrides(out.shape());
    for (int axis = 0; axis < input.shape().rank(); ++axis) {
      const int64_t first = std::max<int64_t>(0, -before[axis]);
      const int64_t last = std::min(input.shape()[axis], out.shape()[axis] - before[axis]);
      if (last <= first) return Status();
      copy.extents.Append(last - first);
      copy.source_offset += first * copy.source_strides[axis];
      copy.target_offset += (first + before[axis]) * copy.target_strides[axis];
    }
    copy.Run(context.threads());
    return Status();
  }

  void PadRepeating(ThreadPool& threads, const Tensor& input, const IntList& before, Tensor& out) const {
    const Shape& shape = input.shape();
    const Shape& out_shape = out.shape();
    const int last = shape.rank() - 1;
    const IntList strides = ContiguousStrides(shape);
    const DataType type = input.type();
    const int64_t bytes = ElementBytes(type);
    const auto* source = static_cast<const std::byte*>(input.raw_data());
    auto* target = static_cast<std::byte*>(out.mutable_raw_data());
    const int64_t width = out_shape[last];
    // Output columns [first, end) are input columns in order.
    const int64_t first = std::clamp<int64_t>(before[last], 0, width);
    const int64_t end_column = std::clamp<int64_t>(before[last] + shape[last], first, width);
    threads.ParallelFor(
        out_shape.num_elements(0, last), GrainOf(2 * width), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            int64_t offset = 0;
            int64_t rest = row;
            for (int axis = last - 1; axis >= 0; --axis) {
              offset +=
                  SourcePosition(mode_, rest % out_shape[axis] - before[axis], shape[axis]) * strides[axis];
              rest /= out_shape[axis];
            }
            const auto copy = [&](int64_t column, int64_t count) {
              const int64_t position = SourcePosition(mode_, column - before[last], shape[last]);
              CopyElements(type, source + (offset + position) * bytes,
                           target + (row * width + column) * bytes, count);
            };
            for (int64_t column = 0; column < first; ++column) copy(column, 1);
            if (end_column > first) copy(first, end_column - first);
            for (int64_t column = end_column; column < width; ++column) copy(column, 1);
          }
        });
  }

  bool from_attributes_;
  std::vector<int64_t> pads_;
  float value_;
  PadMode mode_;
};

}  // namespace

void RegisterPadKernels(KernelRegistry& registry) {
  const TypeSet types =
      kNumericTypes | kFloat8Types |
      TypeSet{DataType::kBool, DataType::kString, DataType::kComplex64, DataType::kComplex128};
  registry.Add(KernelDef("Pad").Input(0, types).Output(0, types).HostInput(1).HostInput(3),
               CreateKernel<Pad>);
}

}  // namespace lamina
