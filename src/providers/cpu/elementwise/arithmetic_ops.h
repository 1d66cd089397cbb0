// Arithmetic on two elements with ONNX's semantics: integers wrap around, division truncates, and what is
// undefined for integers (division by zero) gives 0 instead of a trap.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lamina {

// Unsigned integers that hold the bits of T and do not promote to int, so that overflow wraps.
template <typename T>
using WrapType = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct AddOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<WrapType<T>>(a) + static_cast<WrapType<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct SubOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<WrapType<T>>(a) - static_cast<WrapType<T>>(b));
    } else {
      return a - b;
    }
  }
};

struct MulOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<WrapType<T>>(a) * static_cast<WrapType<T>>(b));
    } else {
      return a * b;
    }
  }
};

struct DivOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return SubOp::Apply<T>(0, a);  // the smallest value wraps to itself
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

// The remainder with the sign of the divisor.
struct FloorModOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T remainder = static_cast<T>(a % b);
        return static_cast<T>(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
      } else {
        return static_cast<T>(a % b);
      }
    } else {
      const T remainder = std::fmod(a, b);
      return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    }
  }
};

// The remainder with the sign of the dividend, as C's % and fmod.
struct FmodOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
      }
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};

// Maximum and minimum propagate NaN.
struct MaxOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a > b ? a : b;
    } else {
      return (a > b) | (a != a) ? a : b;
    }
  }
};

struct MinOp {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? a : b;
    } else {
      return (a < b) | (a != a) ? a : b;
    }
  }
};

}  // namespace lamina
