// Operators that keep the elements and change the shape.
#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"

namespace lamina::cuda {
namespace {

class Reshaping : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(context, input->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || out->raw_data() == input->raw_data()) return Status();
    return CopyBytes(context.stream(), input->raw_data(), out->mutable_raw_data(), input->size_bytes());
  }

 protected:
  virtual Result<Shape> ShapeOf(const KernelContext& context, const Shape& input) const = 0;
};

class Reshape : public Reshaping {
 public:
  Reshape(const NodeInfo& node, const KernelLauncher& launcher)
      : Reshaping(node, launcher), allow_zero_(node.Int("allowzero", 0) != 0) {}

 private:
  // Fills in 0 (copied from the input, unless allowzero) and -1 (what remains).
  Result<Shape> ShapeOf(const KernelContext& context, const Shape& input) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* shape_input, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, HostInts(*shape_input));
    if (wanted.size() > static_cast<size_t>(Shape::kMaxRank)) {
      return InvalidArgumentError("{} dimensions: at most {} are supported", wanted.size(), Shape::kMaxRank);
    }
    Shape shape;
    int unknown = -1;
    int64_t known = 1;
    bool fits = true;
    for (const int64_t value : wanted) {
      const int axis = shape.rank();
      const bool copied = value == 0 && !allow_zero_;
      fits = fits && (!copied || axis < input.rank()) && (value != -1 || unknown < 0) && value >= -1;
      if (!fits) break;
      const int64_t dim = copied ? input[axis] : value;
      shape.Append(dim == -1 ? 1 : dim);
      if (dim == -1) unknown = axis;
      fits = dim == -1 || !__builtin_mul_overflow(known, dim, &known);
    }
    const int64_t total = input.num_elements();
    if (fits && unknown >= 0) {
      fits = known != 0 && total % known == 0;
      if (fits) shape[unknown] = total / known;
    } else {
      fits = fits && known == total;
    }
    if (fits) return shape;
    return InvalidArgumentError("input {} cannot be reshaped to [{}]", input.ToString(),
                                fmt::join(wanted, ","));
  }

  bool allow_zero_;
};

class Flatten : public Reshaping {
 public:
  Flatten(const NodeInfo& node, const KernelLauncher& launcher)
      : Reshaping(node, launcher), axis_(node.Int("axis", 1)) {}

 private:
  Result<Shape> ShapeOf(const KernelContext&, const Shape& input) const override {
    if (axis_ < -input.rank() || axis_ > input.rank()) {
      return InvalidArgumentError("axis {} is out of range for input {}", axis_, input.ToString());
    }
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + input.rank() : axis_);
    return Shape{input.num_elements(0, axis), input.num_elements(axis, input.rank())};
  }

  int64_t axis_;
};

// The axes of Squeeze and Unsqueeze, as a set: an attribute before opset 13, then input 1.
class AxesReshaping : public Reshaping {
 public:
  AxesReshaping(const NodeInfo& node, const KernelLauncher& launcher)
      : Reshaping(node, launcher),
        from_attribute_(node.opset_version() < 13),
        attribute_(node.Ints("axes").begin(), node.Ints("axes").end()) {}

 protected:
  Result<std::vector<int64_t>> Axes(const KernelContext& context) const {
    if (from_attribute_) return attribute_;
    const Tensor* axes = Optional(context, 1);
    return axes ? HostInts(*axes) : Result<std::vector<int64_t>>(std::vector<int64_t>());
  }
  static Result<uint32_t> Mask(const std::vector<int64_t>& axes, int rank) {
    uint32_t mask = 0;
    for (const int64_t value : axes) {
      LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(value, rank));
      if ((mask >> axis & 1u) != 0) return InvalidArgumentError("axis {} is named twice", axis);
      mask |= 1u << axis;
    }
    return mask;
  }

 private:
  bool from_attribute_;
  std::vector<int64_t> attribute_;
};

class Squeeze : public AxesReshaping {
 public:
  using AxesReshaping::AxesReshaping;

 private:
  Result<Shape> ShapeOf(const KernelContext& context, const Shape& input) const override {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(context));
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, Mask(axes, input.rank()));
    Shape squeezed;
    for (int axis = 0; axis < input.rank(); ++axis) {
      const bool named = (mask >> axis & 1u) != 0;
      if (named && input[axis] != 1) {
        return InvalidArgumentError("axis {} of input {} is not 1", axis, input.ToString());
      }
      if (!(named || (axes.empty() && input[axis] == 1))) squeezed.Append(input[axis]);
    }
    return squeezed;
  }
};

class Unsqueeze : public AxesReshaping {
 public:
  using AxesReshaping::AxesReshaping;

 private:
  Result<Shape> ShapeOf(const KernelContext& context, const Shape& input) const override {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(context));
    if (axes.size() > static_cast<size_t>(Shape::kMaxRank - input.rank())) {
      return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
    }
    const int rank = input.rank() + static_cast<int>(axes.size());
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, Mask(axes, rank));
    Shape unsqueezed;
    for (int axis = 0, source = 0; axis < rank; ++axis) {
      unsqueezed.Append((mask >> axis & 1u) != 0 ? 1 : input[source++]);
    }
    return unsqueezed;
  }
};

class Identity : public Reshaping {
 public:
  using Reshaping::Reshaping;

 private:
  Result<Shape> ShapeOf(const KernelContext&, const Shape& input) const override { return input; }
};

KernelDef Aliasing(const char* name, int since) {
  return KernelDef(name).Since(since).Input(0, kFixedSizeTypes).Output(0, kFixedSizeTypes).Alias(0, 0);
}

}  // namespace

void RegisterReshape(KernelRegistrar& registrar) {
  registrar.Add<Reshape>(Aliasing("Reshape", 5).HostInput(1));
  registrar.Add<Flatten>(Aliasing("Flatten", 1));
  registrar.Add<Squeeze>(Aliasing("Squeeze", 1).HostInput(1));
  registrar.Add<Unsqueeze>(Aliasing("Unsqueeze", 1).HostInput(1));
  registrar.Add<Identity>(Aliasing("Identity", 1));
}

}  // namespace lamina::cuda
