// Matrices that lie strided or in 16 bits as rows of floats, which is how products read their left side.
#pragma once

#include <cstdint>

#include "base/element_type.h"
#include "base/thread_pool.h"
#include "providers/cpu/gemm/matmul_shapes.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {

// Fills `target` [count, rows, columns] from the matrices over `data` of float, float16 or bfloat16.
inline void CopyRowsAsFloat(ThreadPool& threads, DataType type, const void* data, const MatrixStack& stack,
                            float* target) {
  const int64_t rows = stack.count() * stack.rows;
  DispatchType<float, Float16, Bfloat16>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* elements = static_cast<const T*>(data);
    threads.ParallelFor(
        rows, GrainFor(static_cast<double>(stack.columns)), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const T* row =
                elements + i / stack.rows * stack.matrix_stride + i % stack.rows * stack.row_stride;
            float* to = target + i * stack.columns;
            if (stack.column_stride == 1) {
              ConvertToFloat(type, row, to, stack.columns);
            } else {
              for (int64_t j = 0; j < stack.columns; ++j)
                to[j] = static_cast<float>(row[j * stack.column_stride]);
            }
          }
        });
  });
}

}  // namespace lamina
