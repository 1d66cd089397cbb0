// Operators that keep the elements and change the shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity.
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Produces output 0 with the elements of input 0 under `shape`; copies only where memory is not shared.
Status PassElements(KernelContext& context, const Tensor& input, const Shape& shape) {
  LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
  if (!out || out->raw_data() == input.raw_data()) return Status();
  if (DataTypeBits(input.type()) < 8) {
    CopyElements(DataType::kUint8, input.raw_data(), out->mutable_raw_data(),
                 static_cast<int64_t>(input.size_bytes()));
    return Status();
  }
  const int64_t bytes = ElementBytes(input.type());
  const auto* source = static_cast<const std::byte*>(input.raw_data());
  auto* target = static_cast<std::byte*>(out->mutable_raw_data());
  context.threads().ParallelFor(input.num_elements(), GrainOf(1), [&](int64_t begin, int64_t end, int) {
    CopyElements(input.type(), source + begin * bytes, target + begin * bytes, end - begin);
  });
  return Status();
}

class Reshape : public Kernel {
 public:
  explicit Reshape(const NodeInfo& node)
      : from_attribute_(node.opset_version() < 5),
        attribute_(node.Ints("shape").begin(), node.Ints("shape").end()),
        allow_zero_(node.Int("allowzero", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    IntList wanted;
    if (from_attribute_) {
      if (attribute_.size() > Shape::kMaxRank) return InvalidModelError("shape has too many dimensions");
      wanted = IntList(attribute_);
    } else {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* shape, RequireInput(context, 1));
      LAMINA_ASSIGN_OR_RETURN(wanted, ReadInts(*shape));
      if (wanted.size() > Shape::kMaxRank)
        return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, Resolve(input->shape(), wanted));
    return PassElements(context, *input, shape);
  }

 private:
  // Fills in 0 (copied from the input, unless allowzero) and -1 (what remains).
  Result<Shape> Resolve(const Shape& input, const IntList& wanted) const {
    const auto mismatch = [&] {
      return InvalidArgumentError("input {} cannot be reshaped to {}", input.ToString(),
                                  fmt::format("[{}]", fmt::join(wanted.begin(), wanted.end(), ",")));
    };
    Shape shape;
    int unknown = -1;
    int64_t known = 1;
    for (int axis = 0; axis < wanted.size(); ++axis) {
      int64_t dim = wanted[axis];
      if (dim == 0 && !allow_zero_) {
        if (axis >= input.rank()) return mismatch();
        dim = input[axis];
      }
      if (dim == -1) {
        if (unknown >= 0) return mismatch();
        unknown = axis;
        shape.Append(1);
        continue;
      }
      if (dim < 0 || __builtin_mul_overflow(known, dim, &known)) return mismatch();
      shape.Append(dim);
    }
    const int64_t total = input.num_elements();
    if (unknown >= 0) {
      if (known == 0 || total % known != 0) return mismatch();
      shape[unknown] = total / known;
    } else if (known != total) {
      return mismatch();
    }
    return shape;
  }

  bool from_attribute_;
  std::vector<int64_t> attribute_;
  bool allow_zero_;
};

class Flatten : public Kernel {
 public:
  explicit Flatten(const NodeInfo& node) : axis_(node.Int("axis", 1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (axis_ < -shape.rank() || axis_ > shape.rank()) {
      return InvalidArgumentError("axis {} is out of range for input {}", axis_, shape.ToString());
    }
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    return PassElements(context, *input,
                        {shape.num_elements(0, axis), shape.num_elements(axis, shape.rank())});
  }

 private:
  int64_t axis_;
};

// The axes of Squeeze and Unsqueeze: an attribute before opset 13, then input 1.
class AxesArgument {
 public:
  explicit AxesArgument(const NodeInfo& node)
      : from_attribute_(node.opset_version() < 13),
        attribute_(node.Ints("axes").begin(), node.Ints("axes").end()) {}
  // Empty where there are none.
  Result<IntList> Read(const KernelContext& context) const {
    if (from_attribute_) {
      if (attribute_.size() > IntList::kCapacity) return InvalidModelError("too many axes");
      return IntList(attribute_);
    }
    const Tensor* axes = context.Input(1);
    return axes ? ReadInts(*axes) : Result<IntList>(IntList());
  }

 private:
  bool from_attribute_;
  std::vector<int64_t> attribute_;
};

class Squeeze : public Kernel {
 public:
  explicit Squeeze(const NodeInfo& node) : axes_(node) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const IntList axes, axes_.Read(context));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, AxisMask(axes.span(), shape.rank()));
    Shape squeezed;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool named = (mask >> axis & 1u) != 0;
      if (named && shape[axis] != 1) {
        return InvalidArgumentError("axis {} of input {} is not 1", axis, shape.ToString());
      }
      if (!(named || (axes.empty() && shape[axis] == 1))) squeezed.Append(shape[axis]);
    }
    return PassElements(context, *input, squeezed);
  }

 private:
  AxesArgument axes_;
};

class Unsqueeze : public Kernel {
 public:
  explicit Unsqueeze(const NodeInfo& node) : axes_(node) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const IntList axes, axes_.Read(context));
    const Shape& shape = input->shape();
    const int rank = shape.rank() + axes.size();
    if (rank > Shape::kMaxRank) return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, AxisMask(axes.span(), rank));
    Shape unsqueezed;
    for (int axis = 0, source = 0; axis < rank; ++axis) {
      unsqueezed.Append((mask >> axis & 1u) != 0 ? 1 : shape[source++]);
    }
    return PassElements(context, *input, unsqueezed);
  }

 private:
  AxesArgument axes_;
};

class Identity : public Kernel {
 public:
  explicit Identity(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    const Value& input = context.InputValue(0);
    if (!input.is_tensor()) return context.SetOutputValue(0, input);
    return PassElements(context, input.tensor(), input.tensor().shape());
  }
};

// The bits of the elements under another type of the same width (or, in the last axis, of a multiple of it).
class BitCast : public Kernel {
 public:
  explicit BitCast(const NodeInfo& node) : to_(node.output_type(0).element) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    if (DataTypeBits(input->type()) != DataTypeBits(to_) || input->type() == DataType::kString ||
        to_ == DataType::kString) {
      return InvalidArgumentError("{} and {} have no common width", DataTypeName(input->type()),
                                  DataTypeName(to_));
    }
    return PassElements(context, *input, input->shape());
  }

 private:
  DataType to_;
};

}  // namespace

void RegisterReshapeKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Reshape").Alias(0, 0).HostInput(1), CreateKernel<Reshape>);
  registry.Add(KernelDef("Flatten").Alias(0, 0), CreateKernel<Flatten>);
  registry.Add(KernelDef("Squeeze").Alias(0, 0).HostInput(1), CreateKernel<Squeeze>);
  registry.Add(KernelDef("Unsqueeze").Alias(0, 0).HostInput(1), CreateKernel<Unsqueeze>);
  registry.Add(KernelDef("Identity").Alias(0, 0), CreateKernel<Identity>);
  registry.Add(KernelDef("BitCast").Since(26).Alias(0, 0), CreateKernel<BitCast>);
}

}  // namespace lamina
