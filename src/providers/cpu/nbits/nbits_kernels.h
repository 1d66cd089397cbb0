// The inner kernels of products with 2-, 4- and 8-bit weights, one table for each instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/nbits/nbits_format.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

// Activations quantised to 8 bits, one scale for each block of the weights: x = quants * scale, symmetric.
struct NBitsQuantizedRows {
  int8_t* quants = nullptr;  // [rows, padded_k]
  float* scales = nullptr;   // [rows, blocks]
  int32_t* sums = nullptr;   // [rows, blocks] of the quants
};

// Activations in fp32, each divided by the power of two that its weight's field is shifted by.
struct NBitsFloatRows {
  float* values = nullptr;  // [rows, padded_k]
  float* sums = nullptr;    // [rows, blocks] of the activations themselves
};

inline constexpr int kNBitsTileRows = 4;

// fp32 activations.
struct NBitsFloatKernels {
  int lanes;
  // Rows of activations [k] of `type` to `rows`.
  void (*prepare)(const NBitsFormat& format, DataType type, const void* activations,
                  const NBitsFloatRows& rows, int64_t row);
  // out[r * ld + lane] = rows [row, row + count) times the weights of a group. REQUIRES: count <=
  // kNBitsTileRows.
  void (*multiply)(const NBitsFormat& format, const void* group, const NBitsFloatRows& rows, int64_t row,
                   int64_t count, float* out, int64_t ld);
  // Weights of k_count columns from k_begin on of a group, transposed: out[k * ld + lane]. REQUIRES: k_begin
  // a multiple of 256.
  void (*dequantize)(const NBitsFormat& format, const void* group, int64_t k_begin, int64_t k_count,
                     float* out, int64_t ld);
  // Quantises a row of activations (accuracy level 4).
  void (*quantize)(const NBitsFormat& format, DataType type, const void* activations,
                   const NBitsQuantizedRows& rows, int64_t row);
  // The same, as floats again: values [k].
  void (*quantize_to_float)(const NBitsFormat& format, DataType type, const void* activations, float* values);
};

// 8-bit activations. Only for instruction sets with products of bytes.
struct NBitsInt8Kernels {
  int lanes;
  // As NBitsFloatKernels::multiply.
  void (*multiply)(const NBitsFormat& format, const void* group, const NBitsQuantizedRows& rows, int64_t row,
                   int64_t count, float* out, int64_t ld);
};

// REQUIRES: a member of SupportedIsas().
const NBitsFloatKernels& NBitsFloatKernelsFor(CpuIsa isa);
// Null where the instruction set has no such kernel.
const NBitsInt8Kernels* NBitsInt8KernelsFor(CpuIsa isa);

}  // namespace lamina
