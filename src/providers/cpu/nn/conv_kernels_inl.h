// A row of a depthwise convolution: blocks of outputs whose windows lie inside the line stay in registers
// while all taps are added; those at the edges are computed one by one.
#pragma once

#include "providers/cpu/nn/conv_kernels.h"
#include "providers/cpu/simd/vec_inl.h"

namespace lamina {
namespace {

// Elements source[0], source[kStride], ...; reads kLanes * kStride elements.
template <int kStride>
LAMINA_INLINE VecF LoadStrided(const float* source) {
  if constexpr (kStride == 1) {
    return Load(source);
  } else {
    const VecF low = Load(source);
    const VecF high = Load(source + kLanes);
#if defined(__AVX512F__)
    return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#else
    return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
#endif
  }
}

LAMINA_INLINE float DepthwiseElement(const DepthwiseRow& row, int64_t x) {
  float sum = row.bias;
  for (int64_t line = 0; line < row.line_count; ++line) {
    if (row.lines[line] == nullptr) continue;
    for (int64_t tap = 0; tap < row.taps; ++tap) {
      const int64_t place = x * row.stride - row.pad + tap * row.dilation;
      if (place >= 0 && place < row.in_width) {
        sum += row.weights[line * row.taps + tap] * row.lines[line][place];
      }
    }
  }
  return sum;
}

// kVectors vectors of outputs from x on, whose windows lie inside the line.
template <int kStride, int kVectors>
LAMINA_INLINE void DepthwiseBlock(const DepthwiseRow& row, int64_t x) {
  VecF sums[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v] = Set1(row.bias);
  const int64_t first = x * kStride - row.pad;
  for (int64_t line = 0; line < row.line_count; ++line) {
    if (row.lines[line] == nullptr) continue;
    const float* source = row.lines[line] + first;
    const float* weights = row.weights + line * row.taps;
    for (int64_t tap = 0; tap < row.taps; ++tap) {
      const VecF weight = Set1(weights[tap]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[v] += weight * LoadStrided<kStride>(source + v * kLanes * kStride);
      }
      source += row.dilation;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) Store(row.target + x + v * kLanes, sums[v]);
}

template <int kStride>
void DepthwiseBlocks(const DepthwiseRow& row) {
  constexpr int kVectors = 4;
  constexpr int64_t kBlock = kVectors * kLanes;
  const int64_t reach = (row.taps - 1) * row.dilation;
  int64_t x = 0;
  for (; x < row.out_width && x * kStride < row.pad; ++x) row.target[x] = DepthwiseElement(row, x);
  // A block at x reads elements up to x * stride - pad + reach + block * stride - 1.
  const auto fits = [&](int64_t count) {
    return x + count <= row.out_width && (x + count) * kStride - row.pad + reach <= row.in_width;
  };
  for (; fits(kBlock); x += kBlock) DepthwiseBlock<kStride, kVectors>(row, x);
  for (; fits(kLanes); x += kLanes) DepthwiseBlock<kStride, 1>(row, x);
  for (; x < row.out_width; ++x) row.target[x] = DepthwiseElement(row, x);
}

inline void DepthwiseConvRow(const DepthwiseRow& row) {
  if (row.stride == 1) return DepthwiseBlocks<1>(row);
  if (row.stride == 2) return DepthwiseBlocks<2>(row);
  for (int64_t x = 0; x < row.out_width; ++x) row.target[x] = DepthwiseElement(row, x);
}

inline void StoreConvRow(const float* values, int64_t count, float bias, float low, float* target) {
  const VecF offset = Set1(bias);
  const VecF floor = Set1(low);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VecF value = Load(values + i) + offset;
    Store(target + i, value < floor ? floor : value);
  }
  for (; i < count; ++i) {
    const float value = values[i] + bias;
    target[i] = value < low ? low : value;
  }
}

template <int kRows>
LAMINA_INLINE void NarrowRows(const GemmBlock& block, int64_t first_row) {
  const float* a = block.a + first_row * block.lda;
  const auto* b = static_cast<const float*>(block.b);
  VecF sums[kRows] = {};
  for (int64_t i = 0; i < block.k; ++i) {
    const VecF column = Load(b + i * block.ldb);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) sums[r] += Set1(a[r * block.lda + i]) * column;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float* target = block.c + (first_row + r) * block.ldc;
    Store(target, block.accumulate ? sums[r] + Load(target) : sums[r]);
  }
}

inline void NarrowProduct(const GemmBlock& block) {
  // As many rows at once as independent sums hide the latency of.
  constexpr int kRows = 12;
  int64_t row = 0;
  for (; row + kRows <= block.rows; row += kRows) NarrowRows<kRows>(block, row);
  for (; row + 4 <= block.rows; row += 4) NarrowRows<4>(block, row);
  for (; row < block.rows; ++row) NarrowRows<1>(block, row);
}

inline constexpr ConvKernels kConvKernels = {DepthwiseConvRow, StoreConvRow, kLanes, NarrowProduct};

}  // namespace
}  // namespace lamina
