// Slice, Split, Concat: parts of tensors along axes.
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

class Slice : public Kernel {
 public:
  explicit Slice(const NodeInfo& node)
      : from_attributes_(node.opset_version() < 10),
        starts_(node.Ints("starts").begin(), node.Ints("starts").end()),
        ends_(node.Ints("ends").begin(), node.Ints("ends").end()),
        axes_(node.Ints("axes").begin(), node.Ints("axes").end()) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    IntList starts;
    IntList ends;
    IntList axes;
    IntList steps;
    LAMINA_RETURN_IF_ERROR(ReadArguments(context, &starts, &ends, &axes, &steps));
    if (axes.empty()) {
      for (int axis = 0; axis < starts.size(); ++axis) axes.Append(axis);
    }
    if (steps.empty()) steps = IntList(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
      return InvalidArgumentError("starts, ends, axes and steps have {}, {}, {} and {} values", starts.size(),
                                  ends.size(), axes.size(), steps.size());
    }
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, AxisMask(axes.span(), shape.rank()));
    (void)mask;  // every axis once

    Shape out_shape = shape;
    StridedCopy copy;
    copy.source_strides = ContiguousStrides(shape);
    for (int i = 0; i < starts.size(); ++i) {
      const int axis = static_cast<int>(axes[i] < 0 ? axes[i] + shape.rank() : axes[i]);
      const int64_t step = steps[i];
      if (step == 0) return InvalidArgumentError("the step of axis {} is 0", axis);
      const int64_t extent = shape[axis];
      // As Python: negative positions count from the end, then both are clamped to what the step can reach.
      const int64_t low = step < 0 ? -1 : 0;
      const int64_t high = step < 0 ? extent - 1 : extent;
      const int64_t start = std::clamp(starts[i] < 0 ? starts[i] + extent : starts[i], low, high);
      const int64_t end = std::clamp(ends[i] < 0 ? ends[i] + extent : ends[i], low, high);
      const int64_t span = step > 0 ? end - start : start - end;
      const auto stride = static_cast<uint64_t>(step > 0 ? step : -(step + 1)) + (step > 0 ? 0 : 1);
      out_shape[axis] =
          span <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) + stride - 1) / stride);
      copy.source_offset += out_shape[axis] == 0 ? 0 : start * copy.source_strides[axis];
      copy.source_strides[axis] = out_shape[axis] <= 1 ? 0 : copy.source_strides[axis] * step;
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    copy.type = input->type();
    copy.source = input->raw_data();
    copy.target = out->mutable_raw_data();
    copy.extents = IntList(out_shape.dims());
    copy.target_strides = ContiguousStrides(out_shape);
    copy.Run(context.threads());
    return Status();
  }

 private:
  Status ReadArguments(const KernelContext& context, IntList* starts, IntList* ends, IntList* axes,
                       IntList* steps) const {
    if (from_attributes_) {
      for (const auto& [list, values] :
           {std::pair{starts, &starts_}, std::pair{ends, &ends_}, std::pair{axes, &axes_}}) {
        if (values->size() > IntList::kCapacity) return InvalidModelError("too many axes to slice");
        *list = IntList(*values);
      }
      return Status();
    }
    LAMINA_ASSIGN_OR_RETURN(const Tensor* starts_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* ends_input, RequireInput(context, 2));
    LAMINA_ASSIGN_OR_RETURN(*starts, ReadInts(*starts_input));
    LAMINA_ASSIGN_OR_RETURN(*ends, ReadInts(*ends_input));
    if (const Tensor* input = context.Input(3)) {
      LAMINA_ASSIGN_OR_RETURN(*axes, ReadInts(*input));
    }
    if (const Tensor* input = context.Input(4)) {
      LAMINA_ASSIGN_OR_RETURN(*steps, ReadInts(*input));
    }
    return Status();
  }

  bool from_attributes_;
  std::vector<int64_t> starts_;
  std::vector<int64_t> ends_;
  std::vector<int64_t> axes_;
};

// Copies between a whole tensor and the part of it that begins at `offset` on `axis`. One of the pointers is
// the part, contiguous, of shape `part`.
void CopyPart(ThreadPool& threads, DataType type, const Shape& whole, const Shape& part, int axis,
              int64_t offset, const void* source, void* target, bool into_whole) {
  StridedCopy copy;
  copy.type = type;
  copy.source = source;
  copy.target = target;
  copy.extents = IntList(part.dims());
  copy.source_strides = ContiguousStrides(into_whole ? part : whole);
  copy.target_strides = ContiguousStrides(into_whole ? whole : part);
  const int64_t offset_elements = offset * whole.num_elements(axis + 1, whole.rank());
  (into_whole ? copy.target_offset : copy.source_offset) = offset_elements;
  copy.Run(threads);
}

class Concat : public Kernel {
 public:
  explicit Concat(const NodeInfo& node) : axis_(node.Int("axis", 1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, RequireInput(context, 0));
    Shape shape = first->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    for (int i = 1; i < context.num_inputs(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, i));
      Shape same = input->shape();
      if (same.rank() == shape.rank()) same[axis] = shape[axis];
      if (!(same == shape) || input->type() != first->type()) {
        return InvalidArgumentError("input {} ({}{}) cannot be joined with {}{} at axis {}", i,
                                    DataTypeName(input->type()), input->shape().ToString(),
                                    DataTypeName(first->type()), first->shape().ToString(), axis);
      }
      shape[axis] += input->shape()[axis];
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    int64_t offset = 0;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& input = *context.Input(i);
      CopyPart(context.threads(), input.type(), shape, input.shape(), axis, offset, input.raw_data(),
               out->mutable_raw_data(), /*into_whole=*/true);
      offset += input.shape()[axis];
    }
    return Status();
  }

 private:
  int64_t axis_;
};

// The lengths come from the attribute `split` (before opset 13) or input 1; without them the axis is cut
// into num_outputs parts as even as can be, the last one smaller.
class Split : public Kernel {
 public:
  explicit Split(const NodeInfo& node)
      : from_attribute_(node.opset_version() < 13),
        attribute_(node.Ints("split").begin(), node.Ints("split").end()),
        axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    const int parts = context.num_outputs();
    const Tensor* lengths_input = context.Input(1);
    const bool given = from_attribute_ ? !attribute_.empty() : lengths_input != nullptr;
    if (given) {
      const int64_t count =
          from_attribute_ ? static_cast<int64_t>(attribute_.size()) : lengths_input->num_elements();
      if (count != parts) return InvalidArgumentError("split has {} lengths for {} outputs", count, parts);
      int64_t total = 0;
      for (int part = 0; part < parts; ++part) {
        LAMINA_ASSIGN_OR_RETURN(const int64_t length, Length(lengths_input, part));
        if (length < 0 || length > shape[axis])
          return InvalidArgumentError("a length of {} in split", length);
        total += length;
      }
      if (total != shape[axis]) {
        return InvalidArgumentError("the lengths of split add up to {}, axis {} of input {} has {}", total,
                                    axis, shape.ToString(), shape[axis]);
      }
    }
    const int64_t even = (shape[axis] + parts - 1) / parts;
    int64_t offset = 0;
    for (int part = 0; part < parts; ++part) {
      Shape part_shape = shape;
      part_shape[axis] = std::min(even, shape[axis] - offset);
      if (given) {
        LAMINA_ASSIGN_OR_RETURN(part_shape[axis], Length(lengths_input, part));
      }
      LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(part, part_shape));
      if (out) {
        CopyPart(context.threads(), input->type(), shape, part_shape, axis, offset, input->raw_data(),
                 out->mutable_raw_data(), /*into_whole=*/false);
      }
      offset += part_shape[axis];
    }
    return Status();
  }

 private:
  Result<int64_t> Length(const Tensor* input, int part) const {
    if (from_attribute_) return attribute_[static_cast<size_t>(part)];
    if (input->type() != DataType::kInt64) return InvalidArgumentError("split must be of int64");
    return input->data<int64_t>()[part];
  }

  bool from_attribute_;
  std::vector<int64_t> attribute_;
  int64_t axis_;
};

}  // namespace

void RegisterSliceKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Slice").HostInput(1).HostInput(2).HostInput(3).HostInput(4), CreateKernel<Slice>);
  registry.Add(KernelDef("Concat"), CreateKernel<Concat>);
  registry.Add(KernelDef("Split").HostInput(1), CreateKernel<Split>);
}

}  // namespace lamina
