// Attention of many queries by the matrix units: a block takes 64 queries of one head, 16 for each of its 4
// warps, and goes through the keys they see in tiles of 64. The scores of a tile stay in registers, where the
// running softmax is kept and from where they go into the product with the values.
#include "providers/cuda/device/attention.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kQueriesOfWarp = 16;
constexpr int kQueries = kWarps * kQueriesOfWarp;
constexpr int kKeys = 64;  // of a tile
constexpr int kKeyFragments = kKeys / 8;
constexpr int kWidth = 8;  // elements of one 16-byte access

// kSize: the head size, rounded up to whole steps of the matrix units; channels behind the head are zeros.
// kPlain: neither softcap nor biases.
template <typename T, int kSize, bool kPlain>
__global__ void __launch_bounds__(kThreads) AttendTiles(AttentionArguments arguments) {
  constexpr int kStride = kSize + 8;  // of shared memory: the lanes of a fragment fall into 32 banks
  constexpr int kSteps = kSize / 16;
  constexpr int kChannelFragments = kSize / 8;
  __shared__ __align__(16) uint16_t shared_keys[kKeys * kStride];
  __shared__ __align__(16) uint16_t shared_values[kKeys * kStride];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int group = lane / 4;   // row of a fragment
  const int column = lane % 4;  // pair of a fragment
  // The last queries see the most keys: they begin first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (arguments.heads / arguments.kv_heads);
  const int b = static_cast<int>(blockIdx.z);
  const int size = arguments.head_size;
  const int past = PastTokens(arguments.lengths, b, arguments.sequence);
  const int tokens =
      Smaller(KeyTokens(arguments.lengths, b, arguments.sequence), arguments.cache.capacity_tokens);
  const int last_query = Smaller(first_query + kQueries, arguments.sequence) - 1;
  const int begin = VisibleKeys(arguments, past + first_query, tokens).begin;
  const int end = VisibleKeys(arguments, past + last_query, tokens).end;

  // This lane's rows: queries rows[0] and rows[1], their fragments of all channels.
  const int rows[2] = {first_query + warp * kQueriesOfWarp + group,
                       first_query + warp * kQueriesOfWarp + group + 8};
  KeyRange visible[2];
  uint32_t queries[kSteps][4];
  for (int r = 0; r < 2; ++r) {
    const int row = Smaller(rows[r], arguments.sequence - 1);  // one that is not there is not stored
    visible[r] = VisibleKeys(arguments, past + row, tokens);
    const T* query = static_cast<const T*>(arguments.query) + b * arguments.query_strides.batch +
                     row * arguments.query_strides.token + head * arguments.query_strides.head;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int channel = step * 16 + half * 8 + column * 2;
        queries[step][half * 2 + r] = channel < size ? LoadPair(query, channel) : 0u;
      }
    }
  }

  float outputs[kChannelFragments][4] = {};
  float maxima[2] = {-INFINITY, -INFINITY};
  float sums[2] = {0, 0};
  for (int tile = begin; tile < end; tile += kKeys) {
    __syncthreads();  // the tile before has been read
    for (int pack = thread; pack < kKeys * kSize / kWidth; pack += kThreads) {
      const int key = pack / (kSize / kWidth);
      const int channel = pack % (kSize / kWidth) * kWidth;
      uint4 key_pack = {0, 0, 0, 0};
      uint4 value_pack = {0, 0, 0, 0};
      if (tile + key < end && channel < size) {
        key_pack = *reinterpret_cast<const uint4*>(
            TokenAddress(arguments.cache, arguments.cache.key, b, kv_head, tile + key) +
            channel * static_cast<int>(sizeof(T)));
        value_pack = *reinterpret_cast<const uint4*>(
            TokenAddress(arguments.cache, arguments.cache.value, b, kv_head, tile + key) +
            channel * static_cast<int>(sizeof(T)));
      }
      *reinterpret_cast<uint4*>(&shared_keys[key * kStride + channel]) = key_pack;
      *reinterpret_cast<uint4*>(&shared_values[key * kStride + channel]) = value_pack;
    }
    __syncthreads();

    float scores[kKeyFragments][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int n = 0; n < kKeyFragments; ++n) {
        const int at = (n * 8 + group) * kStride + step * 16 + column * 2;
        const uint32_t keys[2] = {LoadPair(shared_keys, at), LoadPair(shared_keys, at + 8)};
        MultiplyFragments<T>(scores[n], queries[step], keys);
      }
    }
    float tile_maxima[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < kKeyFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i / 2;
        const int key = tile + n * 8 + column * 2 + i % 2;
        float score = -INFINITY;
        if (key >= visible[r].begin && key < visible[r].end && rows[r] < arguments.sequence) {
          score = kPlain ? scores[n][i] * arguments.scale
                         : FinishScore(arguments, scores[n][i], b, head, rows[r], key);
        }
        scores[n][i] = score;
        tile_maxima[r] = fmaxf(tile_maxima[r], score);
      }
    }
    // The four lanes of a row have its maximum and sum together.
    float corrections[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile_maxima[r] = fmaxf(tile_maxima[r], __shfl_xor_sync(kFullMask, tile_maxima[r], 1));
      tile_maxima[r] = fmaxf(tile_maxima[r], __shfl_xor_sync(kFullMask, tile_maxima[r], 2));
      const float max = fmaxf(maxima[r], tile_maxima[r]);
      corrections[r] = Weight(maxima[r], max);
      maxima[r] = max;
      sums[r] *= corrections[r];
    }
#pragma unroll
    for (int n = 0; n < kKeyFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = Weight(scores[n][i], maxima[i / 2]);
        sums[i / 2] += scores[n][i];
      }
    }
#pragma unroll
    for (int n = 0; n < kChannelFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs[n][i] *= corrections[i / 2];
    }
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      const uint32_t weights[4] = {PairOf<T>(scores[2 * step][0], scores[2 * step][1]),
                                   PairOf<T>(scores[2 * step][2], scores[2 * step][3]),
                                   PairOf<T>(scores[2 * step + 1][0], scores[2 * step + 1][1]),
                                   PairOf<T>(scores[2 * step + 1][2], scores[2 * step + 1][3])};
#pragma unroll
      for (int n = 0; n < kChannelFragments; n += 2) {
        // Matrices of keys step * 16 and + 8, for channels n * 8 and + 8.
        uint32_t values[4];
        LoadTransposed(values, &shared_values[(step * 16 + lane % 16) * kStride + n * 8 + lane / 16 * 8]);
        const uint32_t first[2] = {values[0], values[1]};
        const uint32_t second[2] = {values[2], values[3]};
        MultiplyFragments<T>(outputs[n], weights, first);
        MultiplyFragments<T>(outputs[n + 1], weights, second);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sums[r] += __shfl_xor_sync(kFullMask, sums[r], 1);
    sums[r] += __shfl_xor_sync(kFullMask, sums[r], 2);
    const float sink = SinkOf<T>(arguments, head);
    const float max = fmaxf(maxima[r], sink);
    const float correction = Weight(maxima[r], max);
    const float sum = sums[r] * correction + Weight(sink, max);
    const float factor = sum > 0.0f ? correction / sum : 0.0f;
    if (rows[r] >= arguments.sequence) continue;
    T* out = OutputOf<T>(arguments, b, rows[r], head);
#pragma unroll
    for (int n = 0; n < kChannelFragments; ++n) {
      const int channel = n * 8 + column * 2;
      if (channel >= size) continue;
      out[channel] = FromFloat<T>(outputs[n][r * 2] * factor);
      out[channel + 1] = FromFloat<T>(outputs[n][r * 2 + 1] * factor);
    }
  }
}

template <typename T, int kSize>
int LaunchSize(const LaunchTarget& target, const AttentionArguments& arguments) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(arguments.sequence, kQueries)),
                  static_cast<unsigned>(arguments.heads), static_cast<unsigned>(arguments.batch));
  const bool plain = arguments.softcap == 0.0f && !arguments.biases[0].data && !arguments.biases[1].data;
  if (plain) return Launch(target, AttendTiles<T, kSize, true>, grid, kThreads, 0, arguments);
  return Launch(target, AttendTiles<T, kSize, false>, grid, kThreads, 0, arguments);
}

template <typename T>
int LaunchTyped(const LaunchTarget& target, const AttentionArguments& arguments) {
  if (arguments.head_size <= 64) return LaunchSize<T, 64>(target, arguments);
  return LaunchSize<T, 128>(target, arguments);
}

}  // namespace

bool TilesServe(const LaunchTarget& target, const AttentionArguments& arguments) {
  constexpr int kMatrixUnits = 80;  // the compute capability whose instructions the tiles use
  constexpr int kMinQueries = 16;
  constexpr int kMaxGrid = 65535;
  return target.compute_capability >= kMatrixUnits && arguments.type != ElementType::kFloat &&
         arguments.sequence >= kMinQueries && arguments.head_size == arguments.value_head_size &&
         arguments.head_size <= 128 && arguments.head_size % kWidth == 0 && arguments.batch <= kMaxGrid &&
         arguments.query_strides.head % 2 == 0 && arguments.query_strides.token % 2 == 0 &&
         arguments.query_strides.batch % 2 == 0 && IsAligned(arguments.query, 4);
}

int LaunchAttentionTiles(const LaunchTarget& target, const AttentionArguments& arguments) {
  if (arguments.type == ElementType::kFloat16) return LaunchTyped<__half>(target, arguments);
  return LaunchTyped<__nv_bfloat16>(target, arguments);
}

}  // namespace lamina::cuda
