// Deterministic random numbers for tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace lamina::testing {

// `count` numbers uniform in [low, high), a function of the arguments alone.
template <typename T = float>
std::vector<T> RandomNumbers(int64_t count, uint32_t seed, double low = -1.0, double high = 1.0) {
  std::mt19937 generator(seed);
  std::vector<T> numbers;
  numbers.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<T>(low + (high - low) * (generator() / 4294967296.0)));
  }
  return numbers;
}

}  // namespace lamina::testing
