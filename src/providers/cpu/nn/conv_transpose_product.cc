#include "providers/cpu/nn/conv_transpose_product.h"

#include <algorithm>
#include <cstring>

#include "providers/cpu/gemm/gemm.h"

namespace lamina {
namespace {

// A block of the product: [kBlockRows, kBlockColumns], summed over kBlockK channels at a time. Rows of the
// input's block are kInputStride apart, so that they spread over the cache's sets.
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 64;
constexpr int64_t kBlockK = 128;
constexpr int64_t kInputStride = kBlockColumns + 16;
constexpr int64_t kMinColumnsOfTask = 1024;

// A task: rows (filter, tap) of some filters, for some slices (the outermost axis) of the input.
struct Part {
  int64_t product = 0;  // [batch * groups]
  int64_t filter = 0;
  int64_t filters = 0;
  int64_t slice_begin = 0;
  int64_t slice_end = 0;
};

class TransposedProduct {
 public:
  explicit TransposedProduct(const ConvTransposeCall& call)
      : call_(call),
        window_(call.window),
        kernels_(GemmKernelsFor(ActiveIsa())),
        kernel_(window_.kernel_size()),
        slices_(window_.input[0]),
        slice_columns_(slices_ == 0 ? 0 : window_.input_size() / slices_) {
    filters_of_part_ = std::clamp<int64_t>(kBlockRows / kernel_, 1, call.filters);
    // Slices that write to rows of their own can be tasks of their own.
    const bool apart = (window_.kernel[0] - 1) * window_.dilations[0] < window_.strides[0];
    slices_of_part_ =
        apart ? std::min(slices_, (kMinColumnsOfTask + slice_columns_ - 1) / slice_columns_) : slices_;
    if (!apart) filters_of_part_ = std::min<int64_t>(filters_of_part_, (call.filters + 7) / 8);
  }

  void Run(ThreadPool& threads) const {
    const int64_t filter_parts = (call_.filters + filters_of_part_ - 1) / filters_of_part_;
    const int64_t slice_parts = (slices_ + slices_of_part_ - 1) / slices_of_part_;
    threads.ParallelFor(call_.batch * call_.groups * filter_parts * slice_parts, 1,
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t task = begin; task < end; ++task) {
                            Part part;
                            part.slice_begin = task % slice_parts * slices_of_part_;
                            part.slice_end = std::min(slices_, part.slice_begin + slices_of_part_);
                            part.filter = task / slice_parts % filter_parts * filters_of_part_;
                            part.filters = std::min(filters_of_part_, call_.filters - part.filter);
                            part.product = task / slice_parts / filter_parts;
                            RunPart(part);
                          }
                        });
  }

 private:
  float* PlaneOf(const Part& part, int64_t filter) const {
    return call_.y + (part.product * call_.filters + part.filter + filter) * window_.output_size();
  }

  // Puts the bias where the part's slices write, and behind the last and before the first slice.
  void FillWithBias(const Part& part) const {
    const int64_t row = window_.output_size() / window_.output[0];
    const auto begins_at = [&](int64_t slice) {
      if (slice == 0) return int64_t{0};
      if (slice == slices_) return window_.output[0];
      return std::clamp<int64_t>(slice * window_.strides[0] - window_.pads_begin[0], 0, window_.output[0]);
    };
    const int64_t begin = begins_at(part.slice_begin);
    const int64_t end = begins_at(part.slice_end);
    const int64_t group = part.product % call_.groups;
    for (int64_t f = 0; f < part.filters; ++f) {
      const float value = call_.bias ? call_.bias[group * call_.filters + part.filter + f] : 0.0f;
      std::fill_n(PlaneOf(part, f) + begin * row, (end - begin) * row, value);
    }
  }

  void RunPart(const Part& part) const {
    alignas(64) float input[kBlockK * kInputStride];
    alignas(64) float tile[kBlockRows * kBlockColumns];
    FillWithBias(part);
    const int64_t inputs = window_.input_size();
    const float* x = call_.x + part.product * call_.channels * inputs;
    const int64_t weight_row = call_.filters * kernel_;
    const float* weights = call_.weights + part.product % call_.groups * call_.channels * weight_row;
    const int64_t rows = part.filters * kernel_;
    const int64_t end = part.slice_end * slice_columns_;
    for (int64_t column = part.slice_begin * slice_columns_; column < end; column += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, end - column);
      const int64_t panels = (columns + kernels_.panel_columns - 1) / kernels_.panel_columns;
      // A kernel of more taps than a block has rows is done in several.
      for (int64_t row = 0; row < rows; row += kBlockRows) {
        GemmBlock block;
        block.rows = std::min(kBlockRows, rows - row);
        block.lda = weight_row;
        block.ldb = kInputStride;
        block.ldc = kBlockColumns;
        for (int64_t step = 0; step < call_.channels; step += kBlockK) {
          block.k = std::min(kBlockK, call_.channels - step);
          for (int64_t i = 0; i < block.k; ++i) {
            float* target = input + i * kInputStride;
            std::memcpy(target, x + (step + i) * inputs + column,
                        static_cast<size_t>(columns) * sizeof(float));
            std::fill(target + columns, target + panels * kernels_.panel_columns, 0.0f);
          }
          block.a = weights + step * weight_row + part.filter * kernel_ + row;
          block.accumulate = step > 0;
          for (int64_t panel = 0; panel < panels; ++panel) {
            block.b = input + panel * kernels_.panel_columns;
            block.c = tile + panel * kernels_.panel_columns;
            kernels_.multiply_transposed(block);
          }
        }
        for (int64_t r = 0; r < block.rows; ++r) {
          AddRow(PlaneOf(part, (row + r) / kernel_), (row + r) % kernel_, column, columns,
                 tile + r * kBlockColumns);
        }
      }
    }
  }

  // Adds the products of tap `tap` and input positions from `column` on to a plane of the output.
  void AddRow(float* plane, int64_t tap, int64_t column, int64_t columns, const float* values) const {
    const int last = window_.rank - 1;
    const int64_t in_width = window_.input[last];
    const int64_t out_width = window_.output[last];
    const int64_t stride = window_.strides[last];
    const int64_t first = tap % window_.kernel[last] * window_.dilations[last] - window_.pads_begin[last];
    for (int64_t done = 0; done < columns;) {
      const int64_t in_x = (column + done) % in_width;
      const int64_t count = std::min(columns - done, in_width - in_x);
      const int64_t line = OutputLine((column + done) / in_width, tap / window_.kernel[last]);
      if (line >= 0) {
        // Columns i whose target first + (in_x + i) * stride lies inside the line.
        const int64_t offset = first + in_x * stride;
        const int64_t begin = offset >= 0 ? 0 : std::min(count, (-offset + stride - 1) / stride);
        const int64_t end = std::clamp<int64_t>(
            offset >= out_width ? 0 : (out_width - offset + stride - 1) / stride, begin, count);
        float* target = plane + line * out_width + offset;
        const float* source = values + done;
        if (stride == 1) {
          for (int64_t i = begin; i < end; ++i) target[i] += source[i];
        } else {
          for (int64_t i = begin; i < end; ++i) target[i * stride] += source[i];
        }
      }
      done += count;
    }
  }

  // The output line that input line `line` reaches with outer tap `tap`, or -1.
  int64_t OutputLine(int64_t line, int64_t tap) const {
    int64_t result = 0;
    int64_t line_stride = 1;
    for (int axis = window_.rank - 2; axis >= 0; --axis) {
      const int64_t place = line % window_.input[axis] * window_.strides[axis] - window_.pads_begin[axis] +
                            tap % window_.kernel[axis] * window_.dilations[axis];
      if (place < 0 || place >= window_.output[axis]) return -1;
      line /= window_.input[axis];
      tap /= window_.kernel[axis];
      result += place * line_stride;
      line_stride *= window_.output[axis];
    }
    return result;
  }

  const ConvTransposeCall& call_;
  const WindowGeometry& window_;
  const GemmKernels& kernels_;
  int64_t kernel_;
  int64_t slices_;
  int64_t slice_columns_;
  int64_t filters_of_part_;
  int64_t slices_of_part_;
};

}  // namespace

void ConvTransposeAsProduct(ThreadPool& threads, const ConvTransposeCall& call) {
  TransposedProduct(call).Run(threads);
}

}  // namespace lamina
