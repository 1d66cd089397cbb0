// Softmax and LogSoftmax. From opset 13 on along one axis (default -1); before, over all axes from `axis`
// (default 1) on together.
#include <algorithm>
#include <cmath>
#include <memory>

#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/rows/row_kernels.h"

namespace lamina {
namespace {

void SoftmaxOfDoubles(const double* x, double* y, int64_t count, int64_t stride, bool logarithm) {
  double max = -INFINITY;
  for (int64_t i = 0; i < count; ++i) max = std::fmax(max, x[i * stride]);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i * stride] - max);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < count; ++i) {
    const double shifted = x[i * stride] - max;
    y[i * stride] = logarithm ? shifted - log_sum : std::exp(shifted) / sum;
  }
}

template <bool kLogarithm>
class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(const NodeInfo& node)
      : kernels_(RowKernelsFor(ActiveIsa())),
        joins_axes_(node.opset_version() < 13),
        axis_(static_cast<int>(node.Int("axis", joins_axes_ ? 1 : -1))) {}

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(0);
    const Shape& shape = x.shape();
    const int rank = shape.rank();
    const int axis = axis_ < 0 ? axis_ + rank : axis_;
    // Before opset 13 an axis equal to the rank is a row for each element.
    if (axis < 0 || axis > rank || (axis == rank && !joins_axes_)) {
      return InvalidArgumentError("axis {} is out of range for an input of shape {}", axis_,
                                  shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (y->num_elements() == 0) return Status();
    const int64_t outer = shape.num_elements(0, axis);
    const int64_t count = joins_axes_ ? shape.num_elements(axis, rank) : shape[axis];
    const int64_t inner = joins_axes_ ? 1 : shape.num_elements(axis + 1, rank);
    if (x.type() == DataType::kDouble) {
      ComputeDouble(context.threads(), x.data<double>(), y->mutable_data<double>(), outer, count, inner);
    } else {
      ComputeFloat(context.threads(), x, *y, outer, count, inner);
    }
    return Status();
  }

 private:
  void ComputeFloat(ThreadPool& threads, const Tensor& x, Tensor& y, int64_t outer, int64_t count,
                    int64_t inner) const {
    constexpr int64_t kColumnsOfATask = 64;
    const RowKernels::OfType& kernels = kernels_.For(x.type());
    const int64_t element_bytes = DataTypeBits(x.type()) / 8;
    const char* x_data = static_cast<const char*>(x.raw_data());
    char* y_data = static_cast<char*>(y.mutable_raw_data());
    const int64_t matrix_bytes = count * inner * element_bytes;
    if (inner == 1) {
      threads.ParallelFor(outer, GrainFor(static_cast<double>(count)), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          kernels.softmax(x_data + i * matrix_bytes, y_data + i * matrix_bytes, count, kLogarithm);
        }
      });
      return;
    }
    const int64_t tasks = (inner + kColumnsOfATask - 1) / kColumnsOfATask;
    threads.ParallelFor(outer * tasks, GrainFor(static_cast<double>(count * kColumnsOfATask)),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t offset = i / tasks * matrix_bytes;
                            const int64_t first = i % tasks * kColumnsOfATask;
                            kernels.softmax_columns(x_data + offset, y_data + offset, count, inner, first,
                                                    std::min(first + kColumnsOfATask, inner), kLogarithm);
                          }
                        });
  }

  static void ComputeDouble(ThreadPool& threads, const double* x, double* y, int64_t outer, int64_t count,
                            int64_t inner) {
    threads.ParallelFor(outer * inner, GrainFor(static_cast<double>(count) * 20),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t offset = i / inner * count * inner + i % inner;
                            SoftmaxOfDoubles(x + offset, y + offset, count, inner, kLogarithm);
                          }
                        });
  }

  const RowKernels& kernels_;
  bool joins_axes_;
  int axis_;
};

}  // namespace

void RegisterSoftmax(KernelRegistry& registry) {
  registry.Add(KernelDef("Softmax").Input(0, kFloatTypes).Output(0, kFloatTypes).MayInplace(0, 0),
               CreateKernel<SoftmaxKernel<false>>);
  registry.Add(KernelDef("LogSoftmax").Input(0, kFloatTypes).Output(0, kFloatTypes).MayInplace(0, 0),
               CreateKernel<SoftmaxKernel<true>>);
}

}  // namespace lamina
