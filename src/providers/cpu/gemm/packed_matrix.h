// The right-hand matrix B [k, n] of products, as panels for RunGemm: packed once at load, or read from where
// it lies.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "providers/cpu/gemm/gemm.h"

namespace lamina {

// B as it lies in a tensor: row-major [k, n], or its transpose [n, k].
struct PlainMatrix {
  const void* data = nullptr;
  DataType type = DataType::kFloat;  // float, float16 or bfloat16
  int64_t k = 0;
  int64_t n = 0;
  bool transposed = false;
  int64_t ld = 0;  // elements from a row to the next as it lies; 0: rows follow each other without gaps

  int64_t row_stride() const { return ld != 0 ? ld : (transposed ? k : n); }
};

// Bytes of the packed form, the same for every instruction set: n is rounded up to the widest panel.
uint64_t PackedMatrixBytes(DataType type, int64_t k, int64_t n);
// Fills `packed` [PackedMatrixBytes] with panels [k, panel_columns] one after the other, elements unchanged.
void PackMatrix(ThreadPool& threads, const GemmKernels& kernels, const PlainMatrix& matrix, void* packed);

// The panel of a packed matrix with k rows.
GemmPanel PackedPanel(const GemmKernels& kernels, DataType type, const void* packed, int64_t k,
                      const GemmPanelRequest& request);
// The panel of a plain matrix: in place where it is used for few rows (`m`), else copied to the buffer.
GemmPanel PlainPanel(const GemmKernels& kernels, const PlainMatrix& matrix, int64_t m,
                     const GemmPanelRequest& request);

}  // namespace lamina
