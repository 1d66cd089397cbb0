// What happens to heads before attention: rotation, normalisation, and their way into the cache.
#include "providers/cuda/device/attention.cuh"
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kMaxHeadSize = 512;
constexpr int kWarps = 4;

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) Rotary(RotaryArguments arguments) {
  __shared__ float heads[kWarps][kMaxHeadSize];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t count = int64_t{arguments.batch} * arguments.sequence * arguments.heads;
  for (int64_t item = int64_t{blockIdx.x} * kWarps + warp; item < count;
       item += int64_t{gridDim.x} * kWarps) {
    const int head = static_cast<int>(item % arguments.heads);
    const int s = static_cast<int>(item / arguments.heads % arguments.sequence);
    const int b = static_cast<int>(item / arguments.heads / arguments.sequence);
    const int64_t row =
        RotaryRow(arguments.position, arguments.ids, b, s, arguments.sequence, 0, arguments.cache_rows) *
        arguments.pairs;
    const T* x = static_cast<const T*>(arguments.x) + b * arguments.x_strides.batch +
                 s * arguments.x_strides.token + head * arguments.x_strides.head;
    T* y = static_cast<T*>(arguments.y) + b * arguments.y_strides.batch + s * arguments.y_strides.token +
           head * arguments.y_strides.head;
    PrepareHead<T>(x, y, arguments.head_size, nullptr, 0.0f, static_cast<const T*>(arguments.cos) + row,
                   static_cast<const T*>(arguments.sin) + row, arguments.pairs, arguments.interleaved,
                   heads[warp]);
  }
}

// A warp for each head of each token: the queries', then the keys', then the values'.
template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) AttentionTokens(AttentionTokensArguments arguments) {
  __shared__ float heads[kWarps][kMaxHeadSize];
  AllowNext();
  AwaitPrevious();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int query_heads = arguments.queries ? arguments.heads : 0;
  const int heads_of_token = query_heads + 2 * arguments.kv_heads;
  const int64_t count = int64_t{arguments.batch} * arguments.sequence * heads_of_token;
  for (int64_t item = int64_t{blockIdx.x} * kWarps + warp; item < count;
       item += int64_t{gridDim.x} * kWarps) {
    const int head = static_cast<int>(item % heads_of_token);
    const int s = static_cast<int>(item / heads_of_token % arguments.sequence);
    const int b = static_cast<int>(item / heads_of_token / arguments.sequence);
    const int past = PastTokens(arguments.lengths, b, arguments.sequence);
    const int slot = past + s;
    const bool is_stored =
        slot < KeyTokens(arguments.lengths, b, arguments.sequence) && slot < arguments.cache.capacity_tokens;
    const T* cos = nullptr;
    const T* sin = nullptr;
    if (arguments.cos) {
      const int64_t row =
          RotaryRow(arguments.position, arguments.ids, b, s, arguments.sequence, past, arguments.cache_rows) *
          arguments.pairs;
      cos = static_cast<const T*>(arguments.cos) + row;
      sin = static_cast<const T*>(arguments.sin) + row;
    }
    if (head < query_heads) {
      const HeadStrides& strides = arguments.query_strides;
      const T* x = static_cast<const T*>(arguments.query) + b * strides.batch + s * strides.token +
                   head * strides.head;
      T* y = static_cast<T*>(arguments.queries) +
             ((int64_t{b} * arguments.sequence + s) * arguments.heads + head) * arguments.head_size;
      PrepareHead<T>(x, y, arguments.head_size, static_cast<const T*>(arguments.q_norm),
                     arguments.norm_epsilon, cos, sin, arguments.pairs, arguments.interleaved, heads[warp]);
    } else if (!is_stored) {
      continue;
    } else if (head < query_heads + arguments.kv_heads) {
      const HeadStrides& strides = arguments.key_strides;
      const int kv_head = head - query_heads;
      const T* x = static_cast<const T*>(arguments.key) + b * strides.batch + s * strides.token +
                   kv_head * strides.head;
      T* y = reinterpret_cast<T*>(TokenAddress(arguments.cache, arguments.cache.key, b, kv_head, slot));
      PrepareHead<T>(x, y, arguments.head_size, static_cast<const T*>(arguments.k_norm),
                     arguments.norm_epsilon, cos, sin, arguments.pairs, arguments.interleaved, heads[warp]);
    } else {
      const HeadStrides& strides = arguments.value_strides;
      const int kv_head = head - query_heads - arguments.kv_heads;
      const T* x = static_cast<const T*>(arguments.value) + b * strides.batch + s * strides.token +
                   kv_head * strides.head;
      T* y = reinterpret_cast<T*>(TokenAddress(arguments.cache, arguments.cache.value, b, kv_head, slot));
      for (int i = lane; i < arguments.value_head_size; i += kWarp) y[i] = x[i];
    }
  }
}

template <typename T>
__global__ void AttentionPast(AttentionPastArguments arguments) {
  const int64_t row = int64_t{arguments.present_tokens} * arguments.head_size;
  const int64_t count = int64_t{arguments.batch} * arguments.kv_heads * row;
  const T* past = static_cast<const T*>(arguments.past);
  T* present = static_cast<T*>(arguments.present);
  for (int64_t i = FirstItem(); i < count; i += ItemStep()) {
    const int64_t plane = i / row;
    const int64_t within = i % row;
    const int token = static_cast<int>(within / arguments.head_size);
    const int b = static_cast<int>(plane / arguments.kv_heads);
    int tokens = PastTokens(arguments.lengths, b, arguments.sequence);
    if (tokens > arguments.past_tokens) tokens = arguments.past_tokens;
    const bool has = past != nullptr && token < tokens;
    present[i] = has ? past[plane * arguments.past_tokens * arguments.head_size + within] : T{};
  }
}

unsigned BlocksFor(const LaunchTarget& target, int64_t warps) {
  const int64_t wanted = CeilDiv<int64_t>(warps, kWarps);
  const int64_t enough = int64_t{target.multiprocessors} * 16;
  return static_cast<unsigned>(wanted < enough ? wanted : enough);
}

}  // namespace

int LaunchRotary(const LaunchTarget& target, const RotaryArguments& arguments) {
  if (arguments.head_size > kMaxHeadSize) return kErrorNotSupported;
  const int64_t warps = int64_t{arguments.batch} * arguments.sequence * arguments.heads;
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, Rotary<T>, dim3(BlocksFor(target, warps)), kWarps * kWarp, 0, arguments);
  });
}

int LaunchAttentionTokens(const LaunchTarget& target, const AttentionTokensArguments& arguments) {
  if (arguments.head_size > kMaxHeadSize) return kErrorNotSupported;
  const int64_t heads = (arguments.queries ? arguments.heads : 0) + int64_t{2} * arguments.kv_heads;
  const int64_t warps = int64_t{arguments.batch} * arguments.sequence * heads;
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return LaunchOverlapped(target, AttentionTokens<T>, dim3(BlocksFor(target, warps)), kWarps * kWarp, 0,
                            arguments);
  });
}

int LaunchAttentionPast(const LaunchTarget& target, const AttentionPastArguments& arguments) {
  const int64_t count =
      int64_t{arguments.batch} * arguments.kv_heads * arguments.present_tokens * arguments.head_size;
  const dim3 grid = GridFor(target, count);
  if (arguments.element_bytes == 4) {
    return Launch(target, AttentionPast<uint32_t>, grid, kElementThreads, 0, arguments);
  }
  return Launch(target, AttentionPast<uint16_t>, grid, kElementThreads, 0, arguments);
}

}  // namespace lamina::cuda
