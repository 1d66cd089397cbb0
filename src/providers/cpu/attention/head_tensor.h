// Tensors of heads as attention operators take them, and moving their tokens into caches.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "provider/kernel_context.h"
#include "providers/cpu/attention/attention.h"

namespace lamina {

// [batch, heads, tokens, size], or by token [batch, tokens, heads * size].
struct Heads {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t tokens = 0;
  int64_t size = 0;
  bool by_token = false;
};

// From a tensor's shape; `heads` is needed for three dimensions.
Result<Heads> HeadsOf(const char* name, const Shape& shape, int64_t heads);

// The plane over a tensor of heads. Through a plane of an input nothing may be written.
KvPlane PlaneOf(const Heads& heads, const Tensor& tensor);
KvPlane PlaneOf(const Heads& heads, DataType type, const void* data);

// Copies every token of `source` to its slot of a cache: token s of sequence b to query_offset + s. `bias`
// [heads * size] of the same type is added where it is not null.
void AppendTokens(ThreadPool& threads, const KvPlane& source, const Heads& heads, const KvView& view,
                  const KvPlane& plane, const AttentionSequence* sequences, const void* bias = nullptr);

// Fills `target`, a plane of past_tokens + heads.tokens tokens, with `past` [batch, heads, past_tokens, size]
// (null where past_tokens is 0; else the target is one of heads) and the tokens of `source`.
void ConcatenateTokens(ThreadPool& threads, const void* past, int64_t past_tokens, const KvPlane& source,
                       const Heads& heads, const KvPlane& target, DataType type, const void* bias = nullptr);

// Null where the operator's input or output is absent.
const Tensor* OptionalInput(const KernelContext& context, int index);
Result<Tensor*> OptionalOutput(KernelContext& context, int index, const Shape& shape);

}  // namespace lamina
