// The random numbers of sampling: xoshiro256++ seeded by splitmix64 (Blackman and Vigna), the same sequence
// on every platform.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace lamina {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1), with 53 bits.
  double NextUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace lamina
