#include "providers/cpu/attention/gqa_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/gemm/gemm.h"

namespace lamina {
namespace {

// Tokens that a windowed cache holds after `tokens` in all.
int64_t ResidentTokens(int64_t tokens, int64_t capacity, int64_t window) {
  if (tokens <= capacity) return tokens;
  const int64_t block = capacity - window + 1;
  return tokens - block * ((tokens - capacity + block - 1) / block);
}

// Copies tokens between planes of [kv_heads, tokens, head_size] for every (row, head): `count(b)` tokens from
// slot `from(b)` to slot 0, and zeros from there to `capacity` where `clear`.
template <typename From, typename Count>
void CopyTokens(ThreadPool& threads, int64_t batch, int64_t kv_heads, const KvPlane& source,
                const KvPlane& target, int64_t capacity, bool clear, From from, Count count) {
  const int64_t token_bytes = target.token_stride_bytes;
  threads.ParallelFor(
      batch * kv_heads, GrainFor(static_cast<double>(capacity * token_bytes) * 0.1),
      [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t b = i / kv_heads;
          const int64_t h = i % kv_heads;
          char* to =
              static_cast<char*>(target.base) + b * target.block_stride_bytes + h * target.head_stride_bytes;
          const int64_t tokens = count(b);
          if (tokens > 0) {
            const char* data = static_cast<const char*>(source.base) + b * source.block_stride_bytes +
                               h * source.head_stride_bytes + from(b) * token_bytes;
            std::memmove(to, data, static_cast<size_t>(tokens * token_bytes));
          }
          if (clear)
            std::memset(to + tokens * token_bytes, 0, static_cast<size_t>((capacity - tokens) * token_bytes));
        }
      });
}

}  // namespace

Status GqaCache::OpenBound(const KvView& bound, const GqaInputs& gqa_inputs) {
  inputs = &gqa_inputs;
  view = bound;
  bound_past = bound.past_lengths;
  if (bound.type != gqa_inputs.type) {
    return UnsupportedError("the KV cache holds {}, the attention node computes in {}",
                            DataTypeName(bound.type), DataTypeName(gqa_inputs.type));
  }
  if (bound.key.head_size != gqa_inputs.head_size || bound.value.head_size != gqa_inputs.head_size) {
    return InvalidArgumentError("the KV cache has heads of {}, the attention node of {}", bound.key.head_size,
                                gqa_inputs.head_size);
  }
  for (int64_t b = 0; b < gqa_inputs.batch; ++b) {
    const int64_t past = bound_past[b];
    if (past < 0 || past + gqa_inputs.sequence > bound.capacity_tokens) {
      return InvalidArgumentError(
          "sequence {}: {} past tokens and {} of this run exceed the KV cache's capacity of {}", b, past,
          gqa_inputs.sequence, bound.capacity_tokens);
    }
    if (gqa_inputs.cos_cache && !gqa_inputs.position_ids && !gqa_inputs.rotary_by_token &&
        past + gqa_inputs.sequence > gqa_inputs.rotary_positions) {
      return InvalidArgumentError("cos_cache dimension 0 shall not be less than total_sequence_length.");
    }
    sequences[b] = {b * gqa_inputs.sequence, gqa_inputs.sequence, past + gqa_inputs.sequence, past};
  }
  return Status();
}

int64_t GqaCache::absolute_past(int64_t b) const {
  if (bound_past) return bound_past[b];
  return inputs->first_prompt() ? 0 : inputs->RowTotal(b) - inputs->sequence;
}

Status GqaCache::OpenTensors(KernelContext& context, const GqaInputs& gqa_inputs,
                             const GqaAttributes& attributes,
                             FunctionRef<Result<void*>(size_t bytes)> staging) {
  inputs = &gqa_inputs;
  const int64_t batch = gqa_inputs.batch;
  const int64_t kv_heads = attributes.kv_num_heads;
  const bool windowed = attributes.sliding_window_cache;
  const int64_t capacity =
      windowed ? gqa_inputs.past_tokens : std::max(gqa_inputs.past_tokens, gqa_inputs.total);
  const Shape shape{batch, kv_heads, capacity, gqa_inputs.head_size};
  LAMINA_ASSIGN_OR_RETURN(present_key, context.Output(1, shape));
  LAMINA_ASSIGN_OR_RETURN(present_value, context.Output(2, shape));
  if (!present_key || !present_value) {
    return InvalidArgumentError("present_key and present_value must be outputs where no KV cache is bound");
  }

  for (int64_t b = 0; b < batch; ++b) {
    const int64_t past = absolute_past(b);
    const int64_t resident = windowed ? ResidentTokens(past, capacity, attributes.local_window_size) : past;
    // A prompt row shorter than the others ends with padding.
    const int64_t appended = std::min<int64_t>(gqa_inputs.sequence, gqa_inputs.RowTotal(b) - past);
    sequences[b] = {b * gqa_inputs.sequence, gqa_inputs.sequence, resident + appended, resident};
    staged |= sequences[b].kv_tokens > capacity;
  }

  const auto plane = [&](void* data, int64_t tokens) {
    return PlaneOfHeads(data, gqa_inputs.type, kv_heads, tokens, gqa_inputs.head_size);
  };
  int64_t tokens = capacity;
  void* keys = present_key->mutable_raw_data();
  void* values = present_value->mutable_raw_data();
  if (staged) {
    tokens = capacity + gqa_inputs.sequence;
    const size_t bytes =
        StagingPlaneBytes(batch, kv_heads, tokens, gqa_inputs.head_size, gqa_inputs.element_bytes);
    LAMINA_ASSIGN_OR_RETURN(keys, staging(2 * bytes));
    values = static_cast<char*>(keys) + bytes;
  }
  view = ContiguousKv(plane(keys, tokens), plane(values, tokens), gqa_inputs.type, kv_heads, tokens);

  struct {
    const Tensor* past;
    Tensor* present;
    const KvPlane* target;
  } const copies[] = {{gqa_inputs.past_key, present_key, &view.key},
                      {gqa_inputs.past_value, present_value, &view.value}};
  for (const auto& copy : copies) {
    const bool in_place = copy.past && copy.past->SharesMemoryWith(*copy.present);
    if (in_place && !staged) continue;
    // Never written through: the source plane is only read.
    void* data = copy.past ? const_cast<void*>(copy.past->raw_data()) : nullptr;
    CopyTokens(
        context.threads(), batch, kv_heads, plane(data, gqa_inputs.past_tokens), *copy.target, tokens,
        !staged, [](int64_t) { return int64_t{0}; }, [&](int64_t b) { return sequences[b].query_offset; });
  }
  return Status();
}

void GqaCache::KeepLastTokens(ThreadPool& threads, const GqaInputs& gqa_inputs,
                              const GqaAttributes& attributes) const {
  const int64_t kv_heads = attributes.kv_num_heads;
  const int64_t capacity = gqa_inputs.past_tokens;
  const auto kept = [&](int64_t b) {
    const int64_t total = absolute_past(b) + sequences[b].kv_tokens - sequences[b].query_offset;
    return ResidentTokens(total, capacity, attributes.local_window_size);
  };
  const auto first = [&](int64_t b) { return sequences[b].kv_tokens - kept(b); };
  for (const bool is_key : {true, false}) {
    Tensor* present = is_key ? present_key : present_value;
    const KvPlane target =
        PlaneOfHeads(present->mutable_raw_data(), gqa_inputs.type, kv_heads, capacity, gqa_inputs.head_size);
    CopyTokens(threads, gqa_inputs.batch, kv_heads, is_key ? view.key : view.value, target, capacity, true,
               first, kept);
  }
}

}  // namespace lamina
