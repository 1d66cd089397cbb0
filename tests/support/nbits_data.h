// Random weights of 2, 4 or 8 bits as MatMulNBits stores them, and the matrix they stand for.
#pragma once

#include <cstdint>
#include <vector>

#include "support/random_data.h"

namespace lamina::testing {

struct NBitsData {
  int bits;
  int64_t n, k, block_size;
  int64_t blocks;                  // of a row
  std::vector<uint8_t> quants;     // [n, blocks * block_size] one value each
  std::vector<uint8_t> packed;     // [n, blocks, block_size * bits / 8]
  std::vector<float> scales;       // [n, blocks], some negative
  std::vector<uint8_t> zeros;      // [n, ceil(blocks * bits / 8)]
  std::vector<float> float_zeros;  // [n, blocks], not whole numbers

  NBitsData(int bits_arg, int64_t n_arg, int64_t k_arg, int64_t block_size_arg, uint32_t seed)
      : bits(bits_arg),
        n(n_arg),
        k(k_arg),
        block_size(block_size_arg),
        blocks((k + block_size - 1) / block_size) {
    const int64_t row = blocks * block_size;
    for (const double value : RandomNumbers<double>(n * row, seed, 0, 1 << bits)) {
      quants.push_back(static_cast<uint8_t>(value));
    }
    packed.assign(static_cast<size_t>(n * row * bits / 8), 0);
    for (int64_t i = 0; i < n * row; ++i) Put(packed, i * bits, quants[static_cast<size_t>(i)]);
    scales = RandomNumbers<float>(n * blocks, seed + 1, -0.05, 0.1);
    float_zeros = RandomNumbers<float>(n * blocks, seed + 2, 0, 1 << bits);
    const int64_t zero_row = (blocks * bits + 7) / 8;
    zeros.assign(static_cast<size_t>(n * zero_row), 0);
    const auto values = RandomNumbers<double>(n * blocks, seed + 3, 0, 1 << bits);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t b = 0; b < blocks; ++b) {
        Put(zeros, r * zero_row * 8 + b * bits,
            static_cast<uint8_t>(values[static_cast<size_t>(r * blocks + b)]));
      }
    }
  }

  enum class Zeros { kDefault, kPacked, kFloat };
  // The zero point of a block, and the weight at (row, column).
  double Zero(Zeros kind, int64_t row, int64_t block) const {
    if (kind == Zeros::kDefault) return 1 << (bits - 1);
    if (kind == Zeros::kFloat) return float_zeros[static_cast<size_t>(row * blocks + block)];
    const int64_t bit = row * ((blocks * bits + 7) / 8) * 8 + block * bits;
    return (zeros[static_cast<size_t>(bit / 8)] >> (bit % 8)) & ((1 << bits) - 1);
  }
  double Weight(Zeros kind, int64_t row, int64_t column) const {
    const int64_t block = column / block_size;
    return (quants[static_cast<size_t>(row * blocks * block_size + column)] - Zero(kind, row, block)) *
           static_cast<double>(scales[static_cast<size_t>(row * blocks + block)]);
  }

 private:
  static void Put(std::vector<uint8_t>& bytes, int64_t bit, uint8_t value) {
    bytes[static_cast<size_t>(bit / 8)] =
        static_cast<uint8_t>(bytes[static_cast<size_t>(bit / 8)] | value << (bit % 8));
  }
};

}  // namespace lamina::testing
