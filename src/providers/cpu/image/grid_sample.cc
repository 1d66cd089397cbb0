// GridSample and AffineGrid.
#include <cmath>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

enum class Interpolation : uint8_t { kLinear, kNearest, kCubic };
enum class Padding : uint8_t { kZeros, kBorder, kReflection };

Result<Interpolation> ParseInterpolation(std::string_view name) {
  if (name == "bilinear" || name == "linear") return Interpolation::kLinear;
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bicubic" || name == "cubic") return Interpolation::kCubic;
  return InvalidModelError("unknown mode '{}'", name);
}

Result<Padding> ParsePadding(std::string_view name) {
  if (name == "zeros") return Padding::kZeros;
  if (name == "border") return Padding::kBorder;
  if (name == "reflection") return Padding::kReflection;
  return InvalidModelError("unknown padding_mode '{}'", name);
}

// Reflects a coordinate at `low` and `high` until it lies between them.
double Reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  double distance = std::fmod(std::abs(x - low), 2 * range);
  if (distance > range) distance = 2 * range - distance;
  return low + distance;
}

// Samples x [N, C, spatial...] at grid [N, out..., axes], whose coordinates in [-1, 1] count from the last
// axis.
class GridSample : public Kernel {
 public:
  explicit GridSample(const NodeInfo& node)
      : interpolation_(*ParseInterpolation(node.String("mode", "linear"))),
        padding_(*ParsePadding(node.String("padding_mode", "zeros"))),
        align_corners_(node.Int("align_corners", 0) != 0) {}
  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(ParseInterpolation(node.String("mode", "linear")).status());
    return ParsePadding(node.String("padding_mode", "zeros")).status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* grid, RequireInput(context, 1));
    const Shape& shape = x->shape();
    const Shape& grid_shape = grid->shape();
    const int axes = shape.rank() - 2;
    if (axes < 1 || axes > kMaxAxes || grid_shape.rank() != shape.rank() || grid_shape[0] != shape[0] ||
        grid_shape[axes + 1] != axes) {
      return InvalidArgumentError("a grid {} does not fit input {}", grid_shape.ToString(), shape.ToString());
    }
    if (shape.num_elements(2, shape.rank()) == 0) return InvalidArgumentError("the input is empty");
    Shape out_shape{shape[0], shape[1]};
    for (int axis = 0; axis < axes; ++axis) out_shape.Append(grid_shape[axis + 1]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y) return Status();
    const int64_t outputs = out_shape.num_elements(2, out_shape.rank());
    const int64_t inputs = shape.num_elements(2, shape.rank());
    const int64_t channels = shape[1];
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      context.threads().ParallelFor(
          shape[0] * outputs, GrainOf(16 * channels * (1 << (2 * axes))),
          [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              double place[kMaxAxes];
              for (int axis = 0; axis < axes; ++axis) {
                const double coordinate = GridAt(*grid, i * axes + (axes - 1 - axis));
                place[axis] = Denormalize(coordinate, shape[axis + 2]);
              }
              for (int64_t c = 0; c < channels; ++c) {
                const T* plane = x->data<T>() + (i / outputs * channels + c) * inputs;
                const double value = Sample<T>(plane, shape, axes, place);
                y->mutable_data<T>()[(i / outputs * channels + c) * outputs + i % outputs] =
                    static_cast<T>(static_cast<ComputeType<T>>(value));
              }
            }
          });
    });
    return Status();
  }

 private:
  static constexpr int kMaxAxes = 3;

  static double GridAt(const Tensor& grid, int64_t index) {
    if (grid.type() == DataType::kDouble) return grid.data<double>()[index];
    if (grid.type() == DataType::kFloat16) return grid.data<Float16>()[index];
    if (grid.type() == DataType::kBfloat16) return grid.data<Bfloat16>()[index];
    return grid.data<float>()[index];
  }

  double Denormalize(double coordinate, int64_t extent) const {
    const auto size = static_cast<double>(extent);
    return align_corners_ ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
  }

  // The element a coordinate stands for under the padding mode; -1 for zero.
  int64_t Pad(double coordinate, int64_t extent) const {
    const auto size = static_cast<double>(extent);
    if (!(std::abs(coordinate) < 1e15))
      return padding_ == Padding::kZeros ? -1 : 0;  // NaN and what is far off
    if (padding_ == Padding::kReflection) {
      coordinate = align_corners_ ? Reflect(coordinate, 0, size - 1) : Reflect(coordinate, -0.5, size - 0.5);
    }
    if (padding_ != Padding::kZeros) coordinate = std::clamp(coordinate, 0.0, size - 1);
    const auto element = static_cast<int64_t>(std::nearbyint(coordinate));
    return element < 0 || element >= extent ? -1 : element;
  }

  // Weights of the elements around a coordinate.
  struct Taps {
    int count = 1;
    double first = 0;
    double weights[4] = {1, 0, 0, 0};
  };
  Taps TapsAt(double coordinate, int64_t extent) const {
    Taps taps;
    if (interpolation_ == Interpolation::kNearest) {
      taps.first = std::nearbyint(coordinate);
      return taps;
    }
    if (interpolation_ == Interpolation::kLinear) {
      // Coordinates outside are moved in before the interpolation.
      if (padding_ == Padding::kBorder) {
        coordinate = std::clamp(coordinate, 0.0, static_cast<double>(extent) - 1);
      } else if (padding_ == Padding::kReflection) {
        const auto size = static_cast<double>(extent);
        coordinate =
            align_corners_ ? Reflect(coordinate, 0, size - 1) : Reflect(coordinate, -0.5, size - 0.5);
        coordinate = std::clamp(coordinate, 0.0, size - 1);
      }
      taps.count = 2;
      taps.first = std::floor(coordinate);
      taps.weights[1] = coordinate - taps.first;
      taps.weights[0] = 1 - taps.weights[1];
      return taps;
    }
    constexpr double kA = -0.75;
    const double floor = std::floor(coordinate);
    const double t = coordinate - floor;
    taps.count = 4;
    taps.first = floor - 1;
    const auto inner = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
    const auto outer = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
    taps.weights[0] = outer(t + 1);
    taps.weights[1] = inner(t);
    taps.weights[2] = inner(1 - t);
    taps.weights[3] = outer(2 - t);
    return taps;
  }

  template <typename T>
  double Sample(const T* plane, const Shape& shape, int axes, const double* place) const {
    Taps taps[kMaxAxes];
    int combinations = 1;
    for (int axis = 0; axis < axes; ++axis) {
      taps[axis] = TapsAt(place[axis], shape[axis + 2]);
      combinations *= taps[axis].count;
    }
    double sum = 0;
    for (int combination = 0; combination < combinations; ++combination) {
      double weight = 1;
      int64_t offset = 0;
      int rest = combination;
      for (int axis = 0; axis < axes; ++axis) {
        const int tap = rest % taps[axis].count;
        rest /= taps[axis].count;
        const int64_t element = Pad(taps[axis].first + tap, shape[axis + 2]);
        weight = element < 0 ? 0 : weight * taps[axis].weights[tap];
        offset = offset * shape[axis + 2] + std::max<int64_t>(0, element);
      }
      if (weight != 0) sum += weight * static_cast<double>(static_cast<ComputeType<T>>(plane[offset]));
    }
    return sum;
  }

  Interpolation interpolation_;
  Padding padding_;
  bool align_corners_;
};

// theta [N, 2, 3] or [N, 3, 4] applied to the regular grid over an image of `size` [N, C, (D,) H, W].
class AffineGrid : public Kernel {
 public:
  explicit AffineGrid(const NodeInfo& node) : align_corners_(node.Int("align_corners", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* theta, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* size_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const IntList size, ReadInts(*size_input));
    const int axes = size.size() - 2;
    const Shape& shape = theta->shape();
    if ((axes != 2 && axes != 3) || shape.rank() != 3 || shape[0] != size[0] || shape[1] != axes ||
        shape[2] != axes + 1) {
      return InvalidArgumentError("theta {} does not fit {} spatial axes", shape.ToString(), axes);
    }
    Shape out_shape{size[0]};
    for (int axis = 0; axis < axes; ++axis) out_shape.Append(size[axis + 2]);
    const int64_t positions = out_shape.num_elements(1, out_shape.rank());
    out_shape.Append(axes);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    DispatchType<float, double, Float16, Bfloat16>(theta->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < size[0] * positions; ++i) {
        double point[4] = {};  // last axis first, then 1
        int64_t rest = i % positions;
        for (int axis = axes - 1; axis >= 0; --axis) {
          const int64_t extent = size[axis + 2];
          const auto at = static_cast<double>(rest % extent);
          rest /= extent;
          const auto count = static_cast<double>(extent);
          point[axes - 1 - axis] =
              align_corners_ ? (extent == 1 ? 0 : 2 * at / (count - 1) - 1) : (2 * at + 1) / count - 1;
        }
        point[axes] = 1;
        const T* rows = theta->data<T>() + i / positions * axes * (axes + 1);
        for (int row = 0; row < axes; ++row) {
          double sum = 0;
          for (int k = 0; k <= axes; ++k) {
            sum += static_cast<double>(static_cast<ComputeType<T>>(rows[row * (axes + 1) + k])) * point[k];
          }
          out->mutable_data<T>()[i * axes + row] = static_cast<T>(static_cast<ComputeType<T>>(sum));
        }
      }
    });
    return Status();
  }

 private:
  bool align_corners_;
};

}  // namespace

void RegisterGridSampleKernels(KernelRegistry& registry) {
  registry.Add(
      KernelDef("GridSample").Since(16).Input(0, kFloatTypes).Input(1, kFloatTypes).Output(0, kFloatTypes),
      CreateKernel<GridSample>);
  registry.Add(KernelDef("AffineGrid").Since(20).Input(0, kFloatTypes).HostInput(1).Output(0, kFloatTypes),
               CreateKernel<AffineGrid>);
}

}  // namespace lamina
