// Random numbers by counter: number i of a seed is a function of both, so that threads can draw in any order.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "provider/node_info.h"

namespace lamina {

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : seed_(seed) {}
  // 64 random bits (SplitMix64 by Steele, Lea and Flood).
  uint64_t Bits(int64_t index) const {
    uint64_t z = seed_ + (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Uniform(int64_t index) const { return static_cast<double>(Bits(index) >> 11) * 0x1p-53; }
  // Mean 0, deviation 1 (Box and Muller); uses the numbers 2 index and 2 index + 1.
  double Normal(int64_t index) const {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform(2 * index)));
    return radius * std::cos(2 * std::numbers::pi * Uniform(2 * index + 1));
  }

 private:
  uint64_t seed_;
};

// The streams of a node: with the attribute `seed` the same at every run, else another one each time.
class RandomSource {
 public:
  explicit RandomSource(const NodeInfo& node);
  RandomStream NextStream() const;

 private:
  bool fixed_;
  uint64_t seed_;
  mutable std::atomic<uint64_t> runs_{0};
};

}  // namespace lamina
