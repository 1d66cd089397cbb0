#include "providers/cpu/nn/conv_call.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/nn/conv_kernels.h"
#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

// A block of the product: weights [kBlockRows, kBlockK] times windows [kBlockK, kBlockColumns]. Rows of the
// windows are kWindowStride apart: a line more than a power of two, so that they spread over the cache's
// sets.
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 64;
constexpr int64_t kBlockK = 128;
constexpr int64_t kWindowStride = kBlockColumns + 16;

constexpr double kFlopPerNs = 50;  // of one core, for the size of chunks only

}  // namespace

float ConvCall::BiasOf(int64_t filter) const {
  if (!bias) return 0;
  float value;
  ConvertToFloat(type, static_cast<const std::byte*>(bias) + filter * ElementBytes(type), &value, 1);
  return value;
}

void ConvCall::Store(int64_t plane, int64_t position, int64_t count, float* values) const {
  const int64_t first = plane * window.output_size() + position;
  const float offset = BiasOf(plane % (groups * filters));
  const auto& activation = epilogue->activation;
  if (type == DataType::kFloat && !sum && (!activation || epilogue->is_relu)) {
    const float low = activation ? 0.0f : -std::numeric_limits<float>::infinity();
    ConvKernelsFor(ActiveIsa()).store_row(values, count, offset, low, static_cast<float*>(y) + first);
    return;
  }
  for (int64_t i = 0; i < count; ++i) values[i] += offset;
  constexpr int64_t kTile = 256;
  for (int64_t i = 0; sum && i < count; i += kTile) {
    float other[kTile];
    const int64_t run = std::min(kTile, count - i);
    ConvertToFloat(type, static_cast<const std::byte*>(sum) + (first + i) * ElementBytes(type), other, run);
    for (int64_t j = 0; j < run; ++j) values[i + j] += other[j];
  }
  if (activation) activation->Apply(values, count);
  void* target = static_cast<std::byte*>(y) + first * ElementBytes(type);
  if (target != values) ConvertFromFloat(type, values, target, count);
}

void ConvAsProduct(ThreadPool& threads, const ConvCall& call) {
  const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
  const ConvKernels& conv_kernels = ConvKernelsFor(ActiveIsa());
  const WindowGeometry window = IsPointwise(call.window) ? Flattened(call.window) : call.window;
  const int64_t k = call.channels * window.kernel_size();
  const int64_t outputs = window.output_size();
  const int64_t plane_bytes = window.input_size() * ElementBytes(call.type);
  const int64_t column_blocks = (outputs + kBlockColumns - 1) / kBlockColumns;
  const int64_t row_blocks = (call.filters + kBlockRows - 1) / kBlockRows;
  const int64_t tasks = call.batch * call.groups * column_blocks * row_blocks;
  const double task_flop = 2.0 * static_cast<double>(std::min(call.filters, kBlockRows) * kBlockColumns * k);

  threads.ParallelFor(
      tasks, BalancedGrain(threads, tasks, task_flop / kFlopPerNs), [&](int64_t begin, int64_t end, int) {
        alignas(64) float windows[kBlockK * kWindowStride];
        alignas(64) float tile[kBlockRows * kBlockColumns];
        for (int64_t task = begin; task < end; ++task) {
          const int64_t first_row = task % row_blocks * kBlockRows;
          const int64_t column = task / row_blocks % column_blocks * kBlockColumns;
          const int64_t product = task / row_blocks / column_blocks;  // [batch * groups]
          const int64_t rows = std::min(kBlockRows, call.filters - first_row);
          const int64_t columns = std::min(kBlockColumns, outputs - column);
          const bool is_narrow = columns <= conv_kernels.narrow_columns;
          const int64_t panel_columns = is_narrow ? conv_kernels.narrow_columns : kernels.panel_columns;
          const int64_t width = (columns + panel_columns - 1) / panel_columns * panel_columns;
          const float* weights = call.weights + (product % call.groups * call.filters + first_row) * k;
          const std::byte* x = static_cast<const std::byte*>(call.x) + product * call.channels * plane_bytes;
          for (int64_t step = 0; step < k; step += kBlockK) {
            const int64_t steps = std::min(kBlockK, k - step);
            FillWindowPanel(window, call.type, x, {column, columns, width, kWindowStride, step, steps},
                            windows);
            GemmBlock block;
            block.rows = rows;
            block.k = steps;
            block.a = weights + step;
            block.lda = k;
            block.ldb = kWindowStride;
            block.ldc = kBlockColumns;
            block.accumulate = step > 0;
            for (int64_t panel = 0; panel < width; panel += panel_columns) {
              block.b = windows + panel;
              block.c = tile + panel;
              (is_narrow ? conv_kernels.narrow_product : kernels.multiply_float)(block);
            }
          }
          for (int64_t r = 0; r < rows; ++r) {
            call.Store(product * call.filters + first_row + r, column, columns, tile + r * kBlockColumns);
          }
        }
      });
}

void ConvDepthwise(ThreadPool& threads, const ConvCall& call) {
  const WindowGeometry& window = call.window;
  const int last = window.rank - 1;
  const int64_t width = window.output[last];
  const int64_t rows = window.output_size() / width;
  const int64_t kernel = window.kernel_size();
  const int64_t bytes = ElementBytes(call.type);
  constexpr int64_t kMaxLines = 64;
  const int64_t lines = kernel / window.kernel[last];
  const bool in_place = call.type == DataType::kFloat && lines <= kMaxLines;
  const ConvKernels& kernels = ConvKernelsFor(ActiveIsa());
  threads.ParallelFor(call.batch * call.groups * call.filters * rows, GrainOf(width * kernel / 4),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t unit = begin; unit < end; ++unit) {
                          const int64_t row = unit % rows;
                          const int64_t plane = unit / rows;
                          const int64_t filter = plane % (call.groups * call.filters);
                          const std::byte* x = static_cast<const std::byte*>(call.x) +
                                               plane / call.filters * window.input_size() * bytes;
                          const float* weights = call.weights + filter * kernel;
                          if (in_place) {
                            const float* line_of[kMaxLines];
                            WindowLines(window, row, reinterpret_cast<const float*>(x), line_of);
                            DepthwiseRow work;
                            work.lines = line_of;
                            work.line_count = lines;
                            work.in_width = window.input[last];
                            work.weights = weights;
                            work.taps = window.kernel[last];
                            work.stride = window.strides[last];
                            work.dilation = window.dilations[last];
                            work.pad = window.pads_begin[last];
                            work.target =
                                static_cast<float*>(call.y) + plane * window.output_size() + row * width;
                            work.out_width = width;
                            kernels.depthwise_row(work);
                            call.Store(plane, row * width, width, work.target);
                            continue;
                          }
                          constexpr int64_t kTile = 256;
                          float sums[kTile];
                          for (int64_t first = 0; first < width; first += kTile) {
                            const int64_t count = std::min(kTile, width - first);
                            std::fill_n(sums, count, 0.0f);
                            AccumulateWindowRow(window, call.type, x, row, first, count, weights, sums);
                            call.Store(plane, row * width + first, count, sums);
                          }
                        }
                      });
}

}  // namespace lamina
