// Products of activations with a packed matrix of 2-, 4- or 8-bit weights.
//
// Activations are used as floats, or (`int8`, accuracy level 4) quantised to 8 bits by block. The rows of W
// are split over threads, k never is, so that results do not depend on their number. Few rows of activations
// meet the packed weights directly; more of them as floats meet weights that are dequantised panel by panel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "providers/cpu/gemm/gemm_kernels.h"
#include "providers/cpu/nbits/nbits_kernels.h"

namespace lamina {

class NBitsMatrix {
 public:
  // `format.lanes` is chosen here.
  NBitsMatrix(CpuIsa isa, NBitsFormat format, bool int8);

  const NBitsFormat& format() const { return format_; }

  // Scratch for up to `rows` rows of activations of `type`.
  size_t WorkspaceBytes(DataType type, int64_t rows) const;

  // Takes products [row, column .. column + count).
  using Store = FunctionRef<void(int64_t row, int64_t column, int64_t count, const float* values)>;
  // activations [rows, k] of float, float16 or bfloat16, row i at i * ld elements. `packed` as PackNBits made
  // it for format().
  void Multiply(ThreadPool& threads, DataType type, const void* activations, int64_t ld, int64_t rows,
                const void* packed, void* workspace, Store store) const;

 private:
  // The least number of rows that meet dequantised panels.
  static constexpr int64_t kPanelRows = 9;

  // Whether rows of activations are copied as floats for the panels.
  bool CopiesRows(DataType type) const { return int8_as_float_ || type != DataType::kFloat; }
  template <typename MultiplyTile>
  void ForEachTile(ThreadPool& threads, int64_t rows, const void* packed, Store store,
                   MultiplyTile multiply) const;
  void MultiplyInt8(ThreadPool& threads, DataType type, const char* activations, int64_t row_bytes,
                    int64_t rows, const void* packed, void* workspace, Store store) const;
  void MultiplyPanels(ThreadPool& threads, const float* activations, int64_t ld, int64_t rows,
                      const void* packed, Store store) const;

  NBitsFormat format_;
  const NBitsFloatKernels& floats_;
  const NBitsInt8Kernels* int8_ = nullptr;  // null: activations as floats
  bool int8_as_float_ = false;              // quantised activations, computed with as floats
  const GemmKernels& gemm_;
};

}  // namespace lamina
