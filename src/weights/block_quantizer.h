// Rounds weights to nearest, in blocks that share a scale: the format of MatMulNBits.
//
// The weight of largest magnitude of a block becomes -2^(bits-1), which uses the whole range of the numbers:
//   scale = w_max / -2^(bits-1),   q = clamp(round(w / scale) + 2^(bits-1), 0, 2^bits - 1).
// The scale is rounded to the type it is stored in before weights are divided by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lamina/types.h"

namespace lamina {

class BlockQuantizer {
 public:
  // Columns of `k` weights; scales are stored as `scale_type`. REQUIRES: bits 4 or 8.
  BlockQuantizer(int bits, int64_t block_size, int64_t k, DataType scale_type);

  // Quantises `count` columns [count, k].
  void Quantize(std::span<const float> columns, int64_t count);

  // [count, blocks, block_size * bits / 8], low bits first; what lies behind k is zero.
  const std::vector<uint8_t>& packed() const { return packed_; }
  // [count, blocks]
  const std::vector<float>& scales() const { return scales_; }
  // The weight at `index` of the columns as it reads from packed and scales.
  float Restored(size_t index) const;

 private:
  void QuantizeBlock(std::span<const float> weights, size_t block);
  float AsStored(float scale) const;
  int Code(size_t block, int64_t position) const;

  int bits_;
  int64_t block_size_;
  int64_t k_;
  int64_t blocks_;
  int64_t block_bytes_;
  DataType scale_type_;
  std::vector<uint8_t> packed_;
  std::vector<float> scales_;
};

}  // namespace lamina
