#include "providers/cpu/image/resize_axis.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lamina {
namespace {

// The cubic convolution kernel of Keys.
double Cubic(double distance, double a) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

int64_t NearestElement(NearestMode mode, double coordinate) {
  switch (mode) {
    case NearestMode::kRoundPreferFloor:
      return static_cast<int64_t>(std::ceil(coordinate - 0.5));
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(coordinate + 0.5));
    case NearestMode::kFloor:
      return static_cast<int64_t>(std::floor(coordinate));
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(coordinate));
  }
  return 0;
}

}  // namespace

Result<CoordinateMode> ParseCoordinateMode(std::string_view name) {
  if (name == "half_pixel") return CoordinateMode::kHalfPixel;
  if (name == "half_pixel_symmetric") return CoordinateMode::kHalfPixelSymmetric;
  if (name == "pytorch_half_pixel") return CoordinateMode::kPytorchHalfPixel;
  if (name == "align_corners") return CoordinateMode::kAlignCorners;
  if (name == "asymmetric") return CoordinateMode::kAsymmetric;
  if (name == "tf_half_pixel_for_nn") return CoordinateMode::kTfHalfPixelForNn;
  if (name == "tf_crop_and_resize") return CoordinateMode::kTfCropAndResize;
  return InvalidModelError("unknown coordinate_transformation_mode '{}'", name);
}

Result<ResizeMode> ParseResizeMode(std::string_view name) {
  if (name == "nearest") return ResizeMode::kNearest;
  if (name == "linear" || name == "bilinear") return ResizeMode::kLinear;
  if (name == "cubic") return ResizeMode::kCubic;
  return InvalidModelError("unknown mode '{}'", name);
}

Result<NearestMode> ParseNearestMode(std::string_view name) {
  if (name == "round_prefer_floor" || name.empty()) return NearestMode::kRoundPreferFloor;
  if (name == "round_prefer_ceil") return NearestMode::kRoundPreferCeil;
  if (name == "floor" || name == "simple") return NearestMode::kFloor;
  if (name == "ceil") return NearestMode::kCeil;
  return InvalidModelError("unknown nearest_mode '{}'", name);
}

double ResizeAxis::Coordinate(const ResizeFilter& filter, int64_t x) const {
  const double position = static_cast<double>(x);
  const double in = static_cast<double>(input);
  const double out = static_cast<double>(output);
  switch (filter.coordinates) {
    case CoordinateMode::kHalfPixel:
      return (position + 0.5) / scale - 0.5;
    case CoordinateMode::kHalfPixelSymmetric: {
      // The output may be a fraction shorter than scale * input: that is cut off at both ends.
      const double adjustment = out / (scale * in);
      return in / 2 * (1 - adjustment) + (position + 0.5) / scale - 0.5;
    }
    case CoordinateMode::kPytorchHalfPixel:
      return output > 1 ? (position + 0.5) / scale - 0.5 : 0;
    case CoordinateMode::kAlignCorners: {
      const double length = scale * in;  // before rounding down
      return length > 1 ? position * (in - 1) / (length - 1) : 0;
    }
    case CoordinateMode::kAsymmetric:
      return position / scale;
    case CoordinateMode::kTfHalfPixelForNn:
      return (position + 0.5) / scale;
    case CoordinateMode::kTfCropAndResize:
      return output > 1 ? roi_start * (in - 1) + position * (roi_end - roi_start) * (in - 1) / (out - 1)
                        : 0.5 * (roi_start + roi_end) * (in - 1);
  }
  return 0;
}

ResizeSample ResizeAxis::Sample(const ResizeFilter& filter, int64_t x) const {
  ResizeSample sample;
  // Far outside of the input every coordinate reads the border.
  const double in = static_cast<double>(input);
  const double coordinate = std::clamp(Coordinate(filter, x), -in - 8, 2 * in + 8);
  sample.outside =
      filter.coordinates == CoordinateMode::kTfCropAndResize && (coordinate < 0 || coordinate > in - 1);
  if (filter.mode == ResizeMode::kNearest) {
    sample.first = NearestElement(filter.nearest, coordinate);
    return sample;
  }
  const double base = std::ceil(coordinate) - 1;
  sample.base_offset = coordinate - base;
  const double shrink = filter.antialias ? std::min(scale, 1.0) : 1.0;
  const double support = filter.mode == ResizeMode::kLinear ? 1 : 2;
  const auto start = static_cast<int64_t>(std::floor(-support / shrink)) + 1;
  sample.first = static_cast<int64_t>(base) + start;
  sample.count = 2 - 2 * start;
  double total = 0;
  for (int64_t k = 0; k < sample.count; ++k) total += RawWeight(filter, sample, k);
  sample.norm = total;
  return sample;
}

double ResizeAxis::RawWeight(const ResizeFilter& filter, const ResizeSample& sample, int64_t k) const {
  if (filter.exclude_outside && (sample.first + k < 0 || sample.first + k >= input)) return 0;
  const int64_t start = 1 - sample.count / 2;
  const double shrink = filter.antialias ? std::min(scale, 1.0) : 1.0;
  const double distance = (static_cast<double>(start + k) - sample.base_offset) * shrink;
  return filter.mode == ResizeMode::kLinear ? std::max(0.0, 1 - std::abs(distance))
                                            : Cubic(distance, filter.cubic_a);
}

double ResizeAxis::Weight(const ResizeFilter& filter, const ResizeSample& sample, int64_t k) const {
  return filter.mode == ResizeMode::kNearest ? 1 : RawWeight(filter, sample, k) / sample.norm;
}

}  // namespace lamina
