#include "providers/cpu/gemm/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

int64_t ElementBytes(DataType type) { return type == DataType::kFloat ? 4 : 2; }

// Copies columns [column, column + count) of rows [k_begin, k_begin + k_count) to panel [k_count, width];
// columns past `count` become zero.
template <typename T>
void CopyPanel(const PlainMatrix& matrix, int64_t column, int64_t count, int64_t k_begin, int64_t k_count,
               int64_t width, T* panel) {
  const T* data = static_cast<const T*>(matrix.data);
  if (matrix.transposed) {
    for (int64_t j = 0; j < count; ++j) {
      const T* source = data + (column + j) * matrix.row_stride() + k_begin;
      for (int64_t i = 0; i < k_count; ++i) panel[i * width + j] = source[i];
    }
    if (count < width) {
      for (int64_t i = 0; i < k_count; ++i)
        std::fill(panel + i * width + count, panel + (i + 1) * width, T{});
    }
    return;
  }
  for (int64_t i = 0; i < k_count; ++i) {
    std::memcpy(panel + i * width, data + (k_begin + i) * matrix.row_stride() + column,
                static_cast<size_t>(count) * sizeof(T));
    std::fill(panel + i * width + count, panel + (i + 1) * width, T{});
  }
}

template <typename T>
void PackElements(ThreadPool& threads, const GemmKernels& kernels, const PlainMatrix& matrix, T* packed) {
  const int64_t width = kernels.panel_columns;
  const int64_t panels = (matrix.n + width - 1) / width;
  threads.ParallelFor(panels, GrainFor(static_cast<double>(matrix.k * width)),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t panel = begin; panel < end; ++panel) {
                          const int64_t column = panel * width;
                          CopyPanel(matrix, column, std::min(width, matrix.n - column), 0, matrix.k, width,
                                    packed + column * matrix.k);
                        }
                      });
}

}  // namespace

uint64_t PackedMatrixBytes(DataType type, int64_t k, int64_t n) {
  const int64_t padded_n = (n + kMaxGemmPanelColumns - 1) / kMaxGemmPanelColumns * kMaxGemmPanelColumns;
  return static_cast<uint64_t>(k) * static_cast<uint64_t>(padded_n * ElementBytes(type));
}

void PackMatrix(ThreadPool& threads, const GemmKernels& kernels, const PlainMatrix& matrix, void* packed) {
  if (matrix.type == DataType::kFloat) {
    PackElements(threads, kernels, matrix, static_cast<float*>(packed));
  } else {
    PackElements(threads, kernels, matrix, static_cast<uint16_t*>(packed));
  }
}

GemmPanel PackedPanel(const GemmKernels& kernels, DataType type, const void* packed, int64_t k,
                      const GemmPanelRequest& request) {
  const int64_t offset = request.column * k + request.k_begin * kernels.panel_columns;
  return {static_cast<const char*>(packed) + offset * ElementBytes(type), kernels.panel_columns, type};
}

GemmPanel PlainPanel(const GemmKernels& kernels, const PlainMatrix& matrix, int64_t m,
                     const GemmPanelRequest& request) {
  const int64_t width = kernels.panel_columns;
  const int64_t count = std::min(width, matrix.n - request.column);
  if (!matrix.transposed && count == width && m <= 2 * kernels.tile_rows) {
    const int64_t offset = request.k_begin * matrix.row_stride() + request.column;
    return {static_cast<const char*>(matrix.data) + offset * ElementBytes(matrix.type), matrix.row_stride(),
            matrix.type};
  }
  if (matrix.type == DataType::kFloat) {
    CopyPanel(matrix, request.column, count, request.k_begin, request.k_count, width, request.buffer);
  } else {
    CopyPanel(matrix, request.column, count, request.k_begin, request.k_count, width,
              reinterpret_cast<uint16_t*>(request.buffer));
  }
  return {request.buffer, width, matrix.type};
}

}  // namespace lamina
