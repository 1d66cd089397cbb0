// HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.
#include <cmath>
#include <numbers>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

void Store(Tensor& out, int64_t index, double value) {
  ConvertElements(DataType::kDouble, &value, out.type(),
                  static_cast<std::byte*>(out.mutable_raw_data()) + index * ElementBytes(out.type()), 0, 1);
}

// A sum of cosines: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n being the size, or one less where the
// window is symmetric instead of periodic.
class CosineWindow : public Kernel {
 public:
  explicit CosineWindow(const NodeInfo& node) : periodic_(node.Int("periodic", 1) != 0) {
    if (node.op_type() == "HammingWindow") {
      a0_ = 25.0 / 46;
      a1_ = 1 - a0_;
    } else if (node.op_type() == "BlackmanWindow") {
      a0_ = 0.42;
      a1_ = 0.5;
      a2_ = 0.08;
    }
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* size_input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const int64_t size, ReadInt(*size_input));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {size}));
    if (!out) return Status();
    const double period = static_cast<double>(periodic_ ? size : size - 1);
    for (int64_t i = 0; i < size; ++i) {
      const double angle = period == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / period;
      Store(*out, i, size == 1 ? 1 : a0_ - a1_ * std::cos(angle) + a2_ * std::cos(2 * angle));
    }
    return Status();
  }

 private:
  bool periodic_;
  double a0_ = 0.5;
  double a1_ = 0.5;
  double a2_ = 0;
};

double HertzToMel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

// Triangular filters, evenly spaced on the mel scale, over the bins of a spectrum: [bins, filters].
class MelWeightMatrix : public Kernel {
 public:
  explicit MelWeightMatrix(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    double in[5] = {};  // filters, dft_length, sample_rate, lower edge, upper edge
    for (int i = 0; i < 5; ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* tensor, RequireInput(context, i));
      LAMINA_ASSIGN_OR_RETURN(in[i], ReadNumber(*tensor));
    }
    if (!(in[0] >= 1 && in[0] < 1e6 && in[1] >= 1 && in[1] < 1e9 && in[2] > 0)) {
      return InvalidArgumentError("{} mel bins of a transform of {} at {} Hz", in[0], in[1], in[2]);
    }
    const auto filters = static_cast<int64_t>(in[0]);
    const auto length = static_cast<int64_t>(in[1]);
    const int64_t bins = length / 2 + 1;
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {bins, filters}));
    if (!out) return Status();
    const double low = HertzToMel(in[3]);
    // The standard divides by the number of edges, not of the gaps between them: the last edge lies below the
    // upper frequency.
    const double step = (HertzToMel(in[4]) - low) / static_cast<double>(filters + 2);
    // Edge i of filters + 2, as a bin of the spectrum.
    const auto edge = [&](int64_t i) {
      const double hertz = 700 * (std::pow(10, (low + step * static_cast<double>(i)) / 2595) - 1);
      return static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / in[2]));
    };
    for (int64_t filter = 0; filter < filters; ++filter) {
      const int64_t begin = edge(filter);
      const int64_t centre = edge(filter + 1);
      const int64_t end = edge(filter + 2);
      for (int64_t bin = 0; bin < bins; ++bin) {
        double weight = 0;
        if (begin == centre && bin == centre) {
          weight = 1;
        } else if (bin >= begin && bin <= centre && centre > begin) {
          weight = static_cast<double>(bin - begin) / static_cast<double>(centre - begin);
        } else if (bin > centre && bin < end) {
          weight = static_cast<double>(end - bin) / static_cast<double>(end - centre);
        }
        Store(*out, bin * filters + filter, weight);
      }
    }
    return Status();
  }
};

}  // namespace

void RegisterSignalWindowKernels(KernelRegistry& registry) {
  for (const char* name : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    registry.Add(KernelDef(name).Since(17).HostInput(0).Input(0, kIndexTypes).Output(0, kNumericTypes),
                 CreateKernel<CosineWindow>);
  }
  registry.Add(KernelDef("MelWeightMatrix").Since(17).Output(0, kNumericTypes),
               CreateKernel<MelWeightMatrix>);
}

}  // namespace lamina
