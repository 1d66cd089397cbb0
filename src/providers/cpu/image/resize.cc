// Resize and Upsample. Interpolation is separable: an output element is a sum over the samples of every
// resized axis. Samples of the last axis are computed once for a tile of columns and used for many rows.
#include <cmath>

#include "providers/cpu/image/resize_axis.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

enum class AspectPolicy : uint8_t { kStretch, kNotLarger, kNotSmaller };

using ResizeAxes = std::array<ResizeAxis, Shape::kMaxRank>;

// Taps of the last axis for some columns: element and weight of each.
struct ColumnTile {
  static constexpr int64_t kMaxTaps = 2048;
  std::array<int64_t, kMaxTaps> elements;
  std::array<float, kMaxTaps> weights;
  std::array<bool, kMaxTaps> outside;  // by column
  int64_t taps = 1;                    // of a column
  int64_t columns = 0;
};

// One Resize of one tensor.
class Resizer {
 public:
  Resizer(const ResizeFilter& filter, const ResizeAxes& axes, int rank, float extrapolation)
      : filter_(filter), axes_(axes), rank_(rank), extrapolation_(extrapolation) {}

  template <typename T>
  Status Run(ThreadPool& threads, const T* x, T* y) const {
    const ResizeAxis& last = axes_[static_cast<size_t>(rank_ - 1)];
    const int64_t width = last.output;
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < rank_; ++axis) rows *= axes_[static_cast<size_t>(axis)].output;
    if (rows == 0 || width == 0) return Status();
    const bool copy_columns = last.identity(filter_);
    const int64_t taps = copy_columns ? 1 : last.Sample(filter_, 0).count;
    if (taps > ColumnTile::kMaxTaps) {
      return UnsupportedError("a reduction of an axis from {} to {} elements with antialias", last.input,
                              width);
    }
    const int64_t tile_columns = std::max<int64_t>(1, ColumnTile::kMaxTaps / taps);
    threads.ParallelFor(rows, GrainOf(8 * width * taps), [&](int64_t begin, int64_t end, int) {
      ColumnTile tile;
      tile.taps = taps;
      for (int64_t first = 0; first < width; first += tile_columns) {
        tile.columns = std::min(tile_columns, width - first);
        for (int64_t c = 0; c < tile.columns; ++c) {
          ResizeSample sample;
          sample.first = first + c;
          if (!copy_columns) sample = last.Sample(filter_, first + c);
          tile.outside[static_cast<size_t>(c)] = sample.outside;
          for (int64_t k = 0; k < taps; ++k) {
            const auto at = static_cast<size_t>(c * taps + k);
            tile.elements[at] = last.Element(sample, k);
            tile.weights[at] = copy_columns ? 1.0f : static_cast<float>(last.Weight(filter_, sample, k));
          }
        }
        for (int64_t row = begin; row < end; ++row) RunRow(tile, x, row, y + row * width + first);
      }
    });
    return Status();
  }

 private:
  template <typename T>
  void RunRow(const ColumnTile& tile, const T* x, int64_t row, T* y) const {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::array<ResizeSample, Shape::kMaxRank> samples;
    bool outside = false;
    int64_t rest = row;
    int64_t combinations = 1;
    for (int axis = rank_ - 2; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      const int64_t position = rest % axes_[a].output;
      rest /= axes_[a].output;
      if (axes_[a].identity(filter_)) {
        samples[a] = ResizeSample();
        samples[a].first = position;
      } else {
        samples[a] = axes_[a].Sample(filter_, position);
      }
      outside |= samples[a].outside;
      combinations *= samples[a].count;
    }
    if (filter_.mode == ResizeMode::kNearest) {
      const T* line = x + Line(samples, 0, nullptr) * axes_[static_cast<size_t>(rank_ - 1)].input;
      for (int64_t c = 0; c < tile.columns; ++c) {
        y[c] = outside || tile.outside[static_cast<size_t>(c)] ? Extrapolated<T>()
                                                               : line[tile.elements[static_cast<size_t>(c)]];
      }
      return;
    }
    if (outside) {
      std::fill_n(y, tile.columns, Extrapolated<T>());
      return;
    }
    C sums[ColumnTile::kMaxTaps];
    std::fill_n(sums, tile.columns, C(0));
    for (int64_t combination = 0; combination < combinations; ++combination) {
      double weight = 1;
      const T* line = x + Line(samples, combination, &weight) * axes_[static_cast<size_t>(rank_ - 1)].input;
      if (weight == 0) continue;
      const C line_weight = static_cast<C>(weight);
      for (int64_t c = 0; c < tile.columns; ++c) {
        C total = 0;
        for (int64_t k = 0; k < tile.taps; ++k) {
          const auto at = static_cast<size_t>(c * tile.taps + k);
          total += static_cast<C>(tile.weights[at]) * static_cast<C>(line[tile.elements[at]]);
        }
        sums[c] += line_weight * total;
      }
    }
    for (int64_t c = 0; c < tile.columns; ++c) {
      if (tile.outside[static_cast<size_t>(c)]) {
        y[c] = Extrapolated<T>();
      } else if constexpr (kIsHalf<T>) {
        y[c] = T(sums[c]);
      } else {
        y[c] = ConvertNumber<T>(sums[c]);
      }
    }
  }

  // The line of the input for one combination of the outer axes' samples, and the product of their weights.
  int64_t Line(const std::array<ResizeSample, Shape::kMaxRank>& samples, int64_t combination,
               double* weight) const {
    int64_t line = 0;
    int64_t stride = 1;
    for (int axis = rank_ - 2; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      const int64_t k = combination % samples[a].count;
      combination /= samples[a].count;
      line += axes_[a].Element(samples[a], k) * stride;
      stride *= axes_[a].input;
      if (weight && samples[a].count > 1) *weight *= axes_[a].Weight(filter_, samples[a], k);
    }
    return line;
  }

  template <typename T>
  T Extrapolated() const {
    if constexpr (kIsHalf<T>) {
      return T(extrapolation_);
    } else {
      return ConvertNumber<T>(extrapolation_);
    }
  }

  const ResizeFilter& filter_;
  const ResizeAxes& axes_;
  int rank_;
  float extrapolation_;
};

class Resize : public Kernel {
 public:
  explicit Resize(const NodeInfo& node)
      : scales_input_(node.op_type() == "Upsample" || node.opset_version() < 11 ? 1 : 2),
        axes_(node.Ints("axes")),
        extrapolation_(node.Float("extrapolation_value", 0)),
        policy_(*ParsePolicy(node.String("keep_aspect_ratio_policy", "stretch"))) {
    filter_.mode = *ParseResizeMode(node.String("mode", "nearest"));
    filter_.cubic_a = node.Float("cubic_coeff_a", -0.75f);
    filter_.exclude_outside = node.Int("exclude_outside", 0) != 0;
    filter_.antialias = node.Int("antialias", 0) != 0;
    if (scales_input_ == 1) {  // Upsample and the first Resize
      filter_.coordinates = CoordinateMode::kAsymmetric;
      filter_.nearest = NearestMode::kFloor;
    } else {
      filter_.coordinates = *ParseCoordinateMode(node.String("coordinate_transformation_mode", "half_pixel"));
      filter_.nearest = *ParseNearestMode(node.String("nearest_mode", "round_prefer_floor"));
    }
    const auto scales = node.Floats("scales");
    attribute_scales_.assign(scales.begin(), scales.end());
  }
  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(ParseResizeMode(node.String("mode", "nearest")).status());
    LAMINA_RETURN_IF_ERROR(
        ParseCoordinateMode(node.String("coordinate_transformation_mode", "half_pixel")).status());
    LAMINA_RETURN_IF_ERROR(ParseNearestMode(node.String("nearest_mode", "round_prefer_floor")).status());
    LAMINA_RETURN_IF_ERROR(ParsePolicy(node.String("keep_aspect_ratio_policy", "stretch")).status());
    return IntsAttribute(node, "axes").status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    ResizeAxes axes;
    Shape out_shape;
    LAMINA_RETURN_IF_ERROR(ResolveAxes(context, x->shape(), &axes, &out_shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    if (x->num_elements() == 0) return InvalidArgumentError("an empty input cannot be resized");
    if (out_shape.rank() == 0) {
      CopyElements(x->type(), x->raw_data(), y->mutable_raw_data(), 1);
      return Status();
    }
    const Resizer resizer(filter_, axes, out_shape.rank(), extrapolation_);
    Status status;
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t>(
        x->type(), [&](auto tag) {
          using T = typename decltype(tag)::type;
          status = resizer.Run(context.threads(), x->data<T>(), y->mutable_data<T>());
        });
    return status;
  }

 private:
  static Result<AspectPolicy> ParsePolicy(std::string_view name) {
    if (name == "stretch") return AspectPolicy::kStretch;
    if (name == "not_larger") return AspectPolicy::kNotLarger;
    if (name == "not_smaller") return AspectPolicy::kNotSmaller;
    return InvalidModelError("unknown keep_aspect_ratio_policy '{}'", name);
  }

  Status ResolveAxes(const KernelContext& context, const Shape& shape, ResizeAxes* axes,
                     Shape* out_shape) const {
    IntList named = axes_;
    if (named.empty()) {
      for (int axis = 0; axis < shape.rank(); ++axis) named.Append(axis);
    }
    LAMINA_RETURN_IF_ERROR(AxisMask(named.span(), shape.rank()).status());
    for (int axis = 0; axis < shape.rank(); ++axis) {
      auto& resized = (*axes)[static_cast<size_t>(axis)];
      resized = ResizeAxis();
      resized.input = resized.output = shape[axis];
    }
    const auto axis_at = [&](int i) -> ResizeAxis& {
      return (*axes)[static_cast<size_t>(named[i] < 0 ? named[i] + shape.rank() : named[i])];
    };
    const int count = named.size();
    if (filter_.coordinates == CoordinateMode::kTfCropAndResize) {
      const Tensor* roi = context.Input(1);
      if (!roi || roi->num_elements() != 2 * count || !kFloatTypes.Contains(roi->type())) {
        return InvalidArgumentError("tf_crop_and_resize needs a roi of {} values", 2 * count);
      }
      for (int i = 0; i < count; ++i) {
        axis_at(i).roi_start = NumberAt(*roi, i);
        axis_at(i).roi_end = NumberAt(*roi, count + i);
      }
    }
    const Tensor* scales = attribute_scales_.empty() ? context.Input(scales_input_) : nullptr;
    const Tensor* sizes = scales_input_ == 2 ? context.Input(3) : nullptr;
    const bool has_scales = !attribute_scales_.empty() || (scales && scales->num_elements() > 0);
    if (has_scales) {
      const int64_t given = scales ? scales->num_elements() : static_cast<int64_t>(attribute_scales_.size());
      if (given != count || (scales && scales->type() != DataType::kFloat)) {
        return InvalidArgumentError("{} scales for {} axes", given, count);
      }
      for (int i = 0; i < count; ++i) {
        const double scale = scales ? scales->data<float>()[i] : attribute_scales_[static_cast<size_t>(i)];
        ResizeAxis& axis = axis_at(i);
        const double output = std::floor(static_cast<double>(axis.input) * scale);
        if (!(scale > 0) || output > 1e15) return InvalidArgumentError("a scale of {}", scale);
        axis.scale = scale;
        axis.output = static_cast<int64_t>(output);
      }
    } else if (sizes) {
      LAMINA_ASSIGN_OR_RETURN(const IntList wanted, ReadInts(*sizes));
      if (wanted.size() != count) return InvalidArgumentError("{} sizes for {} axes", wanted.size(), count);
      double common = 0;
      for (int i = 0; i < count; ++i) {
        ResizeAxis& axis = axis_at(i);
        if (wanted[i] < 0 || axis.input < 1) return InvalidArgumentError("a size of {}", wanted[i]);
        axis.output = wanted[i];
        axis.scale = static_cast<double>(wanted[i]) / static_cast<double>(axis.input);
        const bool takes =
            i == 0 || (policy_ == AspectPolicy::kNotLarger ? axis.scale < common : axis.scale > common);
        if (takes) common = axis.scale;
      }
      for (int i = 0; policy_ != AspectPolicy::kStretch && i < count; ++i) {
        ResizeAxis& axis = axis_at(i);
        axis.scale = common;
        axis.output = static_cast<int64_t>(std::floor(common * static_cast<double>(axis.input) + 0.5));
      }
    } else {
      return InvalidArgumentError("neither scales nor sizes are given");
    }
    for (int axis = 0; axis < shape.rank(); ++axis)
      out_shape->Append((*axes)[static_cast<size_t>(axis)].output);
    return Status();
  }

  static double NumberAt(const Tensor& tensor, int64_t index) {
    if (tensor.type() == DataType::kDouble) return tensor.data<double>()[index];
    float value = 0;
    ReadFloats(tensor.type(), tensor.raw_data(), index, 1, &value);
    return value;
  }

  ResizeFilter filter_;
  int scales_input_;
  IntList axes_;
  std::vector<float> attribute_scales_;  // Upsample before opset 9
  float extrapolation_;
  AspectPolicy policy_;
};

}  // namespace

void RegisterResizeKernels(KernelRegistry& registry) {
  const TypeSet types = kFloatTypes | kSignedIntTypes | TypeSet{DataType::kUint8, DataType::kUint16};
  registry.Add(KernelDef("Upsample").Since(7).Input(0, types).Output(0, types).HostInput(1),
               CreateKernel<Resize>);
  registry.Add(
      KernelDef("Resize").Since(10).Input(0, types).Output(0, types).HostInput(1).HostInput(2).HostInput(3),
      CreateKernel<Resize>);
}

}  // namespace lamina
