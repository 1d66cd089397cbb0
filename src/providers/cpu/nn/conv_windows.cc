#include "providers/cpu/nn/conv_windows.h"

#include <cstring>

#include "base/half.h"

namespace lamina {
namespace {

constexpr int64_t kMaxColumns = 64;

template <typename T>
void FillPanel(const WindowGeometry& window, const T* x, const WindowPanel& panel, float* buffer) {
  const int last = window.rank - 1;
  const int64_t out_width = window.output[last];
  const int64_t in_width = window.input[last];
  const int64_t kernel = window.kernel_size();
  const int64_t plane = window.input_size();
  const int64_t stride = window.strides[last];

  // Runs of columns that lie in one output row: where each begins, and its outer output coordinates.
  struct Run {
    int64_t first_column;
    int64_t count;
    int64_t out_x;
    IntList outer;
  };
  // Panels are narrow: few runs, unless rows are.
  int64_t done = 0;
  while (done < panel.columns) {
    Run run;
    run.first_column = done;
    const int64_t position = panel.column + done;
    run.out_x = position % out_width;
    run.count = std::min(panel.columns - done, out_width - run.out_x);
    run.outer = IntList(last, 0);
    int64_t rest = position / out_width;
    for (int axis = last - 1; axis >= 0; --axis) {
      run.outer[axis] = rest % window.output[axis];
      rest /= window.output[axis];
    }
    for (int64_t i = 0; i < panel.rows; ++i) {
      const int64_t row = panel.row + i;
      float* target = buffer + i * panel.width + run.first_column;
      int64_t tap = row % kernel;
      const int64_t tap_x = tap % window.kernel[last];
      tap /= window.kernel[last];
      int64_t line = 0;  // of the input
      int64_t line_stride = 1;
      bool inside = true;
      for (int axis = last - 1; axis >= 0; --axis) {
        const int64_t place = run.outer[axis] * window.strides[axis] - window.pads_begin[axis] +
                              tap % window.kernel[axis] * window.dilations[axis];
        tap /= window.kernel[axis];
        inside &= place >= 0 && place < window.input[axis];
        line += place * line_stride;
        line_stride *= window.input[axis];
      }
      if (!inside) {
        std::fill_n(target, run.count, 0.0f);
        continue;
      }
      const T* source = x + row / kernel * plane + line * in_width;
      // Output column c reads input column first + c * stride.
      const int64_t first = run.out_x * stride - window.pads_begin[last] + tap_x * window.dilations[last];
      const int64_t begin =
          std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, run.count);
      const int64_t end = std::clamp<int64_t>(
          first >= in_width ? 0 : (in_width - first + stride - 1) / stride, begin, run.count);
      std::fill_n(target, begin, 0.0f);
      if constexpr (std::is_same_v<T, float>) {
        if (stride == 1) {
          std::memcpy(target + begin, source + first + begin,
                      static_cast<size_t>(end - begin) * sizeof(float));
        } else {
          for (int64_t c = begin; c < end; ++c) target[c] = source[first + c * stride];
        }
      } else {
        for (int64_t c = begin; c < end; ++c) target[c] = source[first + c * stride];
      }
      std::fill_n(target + end, run.count - end, 0.0f);
    }
    done += run.count;
  }
  for (int64_t i = 0; i < panel.rows && panel.columns < panel.width; ++i) {
    std::fill_n(buffer + i * panel.width + panel.columns, panel.width - panel.columns, 0.0f);
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
    int64_t line = 0;
    int64_t line_stride = 1;
    bool inside = true;
    int64_t tap = outer_tap;
    int64_t rest = row;
    for (int axis = last - 1; axis >= 0; --axis) {
      const int64_t place = rest % window.output[axis] * window.strides[axis] - window.pads_begin[axis] +
                            tap % window.kernel[axis] * window.dilations[axis];
      rest /= window.output[axis];
      tap /= window.kernel[axis];
      inside &= place >= 0 && place < window.input[axis];
      line += place * line_stride;
      line_stride *= window.input[axis];
    }
    if (!inside) continue;
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

bool IsPointwise(const WindowGeometry& window) {
  bool pointwise = true;
  for (int axis = 0; axis < window.rank; ++axis) {
    pointwise &= window.kernel[axis] == 1 && window.strides[axis] == 1 && window.pads_begin[axis] == 0 &&
                 window.output[axis] == window.input[axis];
  }
  return pointwise;
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
  assert(panel.columns <= kMaxColumns);
  if (type == DataType::kFloat) {
    FillPanel(window, static_cast<const float*>(x), panel, buffer);
  } else if (type == DataType::kFloat16) {
    FillPanel(window, static_cast<const Float16*>(x), panel, buffer);
  } else {
    FillPanel(window, static_cast<const Bfloat16*>(x), panel, buffer);
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
