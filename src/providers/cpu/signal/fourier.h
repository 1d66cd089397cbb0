// Discrete Fourier transforms of one length: Cooley and Tukey's for powers of two, by definition for others.
#pragma once

#include <complex>
#include <cstdint>

namespace lamina {

using Complex = std::complex<double>;

class FourierTransform {
 public:
  // Elements of scratch that a transform of length n needs.
  static int64_t ScratchCount(int64_t n) { return 2 * n; }

  // `scratch` [ScratchCount(n)] belongs to this object while it lives. The inverse divides by n.
  FourierTransform(int64_t n, bool inverse, Complex* scratch);
  // Transforms values [n] in place.
  void Run(Complex* values) const;

 private:
  int64_t n_;
  bool inverse_;
  Complex* roots_;  // e^(-+2 pi i k / n)
  Complex* work_;
};

}  // namespace lamina
