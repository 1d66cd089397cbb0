// Pseudo-random numbers that are the same on every machine (SplitMix64), for searches that must be
// deterministic.
#pragma once

#include <cstdint>

namespace lamina {

// Every bit of the result depends on every bit of `x`; a bijection.
inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Uniform in [0, 1).
class UnitRandom {
 public:
  explicit UnitRandom(uint64_t seed) : state_(seed) {}
  double Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return static_cast<double>(MixBits(state_) >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace lamina
