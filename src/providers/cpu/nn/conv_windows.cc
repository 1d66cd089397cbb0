#include "providers/cpu/nn/conv_windows.h"

#include <cstring>

#include "base/element_type.h"
#include "base/half.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

// target[c] = line[first + c * stride] for `count` columns, zero outside the line of `width` elements.
template <typename T>
void FillColumns(const T* line, int64_t width, int64_t first, int64_t stride, int64_t count, float* target) {
  const int64_t begin = first >= 0 ? 0 : std::min(count, (-first + stride - 1) / stride);
  const int64_t end =
      first + (count - 1) * stride < width
          ? count
          : std::clamp<int64_t>(first >= width ? 0 : (width - first + stride - 1) / stride, begin, count);
  for (int64_t c = 0; c < begin; ++c) target[c] = 0.0f;
  if (stride == 1) {
    if constexpr (std::is_same_v<T, float>) {
      std::memcpy(target + begin, line + first + begin, static_cast<size_t>(end - begin) * sizeof(float));
    } else {
      ConvertToFloat(DataTypeOf<T>, line + first + begin, target + begin, end - begin);
    }
  } else {
    for (int64_t c = begin; c < end; ++c) target[c] = static_cast<float>(line[first + c * stride]);
  }
  for (int64_t c = end; c < count; ++c) target[c] = 0.0f;
}

template <typename T>
void FillPanel(const WindowGeometry& window, const T* x, const WindowPanel& panel, float* buffer) {
  const int last = window.rank - 1;
  const int64_t out_width = window.output[last];
  const int64_t in_width = window.input[last];
  const int64_t taps_x = window.kernel[last];
  const int64_t outer_taps = window.kernel_size() / taps_x;
  const int64_t plane = window.input_size();
  const int64_t stride = window.strides[last];

  // Columns in runs that lie in one output row: few, unless rows are short.
  int64_t done = 0;
  while (done < panel.columns) {
    const int64_t out_row = (panel.column + done) / out_width;
    const int64_t out_x = (panel.column + done) % out_width;
    const int64_t count = std::min(panel.columns - done, out_width - out_x);
    float* target = buffer + done;
    int64_t tap_x = panel.row % taps_x;
    int64_t outer_tap = panel.row / taps_x % outer_taps;
    const T* channel = x + panel.row / taps_x / outer_taps * plane;
    for (int64_t row = 0; row < panel.rows;) {
      const int64_t line = WindowLine(window, out_row, outer_tap);
      for (; tap_x < taps_x && row < panel.rows; ++tap_x, ++row, target += panel.ld) {
        if (line < 0) {
          std::fill_n(target, count, 0.0f);
        } else {
          const int64_t first = out_x * stride - window.pads_begin[last] + tap_x * window.dilations[last];
          FillColumns(channel + line * in_width, in_width, first, stride, count, target);
        }
      }
      tap_x = 0;
      if (++outer_tap == outer_taps) {
        outer_tap = 0;
        channel += plane;
      }
    }
    done += count;
  }
  for (int64_t i = 0; i < panel.rows && panel.columns < panel.width; ++i) {
    std::fill_n(buffer + i * panel.ld + panel.columns, panel.width - panel.columns, 0.0f);
  }
}

template <typename T>
void AccumulateRow(const WindowGeometry& window, const T* plane, int64_t row, int64_t first, int64_t count,
                   const float* weights, float* sums) {
  const int last = window.rank - 1;
  const int64_t in_width = window.input[last];
  const int64_t taps_x = window.kernel[last];
  const int64_t stride = window.strides[last];
  const int64_t kernel = window.kernel_size();
  for (int64_t outer_tap = 0; outer_tap < kernel / taps_x; ++outer_tap) {
    const int64_t line = WindowLine(window, row, outer_tap);
    if (line < 0) continue;
    const T* source = plane + line * in_width;
    for (int64_t tap_x = 0; tap_x < taps_x; ++tap_x) {
      const float weight = weights[outer_tap * taps_x + tap_x];
      const int64_t offset = first * stride - window.pads_begin[last] + tap_x * window.dilations[last];
      const int64_t begin = std::clamp<int64_t>(offset >= 0 ? 0 : (-offset + stride - 1) / stride, 0, count);
      const int64_t end = std::clamp<int64_t>(
          offset >= in_width ? 0 : (in_width - offset + stride - 1) / stride, begin, count);
      if (stride == 1) {
        for (int64_t i = begin; i < end; ++i) sums[i] += weight * source[offset + i];
      } else {
        for (int64_t i = begin; i < end; ++i) sums[i] += weight * source[offset + i * stride];
      }
    }
  }
}

}  // namespace

int64_t WindowLine(const WindowGeometry& window, int64_t row, int64_t tap) {
  const int last = window.rank - 1;
  if (last == 1) {
    const int64_t place = row * window.strides[0] - window.pads_begin[0] + tap * window.dilations[0];
    return place >= 0 && place < window.input[0] ? place : -1;
  }
  int64_t line = 0;
  int64_t line_stride = 1;
  for (int axis = last - 1; axis >= 0; --axis) {
    const int64_t place = row % window.output[axis] * window.strides[axis] - window.pads_begin[axis] +
                          tap % window.kernel[axis] * window.dilations[axis];
    if (place < 0 || place >= window.input[axis]) return -1;
    row /= window.output[axis];
    tap /= window.kernel[axis];
    line += place * line_stride;
    line_stride *= window.input[axis];
  }
  return line;
}

bool IsPointwise(const WindowGeometry& window) {
  bool pointwise = true;
  for (int axis = 0; axis < window.rank; ++axis) {
    pointwise &= window.kernel[axis] == 1 && window.strides[axis] == 1 && window.pads_begin[axis] == 0 &&
                 window.output[axis] == window.input[axis];
  }
  return pointwise;
}

WindowGeometry Flattened(const WindowGeometry& window) {
  WindowGeometry flat;
  flat.rank = 1;
  flat.input = flat.output = IntList(1, window.input_size());
  flat.kernel = flat.strides = flat.dilations = IntList(1, 1);
  flat.pads_begin = flat.pads_end = IntList(1, 0);
  return flat;
}

int64_t WindowTap(const WindowGeometry& window, int64_t position, int64_t tap) {
  int64_t place = 0;
  int64_t plane_stride = 1;
  for (int axis = window.rank - 1; axis >= 0; --axis) {
    const int64_t at = position % window.output[axis] * window.strides[axis] - window.pads_begin[axis] +
                       tap % window.kernel[axis] * window.dilations[axis];
    if (at < 0 || at >= window.input[axis]) return -1;
    position /= window.output[axis];
    tap /= window.kernel[axis];
    place += at * plane_stride;
    plane_stride *= window.input[axis];
  }
  return place;
}

void FillWindowPanel(const WindowGeometry& window, DataType type, const void* x, const WindowPanel& panel,
                     float* buffer) {
  if (type == DataType::kFloat) {
    FillPanel(window, static_cast<const float*>(x), panel, buffer);
  } else if (type == DataType::kFloat16) {
    FillPanel(window, static_cast<const Float16*>(x), panel, buffer);
  } else {
    FillPanel(window, static_cast<const Bfloat16*>(x), panel, buffer);
  }
}

void WindowLines(const WindowGeometry& window, int64_t row, const float* plane, const float** lines) {
  const int last = window.rank - 1;
  for (int64_t tap = 0; tap < window.kernel_size() / window.kernel[last]; ++tap) {
    const int64_t line = WindowLine(window, row, tap);
    lines[tap] = line < 0 ? nullptr : plane + line * window.input[last];
  }
}

void AccumulateWindowRow(const WindowGeometry& window, DataType type, const void* plane, int64_t row,
                         int64_t first, int64_t count, const float* weights, float* sums) {
  if (type == DataType::kFloat) {
    AccumulateRow(window, static_cast<const float*>(plane), row, first, count, weights, sums);
  } else if (type == DataType::kFloat16) {
    AccumulateRow(window, static_cast<const Float16*>(plane), row, first, count, weights, sums);
  } else {
    AccumulateRow(window, static_cast<const Bfloat16*>(plane), row, first, count, weights, sums);
  }
}

}  // namespace lamina
