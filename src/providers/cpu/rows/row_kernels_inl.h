#pragma once

#include "providers/cpu/rows/row_kernels.h"
#include "providers/cpu/simd/rounded_product_inl.h"
#include "providers/cpu/simd/vec_math_inl.h"

namespace lamina {
namespace {

// Calls step(i, lanes) for each vector of [0, count), the last of which may have fewer than kLanes lanes.
template <typename Step>
LAMINA_INLINE void ForEachVector(int64_t count, Step step) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) step(i, kLanes);
  if (i < count) step(i, count - i);
}

template <typename T>
LAMINA_INLINE VecF LoadLanes(const T* source, int64_t lanes, float fill = 0.0f) {
  return lanes == kLanes ? Load(source) : LoadPartial(source, lanes, fill);
}
template <typename T>
LAMINA_INLINE void StoreLanes(T* target, VecF value, int64_t lanes) {
  if (lanes == kLanes) {
    Store(target, value);
  } else {
    StorePartial(target, value, lanes);
  }
}

LAMINA_INLINE VecF ZeroPast(VecF value, int64_t lanes) {
  if (lanes == kLanes) return value;
  float all[kLanes];
  Store(all, value);
  for (int64_t i = lanes; i < kLanes; ++i) all[i] = 0.0f;
  return Load(all);
}

// The value as it is after a store to T.
template <typename T>
LAMINA_INLINE VecF Rounded(VecF value) {
  T lanes[kLanes];
  Store(lanes, value);
  return Load(lanes);
}

// Sums of squares in the order of ONNX Runtime's kernels, so that int8 models, in which a last bit can send
// an activation to the next integer, follow the records of that runtime: the residual sum's squares one by
// one, a plain row's in eight partial sums.
class SquareSum {
 public:
  explicit SquareSum(bool one_by_one) : one_by_one_(one_by_one) {}

  void Add(VecF value) {
    float squares[kLanes];
    Store(squares, RoundedProduct(value, value));
    if (one_by_one_) {
      for (const float square : squares) total_ += square;
      return;
    }
    for (int lane = 0; lane < kLanes; lane += 8) {
      VecF8 eight;
      std::memcpy(&eight, squares + lane, sizeof eight);
      partial_ += eight;
    }
  }
  float Total() const {
    if (one_by_one_) return total_;
    const VecF8& s = partial_;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }

 private:
  bool one_by_one_;
  float total_ = 0;
  VecF8 partial_ = {};
};

// x + skip + bias of a row.
template <typename T>
class NormalizedInput {
 public:
  explicit NormalizedInput(const NormalizeRow& row)
      : x_(static_cast<const T*>(row.x)),
        skip_(static_cast<const T*>(row.skip)),
        bias_(static_cast<const T*>(row.bias)) {}
  VecF operator()(int64_t i, int64_t lanes) const {
    VecF value = LoadLanes(x_ + i, lanes);
    if (skip_) value += LoadLanes(skip_ + i, lanes);
    if (bias_) value += LoadLanes(bias_ + i, lanes);
    return value;
  }

 private:
  const T* x_;
  const T* skip_;
  const T* bias_;
};

template <typename T, typename TScale>
inline void NormalizeRms(NormalizeRow& row) {
  const NormalizedInput<T> input(row);
  const TScale* scale = static_cast<const TScale*>(row.scale);
  const TScale* shift = static_cast<const TScale*>(row.shift);
  T* y = static_cast<T*>(row.y);
  T* sum = static_cast<T*>(row.sum);

  const bool residual = row.skip != nullptr;
  const float count = static_cast<float>(row.count);
  SquareSum squares(residual);
  ForEachVector(row.count, [&](int64_t i, int64_t lanes) {
    const VecF value = input(i, lanes);
    if (sum) StoreLanes(sum + i, value, lanes);
    squares.Add(value);
  });
  const float mean_square = residual ? squares.Total() / count : squares.Total() * (1.0f / count);
  const float deviation = __builtin_sqrtf(mean_square + row.epsilon);
  const float inverse_deviation = 1.0f / deviation;
  ForEachVector(row.count, [&](int64_t i, int64_t lanes) {
    VecF value = residual ? input(i, lanes) / deviation : input(i, lanes) * inverse_deviation;
    if (row.round_before_scale) value = Rounded<T>(value);
    value = RoundedProduct(value, LoadLanes(scale + i, lanes));
    if (shift) value += LoadLanes(shift + i, lanes);
    StoreLanes(y + i, value, lanes);
  });
  row.mean = 0.0f;
  row.inverse_deviation = inverse_deviation;
}

template <typename T, typename TScale>
inline void Normalize(NormalizeRow& row) {
  if (row.rms) return NormalizeRms<T, TScale>(row);
  const NormalizedInput<T> input(row);
  const TScale* scale = static_cast<const TScale*>(row.scale);
  const TScale* shift = static_cast<const TScale*>(row.shift);
  T* y = static_cast<T*>(row.y);
  T* sum = static_cast<T*>(row.sum);

  // Two accumulators of kLanes partial sums each.
  const float inverse_count = 1.0f / static_cast<float>(row.count);
  VecF total[2] = {};
  int which = 0;
  ForEachVector(row.count, [&](int64_t i, int64_t lanes) {
    const VecF value = input(i, lanes);
    if (sum) StoreLanes(sum + i, value, lanes);
    total[which] += value;
    which ^= 1;
  });
  const float mean = ReduceAdd(total[0] + total[1]) * inverse_count;
  total[0] = total[1] = VecF{};
  ForEachVector(row.count, [&](int64_t i, int64_t lanes) {
    const VecF distance = ZeroPast(input(i, lanes) - mean, lanes);
    total[which] += distance * distance;
    which ^= 1;
  });
  const float variance = ReduceAdd(total[0] + total[1]) * inverse_count;
  const float inverse_deviation = 1.0f / __builtin_sqrtf(variance + row.epsilon);
  ForEachVector(row.count, [&](int64_t i, int64_t lanes) {
    VecF value = (input(i, lanes) - mean) * inverse_deviation;
    if (row.round_before_scale) value = Rounded<T>(value);
    value *= LoadLanes(scale + i, lanes);
    if (shift) value += LoadLanes(shift + i, lanes);
    StoreLanes(y + i, value, lanes);
  });
  row.mean = mean;
  row.inverse_deviation = inverse_deviation;
}

inline constexpr float kMinusInfinity = -__builtin_inff();

template <typename T>
inline void Softmax(const void* input, void* output, int64_t count, bool logarithm) {
  const T* x = static_cast<const T*>(input);
  T* y = static_cast<T*>(output);
  VecF maxima = Set1(kMinusInfinity);
  ForEachVector(count, [&](int64_t i, int64_t lanes) {
    maxima = Max(LoadLanes(x + i, lanes, kMinusInfinity), maxima);
  });
  const float max = ReduceMax(maxima);
  // Floats keep their exponentials in the output; of 16 bits they are computed again, not rounded twice.
  constexpr bool kKeepExp = sizeof(T) == sizeof(float);
  VecF sums = {};
  ForEachVector(count, [&](int64_t i, int64_t lanes) {
    const VecF exponential = Exp(LoadLanes(x + i, lanes, kMinusInfinity) - max);
    sums += exponential;
    if (kKeepExp && !logarithm) StoreLanes(y + i, exponential, lanes);
  });
  const float sum = ReduceAdd(sums);
  if (logarithm) {
    const float offset = max + __builtin_logf(sum);
    ForEachVector(
        count, [&](int64_t i, int64_t lanes) { StoreLanes(y + i, LoadLanes(x + i, lanes) - offset, lanes); });
    return;
  }
  const float scale = 1.0f / sum;
  ForEachVector(count, [&](int64_t i, int64_t lanes) {
    const VecF exponential = kKeepExp ? LoadLanes(y + i, lanes) : Exp(LoadLanes(x + i, lanes) - max);
    StoreLanes(y + i, exponential * scale, lanes);
  });
}

LAMINA_INLINE VecF LogLanes(VecF value) {
  float lanes[kLanes];
  Store(lanes, value);
  for (float& lane : lanes) lane = __builtin_logf(lane);
  return Load(lanes);
}

template <typename T>
inline void SoftmaxColumns(const void* input, void* output, int64_t count, int64_t columns, int64_t first,
                           int64_t last, bool logarithm) {
  const T* x = static_cast<const T*>(input);
  T* y = static_cast<T*>(output);
  ForEachVector(last - first, [&](int64_t i, int64_t lanes) {
    const int64_t column = first + i;
    VecF max = Set1(kMinusInfinity);
    for (int64_t r = 0; r < count; ++r) max = Max(LoadLanes(x + r * columns + column, lanes), max);
    VecF sum = {};
    for (int64_t r = 0; r < count; ++r) sum += Exp(LoadLanes(x + r * columns + column, lanes) - max);
    const VecF offset = logarithm ? max + LogLanes(sum) : VecF{};
    const VecF scale = 1.0f / sum;
    for (int64_t r = 0; r < count; ++r) {
      const VecF value = LoadLanes(x + r * columns + column, lanes);
      const VecF result = logarithm ? value - offset : Exp(value - max) * scale;
      StoreLanes(y + r * columns + column, result, lanes);
    }
  });
}

// One element as float and back; only for strided access.
template <typename T>
LAMINA_INLINE float LoadOne(const T* source) {
  return LoadPartial(source, 1)[0];
}
template <typename T>
LAMINA_INLINE void StoreOne(T* target, float value) {
  StorePartial(target, Set1(value), 1);
}
template <>
LAMINA_INLINE float LoadOne(const float* source) {
  return *source;
}
template <>
LAMINA_INLINE void StoreOne(float* target, float value) {
  *target = value;
}

template <typename T>
inline void Rotate(const RotateHead& head) {
  const T* x = static_cast<const T*>(head.x);
  const T* cosine = static_cast<const T*>(head.cos);
  const T* sine = static_cast<const T*>(head.sin);
  T* y = static_cast<T*>(head.y);
  const int64_t pairs = head.pairs;
  if (head.interleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float c = LoadOne(cosine + i);
      const float s = LoadOne(sine + i);
      const float x1 = LoadOne(x + 2 * i);
      const float x2 = LoadOne(x + 2 * i + 1);
      StoreOne(y + 2 * i, c * x1 - s * x2);
      StoreOne(y + 2 * i + 1, s * x1 + c * x2);
    }
  } else {
    ForEachVector(pairs, [&](int64_t i, int64_t lanes) {
      const VecF c = LoadLanes(cosine + i, lanes);
      const VecF s = LoadLanes(sine + i, lanes);
      const VecF x1 = LoadLanes(x + i, lanes);
      const VecF x2 = LoadLanes(x + pairs + i, lanes);
      StoreLanes(y + i, c * x1 - s * x2, lanes);
      StoreLanes(y + pairs + i, s * x1 + c * x2, lanes);
    });
  }
  if (x != y && head.head_size > 2 * pairs) {
    std::memcpy(y + 2 * pairs, x + 2 * pairs, static_cast<size_t>(head.head_size - 2 * pairs) * sizeof(T));
  }
}

template <typename T>
inline constexpr RowKernels::OfType kRowKernelsOf = {Normalize<T, T>, Normalize<T, float>, Softmax<T>,
                                                     SoftmaxColumns<T>, Rotate<T>};

inline constexpr RowKernels kRowKernels = {kRowKernelsOf<float>, kRowKernelsOf<Float16>,
                                           kRowKernelsOf<Bfloat16>};

}  // namespace
}  // namespace lamina
