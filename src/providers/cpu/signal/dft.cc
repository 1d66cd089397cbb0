// DFT and STFT.
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/signal/fourier.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kValues = 0;   // scratch slot: one transform's values
constexpr int kScratch = 1;  // scratch slot: of FourierTransform

// Element `index` of a floating-point tensor.
double At(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DataType::kDouble:
      return tensor.data<double>()[index];
    case DataType::kFloat:
      return tensor.data<float>()[index];
    case DataType::kFloat16:
      return tensor.data<Float16>()[index];
    default:
      return tensor.data<Bfloat16>()[index];
  }
}

void Set(Tensor& tensor, int64_t index, double value) {
  const auto narrow = static_cast<float>(value);
  switch (tensor.type()) {
    case DataType::kDouble:
      tensor.mutable_data<double>()[index] = value;
      break;
    case DataType::kFloat:
      tensor.mutable_data<float>()[index] = narrow;
      break;
    case DataType::kFloat16:
      tensor.mutable_data<Float16>()[index] = Float16(narrow);
      break;
    default:
      tensor.mutable_data<Bfloat16>()[index] = Bfloat16(narrow);
      break;
  }
}

Status AddScratch(WorkspaceRequirements& requirements, int64_t length) {
  LAMINA_RETURN_IF_ERROR(requirements.Add(kValues, static_cast<size_t>(length) * sizeof(Complex)));
  return requirements.Add(kScratch,
                          static_cast<size_t>(FourierTransform::ScratchCount(length)) * sizeof(Complex));
}

// Input [.., signal, .., 1 or 2] (real or complex). One-sided results keep the first half of the spectrum; a
// one-sided inverse reads such a half and gives real values.
class Dft : public Kernel {
 public:
  explicit Dft(const NodeInfo& node)
      : axis_input_(node.opset_version() >= 20),
        axis_(node.Int("axis", 1)),
        inverse_(node.Int("inverse", 0) != 0),
        one_sided_(node.Int("onesided", 0) != 0) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape input, LargestInputShape(node, 0));
    int64_t longest = 1;
    for (const int64_t extent : input) longest = std::max(longest, 2 * extent);  // of a one-sided inverse
    if (const Tensor* length = node.constant_input(1)) {
      LAMINA_ASSIGN_OR_RETURN(const int64_t value, ReadInt(*length));
      longest = std::max(longest, value);
    } else if (node.HasInput(1)) {
      LAMINA_ASSIGN_OR_RETURN(const Shape output, LargestOutputShape(node, 0));
      for (const int64_t extent : output) longest = std::max(longest, 2 * extent);
    }
    return AddScratch(requirements, longest);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    const int last = shape.rank() - 1;
    int64_t axis_number = axis_input_ ? -2 : axis_;
    if (const Tensor* given = axis_input_ ? context.Input(2) : nullptr) {
      LAMINA_ASSIGN_OR_RETURN(axis_number, ReadInt(*given));
    }
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_number, shape.rank()));
    if (axis == last || (shape[last] != 1 && shape[last] != 2)) {
      return InvalidArgumentError("input {} is no signal along axis {}", shape.ToString(), axis);
    }
    const bool real_result = inverse_ && one_sided_;
    int64_t length = real_result ? 2 * (shape[axis] - 1) : shape[axis];
    if (const Tensor* given = context.Input(1)) {
      LAMINA_ASSIGN_OR_RETURN(length, ReadInt(*given));
    }
    if (length < 1) return InvalidArgumentError("a transform of length {}", length);
    Shape out_shape = shape;
    out_shape[axis] = one_sided_ && !inverse_ ? length / 2 + 1 : length;
    out_shape[last] = real_result ? 1 : 2;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    LAMINA_ASSIGN_OR_RETURN(Complex * values, GetScratch<Complex>(context, kValues, length));
    LAMINA_ASSIGN_OR_RETURN(Complex * scratch,
                            GetScratch<Complex>(context, kScratch, FourierTransform::ScratchCount(length)));
    const FourierTransform transform(length, inverse_, scratch);
    const int64_t inner = shape.num_elements(axis + 1, last);
    const int64_t parts = shape[last];
    for (int64_t signal = 0; signal < shape.num_elements(0, axis) * inner; ++signal) {
      // Place of element k of the signal, without its parts.
      const auto place = [&](int64_t extent, int64_t k) {
        return (signal / inner * extent + k) * inner + signal % inner;
      };
      for (int64_t k = 0; k < length; ++k) {
        // The other half of a one-sided spectrum is its mirrored conjugate.
        const bool mirrored = real_result && k > length / 2;
        const int64_t source = mirrored ? length - k : k;
        Complex value = 0;
        if (source < shape[axis]) {
          const int64_t at = place(shape[axis], source) * parts;
          value = Complex(At(*x, at), parts == 2 ? At(*x, at + 1) : 0);
        }
        values[k] = mirrored ? std::conj(value) : value;
      }
      transform.Run(values);
      for (int64_t k = 0; k < out_shape[axis]; ++k) {
        const int64_t at = place(out_shape[axis], k) * out_shape[last];
        Set(*y, at, values[k].real());
        if (!real_result) Set(*y, at + 1, values[k].imag());
      }
    }
    return Status();
  }

 private:
  bool axis_input_;
  int64_t axis_;
  bool inverse_;
  bool one_sided_;
};

// Transforms of windowed frames of a signal [batch, length, 1 or 2].
class Stft : public Kernel {
 public:
  explicit Stft(const NodeInfo& node) : one_sided_(node.Int("onesided", 1) != 0) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    if (const Tensor* length = node.constant_input(3)) {
      LAMINA_ASSIGN_OR_RETURN(const int64_t value, ReadInt(*length));
      return AddScratch(requirements, std::max<int64_t>(1, value));
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape longest, LargestInputShape(node, node.HasInput(2) ? 2 : 0));
    return AddScratch(requirements,
                      longest.rank() > 1 ? longest[1] : std::max<int64_t>(1, longest.num_elements()));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* signal, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* step_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const int64_t step, ReadInt(*step_input));
    const Tensor* window = context.Input(2);
    const Shape& shape = signal->shape();
    if (shape.rank() < 2 || shape.rank() > 3 || (shape.rank() == 3 && shape[2] != 1 && shape[2] != 2)) {
      return InvalidArgumentError("a signal [batch, length, 1 or 2] expected, found {}", shape.ToString());
    }
    const int64_t parts = shape.rank() == 3 ? shape[2] : 1;
    int64_t length = window ? window->num_elements() : 0;
    if (const Tensor* given = context.Input(3)) {
      LAMINA_ASSIGN_OR_RETURN(length, ReadInt(*given));
    }
    if (length < 1 || step < 1 || length > shape[1] || (window && window->num_elements() != length)) {
      return InvalidArgumentError("frames of {} every {} of a signal of {}", length, step, shape[1]);
    }
    const int64_t frames = (shape[1] - length) / step + 1;
    const int64_t bins = one_sided_ ? length / 2 + 1 : length;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {shape[0], frames, bins, 2}));
    if (!y) return Status();
    LAMINA_ASSIGN_OR_RETURN(Complex * values, GetScratch<Complex>(context, kValues, length));
    LAMINA_ASSIGN_OR_RETURN(Complex * scratch,
                            GetScratch<Complex>(context, kScratch, FourierTransform::ScratchCount(length)));
    const FourierTransform transform(length, /*inverse=*/false, scratch);
    for (int64_t frame = 0; frame < shape[0] * frames; ++frame) {
      const int64_t first = frame / frames * shape[1] + frame % frames * step;
      for (int64_t k = 0; k < length; ++k) {
        const int64_t at = (first + k) * parts;
        values[k] =
            Complex(At(*signal, at), parts == 2 ? At(*signal, at + 1) : 0) * (window ? At(*window, k) : 1.0);
      }
      transform.Run(values);
      for (int64_t bin = 0; bin < bins; ++bin) {
        Set(*y, (frame * bins + bin) * 2, values[bin].real());
        Set(*y, (frame * bins + bin) * 2 + 1, values[bin].imag());
      }
    }
    return Status();
  }

 private:
  bool one_sided_;
};

}  // namespace

void RegisterDftKernels(KernelRegistry& registry) {
  registry.Add(
      KernelDef("DFT").Since(17).Input(0, kFloatTypes).HostInput(1).HostInput(2).Output(0, kFloatTypes),
      CreateKernel<Dft>, EstimateWorkspace<Dft>);
  registry.Add(
      KernelDef("STFT").Since(17).Input(0, kFloatTypes).HostInput(1).HostInput(3).Output(0, kFloatTypes),
      CreateKernel<Stft>, EstimateWorkspace<Stft>);
}

}  // namespace lamina
