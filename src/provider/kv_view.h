// The KV cache as attention kernels see it: a paged view, of which a contiguous buffer is the simplest case.
#pragma once

#include <cstdint>

#include "lamina/types.h"

namespace lamina {

// Keys or values of one attention node. Element (sequence b, kv head h, token t, channel d) lies at
//   base + block(b, t / block_tokens) * block_stride_bytes + h * head_stride_bytes
//        + (t % block_tokens) * token_stride_bytes + d * sizeof(element)
struct KvPlane {
  void* base = nullptr;
  int64_t block_stride_bytes = 0;
  int64_t head_stride_bytes = 0;
  int64_t token_stride_bytes = 0;
  int32_t head_size = 0;
};

// Bound to a run by the session, in place: a kernel reads past tokens and appends the run's own. Memory of
// the kernel's device, lengths included.
struct KvView {
  KvPlane key;
  KvPlane value;
  DataType type = DataType::kUndefined;
  int32_t kv_heads = 0;
  int32_t block_tokens = 0;              // tokens a block holds; for a contiguous cache its capacity
  const int32_t* block_table = nullptr;  // [batch, blocks_per_sequence] block numbers
  int32_t blocks_per_sequence = 1;
  const int32_t* past_lengths = nullptr;  // [batch] valid tokens before this run
  int32_t capacity_tokens = 0;            // past + appended may not exceed it
};

}  // namespace lamina
