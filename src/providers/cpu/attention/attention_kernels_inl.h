#pragma once

#include "providers/cpu/attention/attention_kernels.h"
#include "providers/cpu/simd/vec_math_inl.h"

namespace lamina {
namespace {

inline constexpr float kMinusInfinity = -__builtin_inff();

LAMINA_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
LAMINA_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

LAMINA_INLINE float ExpOne(float x) { return Exp(Set1(x))[0]; }

LAMINA_INLINE int64_t ElementBytes(DataType type) { return type == DataType::kFloat ? 4 : 2; }

template <typename T>
LAMINA_INLINE VecF LoadUpTo(const T* source, int64_t lanes) {
  return lanes >= kLanes ? Load(source) : LoadPartial(source, lanes);
}

// Converts `count` elements of a floating-point type.
template <typename T>
LAMINA_INLINE void CopyToFloat(const T* source, int64_t count, float* target) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(target + i, Load(source + i));
  if (i < count) StorePartial(target + i, LoadPartial(source + i, count - i), count - i);
}
inline void CopyToFloat(DataType type, const void* source, int64_t count, float* target) {
  if (type == DataType::kFloat) return CopyToFloat(static_cast<const float*>(source), count, target);
  if (type == DataType::kFloat16) return CopyToFloat(static_cast<const Float16*>(source), count, target);
  CopyToFloat(static_cast<const Bfloat16*>(source), count, target);
}
template <typename T>
LAMINA_INLINE void ScaleTo(const float* source, float scale, int64_t count, T* target) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(target + i, Load(source + i) * scale);
  if (i < count) StorePartial(target + i, LoadPartial(source + i, count - i) * scale, count - i);
}
inline void ScaleTo(const float* source, float scale, int64_t count, DataType type, void* target) {
  if (type == DataType::kFloat) return ScaleTo(source, scale, count, static_cast<float*>(target));
  if (type == DataType::kFloat16) return ScaleTo(source, scale, count, static_cast<Float16*>(target));
  ScaleTo(source, scale, count, static_cast<Bfloat16*>(target));
}

// Where token `token` of a plane lies.
LAMINA_INLINE const char* TokenOf(const KvView& kv, const KvPlane& plane, int64_t sequence, int64_t kv_head,
                                  int64_t token) {
  const int64_t block_of_sequence = token / kv.block_tokens;
  const int64_t block = kv.block_table ? kv.block_table[sequence * kv.blocks_per_sequence + block_of_sequence]
                                       : sequence * kv.blocks_per_sequence + block_of_sequence;
  return static_cast<const char*>(plane.base) + block * plane.block_stride_bytes +
         kv_head * plane.head_stride_bytes + token % kv.block_tokens * plane.token_stride_bytes;
}

// Pointers to tokens [first, first + count) of a plane.
inline void TokensOf(const KvView& kv, const KvPlane& plane, const AttentionRows& rows, int64_t first,
                     int64_t count, const char** tokens) {
  for (int64_t i = 0; i < count;) {
    const int64_t token = first + i;
    const int64_t run = Smaller(count - i, kv.block_tokens - token % kv.block_tokens);
    const char* data = TokenOf(kv, plane, rows.sequence, rows.kv_head, token);
    for (int64_t j = 0; j < run; ++j) tokens[i + j] = data + j * plane.token_stride_bytes;
    i += run;
  }
}

// The keys a query at key position `position` sees: [begin, end).
struct KeyRange {
  int64_t begin;
  int64_t end;
};
LAMINA_INLINE KeyRange VisibleKeys(const AttentionParams& params, const AttentionSequence& sequence,
                                   int64_t position) {
  KeyRange keys{0, sequence.kv_tokens};
  if (params.window_left >= 0) keys.begin = Larger(0, position - params.window_left);
  if (params.window_right >= 0) keys.end = Smaller(keys.end, position + params.window_right + 1);
  return keys;
}

LAMINA_INLINE int64_t GroupOf(const AttentionParams& params) { return params.heads / params.kv.kv_heads; }

LAMINA_INLINE const char* QueryOf(const AttentionParams& params, const AttentionSequence& sequence,
                                  const AttentionRows& rows, int64_t row) {
  const int64_t group = GroupOf(params);
  const int64_t token = sequence.first_token + row / group;
  const int64_t head = rows.kv_head * group + row % group;
  return static_cast<const char*>(params.query) +
         (token * params.q_token_stride + head * params.q_head_stride) * ElementBytes(params.type);
}

// Writes a row of sums, divided by its weight with the sink taken in.
inline void StoreRow(const AttentionParams& params, const AttentionSequence& sequence,
                     const AttentionRows& rows, int64_t row, const float* sum, float maximum, float weight) {
  const int64_t group = GroupOf(params);
  const int64_t token = sequence.first_token + row / group;
  const int64_t head = rows.kv_head * group + row % group;
  float correction = 1.0f;
  if (params.sinks || params.zero_sink) {
    float sink = 0.0f;
    if (params.sinks) {
      const char* sinks = static_cast<const char*>(params.sinks);
      CopyToFloat(params.sinks_type, sinks + head * ElementBytes(params.sinks_type), 1, &sink);
    }
    const float larger = sink > maximum ? sink : maximum;
    if (larger > kMinusInfinity) {
      correction = ExpOne(maximum - larger);
      weight = weight * correction + ExpOne(sink - larger);
    }
  }
  char* target =
      static_cast<char*>(params.output) +
      (token * params.out_token_stride + head * params.out_head_stride) * ElementBytes(params.type);
  ScaleTo(sum, weight > 0.0f ? correction / weight : 0.0f, params.kv.value.head_size, params.type, target);
}

// Adds the biases of keys [key, key + count) for a row's query to scores[j * stride].
inline void AddBiases(const AttentionParams& params, const AttentionRows& rows, int64_t row, int64_t key,
                      int64_t count, float* scores, int64_t stride) {
  const int64_t group = GroupOf(params);
  const int64_t query = row / group;
  const int64_t head = rows.kv_head * group + row % group;
  for (const AttentionBias& bias : params.biases) {
    if (!bias.data) continue;
    const int64_t offset = rows.sequence * bias.batch_stride + head * bias.head_stride +
                           query * bias.query_stride + key * bias.key_stride;
    const int64_t covered = Larger(0, Smaller(count, bias.keys - key));
    float values[kAttentionKeyTile];
    if (bias.type == DataType::kBool) {
      const auto* mask = static_cast<const uint8_t*>(bias.data) + offset;
      for (int64_t j = 0; j < covered; ++j) values[j] = mask[j * bias.key_stride] != 0 ? 0.0f : bias.masked;
    } else if (bias.type == DataType::kInt32) {
      const auto* mask = static_cast<const int32_t*>(bias.data) + offset;
      for (int64_t j = 0; j < covered; ++j) values[j] = mask[j * bias.key_stride] != 0 ? 0.0f : bias.masked;
    } else if (covered > 0) {
      const char* data = static_cast<const char*>(bias.data) + offset * ElementBytes(bias.type);
      CopyToFloat(bias.type, data, bias.key_stride == 0 ? 1 : covered, values);
      for (int64_t j = 1; bias.key_stride == 0 && j < covered; ++j) values[j] = values[0];
    }
    for (int64_t j = 0; j < covered; ++j) scores[j * stride] += values[j];
    for (int64_t j = covered; j < count; ++j) scores[j * stride] = kMinusInfinity;
  }
}

LAMINA_INLINE bool HasBias(const AttentionParams& params) {
  return params.biases[0].data != nullptr || params.biases[1].data != nullptr;
}

// ---- prefill ----
//
// Scores are kept transposed, [key, row]: the running softmax of a vector of rows then needs no sums across
// lanes, K is the left operand of the product as it lies in the cache, and the probabilities are the
// transposed left operand of the product with V.

struct PrefillScratch {
  float* queries;      // [rows / panel, head_size, panel]: scaled queries as panels of the right operand
  float* scores;       // [kAttentionKeyTile, kAttentionBlockRows]
  float* sums;         // [rows, padded value size]
  float* maxima;       // [rows]
  float* weights;      // [rows]
  float* corrections;  // [rows]
  int32_t* positions;  // [rows]
  float* keys;         // [kAttentionKeyTile, head_size]
  float* values;       // [kAttentionKeyTile, padded value size]
};

LAMINA_INLINE PrefillScratch Divide(float* scratch, int64_t head_size, int64_t padded_values) {
  PrefillScratch s;
  s.queries = scratch;
  s.scores = s.queries + kAttentionBlockRows * head_size;
  s.sums = s.scores + kAttentionBlockRows * kAttentionKeyTile;
  s.maxima = s.sums + kAttentionBlockRows * padded_values;
  s.weights = s.maxima + kAttentionBlockRows;
  s.corrections = s.weights + kAttentionBlockRows;
  s.positions = reinterpret_cast<int32_t*>(s.corrections + kAttentionBlockRows);
  s.keys = reinterpret_cast<float*>(s.positions) + kAttentionBlockRows;
  s.values = s.keys + kAttentionKeyTile * head_size;
  return s;
}

// A tile of a plane as floats: in place, or copied to `buffer` [count, ld] where it is not float, is not
// evenly spaced or is narrower than `ld`.
struct FloatTile {
  const float* data;
  int64_t ld;
};
inline FloatTile LoadTile(const AttentionParams& params, const KvPlane& plane, const AttentionRows& rows,
                          int64_t first, int64_t count, int64_t ld, float* buffer) {
  const KvView& kv = params.kv;
  const bool one_block = first / kv.block_tokens == (first + count - 1) / kv.block_tokens;
  if (kv.type == DataType::kFloat && one_block && ld == plane.head_size) {
    const char* data = TokenOf(kv, plane, rows.sequence, rows.kv_head, first);
    return {reinterpret_cast<const float*>(data), plane.token_stride_bytes / int64_t{sizeof(float)}};
  }
  const char* tokens[kAttentionKeyTile];
  TokensOf(kv, plane, rows, first, count, tokens);
  for (int64_t i = 0; i < count; ++i) {
    CopyToFloat(kv.type, tokens[i], plane.head_size, buffer + i * ld);
    for (int64_t d = plane.head_size; d < ld; ++d) buffer[i * ld + d] = 0.0f;
  }
  return {buffer, ld};
}

// Hides keys that a row does not see: lanes are rows.
inline void MaskTile(const AttentionParams& params, const PrefillScratch& s, int64_t first, int64_t count,
                     int64_t rows) {
  const auto left = static_cast<int32_t>(params.window_left);
  const auto right = static_cast<int32_t>(params.window_right);
  for (int64_t r = 0; r < rows; r += kLanes) {
    const VecI position = LoadI(s.positions + r);
    for (int64_t j = 0; j < count; ++j) {
      const VecI key = Set1(static_cast<int32_t>(first + j));
      float* score = s.scores + j * kAttentionBlockRows + r;
      VecF value = Load(score);
      if (params.window_right >= 0) value = key > position + right ? Set1(kMinusInfinity) : value;
      if (params.window_left >= 0) value = key < position - left ? Set1(kMinusInfinity) : value;
      Store(score, value);
    }
  }
}

// One step of the running softmax; returns whether earlier sums have to be corrected.
inline bool UpdateSoftmax(const PrefillScratch& s, int64_t count, int64_t rows) {
  bool corrected = false;
  for (int64_t r = 0; r < rows; r += kLanes) {
    const VecF before = Load(s.maxima + r);
    VecF maximum = before;
    for (int64_t j = 0; j < count; ++j) maximum = Max(Load(s.scores + j * kAttentionBlockRows + r), maximum);
    // A row that has seen no key yet: its exponentials are zero, not NaN.
    const VecF base = maximum > kMinusInfinity ? maximum : VecF{};
    VecF sum = {};
    for (int64_t j = 0; j < count; ++j) {
      float* score = s.scores + j * kAttentionBlockRows + r;
      const VecF exponential = Exp(Load(score) - base);
      sum += exponential;
      Store(score, exponential);
    }
    const VecF correction = Exp(before - base);
    Store(s.corrections + r, correction);
    Store(s.weights + r, Load(s.weights + r) * correction + sum);
    Store(s.maxima + r, maximum);
    float lanes[kLanes];
    Store(lanes, correction);
    for (const float lane : lanes) corrected |= lane != 1.0f;
  }
  return corrected;
}

inline void Prefill(const AttentionParams& params, const GemmKernels& gemm, const AttentionRows& rows,
                    float* scratch) {
  const AttentionSequence& sequence = params.sequences[rows.sequence];
  const int64_t head_size = params.kv.key.head_size;
  const int64_t value_size = params.kv.value.head_size;
  const int64_t panel = gemm.panel_columns;
  const int64_t padded_values = RoundUpTo(value_size, panel);
  const int64_t padded_rows = RoundUpTo(rows.count, panel);
  const int64_t group = GroupOf(params);
  const PrefillScratch s = Divide(scratch, head_size, padded_values);

  for (int64_t r = 0; r < padded_rows; ++r) {
    float* column = s.queries + r / panel * panel * head_size + r % panel;
    const int64_t row = rows.first + Smaller(r, rows.count - 1);
    const char* query = QueryOf(params, sequence, rows, row);
    for (int64_t d = 0; d < head_size; d += kLanes) {
      float lanes[kLanes];
      const int64_t count = Smaller(kLanes, head_size - d);
      CopyToFloat(params.type, query + d * ElementBytes(params.type), count, lanes);
      for (int64_t i = 0; i < count; ++i) column[(d + i) * panel] = lanes[i] * params.scale;
    }
    s.positions[r] = static_cast<int32_t>(sequence.query_offset + row / group);
    s.maxima[r] = kMinusInfinity;
    s.weights[r] = 0.0f;
  }
  std::memset(s.sums, 0, static_cast<size_t>(rows.count * padded_values) * sizeof(float));

  const int64_t first_position = s.positions[0];
  const int64_t last_position = s.positions[rows.count - 1];
  const int64_t begin = VisibleKeys(params, sequence, first_position).begin;
  const int64_t end = VisibleKeys(params, sequence, last_position).end;
  for (int64_t key = begin; key < end; key += kAttentionKeyTile) {
    const int64_t count = Smaller(kAttentionKeyTile, end - key);
    const FloatTile keys = LoadTile(params, params.kv.key, rows, key, count, head_size, s.keys);
    GemmBlock block;
    block.rows = count;
    block.k = head_size;
    block.a = keys.data;
    block.lda = keys.ld;
    block.ldb = panel;
    block.ldc = kAttentionBlockRows;
    for (int64_t r = 0; r < padded_rows; r += panel) {
      block.b = s.queries + r * head_size;
      block.c = s.scores + r;
      gemm.multiply_float(block);
    }
    if (params.softcap > 0.0f) {
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t r = 0; r < padded_rows; r += kLanes) {
          float* score = s.scores + j * kAttentionBlockRows + r;
          Store(score, params.softcap * Tanh(Load(score) / params.softcap));
        }
      }
    }
    if (HasBias(params)) {
      for (int64_t r = 0; r < rows.count; ++r) {
        AddBiases(params, rows, rows.first + r, key, count, s.scores + r, kAttentionBlockRows);
      }
    }
    const bool past_right =
        params.window_right >= 0 && key + count - 1 > first_position + params.window_right;
    const bool before_left = params.window_left >= 0 && key < last_position - params.window_left;
    if (past_right || before_left) MaskTile(params, s, key, count, padded_rows);
    if (UpdateSoftmax(s, count, padded_rows)) {
      for (int64_t r = 0; r < rows.count; ++r) {
        float* sum = s.sums + r * padded_values;
        for (int64_t d = 0; d < padded_values; d += kLanes) Store(sum + d, Load(sum + d) * s.corrections[r]);
      }
    }
    const FloatTile values = LoadTile(params, params.kv.value, rows, key, count, padded_values, s.values);
    block.rows = rows.count;
    block.k = count;
    block.a = s.scores;
    block.lda = kAttentionBlockRows;
    block.ldb = values.ld;
    block.ldc = padded_values;
    block.accumulate = true;
    for (int64_t d = 0; d < padded_values; d += panel) {
      block.b = values.data + d;
      block.c = s.sums + d;
      gemm.multiply_transposed(block);
    }
  }
  for (int64_t r = 0; r < rows.count; ++r) {
    StoreRow(params, sequence, rows, rows.first + r, s.sums + r * padded_values, s.maxima[r], s.weights[r]);
  }
}

// ---- decode ----

// Sums of the lanes of eight vectors, as one vector.
LAMINA_INLINE VecF8 ReduceEight(const VecF8* v) {
  const VecI8 even{0, 8, 2, 10, 4, 12, 6, 14}, odd{1, 9, 3, 11, 5, 13, 7, 15};
  const VecI8 low{0, 1, 8, 9, 4, 5, 12, 13}, high{2, 3, 10, 11, 6, 7, 14, 15};
  VecF8 pairs[4];
  for (int i = 0; i < 4; ++i) {
    pairs[i] =
        __builtin_shuffle(v[2 * i], v[2 * i + 1], even) + __builtin_shuffle(v[2 * i], v[2 * i + 1], odd);
  }
  const VecF8 a = __builtin_shuffle(pairs[0], pairs[1], low) + __builtin_shuffle(pairs[0], pairs[1], high);
  const VecF8 b = __builtin_shuffle(pairs[2], pairs[3], low) + __builtin_shuffle(pairs[2], pairs[3], high);
  return __builtin_shuffle(a, b, VecI8{0, 1, 2, 3, 8, 9, 10, 11}) +
         __builtin_shuffle(a, b, VecI8{4, 5, 6, 7, 12, 13, 14, 15});
}

// Products of kRows queries [kRows, head_size] with 8 / kRows keys: scores[r * stride + key].
template <int kRows, typename T>
LAMINA_INLINE void ScoreEight(const float* query, int64_t head_size, const char* const* keys, float* scores,
                              int64_t stride) {
  constexpr int kKeys = 8 / kRows;
  VecF sums[8] = {};
  const auto step = [&](int64_t d, int64_t lanes) {
    VecF key[kKeys];
    for (int j = 0; j < kKeys; ++j) key[j] = LoadUpTo(reinterpret_cast<const T*>(keys[j]) + d, lanes);
    for (int r = 0; r < kRows; ++r) {
      const VecF q = LoadUpTo(query + r * head_size + d, lanes);
      for (int j = 0; j < kKeys; ++j) sums[r * kKeys + j] += q * key[j];
    }
  };
  int64_t d = 0;
  for (; d + kLanes <= head_size; d += kLanes) step(d, kLanes);
  if (d < head_size) step(d, head_size - d);
  VecF8 folded[8];
  for (int i = 0; i < 8; ++i) folded[i] = FoldAdd(sums[i]);
  const VecF8 totals = ReduceEight(folded);
  float lanes[8];
  std::memcpy(lanes, &totals, sizeof totals);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kKeys; ++j) scores[r * stride + j] = lanes[r * kKeys + j];
  }
}

// scores[r * kAttentionKeyTile + j] for `rows` queries and `count` keys; scores past `count` are overwritten
// with anything. keys[count .. next multiple of 8) must point at some key.
template <typename T>
inline void ScoreTile(const float* query, int64_t rows, int64_t head_size, const char* const* keys,
                      int64_t count, float* scores) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    for (int64_t j = 0; j < count; j += 4) {
      ScoreEight<2, T>(query + r * head_size, head_size, keys + j, scores + r * kAttentionKeyTile + j,
                       kAttentionKeyTile);
    }
  }
  if (r < rows) {
    for (int64_t j = 0; j < count; j += 8) {
      ScoreEight<1, T>(query + r * head_size, head_size, keys + j, scores + r * kAttentionKeyTile + j,
                       kAttentionKeyTile);
    }
  }
}

// sums[r] += sum over keys of probabilities[r, j] values[j], for kRows rows and kVectors vectors of channels.
template <int kRows, int kVectors, typename T>
LAMINA_INLINE void AccumulateValues(const float* probabilities, const char* const* values, int64_t count,
                                    int64_t first, int64_t lanes, float* sums, int64_t ld) {
  VecF total[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) total[r][v] = LoadUpTo(sums + r * ld + first + v * kLanes, lanes);
  }
  for (int64_t j = 0; j < count; ++j) {
    const T* value = reinterpret_cast<const T*>(values[j]) + first;
    VecF x[kVectors];
    for (int v = 0; v < kVectors; ++v) x[v] = LoadUpTo(value + v * kLanes, lanes);
    for (int r = 0; r < kRows; ++r) {
      const VecF p = Set1(probabilities[r * kAttentionKeyTile + j]);
      for (int v = 0; v < kVectors; ++v) total[r][v] += p * x[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* target = sums + r * ld + first + v * kLanes;
      if (lanes >= kLanes) {
        Store(target, total[r][v]);
      } else {
        StorePartial(target, total[r][v], lanes);
      }
    }
  }
}

template <int kRows, typename T>
inline void AccumulateTile(const float* probabilities, const char* const* values, int64_t count,
                           int64_t value_size, float* sums) {
  int64_t d = 0;
  for (; d + 4 * kLanes <= value_size; d += 4 * kLanes) {
    AccumulateValues<kRows, 4, T>(probabilities, values, count, d, kLanes, sums, value_size);
  }
  for (; d < value_size; d += kLanes) {
    AccumulateValues<kRows, 1, T>(probabilities, values, count, d, value_size - d, sums, value_size);
  }
}

// Turns a row's scores into exponentials relative to its running maximum and corrects its sums.
inline void UpdateRow(float* scores, int64_t count, float* sum, int64_t value_size, float* maximum,
                      float* weight) {
  for (int64_t j = count; j < RoundUpTo(count, kLanes); ++j) scores[j] = kMinusInfinity;
  VecF maxima = Set1(kMinusInfinity);
  for (int64_t j = 0; j < count; j += kLanes) maxima = Max(Load(scores + j), maxima);
  const float before = *maximum;
  const float tile_maximum = ReduceMax(maxima);
  const float after = tile_maximum > before ? tile_maximum : before;
  const float base = after > kMinusInfinity ? after : 0.0f;
  VecF sums = {};
  for (int64_t j = 0; j < count; j += kLanes) {
    const VecF exponential = Exp(Load(scores + j) - base);
    sums += exponential;
    Store(scores + j, exponential);
  }
  const float correction = ExpOne(before - base);
  if (correction != 1.0f) ScaleTo(sum, correction, value_size, sum);
  *weight = *weight * correction + ReduceAdd(sums);
  *maximum = after;
}

template <typename T>
inline void DecodeKeys(const AttentionParams& params, const AttentionRows& rows, int64_t key_begin,
                       int64_t key_end, const AttentionPartial& partial) {
  const AttentionSequence& sequence = params.sequences[rows.sequence];
  const int64_t head_size = params.kv.key.head_size;
  const int64_t value_size = params.kv.value.head_size;
  const int64_t group = GroupOf(params);
  for (int64_t key = key_begin; key < key_end; key += kAttentionKeyTile) {
    const int64_t count = Smaller(kAttentionKeyTile, key_end - key);
    float scores[kDecodeRows * kAttentionKeyTile];
    const char* tokens[kAttentionKeyTile];
    TokensOf(params.kv, params.kv.key, rows, key, count, tokens);
    for (int64_t j = count; j < RoundUpTo(count, 8); ++j) tokens[j] = tokens[0];
    ScoreTile<T>(partial.query, rows.count, head_size, tokens, count, scores);
    for (int64_t r = 0; r < rows.count; ++r) {
      float* row = scores + r * kAttentionKeyTile;
      if (params.softcap > 0.0f) {
        for (int64_t j = 0; j < count; j += kLanes) {
          Store(row + j, params.softcap * Tanh(Load(row + j) / params.softcap));
        }
      }
      if (HasBias(params)) AddBiases(params, rows, rows.first + r, key, count, row, 1);
      const int64_t position = sequence.query_offset + (rows.first + r) / group;
      const KeyRange seen = VisibleKeys(params, sequence, position);
      for (int64_t j = 0; j < Smaller(count, seen.begin - key); ++j) row[j] = kMinusInfinity;
      for (int64_t j = Larger(0, seen.end - key); j < count; ++j) row[j] = kMinusInfinity;
      UpdateRow(row, count, partial.sum + r * value_size, value_size, partial.maximum + r,
                partial.weight + r);
    }
    TokensOf(params.kv, params.kv.value, rows, key, count, tokens);
    int64_t r = 0;
    for (; r + 2 <= rows.count; r += 2) {
      AccumulateTile<2, T>(scores + r * kAttentionKeyTile, tokens, count, value_size,
                           partial.sum + r * value_size);
    }
    if (r < rows.count) {
      AccumulateTile<1, T>(scores + r * kAttentionKeyTile, tokens, count, value_size,
                           partial.sum + r * value_size);
    }
  }
}

inline void Decode(const AttentionParams& params, const AttentionRows& rows, int64_t key_begin,
                   int64_t key_end, const AttentionPartial& partial) {
  const AttentionSequence& sequence = params.sequences[rows.sequence];
  const int64_t head_size = params.kv.key.head_size;
  for (int64_t r = 0; r < rows.count; ++r) {
    float* query = partial.query + r * head_size;
    CopyToFloat(params.type, QueryOf(params, sequence, rows, rows.first + r), head_size, query);
    ScaleTo(query, params.scale, head_size, query);
    partial.maximum[r] = kMinusInfinity;
    partial.weight[r] = 0.0f;
  }
  const int64_t sums = rows.count * params.kv.value.head_size;
  std::memset(partial.sum, 0, static_cast<size_t>(sums) * sizeof(float));
  if (params.kv.type == DataType::kFloat) {
    DecodeKeys<float>(params, rows, key_begin, key_end, partial);
  } else if (params.kv.type == DataType::kFloat16) {
    DecodeKeys<Float16>(params, rows, key_begin, key_end, partial);
  } else {
    DecodeKeys<Bfloat16>(params, rows, key_begin, key_end, partial);
  }
}

// Partials are merged into the first.
inline void Merge(const AttentionParams& params, const AttentionRows& rows, const AttentionPartial* partials,
                  int64_t count) {
  const AttentionSequence& sequence = params.sequences[rows.sequence];
  const int64_t value_size = params.kv.value.head_size;
  for (int64_t r = 0; r < rows.count; ++r) {
    float* sum = partials[0].sum + r * value_size;
    float maximum = partials[0].maximum[r];
    float weight = partials[0].weight[r];
    for (int64_t i = 1; i < count; ++i) {
      const float other = partials[i].maximum[r];
      if (!(other > kMinusInfinity)) continue;
      const float larger = other > maximum ? other : maximum;
      const float keep = ExpOne(maximum - larger);
      const float take = ExpOne(other - larger);
      const float* other_sum = partials[i].sum + r * value_size;
      int64_t d = 0;
      for (; d + kLanes <= value_size; d += kLanes) {
        Store(sum + d, Load(sum + d) * keep + Load(other_sum + d) * take);
      }
      for (; d < value_size; ++d) sum[d] = sum[d] * keep + other_sum[d] * take;
      weight = weight * keep + partials[i].weight[r] * take;
      maximum = larger;
    }
    StoreRow(params, sequence, rows, rows.first + r, sum, maximum, weight);
  }
}

inline constexpr AttentionKernels kAttentionKernels = {Prefill, Decode, Merge};

}  // namespace
}  // namespace lamina
