// How matrices of 2-, 4- and 8-bit weights are stored for the CPU kernels.
//
// W [n, k] has a scale and perhaps a zero point for every block of `block_size` weights along k:
//   w = (q - zero) * scale
// Groups of `lanes` rows (8 or 16, one vector of floats) lie one after the other. A group is
//   scales [blocks, lanes] | zero points [blocks, lanes] | weights [units, 4, lanes, 4 bytes]
// each part aligned to 64 bytes. A unit is 16 bytes of every row. Byte i of lane r of vector j holds, in its
// 8 / bits fields from the low bits on, q[r, 16 f + 4 j + i] for the fields f: one vector load, mask and
// multiplication serves `lanes` rows at once, against four consecutive activations, without shuffles.
// k is padded with zeros to whole units and blocks, n to whole groups with scales of zero.
#pragma once

#include <cstdint>

#include "lamina/types.h"

namespace lamina {

enum class NBitsZeros : uint8_t {
  kNone,    // 2^(bits - 1) for all
  kBytes,   // one byte each
  kFloats,  // one float each
};

struct NBitsFormat {
  int bits = 4;
  int64_t n = 0;
  int64_t k = 0;
  int64_t block_size = 32;  // a power of two of at least 16, or a multiple of 64: one block for all of k
  DataType scale_type = DataType::kFloat;
  NBitsZeros zeros = NBitsZeros::kNone;
  int lanes = 8;

  static constexpr int64_t kUnitBytes = 16;  // of one row

  int64_t unit_k() const { return 8 * kUnitBytes / bits; }
  int64_t padded_k() const {
    const int64_t multiple = block_size > unit_k() ? block_size : unit_k();
    return (k + multiple - 1) / multiple * multiple;
  }
  int64_t blocks() const { return (padded_k() + block_size - 1) / block_size; }
  int64_t units() const { return padded_k() / unit_k(); }
  int64_t groups() const { return (n + lanes - 1) / lanes; }
  int default_zero() const { return 1 << (bits - 1); }

  int64_t scales_bytes() const {
    return Aligned(blocks() * lanes * (scale_type == DataType::kFloat ? 4 : 2));
  }
  int64_t zeros_bytes() const {
    if (zeros == NBitsZeros::kNone) return 0;
    return Aligned(blocks() * lanes * (zeros == NBitsZeros::kBytes ? 1 : 4));
  }
  int64_t group_bytes() const { return scales_bytes() + zeros_bytes() + units() * lanes * kUnitBytes; }
  int64_t packed_bytes() const { return groups() * group_bytes(); }

 private:
  static int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
};

}  // namespace lamina
