// 8-bit activations times 2-, 4- and 8-bit weights, over an instruction set's own products of bytes.
//
// Within a block the sums are integers and exact. The blocks are summed in fp32 in two partial sums, even and
// odd blocks: half as many additions depend on each other, and each rounds at a smaller magnitude.
//
// Included by nbits_int8_<isa>.cc, which define
//   struct Isa {
//     template <int kBits> static constexpr int kWeightBias;   // what Field takes off every weight
//     static Word Load(const char* vector);
//     template <int kBits> static Bytes Field(Word, int field);  // that field of every byte
//     template <int kBits> struct Sum {                // of the products of a unit's fields, from zero on
//       void Add(Bytes weights, const int8_t* four_activations);
//       VecI Total() const;
//     };
//   };
#pragma once

#include "providers/cpu/nbits/nbits_parameters_inl.h"

namespace lamina {
namespace {

template <typename Isa, int kBits, int kRows, int kParts>
inline void MultiplyGroupInt8(const NBitsFormat& format, const char* group, const NBitsQuantizedRows& rows,
                              int64_t row, float* out, int64_t ld) {
  using Sum = typename Isa::template Sum<kBits>;
  constexpr int kFields = 8 / kBits;
  constexpr int kUnitK = 16 * kFields;
  constexpr int kFieldsOfPart = kFields / kParts;
  const int64_t padded_k = format.padded_k();
  const int64_t blocks = format.blocks();
  const int64_t units_of_block =
      kParts > 1 ? 1 : (format.block_size < padded_k ? format.block_size / kUnitK : format.units());
  const char* zeros = group + format.scales_bytes();
  const char* unit = zeros + format.zeros_bytes();
  const int8_t* quants[kRows];
  for (int r = 0; r < kRows; ++r) quants[r] = rows.quants + (row + r) * padded_k;
  VecF partial[2][kRows] = {};
  for (int64_t block = 0; block < blocks; block += kParts) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      VecI integers[kRows] = {};
      for (int64_t u = 0; u < units_of_block; ++u) {
        Sum sums[kRows];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const auto word = Isa::Load(unit + j * kLanes * 4);
#pragma GCC unroll 4
          for (int f = 0; f < kFieldsOfPart; ++f) {
            const int field = part * kFieldsOfPart + f;
            const auto weights = Isa::template Field<kBits>(word, field);
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r) sums[r].Add(weights, quants[r] + 16 * field + 4 * j);
          }
        }
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) integers[r] += sums[r].Total();
        if (part == kParts - 1) {
          unit += kLanes * NBitsFormat::kUnitBytes;
          for (int r = 0; r < kRows; ++r) quants[r] += kUnitK;
        }
      }
      const VecF scales = LoadScales(format, group, block + part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int64_t index = (row + r) * blocks + block + part;
        const int32_t activation_sum = rows.sums[index];
        VecF sum;
        if (format.zeros == NBitsZeros::kFloats) {
          const VecF zero = Load(reinterpret_cast<const float*>(zeros) + (block + part) * kLanes) -
                            static_cast<float>(Isa::template kWeightBias<kBits>);
          sum = __builtin_convertvector(integers[r], VecF) - zero * static_cast<float>(activation_sum);
        } else if (format.zeros == NBitsZeros::kBytes) {
          const VecI zero = LoadByteLanes(zeros + (block + part) * kLanes) - Isa::template kWeightBias<kBits>;
          sum = __builtin_convertvector(integers[r] - zero * activation_sum, VecF);
        } else {
          constexpr int kZero = (1 << (kBits - 1)) - Isa::template kWeightBias<kBits>;
          sum = __builtin_convertvector(integers[r] - kZero * activation_sum, VecF);
        }
        partial[(block + part) % 2][r] += sum * (scales * rows.scales[index]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) Store(out + r * ld, partial[0][r] + partial[1][r]);
}

template <typename Isa, int kBits, int kParts>
LAMINA_INLINE void MultiplyRowsInt8(const NBitsFormat& format, const char* group,
                                    const NBitsQuantizedRows& rows, int64_t row, int64_t count, float* out,
                                    int64_t ld) {
  if (count == 4) return MultiplyGroupInt8<Isa, kBits, 4, kParts>(format, group, rows, row, out, ld);
  if (count == 1) return MultiplyGroupInt8<Isa, kBits, 1, kParts>(format, group, rows, row, out, ld);
  MultiplyGroupInt8<Isa, kBits, 2, kParts>(format, group, rows, row, out, ld);
  if (count == 3) MultiplyGroupInt8<Isa, kBits, 1, kParts>(format, group, rows, row + 2, out + 2 * ld, ld);
}

template <typename Isa>
inline void NBitsMultiplyInt8(const NBitsFormat& format, const void* packed_group,
                              const NBitsQuantizedRows& rows, int64_t row, int64_t count, float* out,
                              int64_t ld) {
  const char* group = static_cast<const char*>(packed_group);
  if (format.bits == 8) return MultiplyRowsInt8<Isa, 8, 1>(format, group, rows, row, count, out, ld);
  if (format.bits == 4) {
    if (format.block_size == 16) return MultiplyRowsInt8<Isa, 4, 2>(format, group, rows, row, count, out, ld);
    return MultiplyRowsInt8<Isa, 4, 1>(format, group, rows, row, count, out, ld);
  }
  if (format.block_size == 16) return MultiplyRowsInt8<Isa, 2, 4>(format, group, rows, row, count, out, ld);
  if (format.block_size == 32) return MultiplyRowsInt8<Isa, 2, 2>(format, group, rows, row, count, out, ld);
  MultiplyRowsInt8<Isa, 2, 1>(format, group, rows, row, count, out, ld);
}

}  // namespace
}  // namespace lamina
