// Gather of rows, and of rows of 4- and 8-bit values. Indices are on the device, where nobody can refuse a
// wrong one before it is used: such a row is zeros.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

// The index counted from the front, or -1.
__device__ inline int64_t IndexAt(ElementType type, const void* indices, int64_t i, int64_t dim) {
  int64_t index = LoadIndex(type, indices, i);
  if (index < 0) index += dim;
  return index >= 0 && index < dim ? index : -1;
}

// A block for each row of the output.
template <typename T>
__global__ void Gather(GatherArguments arguments) {
  const int64_t row_elements = arguments.row_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t rows = arguments.outer * arguments.index_count;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t outer = row / arguments.index_count;
    const int64_t index =
        IndexAt(arguments.index_type, arguments.indices, row % arguments.index_count, arguments.axis_dim);
    const T* source =
        static_cast<const T*>(arguments.data) + (outer * arguments.axis_dim + index) * row_elements;
    T* target = static_cast<T*>(arguments.out) + row * row_elements;
    for (int64_t i = threadIdx.x; i < row_elements; i += blockDim.x) target[i] = index < 0 ? T{} : source[i];
  }
}

__device__ inline int Quant(const GatherQuantizedArguments& arguments, const uint8_t* bytes, int64_t index) {
  if (arguments.bits == 8) return bytes[index];
  const int value = (bytes[index / 2] >> (index % 2 * 4)) & 15;
  return arguments.is_signed != 0 && value > 7 ? value - 16 : value;
}

__device__ inline float Dequantize(const GatherQuantizedArguments& arguments, int64_t flat) {
  const int64_t within = flat % arguments.quantize_stride;
  const int64_t row = flat / arguments.quantize_stride;
  const int64_t block = row % arguments.quantize_dim / arguments.block_size;
  const int64_t scale =
      (row / arguments.quantize_dim * arguments.blocks + block) * arguments.quantize_stride + within;
  int zero = arguments.default_zero;
  if (arguments.zeros) {
    int64_t index = scale;
    if (arguments.zero_rows_padded != 0) {
      const int64_t padded_dim = (arguments.last_scale_dim + 1) / 2 * 2;
      index = scale / arguments.last_scale_dim * padded_dim + scale % arguments.last_scale_dim;
    }
    zero = Quant(arguments, arguments.zeros, index);
  }
  return static_cast<float>(Quant(arguments, arguments.data, flat) - zero) *
         LoadAsFloat(arguments.type, arguments.scales, scale);
}

template <typename T>
__global__ void GatherQuantized(GatherQuantizedArguments arguments) {
  const int64_t slices = arguments.outer * arguments.index_count;
  for (int64_t slice = blockIdx.x; slice < slices; slice += gridDim.x) {
    const int64_t index =
        IndexAt(arguments.index_type, arguments.indices, slice % arguments.index_count, arguments.gather_dim);
    const int64_t first = (slice / arguments.index_count * arguments.gather_dim + index) * arguments.inner;
    T* target = static_cast<T*>(arguments.out) + slice * arguments.inner;
    for (int64_t i = threadIdx.x; i < arguments.inner; i += blockDim.x) {
      target[i] = FromFloat<T>(index < 0 ? 0.0f : Dequantize(arguments, first + i));
    }
  }
}

constexpr int64_t kMaxBlocks = 65535;

dim3 BlocksFor(int64_t rows) { return dim3(static_cast<unsigned>(rows < kMaxBlocks ? rows : kMaxBlocks)); }

}  // namespace

int LaunchGather(const LaunchTarget& target, const GatherArguments& arguments) {
  const dim3 grid = BlocksFor(arguments.outer * arguments.index_count);
  const auto moves = [&](int64_t bytes) {
    return arguments.row_bytes % bytes == 0 && IsAligned(arguments.data, static_cast<uint64_t>(bytes)) &&
           IsAligned(arguments.out, static_cast<uint64_t>(bytes));
  };
  if (moves(16)) return Launch(target, Gather<uint4>, grid, kElementThreads, 0, arguments);
  if (moves(4)) return Launch(target, Gather<uint32_t>, grid, kElementThreads, 0, arguments);
  if (moves(2)) return Launch(target, Gather<uint16_t>, grid, kElementThreads, 0, arguments);
  return Launch(target, Gather<uint8_t>, grid, kElementThreads, 0, arguments);
}

int LaunchGatherQuantized(const LaunchTarget& target, const GatherQuantizedArguments& arguments) {
  const dim3 grid = BlocksFor(arguments.outer * arguments.index_count);
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, GatherQuantized<T>, grid, kElementThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
