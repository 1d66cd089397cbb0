#include "providers/cpu/signal/fourier.h"

#include <algorithm>
#include <numbers>
#include <utility>

namespace lamina {

FourierTransform::FourierTransform(int64_t n, bool inverse, Complex* scratch)
    : n_(n), inverse_(inverse), roots_(scratch), work_(scratch + n) {
  for (int64_t k = 0; k < n; ++k) {
    const double angle =
        (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots_[k] = std::polar(1.0, angle);
  }
}

void FourierTransform::Run(Complex* values) const {
  const bool power_of_two = (n_ & (n_ - 1)) == 0;
  if (power_of_two) {
    for (int64_t i = 1, j = 0; i < n_; ++i) {  // bit reversal
      int64_t bit = n_ >> 1;
      for (; (j & bit) != 0; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(values[i], values[j]);
    }
    for (int64_t length = 2; length <= n_; length *= 2) {
      const int64_t step = n_ / length;
      for (int64_t first = 0; first < n_; first += length) {
        for (int64_t k = 0; k < length / 2; ++k) {
          const Complex even = values[first + k];
          const Complex odd = values[first + k + length / 2] * roots_[k * step];
          values[first + k] = even + odd;
          values[first + k + length / 2] = even - odd;
        }
      }
    }
  } else {
    for (int64_t k = 0; k < n_; ++k) {
      Complex sum = 0;
      int64_t root = 0;
      for (int64_t i = 0; i < n_; ++i) {
        sum += values[i] * roots_[root];
        root += k;
        if (root >= n_) root -= n_;
      }
      work_[k] = sum;
    }
    std::copy_n(work_, n_, values);
  }
  if (inverse_) {
    for (int64_t i = 0; i < n_; ++i) values[i] /= static_cast<double>(n_);
  }
}

}  // namespace lamina
