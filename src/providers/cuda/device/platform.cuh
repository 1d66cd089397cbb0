// What the sources of kernels share: element types, vectors of elements, sums over warps and blocks, and how
// a kernel is launched.
//
// Tests compile the same sources for the host with an emulation of blocks and warps that is included before
// everything else (LAMINA_CUDA_EMULATION). For its sake kernels keep to what is declared here, all lanes of a
// warp take part in every exchange, and no thread leaves before a barrier.
#pragma once

#include <cstdint>

#ifndef LAMINA_CUDA_EMULATION
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

#include "providers/cuda/device/kernel_api.h"

namespace lamina::cuda {

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;
constexpr int kErrorNotSupported = 801;  // cudaErrorNotSupported: a type that the family does not have

// ---- Element types

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__half value) { return __half2float(value); }
__device__ inline float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline __half FromFloat<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <typename T>
struct IsHalf {
  static constexpr bool value = false;
};
template <>
struct IsHalf<__half> {
  static constexpr bool value = true;
};

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls function(TypeTag<T>()) for float, float16 or bfloat16.
template <typename F>
int DispatchFloat(ElementType type, F function) {
  switch (type) {
    case ElementType::kFloat:
      return function(TypeTag<float>());
    case ElementType::kFloat16:
      return function(TypeTag<__half>());
    case ElementType::kBfloat16:
      return function(TypeTag<__nv_bfloat16>());
    default:
      return kErrorNotSupported;
  }
}

// A scale, bias or mask whose type is known at run time only.
__device__ inline float LoadAsFloat(ElementType type, const void* data, int64_t index) {
  switch (type) {
    case ElementType::kFloat16:
      return ToFloat(static_cast<const __half*>(data)[index]);
    case ElementType::kBfloat16:
      return ToFloat(static_cast<const __nv_bfloat16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

__device__ inline int64_t LoadIndex(ElementType type, const void* data, int64_t index) {
  return type == ElementType::kInt64 ? static_cast<const int64_t*>(data)[index]
                                     : static_cast<const int32_t*>(data)[index];
}

// ---- Vectors

// N neighbouring elements, moved in one access where they are aligned to their size.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <int N, typename T>
__device__ inline Pack<T, N> LoadPack(const T* source) {
  return *reinterpret_cast<const Pack<T, N>*>(source);
}
template <int N, typename T>
__device__ inline void StorePack(T* target, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(target) = pack;
}

inline bool IsAligned(const void* address, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

// 16 bytes that are read once: they leave no trace in the first cache.
__device__ inline uint4 LoadOnce(const void* source) {
#ifdef LAMINA_CUDA_EMULATION
  return *static_cast<const uint4*>(source);
#else
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(source));
  return value;
#endif
}

// ---- Kernels that begin while the one before ends (LaunchOverlapped)

// Kernels with one block on each multiprocessor that stays for a whole product. They take so much shared
// memory that a multiprocessor never has two such blocks: where one did, it would have twice the work of
// others. The next such kernel's block comes where one leaves, and fetches its weights while small kernels in
// between are at work, for whose blocks there is room.
constexpr int64_t kStreamedBytes = int64_t{192} << 10;
constexpr int64_t kStreamedMinBytes = int64_t{120} << 10;

// Until here nothing may be read or written that other kernels of the run write or read.
__device__ inline void AwaitPrevious() {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// From here on the next kernel may begin, where there is room.
__device__ inline void AllowNext() {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// ---- Copies into shared memory by the copy engine of a multiprocessor (HasCopyEngine)

// Tells when a copy has come. One lane of a warp starts copies; the whole warp waits.
class CopyBarrier {
 public:
  // By the lane that starts copies, before it does; others see it after a barrier of threads.
  __device__ void Init() {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address()) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  // Both sides and the size are aligned to 16 bytes.
  __device__ void Copy(void* shared, const void* source, uint32_t bytes) {
#ifdef LAMINA_CUDA_EMULATION
    memcpy(shared, source, bytes);
#elif __CUDA_ARCH__ >= 900
    const auto destination = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            destination),
        "l"(source), "r"(bytes), "r"(address())
        : "memory");
#endif
  }
  // For the copies in turn: parity 0, 1, 0, ...
  __device__ void Wait(uint32_t parity) {
#ifdef LAMINA_CUDA_EMULATION
    static_cast<void>(parity);
    __syncwarp();  // the lane that copies has done it
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "WAIT_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra WAIT_%=;\n"
        "}\n" ::"r"(address()),
        "r"(parity)
        : "memory");
#endif
  }

 private:
#ifndef LAMINA_CUDA_EMULATION
  __device__ uint32_t address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(&state_)); }
#endif
  uint64_t state_;
};

// A ring of copies of one warp: each stage is filled again when it was read. Turns go round and round.
struct RingTurn {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void Next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// ---- Clusters: blocks that run at the same time and read each other's shared memory

constexpr int kMaxClusterBlocks = 8;  // on every device that has clusters

// All threads of all blocks of the cluster have come to the first; from the second on what they wrote before
// to shared memory, of whatever block, is seen. Threads may do other things in between.
__device__ inline void ArriveAtCluster() {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void AwaitCluster() {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Writes where block `rank` of the cluster has what this block has at `shared`. Aligned to 16 bytes.
__device__ inline void StoreToCluster(float* shared, int rank, const Pack<float, 4>& values) {
#if !defined(LAMINA_CUDA_EMULATION) && __CUDA_ARCH__ >= 900
  const auto own = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  uint32_t address = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(values.values[0]),
               "f"(values.values[1]), "f"(values.values[2]), "f"(values.values[3])
               : "memory");
#else
  static_cast<void>(rank);
  StorePack<4>(shared, values);
#endif
}

// ---- Warps and blocks

__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kFullMask, value, offset);
  return value;
}
__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullMask, value, offset));
  }
  return value;
}

// The sum over the block in every thread, in an order that depends on the block's size alone. `partial` is
// shared, of 32 floats. REQUIRES: whole warps.
__device__ inline float BlockSum(float value, float* partial) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = WarpSum(value);
  __syncthreads();  // what the sum before left in `partial` has been read
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return WarpSum(lane < warps ? partial[lane] : 0.0f);
}
__device__ inline float BlockMax(float value, float* partial) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = WarpMax(value);
  __syncthreads();
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return WarpMax(lane < warps ? partial[lane] : partial[0]);
}

// c [16, 8] += a [16, 16] b [16, 8] over a warp, by the matrix units: the fragments of PTX's mma.m16n8k16
// with fp32 sums. With g = lane / 4 and t = lane % 4, each pair two neighbours along k: a (g, 2t) (g + 8, 2t)
// (g, 2t + 8) (g + 8, 2t + 8); b (2t, g) (2t + 8, g); c (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1).
template <typename T>
__device__ inline void MultiplyFragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef LAMINA_CUDA_EMULATION
  EmulatedMultiply<T>(c, a, b);
#elif __CUDA_ARCH__ >= 800
  if constexpr (IsHalf<T>::value) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

// Four 8 x 8 matrices of 16-bit elements from shared memory, transposed: lane l names row l % 8 of matrix
// l / 8, and gets of each matrix the elements (2t, g) and (2t + 1, g) as one pair. Rows are aligned to 16
// bytes.
__device__ inline void LoadTransposed(uint32_t (&pairs)[4], const void* row) {
#ifdef LAMINA_CUDA_EMULATION
  EmulatedLoadTransposed(pairs, row);
#elif __CUDA_ARCH__ >= 750
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(address)
               : "memory");
#endif
}

// Two neighbours of 16-bit elements in one register, the first in the low half.
template <typename T>
__device__ inline uint32_t PairOf(float low, float high) {
  Pack<T, 2> pair;
  pair.values[0] = FromFloat<T>(low);
  pair.values[1] = FromFloat<T>(high);
  return reinterpret_cast<const uint32_t&>(pair);
}

__device__ inline uint32_t LoadPair(const void* shared, int element) {
  return static_cast<const uint32_t*>(shared)[element / 2];
}

// ---- Launching

#ifndef LAMINA_CUDA_EMULATION

// Makes a device current and restores the one before.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ != cudaSuccess || before_ == device) return;
    error_ = cudaSetDevice(device);
    changed_ = error_ == cudaSuccess;
  }
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

// The runtime also keeps an error to report it once more at a call that has nothing to do with it.
inline int Outcome(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return static_cast<int>(error);
}

template <typename T>
__device__ inline T* DynamicShared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  return reinterpret_cast<T*>(dynamic_shared);
}

constexpr size_t kPlainSharedBytes = 48 * 1024;  // more has to be asked for

struct LaunchShape {
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
int LaunchWith(const LaunchTarget& target, void (*kernel)(Parameters...), const LaunchShape& shape,
               cudaLaunchAttribute* attributes, unsigned num_attributes, const Arguments&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return 0;
  const CurrentDevice current(target.device);
  if (current.error() != cudaSuccess) return Outcome(current.error());
  if (shape.shared_bytes > kPlainSharedBytes) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) return Outcome(error);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(target.stream);
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  return Outcome(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <typename... Parameters, typename... Arguments>
int Launch(const LaunchTarget& target, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
           size_t shared_bytes, const Arguments&... arguments) {
  return LaunchWith(target, kernel, {grid, threads, shared_bytes}, nullptr, 0, arguments...);
}

// Whether the code that runs there has the instructions of AwaitPrevious.
inline bool CanOverlap(const LaunchTarget& target) {
#ifdef __CUDA_ARCH_LIST__
  for (const int built : {__CUDA_ARCH_LIST__}) {
    if (built >= 900 && built <= target.compute_capability * 10) return true;
  }
#endif
  return false;
}

inline bool HasClusters(const LaunchTarget& target) { return CanOverlap(target); }
// Devices of consumers (12.0) have the engine, and half of the shared memory that kernels with rings take.
inline bool HasCopyEngine(const LaunchTarget& target) {
  constexpr int kHalfTheMemory = 120;
  return CanOverlap(target) && target.compute_capability < kHalfTheMemory;
}

// Kernels that overlap agree on the division of a multiprocessor's memory into shared memory and cache: where
// it changes, one waits for the other.
inline cudaLaunchAttribute MostSharedMemory() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attribute.val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  return attribute;
}
inline cudaLaunchAttribute Overlap() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// As LaunchOverlapped, in clusters of `cluster` blocks along x. REQUIRES: HasClusters.
template <typename... Parameters, typename... Arguments>
int LaunchClusters(const LaunchTarget& target, void (*kernel)(Parameters...), dim3 grid, unsigned cluster,
                   unsigned threads, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[3] = {Overlap(), MostSharedMemory(), {}};
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim.x = cluster;
  attributes[2].val.clusterDim.y = 1;
  attributes[2].val.clusterDim.z = 1;
  return LaunchWith(target, kernel, {grid, threads, 0}, attributes, 3, arguments...);
}

// For kernels whose threads all call AwaitPrevious: they may begin while the kernel before is under way.
template <typename... Parameters, typename... Arguments>
int LaunchOverlapped(const LaunchTarget& target, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                     size_t shared_bytes, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {Overlap(), MostSharedMemory()};
  return LaunchWith(target, kernel, {grid, threads, shared_bytes}, attributes, CanOverlap(target) ? 2u : 0u,
                    arguments...);
}

#endif

template <typename I>
__host__ __device__ constexpr I CeilDiv(I a, I b) {
  return (a + b - 1) / b;
}

constexpr unsigned kElementThreads = 256;

// Blocks for a loop over `count` items in steps of the grid.
inline dim3 GridFor(const LaunchTarget& target, int64_t count) {
  const int64_t wanted = CeilDiv<int64_t>(count, kElementThreads);
  const int64_t enough = int64_t{target.multiprocessors} * 16;
  return dim3(static_cast<unsigned>(wanted < enough ? wanted : enough));
}

// `launch` with an element of that many bytes, for kernels that move elements whatever they mean.
template <typename F>
int LaunchByWidth(int64_t element_bytes, F launch) {
  switch (element_bytes) {
    case 1:
      return launch(uint8_t{});
    case 2:
      return launch(uint16_t{});
    case 4:
      return launch(uint32_t{});
    case 8:
      return launch(uint64_t{});
    default:
      return kErrorNotSupported;
  }
}

// The first item of this thread in such a loop, and the step.
__device__ inline int64_t FirstItem() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ItemStep() { return int64_t{gridDim.x} * blockDim.x; }

// Where element `index` of the loops lies in their operands.
template <int kOperands>
__device__ inline void Locate(const StridedLoops& loops, uint32_t index, int64_t (&offsets)[kOperands]) {
#pragma unroll
  for (int operand = 0; operand < kOperands; ++operand) offsets[operand] = 0;
  for (int axis = loops.rank - 1; axis >= 0; --axis) {
    uint32_t step = index;
    if (axis > 0) {
      const uint32_t rest = index / loops.dims[axis];
      step = index - rest * loops.dims[axis];
      index = rest;
    }
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) {
      offsets[operand] += step * loops.strides[operand][axis];
    }
  }
}

}  // namespace lamina::cuda
