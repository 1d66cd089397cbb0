// One axis of a Resize: where an output coordinate lies in the input, and which input elements make it up.
#pragma once

#include <cstdint>
#include <string_view>

#include "lamina/status.h"

namespace lamina {

enum class CoordinateMode : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};
enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

Result<CoordinateMode> ParseCoordinateMode(std::string_view name);
Result<ResizeMode> ParseResizeMode(std::string_view name);
Result<NearestMode> ParseNearestMode(std::string_view name);

struct ResizeFilter {
  ResizeMode mode = ResizeMode::kNearest;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_a = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
};

// The input elements first, first + 1, ... of one output coordinate. Those outside of the axis stand for its
// nearest element, or count for nothing with exclude_outside.
struct ResizeSample {
  int64_t first = 0;
  int64_t count = 1;
  double base_offset = 0;  // coordinate minus the element left of it, in (0, 1]
  double norm = 1;         // sum of the weights
  bool outside = false;    // beyond the input: the extrapolation value (tf_crop_and_resize)
};

struct ResizeAxis {
  int64_t input = 1;
  int64_t output = 1;
  double scale = 1;
  double roi_start = 0;
  double roi_end = 1;

  bool identity(const ResizeFilter& filter) const {
    return input == output && scale == 1 && filter.coordinates != CoordinateMode::kTfCropAndResize;
  }
  // The coordinate of output element `x` in the input.
  double Coordinate(const ResizeFilter& filter, int64_t x) const;
  ResizeSample Sample(const ResizeFilter& filter, int64_t x) const;
  // Weight of element first + k of the sample.
  double Weight(const ResizeFilter& filter, const ResizeSample& sample, int64_t k) const;
  // The element that first + k stands for.
  int64_t Element(const ResizeSample& sample, int64_t k) const {
    const int64_t place = sample.first + k;
    return place < 0 ? 0 : (place >= input ? input - 1 : place);
  }

 private:
  double RawWeight(const ResizeFilter& filter, const ResizeSample& sample, int64_t k) const;
};

}  // namespace lamina
