// The KV cache of a GroupQueryAttention run: bound by the session, or the operator's past and present
// tensors, which may be one buffer, separate ones, or (sliding_window_cache) hold the last tokens only.
//
// A windowed cache of capacity C for a window W evicts in blocks of G = C - W + 1: after T tokens it holds
// the last L(T) = T where T <= C, else T - G ceil((T - C) / G), in order from slot 0 on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "provider/kernel_context.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/gqa_inputs.h"

namespace lamina {

// Bytes of keys or of values while they are more than a windowed cache holds.
inline size_t StagingPlaneBytes(int64_t batch, int64_t kv_heads, int64_t tokens, int64_t head_size,
                                int64_t element_bytes) {
  return static_cast<size_t>(batch * kv_heads * tokens * head_size * element_bytes);
}

struct GqaCache {
  KvView view;                             // where keys and values are read, and this run's appended
  AttentionSequence* sequences = nullptr;  // [batch], filled by Open: slots of the view, not positions
  const GqaInputs* inputs = nullptr;
  const int32_t* bound_past = nullptr;  // [batch] of a bound cache
  bool staged = false;                  // the view is a staging area: KeepLastTokens has to be called
  Tensor* present_key = nullptr;        // null: not wanted, or bound
  Tensor* present_value = nullptr;

  // The session's cache; each row has S tokens after its past.
  Status OpenBound(const KvView& bound, const GqaInputs& gqa_inputs);
  // Past and present tensors: makes the outputs and copies what has to be copied.
  Status OpenTensors(KernelContext& context, const GqaInputs& gqa_inputs, const GqaAttributes& attributes,
                     FunctionRef<Result<void*>(size_t bytes)> staging);
  // Copies the tokens that a windowed cache keeps from the staging area to present.
  void KeepLastTokens(ThreadPool& threads, const GqaInputs& gqa_inputs,
                      const GqaAttributes& attributes) const;

  // Position of the run's first token of row b.
  int64_t absolute_past(int64_t b) const;
  // Slot of the view for token s of row b; negative for the padding of a row shorter than the others.
  int64_t SlotOf(int64_t b, int64_t s) const {
    const int64_t slot = sequences[b].query_offset + s;
    return slot < sequences[b].kv_tokens ? slot : -1;
  }
};

}  // namespace lamina
