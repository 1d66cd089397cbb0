// RoiAlign and MaxRoiPool.
#include <cmath>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Averages or takes the largest of bilinear samples inside the bins of each region.
class RoiAlign : public Kernel {
 public:
  explicit RoiAlign(const NodeInfo& node)
      : max_(node.String("mode", "avg") == "max"),
        half_pixel_(node.String("coordinate_transformation_mode",
                                node.opset_version() < 16 ? "output_half_pixel" : "half_pixel") ==
                    "half_pixel"),
        height_(node.Int("output_height", 1)),
        width_(node.Int("output_width", 1)),
        sampling_ratio_(node.Int("sampling_ratio", 0)),
        scale_(node.Float("spatial_scale", 1)) {}
  static Status Validate(const NodeInfo& node) {
    const std::string_view mode = node.String("mode", "avg");
    if (mode != "avg" && mode != "max") return InvalidModelError("unknown mode '{}'", mode);
    if (node.Int("output_height", 1) < 1 || node.Int("output_width", 1) < 1 ||
        node.Int("sampling_ratio", 0) < 0) {
      return InvalidModelError("sizes must be positive");
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* rois, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* batches, RequireInput(context, 2));
    const Shape& shape = x->shape();
    const int64_t count = batches->num_elements();
    if (shape.rank() != 4 || rois->num_elements() != 4 * count || rois->type() != x->type()) {
      return InvalidArgumentError("regions {} and {} batch indices do not fit {}", rois->shape().ToString(),
                                  count, shape.ToString());
    }
    for (const int64_t batch : batches->elements<int64_t>()) {
      if (batch < 0 || batch >= shape[0])
        return InvalidArgumentError("batch index {} of {}", batch, shape[0]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {count, shape[1], height_, width_}));
    if (!y) return Status();
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      context.threads().ParallelFor(
          count * shape[1], GrainOf(64 * height_ * width_), [&](int64_t begin, int64_t end, int) {
            for (int64_t plane = begin; plane < end; ++plane) {
              const int64_t roi = plane / shape[1];
              const int64_t image = batches->data<int64_t>()[roi] * shape[1] + plane % shape[1];
              AlignPlane<T>(x->data<T>() + image * shape[2] * shape[3], shape[2], shape[3],
                            rois->data<T>() + 4 * roi, y->mutable_data<T>() + plane * height_ * width_);
            }
          });
    });
    return Status();
  }

 private:
  template <typename T>
  void AlignPlane(const T* image, int64_t rows, int64_t columns, const T* roi, T* y) const {
    const double offset = half_pixel_ ? 0.5 : 0;
    const auto corner = [&](int i) {
      return static_cast<double>(static_cast<ComputeType<T>>(roi[i])) * scale_ - offset;
    };
    const double left = corner(0);
    const double top = corner(1);
    double width = corner(2) - left;
    double height = corner(3) - top;
    if (!half_pixel_) {  // as the first version had it
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const double bin_width = width / static_cast<double>(width_);
    const double bin_height = height / static_cast<double>(height_);
    const auto samples = [&](double bin) {
      return sampling_ratio_ > 0 ? sampling_ratio_
                                 : std::clamp<int64_t>(static_cast<int64_t>(std::ceil(bin)), 1, 4096);
    };
    const int64_t samples_x = samples(bin_width);
    const int64_t samples_y = samples(bin_height);
    for (int64_t bin = 0; bin < height_ * width_; ++bin) {
      double result = 0;
      for (int64_t i = 0; i < samples_x * samples_y; ++i) {
        const double sy =
            top + (static_cast<double>(bin / width_) +
                   (static_cast<double>(i / samples_x) + 0.5) / static_cast<double>(samples_y)) *
                      bin_height;
        const double sx =
            left + (static_cast<double>(bin % width_) +
                    (static_cast<double>(i % samples_x) + 0.5) / static_cast<double>(samples_x)) *
                       bin_width;
        const double sample = max_ ? Bilinear<T, true>(image, rows, columns, sy, sx)
                                   : Bilinear<T, false>(image, rows, columns, sy, sx);
        result = max_ ? (i == 0 ? sample : std::max(result, sample)) : result + sample;
      }
      if (!max_) result /= static_cast<double>(samples_x * samples_y);
      y[bin] = static_cast<T>(static_cast<ComputeType<T>>(result));
    }
  }

  // Interpolates between the four elements around a point; with kLargest takes the largest weighted one.
  template <typename T, bool kLargest>
  static double Bilinear(const T* image, int64_t rows, int64_t columns, double y, double x) {
    if (!(y >= -1 && y <= static_cast<double>(rows) && x >= -1 && x <= static_cast<double>(columns)))
      return 0;
    y = std::clamp(y, 0.0, static_cast<double>(rows - 1));
    x = std::clamp(x, 0.0, static_cast<double>(columns - 1));
    const auto top = static_cast<int64_t>(y);
    const auto left = static_cast<int64_t>(x);
    const int64_t bottom = std::min(top + 1, rows - 1);
    const int64_t right = std::min(left + 1, columns - 1);
    const double fy = y - static_cast<double>(top);
    const double fx = x - static_cast<double>(left);
    const auto at = [&](int64_t row, int64_t column) {
      return static_cast<double>(static_cast<ComputeType<T>>(image[row * columns + column]));
    };
    const double a = (1 - fy) * (1 - fx) * at(top, left);
    const double b = (1 - fy) * fx * at(top, right);
    const double c = fy * (1 - fx) * at(bottom, left);
    const double d = fy * fx * at(bottom, right);
    return kLargest ? std::max(std::max(a, b), std::max(c, d)) : a + b + c + d;
  }

  bool max_;
  bool half_pixel_;
  int64_t height_;
  int64_t width_;
  int64_t sampling_ratio_;
  double scale_;
};

// The largest element of each bin of regions [batch index, x1, y1, x2, y2].
class MaxRoiPool : public Kernel {
 public:
  explicit MaxRoiPool(const NodeInfo& node)
      : pooled_(node.Ints("pooled_shape")), scale_(node.Float("spatial_scale", 1)) {}
  static Status Validate(const NodeInfo& node) {
    const auto pooled = node.Ints("pooled_shape");
    return pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0
               ? Status()
               : InvalidModelError("pooled_shape must be two sizes");
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* rois, RequireInput(context, 1));
    const Shape& shape = x->shape();
    if (shape.rank() != 4 || rois->shape().rank() != 2 || rois->shape()[1] != 5) {
      return InvalidArgumentError("regions {} do not fit {}", rois->shape().ToString(), shape.ToString());
    }
    const int64_t count = rois->shape()[0];
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {count, shape[1], pooled_[0], pooled_[1]}));
    if (!y) return Status();
    Status status;
    DispatchType<float, double>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < y->num_elements() && status.ok(); ++i) {
        const int64_t column = i % pooled_[1];
        const int64_t row = i / pooled_[1] % pooled_[0];
        const int64_t plane = i / pooled_[1] / pooled_[0];
        const T* roi = rois->data<T>() + plane / shape[1] * 5;
        const auto batch = static_cast<int64_t>(roi[0]);
        if (!(roi[0] >= 0) || batch >= shape[0]) {
          status = InvalidArgumentError("batch index {} of {}", static_cast<double>(roi[0]), shape[0]);
          break;
        }
        const auto scaled = [&](int k) {
          return static_cast<int64_t>(
              std::clamp(std::round(static_cast<double>(roi[k]) * scale_), -1e9, 1e9));
        };
        const auto range = [&](int64_t low, int64_t high, int64_t bin, int64_t bins, int64_t extent) {
          const double size =
              static_cast<double>(std::max<int64_t>(1, high - low + 1)) / static_cast<double>(bins);
          const auto first = static_cast<int64_t>(std::floor(static_cast<double>(bin) * size)) + low;
          const auto last = static_cast<int64_t>(std::ceil(static_cast<double>(bin + 1) * size)) + low;
          return std::pair(std::clamp<int64_t>(first, 0, extent), std::clamp<int64_t>(last, 0, extent));
        };
        const auto [top, bottom] = range(scaled(2), scaled(4), row, pooled_[0], shape[2]);
        const auto [left, right] = range(scaled(1), scaled(3), column, pooled_[1], shape[3]);
        const T* image = x->data<T>() + (batch * shape[1] + plane % shape[1]) * shape[2] * shape[3];
        T best = bottom > top && right > left ? image[top * shape[3] + left] : T(0);
        for (int64_t h = top; h < bottom; ++h) {
          for (int64_t w = left; w < right; ++w) best = std::max(best, image[h * shape[3] + w]);
        }
        y->mutable_data<T>()[i] = best;
      }
    });
    return status;
  }

 private:
  IntList pooled_;
  double scale_;
};

}  // namespace

void RegisterRoiKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("RoiAlign")
                   .Since(10)
                   .Input(0, kFloatTypes)
                   .Input(1, kFloatTypes)
                   .Input(2, DataType::kInt64)
                   .Output(0, kFloatTypes),
               CreateKernel<RoiAlign>);
  const TypeSet types{DataType::kFloat, DataType::kDouble};
  registry.Add(KernelDef("MaxRoiPool").Input(0, types).Input(1, types).Output(0, types),
               CreateKernel<MaxRoiPool>);
}

}  // namespace lamina
