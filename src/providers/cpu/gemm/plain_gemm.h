// Matrix products of types without a micro-kernel: double and integers. Row by row, vectorised by the
// compiler over columns. Integers wrap around.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "providers/cpu/gemm/gemm.h"

namespace lamina {

// Element (i, j) of a matrix is data[i * row_stride + j * column_stride].
template <typename T>
struct StridedMatrix {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// Writes row `row` of A B to c [n].
template <typename T>
void PlainGemmRow(const StridedMatrix<T>& a, const StridedMatrix<T>& b, int64_t row, int64_t n, int64_t k,
                  T* c) {
  // Unsigned arithmetic wraps; signed overflow would be undefined.
  using Wrapping =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  std::fill_n(c, n, T{0});
  for (int64_t i = 0; i < k; ++i) {
    const auto x = static_cast<Wrapping>(a.data[row * a.row_stride + i * a.column_stride]);
    const T* b_row = b.data + i * b.row_stride;
    for (int64_t j = 0; j < n; ++j) {
      c[j] =
          static_cast<T>(static_cast<Wrapping>(c[j]) + x * static_cast<Wrapping>(b_row[j * b.column_stride]));
    }
  }
}

}  // namespace lamina
