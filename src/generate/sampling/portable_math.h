// exp and log from basic arithmetic alone, so that they give the same bits with every mathematics library.
// Within 2 ulp of the exact value for normal results.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lamina::portable {

constexpr double kLn2 = 0.693147180559945309417;

// 0 below -708, where exact values are subnormal.
inline double Exp(double x) {
  if (!(x > -708)) return x != x ? x : 0.0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  // x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts keeps r exact.
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const double scaled = x * 1.44269504088896340736;
  const auto k = static_cast<int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  const auto whole = static_cast<double>(k);
  const double r = (x - whole * kLn2High) - whole * kLn2Low;
  // Taylor's series; the first term left out is below 1e-18.
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

// -infinity for 0. REQUIRES: x >= 0.
inline double Log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1) / (m + 1)).
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = 21; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  return exponent * kLn2 + 2 * (s + s * sum);
}

// base^exponent by repeated squaring. REQUIRES: exponent >= 0.
inline double Power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace lamina::portable
