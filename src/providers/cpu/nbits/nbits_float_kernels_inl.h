// fp32 activations times 2-, 4- and 8-bit weights.
//
// A field is not shifted down: masked in place it is q 2^s, an exact float after conversion, and the
// activation it meets was divided by 2^s before. That leaves a mask, a conversion and a multiply-add for
// `lanes` weights. Zero points are taken off by block: sum x (q - z) = sum x q - z sum x.
#pragma once

#include "providers/cpu/nbits/nbits_parameters_inl.h"
#include "providers/cpu/simd/rounded_product_inl.h"

namespace lamina {
namespace {

template <int kBits>
struct Fields {
  static constexpr int kCount = 8 / kBits;    // of a byte
  static constexpr int kUnitK = 16 * kCount;  // weights of a row in a unit
  static constexpr int kMask = (1 << kBits) - 1;
  // The shift a field is left at: 0 for the topmost, which the sign bit makes a shift by hand.
  static constexpr int ShiftOf(int byte, int field) {
    const int shift = 8 * byte + kBits * field;
    return shift + kBits == 32 ? 0 : shift;
  }
};

template <int kBits>
LAMINA_INLINE VecF FieldOf(VecI word, int byte, int field) {
  const int shift = 8 * byte + kBits * field;
  if (shift + kBits == 32) {
    return __builtin_convertvector(reinterpret_cast<VecI>(reinterpret_cast<VecU>(word) >> shift), VecF);
  }
  return __builtin_convertvector(word & (Fields<kBits>::kMask << shift), VecF);
}

LAMINA_INLINE VecF LoadZeros(const NBitsFormat& format, const char* zeros, int64_t block) {
  if (format.zeros == NBitsZeros::kNone) return Set1(static_cast<float>(1 << (format.bits - 1)));
  if (format.zeros == NBitsZeros::kFloats)
    return Load(reinterpret_cast<const float*>(zeros) + block * kLanes);
  return __builtin_convertvector(LoadByteLanes(zeros + block * kLanes), VecF);
}

// sums[r][j] += fields [first, first + count) of a unit times activations values[r].
template <int kBits, int kRows, int kAccumulators>
LAMINA_INLINE void AddFields(const int32_t* unit, const float* const* values, int first, int count,
                             VecF (&sums)[kRows][kAccumulators]) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const VecI word = LoadI(unit + j * kLanes);
#pragma GCC unroll 4
    for (int field = 0; field < Fields<kBits>::kCount; ++field) {
      if (field < first || field >= first + count) continue;
#pragma GCC unroll 4
      for (int byte = 0; byte < 4; ++byte) {
        const VecF weight = FieldOf<kBits>(word, byte, field);
        const int k = 16 * field + 4 * j + byte;
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r][j % kAccumulators] += Set1(values[r][k]) * weight;
      }
    }
  }
}

// kParts: blocks in a unit (1 where a block is a unit or more).
template <int kBits, int kRows, int kParts>
inline void MultiplyGroup(const NBitsFormat& format, const char* group, const NBitsFloatRows& rows,
                          int64_t row, float* out, int64_t ld) {
  // Enough independent sums to hide the latency of the additions.
  constexpr int kAccumulators = kRows <= 2 ? 4 : 2;
  using F = Fields<kBits>;
  const int64_t padded_k = format.padded_k();
  const int64_t blocks = format.blocks();
  const int64_t units_of_block = kParts > 1                     ? 1
                                 : format.block_size < padded_k ? format.block_size / F::kUnitK
                                                                : format.units();
  const char* zeros = group + format.scales_bytes();
  const int32_t* unit = reinterpret_cast<const int32_t*>(zeros + format.zeros_bytes());
  const float* values[kRows];
  for (int r = 0; r < kRows; ++r) values[r] = rows.values + (row + r) * padded_k;
  VecF total[kRows] = {};
  for (int64_t block = 0; block < blocks; block += kParts) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      VecF sums[kRows][kAccumulators] = {};
      for (int64_t u = 0; u < units_of_block; ++u) {
        AddFields<kBits, kRows, kAccumulators>(unit, values, part * F::kCount / kParts, F::kCount / kParts,
                                               sums);
        if (part == kParts - 1) {
          unit += 4 * kLanes;
          for (int r = 0; r < kRows; ++r) values[r] += F::kUnitK;
        }
      }
      const VecF scales = LoadScales(format, group, block + part);
      const VecF zero = LoadZeros(format, zeros, block + part);
      for (int r = 0; r < kRows; ++r) {
        VecF sum = sums[r][0];
        for (int i = 1; i < kAccumulators; ++i) sum += sums[r][i];
        total[r] += scales * (sum - zero * rows.sums[(row + r) * blocks + block + part]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) Store(out + r * ld, total[r]);
}

template <int kBits, int kParts>
LAMINA_INLINE void MultiplyRows(const NBitsFormat& format, const char* group, const NBitsFloatRows& rows,
                                int64_t row, int64_t count, float* out, int64_t ld) {
  if (count == 1) return MultiplyGroup<kBits, 1, kParts>(format, group, rows, row, out, ld);
  if (count == 2) return MultiplyGroup<kBits, 2, kParts>(format, group, rows, row, out, ld);
  if (count == 4) return MultiplyGroup<kBits, 4, kParts>(format, group, rows, row, out, ld);
  MultiplyGroup<kBits, 2, kParts>(format, group, rows, row, out, ld);
  MultiplyGroup<kBits, 1, kParts>(format, group, rows, row + 2, out + 2 * ld, ld);
}

inline void NBitsMultiply(const NBitsFormat& format, const void* packed_group, const NBitsFloatRows& rows,
                          int64_t row, int64_t count, float* out, int64_t ld) {
  const char* group = static_cast<const char*>(packed_group);
  if (format.bits == 8) return MultiplyRows<8, 1>(format, group, rows, row, count, out, ld);
  if (format.bits == 4) {
    if (format.block_size == 16) return MultiplyRows<4, 2>(format, group, rows, row, count, out, ld);
    return MultiplyRows<4, 1>(format, group, rows, row, count, out, ld);
  }
  if (format.block_size == 16) return MultiplyRows<2, 4>(format, group, rows, row, count, out, ld);
  if (format.block_size == 32) return MultiplyRows<2, 2>(format, group, rows, row, count, out, ld);
  MultiplyRows<2, 1>(format, group, rows, row, count, out, ld);
}

template <int kBits>
inline void DequantizeGroup(const NBitsFormat& format, const char* group, int64_t k_begin, int64_t k_count,
                            float* out, int64_t ld) {
  using F = Fields<kBits>;
  const char* zeros = group + format.scales_bytes();
  const int32_t* weights = reinterpret_cast<const int32_t*>(zeros + format.zeros_bytes());
  const int64_t run = format.block_size < 16 ? format.block_size : 16;  // of one field and, at most, block
  for (int64_t k = 0; k < k_count; k += run) {
    const int64_t at = k_begin + k;
    const int field = static_cast<int>(at % F::kUnitK / 16);
    const int32_t* unit = weights + at / F::kUnitK * 4 * kLanes;
    const VecF scale = LoadScales(format, group, at / format.block_size);
    const VecF zero = LoadZeros(format, zeros, at / format.block_size);
    for (int64_t i = 0; i < run && k + i < k_count; ++i) {
      const VecI word = LoadI(unit + i / 4 * kLanes);
      const int shift = static_cast<int>(8 * (i % 4) + kBits * field);
      const VecI quant = (word >> shift) & F::kMask;
      Store(out + (k + i) * ld, (__builtin_convertvector(quant, VecF) - zero) * scale);
    }
  }
}

inline void NBitsDequantize(const NBitsFormat& format, const void* group, int64_t k_begin, int64_t k_count,
                            float* out, int64_t ld) {
  const char* data = static_cast<const char*>(group);
  if (format.bits == 8) return DequantizeGroup<8>(format, data, k_begin, k_count, out, ld);
  if (format.bits == 4) return DequantizeGroup<4>(format, data, k_begin, k_count, out, ld);
  DequantizeGroup<2>(format, data, k_begin, k_count, out, ld);
}

template <typename T>
LAMINA_INLINE VecF LoadUpTo(const T* source, int64_t lanes) {
  return lanes >= kLanes ? Load(source) : (lanes > 0 ? LoadPartial(source, lanes) : VecF{});
}

// Powers of two for a unit of activations: 2^-shift of the field each one meets.
template <int kBits>
inline void FillUnshift(float* unshift) {
  for (int k = 0; k < Fields<kBits>::kUnitK; ++k) {
    const int shift = Fields<kBits>::ShiftOf(k % 4, k / 16);
    const int32_t bits = (127 - shift) << 23;
    std::memcpy(unshift + k, &bits, sizeof bits);
  }
}

template <typename T>
inline void PrepareRow(const NBitsFormat& format, const T* x, const NBitsFloatRows& rows, int64_t row) {
  const int64_t padded_k = format.padded_k();
  const int64_t unit_k = format.unit_k();
  float* values = rows.values + row * padded_k;
  float* sums = rows.sums + row * format.blocks();
  float unshift[64];
  if (format.bits == 8) FillUnshift<8>(unshift);
  if (format.bits == 4) FillUnshift<4>(unshift);
  if (format.bits == 2) FillUnshift<2>(unshift);
  for (int64_t block = 0; block < format.blocks(); ++block) {
    const int64_t begin = block * format.block_size;
    const int64_t end = begin + format.block_size < padded_k ? begin + format.block_size : padded_k;
    VecF sum = {};
    for (int64_t k = begin; k < end; k += kLanes) {
      const VecF value = LoadUpTo(x + k, format.k - k);
      sum += value;
      Store(values + k, value * Load(unshift + k % unit_k));
    }
    sums[block] = ReduceAdd(sum);
  }
}

inline void NBitsPrepare(const NBitsFormat& format, DataType type, const void* x, const NBitsFloatRows& rows,
                         int64_t row) {
  if (type == DataType::kFloat) return PrepareRow(format, static_cast<const float*>(x), rows, row);
  if (type == DataType::kFloat16) return PrepareRow(format, static_cast<const Float16*>(x), rows, row);
  PrepareRow(format, static_cast<const Bfloat16*>(x), rows, row);
}

// Quantises a block [begin, end) of a row; store(k, quants) takes kLanes of them as integers. Values near the
// middle between two integers go where ONNX Runtime's kernels send them only if every step rounds as theirs
// do: scale = max / 127, its reciprocal, then the product; one such value that goes the other way moves the
// logits of a small model by about a percent.
template <typename T, typename Store>
LAMINA_INLINE float QuantizeBlock(const T* x, int64_t k, int64_t begin, int64_t end, Store store) {
  VecF largest = {};
  for (int64_t i = begin; i < end; i += kLanes) largest = Max(Abs(LoadUpTo(x + i, k - i)), largest);
  const float maximum = ReduceMax(largest);
  const float scale = maximum / 127.0f;
  // A block below the smallest normal scale counts as zeros: its inverse would be infinite.
  const float inverse = scale >= 0x1p-126f ? 1.0f / scale : 0.0f;
  for (int64_t i = begin; i < end; i += kLanes) {
    const VecF scaled = RoundedProduct(LoadUpTo(x + i, k - i), Set1(inverse));
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even.
    const VecF rounded = scaled + 0x1.8p23f;
    const VecI quants = Bits(rounded) - Bits(Set1(0x1.8p23f));
    const VecI below = quants > 127 ? Set1(127) : quants;
    store(i, below < -127 ? Set1(-127) : below);
  }
  return scale;
}

template <typename T>
inline void QuantizeRow(const NBitsFormat& format, const T* x, const NBitsQuantizedRows& rows, int64_t row) {
  typedef int8_t VecI8Bit __attribute__((vector_size(kLanes)));
  const int64_t padded_k = format.padded_k();
  int8_t* quants = rows.quants + row * padded_k;
  for (int64_t block = 0; block < format.blocks(); ++block) {
    const int64_t begin = block * format.block_size;
    const int64_t end = begin + format.block_size < padded_k ? begin + format.block_size : padded_k;
    VecI sum = {};
    const float scale = QuantizeBlock(x, format.k, begin, end, [&](int64_t k, VecI values) {
      sum += values;
      const VecI8Bit bytes = __builtin_convertvector(values, VecI8Bit);
      std::memcpy(quants + k, &bytes, sizeof bytes);
    });
    rows.scales[row * format.blocks() + block] = scale;
    int32_t lanes[kLanes];
    std::memcpy(lanes, &sum, sizeof sum);
    int32_t total = 0;
    for (const int32_t lane : lanes) total += lane;
    rows.sums[row * format.blocks() + block] = total;
  }
}

inline void NBitsQuantize(const NBitsFormat& format, DataType type, const void* x,
                          const NBitsQuantizedRows& rows, int64_t row) {
  if (type == DataType::kFloat) return QuantizeRow(format, static_cast<const float*>(x), rows, row);
  if (type == DataType::kFloat16) return QuantizeRow(format, static_cast<const Float16*>(x), rows, row);
  QuantizeRow(format, static_cast<const Bfloat16*>(x), rows, row);
}

template <typename T>
inline void QuantizeRowToFloat(const NBitsFormat& format, const T* x, float* values) {
  for (int64_t begin = 0; begin < format.k; begin += format.block_size) {
    const int64_t end = begin + format.block_size < format.k ? begin + format.block_size : format.k;
    const float scale = QuantizeBlock(x, format.k, begin, end, [&](int64_t k, VecI quants) {
      const VecF integers = __builtin_convertvector(quants, VecF);
      if (end - k >= kLanes) {
        Store(values + k, integers);
      } else {
        StorePartial(values + k, integers, end - k);
      }
    });
    for (int64_t k = begin; k < end; ++k) values[k] *= scale;
  }
}

inline void NBitsQuantizeToFloat(const NBitsFormat& format, DataType type, const void* x, float* values) {
  if (type == DataType::kFloat) return QuantizeRowToFloat(format, static_cast<const float*>(x), values);
  if (type == DataType::kFloat16) return QuantizeRowToFloat(format, static_cast<const Float16*>(x), values);
  QuantizeRowToFloat(format, static_cast<const Bfloat16*>(x), values);
}

inline constexpr NBitsFloatKernels kNBitsFloatKernels = {
    kLanes, NBitsPrepare, NBitsMultiply, NBitsDequantize, NBitsQuantize, NBitsQuantizeToFloat};

}  // namespace
}  // namespace lamina
