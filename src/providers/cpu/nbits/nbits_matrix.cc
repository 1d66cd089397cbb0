#include "providers/cpu/nbits/nbits_matrix.h"

#include <algorithm>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

// Rates of one core, for the size of chunks only.
constexpr double kBytesPerNs = 12;
constexpr double kMacsPerNs = 60;
constexpr double kRowElementsPerNs = 4;  // quantising or copying activations

constexpr int64_t kTileGroups = 32;          // whose products are stored together
constexpr int64_t kCacheBytes = 256 * 1024;  // of weights that rows of activations pass over in turn

constexpr int64_t kAlignment = 64;
int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The parts of the workspace for quantised rows.
NBitsQuantizedRows DivideQuantized(const NBitsFormat& format, int64_t rows, void* workspace) {
  char* memory = static_cast<char*>(workspace);
  NBitsQuantizedRows parts;
  parts.quants = reinterpret_cast<int8_t*>(memory);
  memory += Aligned(rows * format.padded_k());
  parts.scales = reinterpret_cast<float*>(memory);
  memory += Aligned(rows * format.blocks() * int64_t{sizeof(float)});
  parts.sums = reinterpret_cast<int32_t*>(memory);
  return parts;
}

int64_t QuantizedBytes(const NBitsFormat& format, int64_t rows) {
  return Aligned(rows * format.padded_k()) + 2 * Aligned(rows * format.blocks() * int64_t{sizeof(float)});
}

}  // namespace

NBitsMatrix::NBitsMatrix(CpuIsa isa, NBitsFormat format, bool int8)
    : format_(format),
      floats_(NBitsFloatKernelsFor(isa)),
      int8_(int8 ? NBitsInt8KernelsFor(isa) : nullptr),
      int8_as_float_(int8 && !int8_),
      gemm_(GemmKernelsFor(isa)) {
  format_.lanes = int8_ ? int8_->lanes : floats_.lanes;
}

size_t NBitsMatrix::WorkspaceBytes(DataType type, int64_t rows) const {
  if (int8_) return static_cast<size_t>(QuantizedBytes(format_, rows));
  const int64_t direct_rows = std::min(rows, kPanelRows - 1);
  int64_t floats = direct_rows * (format_.padded_k() + format_.blocks());
  if (CopiesRows(type)) floats += rows * format_.k;
  return static_cast<size_t>(floats) * sizeof(float);
}

// Calls multiply(group, row, count, out, ld) for tiles of rows and groups, and stores what it computed.
template <typename MultiplyTile>
void NBitsMatrix::ForEachTile(ThreadPool& threads, int64_t rows, const void* packed, Store store,
                              MultiplyTile multiply) const {
  const int64_t lanes = format_.lanes;
  const int64_t group_bytes = format_.group_bytes();
  const double group_ns = std::max(static_cast<double>(group_bytes) / kBytesPerNs,
                                   static_cast<double>(rows * lanes * format_.k) / kMacsPerNs);
  const int64_t run = std::clamp<int64_t>(kCacheBytes / group_bytes, 1, kTileGroups);
  threads.ParallelFor(format_.groups(), BalancedGrain(threads, format_.groups(), group_ns),
                      [&](int64_t begin, int64_t end, int) {
                        alignas(kAlignment) float tile[kNBitsTileRows * kTileGroups * 16];
                        for (int64_t first = begin; first < end; first += run) {
                          const int64_t last = std::min(first + run, end);
                          const int64_t column = first * lanes;
                          const int64_t ld = (last - first) * lanes;
                          const int64_t count = std::min(ld, format_.n - column);
                          for (int64_t row = 0; row < rows; row += kNBitsTileRows) {
                            const int64_t tile_rows = std::min<int64_t>(kNBitsTileRows, rows - row);
                            for (int64_t g = first; g < last; ++g) {
                              multiply(static_cast<const char*>(packed) + g * group_bytes, row, tile_rows,
                                       tile + (g - first) * lanes, ld);
                            }
                            for (int64_t r = 0; r < tile_rows; ++r)
                              store(row + r, column, count, tile + r * ld);
                          }
                        }
                      });
}

void NBitsMatrix::Multiply(ThreadPool& threads, DataType type, const void* activations, int64_t ld,
                           int64_t rows, const void* packed, void* workspace, Store store) const {
  if (rows == 0 || format_.n == 0) return;
  const char* source = static_cast<const char*>(activations);
  const int64_t row_bytes = ld * DataTypeBits(type) / 8;
  if (int8_) return MultiplyInt8(threads, type, source, row_bytes, rows, packed, workspace, store);

  float* memory = static_cast<float*>(workspace);
  if (rows >= kPanelRows || int8_as_float_) {
    if (!CopiesRows(type)) {
      return MultiplyPanels(threads, static_cast<const float*>(activations), ld, rows, packed, store);
    }
    threads.ParallelFor(rows, GrainFor(static_cast<double>(format_.k) / kRowElementsPerNs),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            float* row = memory + i * format_.k;
                            if (int8_as_float_) {
                              floats_.quantize_to_float(format_, type, source + i * row_bytes, row);
                            } else {
                              ConvertToFloat(type, source + i * row_bytes, row, format_.k);
                            }
                          }
                        });
    if (rows >= kPanelRows) return MultiplyPanels(threads, memory, format_.k, rows, packed, store);
  }

  // The direct product, of the copied rows where they were quantised.
  NBitsFloatRows direct;
  direct.values = memory + (CopiesRows(type) ? rows * format_.k : 0);
  direct.sums = direct.values + rows * format_.padded_k();
  for (int64_t i = 0; i < rows; ++i) {
    if (int8_as_float_) {
      floats_.prepare(format_, DataType::kFloat, memory + i * format_.k, direct, i);
    } else {
      floats_.prepare(format_, type, source + i * row_bytes, direct, i);
    }
  }
  ForEachTile(threads, rows, packed, store,
              [&](const char* group, int64_t row, int64_t count, float* out, int64_t out_ld) {
                floats_.multiply(format_, group, direct, row, count, out, out_ld);
              });
}

void NBitsMatrix::MultiplyInt8(ThreadPool& threads, DataType type, const char* activations, int64_t row_bytes,
                               int64_t rows, const void* packed, void* workspace, Store store) const {
  const NBitsQuantizedRows quantized = DivideQuantized(format_, rows, workspace);
  threads.ParallelFor(rows, GrainFor(static_cast<double>(format_.k) / kRowElementsPerNs),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t i = begin; i < end; ++i) {
                          floats_.quantize(format_, type, activations + i * row_bytes, quantized, i);
                        }
                      });
  ForEachTile(threads, rows, packed, store,
              [&](const char* group, int64_t row, int64_t count, float* out, int64_t ld) {
                int8_->multiply(format_, group, quantized, row, count, out, ld);
              });
}

void NBitsMatrix::MultiplyPanels(ThreadPool& threads, const float* activations, int64_t ld, int64_t rows,
                                 const void* packed, Store store) const {
  const int64_t columns = gemm_.panel_columns;
  const int64_t lanes = format_.lanes;
  RunGemm(
      threads, gemm_, {1, rows, format_.n, format_.k}, [&](int64_t) { return activations; }, ld,
      [&](const GemmPanelRequest& request) {
        for (int64_t column = request.column; column < request.column + columns; column += lanes) {
          float* target = request.buffer + (column - request.column);
          if (column < format_.n) {
            const char* group = static_cast<const char*>(packed) + column / lanes * format_.group_bytes();
            floats_.dequantize(format_, group, request.k_begin, request.k_count, target, columns);
          } else {
            for (int64_t k = 0; k < request.k_count; ++k) std::fill_n(target + k * columns, lanes, 0.0f);
          }
        }
        return GemmPanel{request.buffer, columns, DataType::kFloat};
      },
      [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
        store(row, column, count, values);
      });
}

}  // namespace lamina
