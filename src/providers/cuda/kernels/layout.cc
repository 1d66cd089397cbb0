// Operators that move elements between strided layouts: Transpose, Expand, Slice, Concat, Split.
#include <algorithm>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"
#include "providers/cuda/kernels/loops.h"

namespace lamina::cuda {
namespace {

// One side of a copy: where element (0, ..., 0) lies, and how axes are stepped along.
struct Side {
  int64_t offset = 0;
  AxisStrides strides{};
};

class Moving : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

 protected:
  Status Copy(KernelContext& context, DataType type, const Shape& extents, const void* source,
              const Side& from, void* target, const Side& to) const {
    const int32_t bytes = ElementBytesOf(type);
    StridedCopyArguments arguments{};
    arguments.element_bytes = bytes;
    arguments.source = static_cast<const std::byte*>(source) + from.offset * bytes;
    arguments.destination = static_cast<std::byte*>(target) + to.offset * bytes;
    LAMINA_ASSIGN_OR_RETURN(arguments.loops, MakeLoops(extents, {&from.strides, &to.strides}));
    if (arguments.loops.count == 0) return Status();
    return Launch(context.stream(), "strided_copy", &KernelApi::strided_copy, arguments);
  }
};

class Transpose : public Moving {
 public:
  Transpose(const NodeInfo& node, const KernelLauncher& launcher)
      : Moving(node, launcher), permutation_(node.Ints("perm").begin(), node.Ints("perm").end()) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    const Shape& shape = input->shape();
    const int rank = shape.rank();
    if (!permutation_.empty() && static_cast<int>(permutation_.size()) != rank) {
      return InvalidArgumentError("perm has {} axes, the input has shape {}", permutation_.size(),
                                  shape.ToString());
    }
    const AxisStrides strides = ContiguousStrides(shape);
    Shape out_shape;
    Side from;
    uint32_t seen = 0;
    for (int i = 0; i < rank; ++i) {
      const int64_t named = permutation_.empty() ? rank - 1 - i : permutation_[static_cast<size_t>(i)];
      LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(named, rank));
      if ((seen >> axis & 1u) != 0) return InvalidArgumentError("perm names axis {} twice", axis);
      seen |= 1u << axis;
      from.strides[static_cast<size_t>(i)] = strides[static_cast<size_t>(axis)];
      out_shape.Append(shape[axis]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    return Copy(context, input->type(), out_shape, input->raw_data(), from, out->mutable_raw_data(),
                {0, ContiguousStrides(out_shape)});
  }

 private:
  std::vector<int64_t> permutation_;  // empty: reverse
};

class Expand : public Moving {
 public:
  using Moving::Moving;

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* shape_input, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, HostInts(*shape_input));
    Shape target;
    for (const int64_t dim : wanted) {
      if (dim < 0 || target.rank() == Shape::kMaxRank) {
        return InvalidArgumentError("the shape [{}] is no shape of a tensor", fmt::join(wanted, ","));
      }
      target.Append(dim);
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(input->shape(), target));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    return Copy(context, input->type(), shape, input->raw_data(),
                {0, BroadcastStrides(input->shape(), shape)}, out->mutable_raw_data(),
                {0, ContiguousStrides(shape)});
  }
};

class Slice : public Moving {
 public:
  using Moving::Moving;

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, Argument(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, Argument(context, 2));
    LAMINA_ASSIGN_OR_RETURN(std::vector<int64_t> axes, Argument(context, 3));
    LAMINA_ASSIGN_OR_RETURN(std::vector<int64_t> steps, Argument(context, 4));
    if (axes.empty()) {
      for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    }
    if (steps.empty()) steps.assign(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
      return InvalidArgumentError("starts, ends, axes and steps have {}, {}, {} and {} values", starts.size(),
                                  ends.size(), axes.size(), steps.size());
    }
    Shape out_shape = shape;
    Side from{0, ContiguousStrides(shape)};
    uint32_t seen = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(axes[i], shape.rank()));
      if ((seen >> axis & 1u) != 0) return InvalidArgumentError("axis {} is named twice", axis);
      seen |= 1u << axis;
      LAMINA_RETURN_IF_ERROR(SliceAxis(shape[axis], starts[i], ends[i], steps[i], axis, out_shape, from));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    return Copy(context, input->type(), out_shape, input->raw_data(), from, out->mutable_raw_data(),
                {0, ContiguousStrides(out_shape)});
  }

 private:
  static Result<std::vector<int64_t>> Argument(const KernelContext& context, int index) {
    const Tensor* tensor = Optional(context, index);
    if (tensor) return HostInts(*tensor);
    if (index <= 2) return InvalidArgumentError("input {} is absent", index);
    return std::vector<int64_t>();
  }

  // As Python: negative positions count from the end, then both are clamped to what the step can reach.
  static Status SliceAxis(int64_t extent, int64_t start, int64_t end, int64_t step, int axis,
                          Shape& out_shape, Side& from) {
    if (step == 0) return InvalidArgumentError("the step of axis {} is 0", axis);
    const int64_t low = step < 0 ? -1 : 0;
    const int64_t high = step < 0 ? extent - 1 : extent;
    start = std::clamp(start < 0 ? start + extent : start, low, high);
    end = std::clamp(end < 0 ? end + extent : end, low, high);
    const int64_t span = step > 0 ? end - start : start - end;
    // A step beyond the extent takes one element; so does any other number that large.
    const int64_t distance = std::min(step > 0 ? step : -std::max(step, -extent - 1), extent + 1);
    const int64_t count = span <= 0 ? 0 : (span + distance - 1) / distance;
    int64_t& stride = from.strides[static_cast<size_t>(axis)];
    if (count > 0) from.offset += start * stride;
    stride = count <= 1 ? 0 : stride * step;
    out_shape[axis] = count;
    return Status();
  }
};

class Concat : public Moving {
 public:
  Concat(const NodeInfo& node, const KernelLauncher& launcher)
      : Moving(node, launcher), axis_(node.Int("axis", 1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, Required(context, 0));
    Shape shape = first->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(axis_, shape.rank()));
    for (int i = 1; i < context.num_inputs(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, i));
      Shape other = input->shape();
      if (other.rank() != shape.rank() || input->type() != first->type()) {
        return InvalidArgumentError("inputs {} and {} cannot be joined", shape.ToString(), other.ToString());
      }
      const int64_t joined = shape[axis] + other[axis];
      other[axis] = shape[axis];
      if (!(other == shape)) {
        return InvalidArgumentError("input {} differs from the first in another axis than {}", i, axis);
      }
      shape[axis] = joined;
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    Side to{0, ContiguousStrides(shape)};
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& input = *context.Input(i);
      LAMINA_RETURN_IF_ERROR(Copy(context, input.type(), input.shape(), input.raw_data(),
                                  {0, ContiguousStrides(input.shape())}, out->mutable_raw_data(), to));
      to.offset += input.shape()[axis] * to.strides[static_cast<size_t>(axis)];
    }
    return Status();
  }

 private:
  int64_t axis_;
};

class Split : public Moving {
 public:
  Split(const NodeInfo& node, const KernelLauncher& launcher)
      : Moving(node, launcher),
        axis_(node.Int("axis", 0)),
        attribute_(node.Ints("split").begin(), node.Ints("split").end()) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(axis_, shape.rank()));
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Sizes(context, shape[axis]));
    Side from{0, ContiguousStrides(shape)};
    for (int i = 0; i < context.num_outputs(); ++i) {
      Shape part = shape;
      part[axis] = sizes[static_cast<size_t>(i)];
      LAMINA_ASSIGN_OR_RETURN(Tensor * out, OptionalOutput(context, i, part));
      if (out) {
        LAMINA_RETURN_IF_ERROR(Copy(context, input->type(), part, input->raw_data(), from,
                                    out->mutable_raw_data(), {0, ContiguousStrides(part)}));
      }
      from.offset += part[axis] * from.strides[static_cast<size_t>(axis)];
    }
    return Status();
  }

 private:
  Result<std::vector<int64_t>> Sizes(const KernelContext& context, int64_t extent) const {
    const auto parts = static_cast<int64_t>(context.num_outputs());
    std::vector<int64_t> sizes = attribute_;
    if (const Tensor* input = Optional(context, 1)) {
      LAMINA_ASSIGN_OR_RETURN(sizes, HostInts(*input));
    }
    if (sizes.empty()) {  // equal parts, the last one smaller
      const int64_t size = (extent + parts - 1) / parts;
      for (int64_t i = 0; i < parts; ++i) {
        sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
      }
    }
    int64_t total = 0;
    for (const int64_t size : sizes) total += size < 0 ? extent + 1 : size;
    if (total != extent || static_cast<int64_t>(sizes.size()) != parts) {
      return InvalidArgumentError("parts of [{}] for {} outputs do not make up an axis of {}",
                                  fmt::join(sizes, ","), parts, extent);
    }
    return sizes;
  }

  int64_t axis_;
  std::vector<int64_t> attribute_;
};

KernelDef MovingDef(const char* name, int since) {
  return KernelDef(name).Since(since).Input(0, kMovedTypes).Output(0, kMovedTypes);
}

}  // namespace

void RegisterLayout(KernelRegistrar& registrar) {
  registrar.Add<Transpose>(MovingDef("Transpose", 1));
  registrar.Add<Expand>(MovingDef("Expand", 8).HostInput(1));
  registrar.Add<Slice>(MovingDef("Slice", 10).HostInput(1).HostInput(2).HostInput(3).HostInput(4));
  registrar.Add<Concat>(MovingDef("Concat", 4).VariadicInputs());
  registrar.Add<Split>(MovingDef("Split", 2).HostInput(1));
}

}  // namespace lamina::cuda
