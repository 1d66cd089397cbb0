// As much of CUDA as the kernels of src/providers/cuda/device use, on the host: tests compile their sources
// with this header included first. Threads of a block are fibers that take turns, so that a barrier or an
// exchange of a warp that not all threads reach is found (the program ends with a message), and shared memory
// is as undefined between blocks as on a GPU. Blocks run one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "base/function_ref.h"
#include "base/half.h"
#include "providers/cuda/device/kernel_api.h"

// Names are CUDA's. NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static thread_local

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  explicit dim3(unsigned x_arg, unsigned y_arg = 1, unsigned z_arg = 1) : x(x_arg), y(y_arg), z(z_arg) {}
};

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};

namespace lamina::cuda::emulation {

struct Position {
  dim3 thread, block, block_size, grid;
};
// Of the thread that runs.
const Position& Current();
void SyncThreads();
// Copies `bytes` of every lane of the warp to the others and returns those of `source_lane`, valid until the
// lane's next exchange but one.
const void* Exchange(const void* value, size_t bytes, int source_lane);
// The same, of lane 0; those of the other lanes follow at kExchangeStride.
constexpr size_t kExchangeStride = 64;
const std::byte* ExchangeAll(const void* value, size_t bytes);
void* DynamicSharedMemory();
// Work of the emulated device, done at once or, while this thread records, kept.
void Do(std::function<void()> work);
void BeginRecording();
std::vector<std::function<void()>> EndRecording();
// Runs kernel() in every thread of every block.
void Run(const dim3& grid, unsigned threads, size_t shared_bytes, FunctionRef<void()> kernel);

template <typename T>
T Shuffle(T value, int source_lane) {
  T result;
  std::memcpy(&result, Exchange(&value, sizeof value, source_lane), sizeof result);
  return result;
}

}  // namespace lamina::cuda::emulation

#define threadIdx (::lamina::cuda::emulation::Current().thread)
#define blockIdx (::lamina::cuda::emulation::Current().block)
#define blockDim (::lamina::cuda::emulation::Current().block_size)
#define gridDim (::lamina::cuda::emulation::Current().grid)

inline int EmulatedLane() { return static_cast<int>(threadIdx.x % 32); }
inline void __syncthreads() { lamina::cuda::emulation::SyncThreads(); }
inline void __syncwarp() { lamina::cuda::emulation::Shuffle(0, 0); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return lamina::cuda::emulation::Shuffle(value, EmulatedLane() ^ mask);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return lamina::cuda::emulation::Shuffle(value, lane);
}

using __half = lamina::Float16;
using __nv_bfloat16 = lamina::Bfloat16;
inline float __half2float(__half value) { return value; }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }

struct __half2 {
  __half x, y;
};
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __float2half2_rn(float value) { return {__half(value), __half(value)}; }
inline float2 __half22float2(__half2 value) { return {value.x, value.y}; }
inline __half2 __hsub2(__half2 a, __half2 b) {
  return {__half(static_cast<float>(a.x) - static_cast<float>(b.x)),
          __half(static_cast<float>(a.y) - static_cast<float>(b.y))};
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return {__half(static_cast<float>(a.x) * static_cast<float>(b.x)),
          __half(static_cast<float>(a.y) * static_cast<float>(b.y))};
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  const auto one = [](double x, double y, double z) { return __half(static_cast<float>(x * y + z)); };
  return {one(a.x, b.x, c.x), one(a.y, b.y, c.y)};
}

inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline float __expf(float value) { return expf(value); }

namespace lamina::cuda {

// mma.m16n8k16 with the layout of fragments that platform.cuh describes.
template <typename T>
void EmulatedMultiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Fragments {
    uint32_t a[4];
    uint32_t b[2];
  };
  const Fragments mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const std::byte* all = emulation::ExchangeAll(&mine, sizeof mine);
  const auto element = [](uint32_t pair, int k) {
    return static_cast<float>(T::FromBits(static_cast<uint16_t>(pair >> (k % 2 * 16))));
  };
  const auto of_lane = [&](int lane) {
    Fragments fragments;
    std::memcpy(&fragments, all + static_cast<size_t>(lane) * emulation::kExchangeStride, sizeof fragments);
    return fragments;
  };
  const int lane = EmulatedLane();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i >= 2 ? 8 : 0);
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const Fragments row_of = of_lane(row % 8 * 4 + k % 8 / 2);
      const Fragments column_of = of_lane(column * 4 + k % 8 / 2);
      c[i] += element(row_of.a[(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)], k) *
              element(column_of.b[k >= 8 ? 1 : 0], k);
    }
  }
}

// ldmatrix.x4.trans as platform.cuh describes it.
inline void EmulatedLoadTransposed(uint32_t (&pairs)[4], const void* row) {
  const std::byte* all = emulation::ExchangeAll(&row, sizeof row);
  const int lane = EmulatedLane();
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t elements[2];
    for (int i = 0; i < 2; ++i) {
      const int source = matrix * 8 + lane % 4 * 2 + i;
      const uint16_t* source_row = nullptr;
      std::memcpy(&source_row, all + static_cast<size_t>(source) * emulation::kExchangeStride,
                  sizeof source_row);
      elements[i] = source_row[lane / 4];
    }
    pairs[matrix] = elements[0] | static_cast<uint32_t>(elements[1]) << 16;
  }
}

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(emulation::DynamicSharedMemory());
}

template <typename... Parameters, typename... Arguments>
int Launch(const LaunchTarget&, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
           size_t shared_bytes, const Arguments&... arguments) {
  emulation::Do([=] { emulation::Run(grid, threads, shared_bytes, [&] { kernel(arguments...); }); });
  return 0;
}

template <typename... Parameters, typename... Arguments>
int LaunchOverlapped(const LaunchTarget& target, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                     size_t shared_bytes, const Arguments&... arguments) {
  return Launch(target, kernel, grid, threads, shared_bytes, arguments...);
}

inline bool HasClusters(const LaunchTarget&) { return false; }
inline bool HasCopyEngine(const LaunchTarget&) { return true; }
template <typename... Parameters, typename... Arguments>
int LaunchClusters(const LaunchTarget&, void (*)(Parameters...), dim3, unsigned, unsigned,
                   const Arguments&...) {
  return 801;  // cudaErrorNotSupported
}

}  // namespace lamina::cuda
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
