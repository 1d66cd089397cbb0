// LayerNormalization, RMSNormalization and their forms with a residual sum: a block for each row, which stays
// in registers between the passes where it is short enough.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kNormThreads = 256;
constexpr int kHeldValues = 16;  // of each thread: rows of up to 4096 are read once

template <typename T>
class RowInput {
 public:
  __device__ RowInput(const NormArguments& arguments, int64_t row)
      : x_(static_cast<const T*>(arguments.x) + row * arguments.hidden),
        skip_(arguments.skip
                  ? static_cast<const T*>(arguments.skip) + row % arguments.skip_rows * arguments.hidden
                  : nullptr),
        bias_(static_cast<const T*>(arguments.bias)) {}
  __device__ float operator()(int64_t i) const {
    float value = ToFloat(x_[i]);
    if (skip_) value += ToFloat(skip_[i]);
    if (bias_) value += ToFloat(bias_[i]);
    return value;
  }

 private:
  const T* x_;
  const T* skip_;
  const T* bias_;
};

// Calls visit(i, value) for this thread's elements; from registers where `held` has them.
template <bool kHeld, typename Input, typename Visit>
__device__ inline void ForEachValue(const Input& input, int64_t hidden, const float (&held)[kHeldValues],
                                    Visit visit) {
  if constexpr (kHeld) {
#pragma unroll
    for (int j = 0; j < kHeldValues; ++j) {
      const int64_t i = static_cast<int64_t>(threadIdx.x) + j * kNormThreads;
      if (i < hidden) visit(i, held[j]);
    }
  } else {
    for (int64_t i = threadIdx.x; i < hidden; i += kNormThreads) visit(i, input(i));
  }
}

template <typename T, bool kHeld>
__global__ void __launch_bounds__(kNormThreads) Normalize(NormArguments arguments) {
  __shared__ float partial[kWarp];
  AllowNext();
  AwaitPrevious();
  const int64_t hidden = arguments.hidden;
  const float count = static_cast<float>(hidden);
  for (int64_t row = blockIdx.x; row < arguments.rows; row += gridDim.x) {
    const RowInput<T> input(arguments, row);
    float held[kHeldValues] = {};
    if constexpr (kHeld) {
#pragma unroll
      for (int j = 0; j < kHeldValues; ++j) {
        const int64_t i = static_cast<int64_t>(threadIdx.x) + j * kNormThreads;
        if (i < hidden) held[j] = input(i);
      }
    }
    float mean = 0;
    if (arguments.rms == 0) {
      float sum = 0;
      ForEachValue<kHeld>(input, hidden, held, [&](int64_t, float value) { sum += value; });
      mean = BlockSum(sum, partial) / count;
    }
    float squares = 0;
    ForEachValue<kHeld>(input, hidden, held,
                        [&](int64_t, float value) { squares += (value - mean) * (value - mean); });
    const float inverse_deviation = rsqrtf(BlockSum(squares, partial) / count + arguments.epsilon);

    T* y = static_cast<T*>(arguments.y) + row * hidden;
    T* sum = arguments.sum ? static_cast<T*>(arguments.sum) + row * hidden : nullptr;
    // y may be x: an element is read, here for the last time, before it is written.
    ForEachValue<kHeld>(input, hidden, held, [&](int64_t i, float value) {
      if (sum) sum[i] = FromFloat<T>(value);
      float normalized = (value - mean) * inverse_deviation;
      if (arguments.round_before_scale != 0) normalized = ToFloat(FromFloat<T>(normalized));
      normalized *= LoadAsFloat(arguments.scale_type, arguments.scale, i);
      if (arguments.shift) normalized += LoadAsFloat(arguments.scale_type, arguments.shift, i);
      y[i] = FromFloat<T>(normalized);
    });
    if (threadIdx.x == 0) {
      if (arguments.mean) arguments.mean[row] = mean;
      if (arguments.inverse_deviation) arguments.inverse_deviation[row] = inverse_deviation;
    }
  }
}

constexpr int kRowThreads = 512;
constexpr int kRowPacks = 2;  // of each thread
constexpr int kRowWidth = 8;  // elements of one 16-byte access

// The same for rows of 16-bit elements that a block holds as packs, without bias, shift and statistics: what
// comes between the products of a decoder.
template <typename T>
__global__ void __launch_bounds__(kRowThreads) NormalizeHeld(NormArguments arguments) {
  using Elements = Pack<T, kRowWidth>;
  __shared__ float partial[kWarp];
  const auto packs = static_cast<int>(arguments.hidden / kRowWidth);
  const int64_t row = blockIdx.x;
  const auto* scale = static_cast<const T*>(arguments.scale);
  Elements scales[kRowPacks];
#pragma unroll
  for (int j = 0; j < kRowPacks; ++j) {
    const int pack = static_cast<int>(threadIdx.x) + j * kRowThreads;
    if (pack < packs) scales[j] = LoadPack<kRowWidth>(scale + pack * kRowWidth);
  }
  AllowNext();
  AwaitPrevious();
  const T* x = static_cast<const T*>(arguments.x) + row * arguments.hidden;
  const T* skip = arguments.skip
                      ? static_cast<const T*>(arguments.skip) + row % arguments.skip_rows * arguments.hidden
                      : nullptr;
  float held[kRowPacks][kRowWidth] = {};
#pragma unroll
  for (int j = 0; j < kRowPacks; ++j) {
    const int pack = static_cast<int>(threadIdx.x) + j * kRowThreads;
    if (pack >= packs) continue;
    const Elements values = LoadPack<kRowWidth>(x + pack * kRowWidth);
    Elements skipped = {};
    if (skip) skipped = LoadPack<kRowWidth>(skip + pack * kRowWidth);
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) {
      held[j][i] = ToFloat(values.values[i]) + (skip ? ToFloat(skipped.values[i]) : 0.0f);
    }
  }
  const float count = static_cast<float>(arguments.hidden);
  float mean = 0;
  if (arguments.rms == 0) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kRowPacks; ++j) {
#pragma unroll
      for (int i = 0; i < kRowWidth; ++i) sum += held[j][i];
    }
    mean = BlockSum(sum, partial) / count;
  }
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kRowPacks; ++j) {
    if (static_cast<int>(threadIdx.x) + j * kRowThreads >= packs) continue;
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) squares += (held[j][i] - mean) * (held[j][i] - mean);
  }
  const float inverse_deviation = rsqrtf(BlockSum(squares, partial) / count + arguments.epsilon);
#pragma unroll
  for (int j = 0; j < kRowPacks; ++j) {
    const int pack = static_cast<int>(threadIdx.x) + j * kRowThreads;
    if (pack >= packs) continue;
    Elements sums;
    Elements results;
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) {
      sums.values[i] = FromFloat<T>(held[j][i]);
      float normalized = (held[j][i] - mean) * inverse_deviation;
      if (arguments.round_before_scale != 0) normalized = ToFloat(FromFloat<T>(normalized));
      results.values[i] = FromFloat<T>(normalized * ToFloat(scales[j].values[i]));
    }
    const int64_t at = row * arguments.hidden + pack * kRowWidth;
    if (arguments.sum) StorePack<kRowWidth>(static_cast<T*>(arguments.sum) + at, sums);
    StorePack<kRowWidth>(static_cast<T*>(arguments.y) + at, results);
  }
}

bool IsHeld(const NormArguments& arguments) {
  const auto is_aligned = [](const void* pointer) { return IsAligned(pointer, 16); };
  constexpr int64_t kMaxRows = 65535;
  return arguments.type != ElementType::kFloat && arguments.scale_type == arguments.type && !arguments.bias &&
         !arguments.shift && !arguments.mean && !arguments.inverse_deviation &&
         arguments.hidden % kRowWidth == 0 &&
         arguments.hidden <= int64_t{kRowThreads} * kRowPacks * kRowWidth && arguments.rows <= kMaxRows &&
         is_aligned(arguments.x) && is_aligned(arguments.skip) && is_aligned(arguments.scale) &&
         is_aligned(arguments.y) && is_aligned(arguments.sum);
}

}  // namespace

int LaunchNorm(const LaunchTarget& target, const NormArguments& arguments) {
  if (arguments.hidden == 0) return 0;
  const int64_t blocks = arguments.rows < 65535 ? arguments.rows : 65535;
  const dim3 grid(static_cast<unsigned>(blocks));
  if (IsHeld(arguments)) {
    return arguments.type == ElementType::kFloat16
               ? LaunchOverlapped(target, NormalizeHeld<__half>, grid, kRowThreads, 0, arguments)
               : LaunchOverlapped(target, NormalizeHeld<__nv_bfloat16>, grid, kRowThreads, 0, arguments);
  }
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (arguments.hidden <= kHeldValues * kNormThreads) {
      return LaunchOverlapped(target, Normalize<T, true>, grid, kNormThreads, 0, arguments);
    }
    return LaunchOverlapped(target, Normalize<T, false>, grid, kNormThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
