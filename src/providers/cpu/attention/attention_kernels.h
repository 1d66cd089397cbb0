// The two inner kernels of attention, one table for each instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/attention/attention.h"
#include "providers/cpu/gemm/gemm_kernels.h"

namespace lamina {

inline constexpr int64_t kAttentionKeyTile = 64;    // keys of one step of the running softmax
inline constexpr int64_t kAttentionBlockRows = 64;  // query rows of a prefill block
inline constexpr int64_t kDecodeRows = 16;          // a sequence with at most so many rows a kv head decodes

// Query rows of one kv head of a sequence: row r is token r / group, head kv_head * group + r % group.
struct AttentionRows {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Partial result of decode over a run of keys: unnormalised sums relative to the running maximum.
struct AttentionPartial {
  float* query = nullptr;    // scratch [rows, head_size]
  float* sum = nullptr;      // [rows, value_head_size]
  float* maximum = nullptr;  // [rows]; -inf where no key was seen
  float* weight = nullptr;   // [rows]
};

struct AttentionKernels {
  // Output rows of a block; `scratch` is PrefillScratchFloats floats, aligned to 64.
  void (*prefill)(const AttentionParams& params, const GemmKernels& gemm, const AttentionRows& rows,
                  float* scratch);
  // Sums over keys [key_begin, key_end). REQUIRES: rows.count <= kDecodeRows.
  void (*decode)(const AttentionParams& params, const AttentionRows& rows, int64_t key_begin, int64_t key_end,
                 const AttentionPartial& partial);
  // Merges partials in order and writes the output rows.
  void (*merge)(const AttentionParams& params, const AttentionRows& rows, const AttentionPartial* partials,
                int64_t count);
};

// REQUIRES: a member of SupportedIsas().
const AttentionKernels& AttentionKernelsFor(CpuIsa isa);

inline constexpr int64_t RoundUpTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Transposed queries, scores, sums, running maxima, weights and corrections, key and value tiles.
inline constexpr int64_t PrefillScratchFloats(int64_t head_size, int64_t value_head_size) {
  const int64_t padded_values = RoundUpTo(value_head_size, kMaxGemmPanelColumns);
  return kAttentionBlockRows * (head_size + padded_values + kAttentionKeyTile + 4) +
         kAttentionKeyTile * (RoundUpTo(head_size, 16) + padded_values);
}

}  // namespace lamina
