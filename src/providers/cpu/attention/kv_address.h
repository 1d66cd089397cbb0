// Addresses in a KV cache, and views of contiguous tensors.
#pragma once

#include <cstdint>

#include "lamina/value.h"
#include "provider/kv_view.h"

namespace lamina {

// Where the channels of a token lie.
inline char* KvTokenAddress(const KvView& kv, const KvPlane& plane, int64_t sequence, int64_t kv_head,
                            int64_t token) {
  const int64_t index = sequence * kv.blocks_per_sequence + token / kv.block_tokens;
  const int64_t block = kv.block_table ? kv.block_table[index] : index;
  return static_cast<char*>(plane.base) + block * plane.block_stride_bytes +
         kv_head * plane.head_stride_bytes + token % kv.block_tokens * plane.token_stride_bytes;
}

// A plane over [batch, kv_heads, tokens, head_size], contiguous.
inline KvPlane PlaneOfHeads(void* data, DataType type, int64_t kv_heads, int64_t tokens, int64_t head_size) {
  KvPlane plane;
  plane.base = data;
  plane.head_size = static_cast<int32_t>(head_size);
  plane.token_stride_bytes = head_size * DataTypeBits(type) / 8;
  plane.head_stride_bytes = tokens * plane.token_stride_bytes;
  plane.block_stride_bytes = kv_heads * plane.head_stride_bytes;
  return plane;
}

// A plane over [batch, tokens, kv_heads, head_size], contiguous.
inline KvPlane PlaneOfTokens(void* data, DataType type, int64_t kv_heads, int64_t tokens, int64_t head_size) {
  KvPlane plane;
  plane.base = data;
  plane.head_size = static_cast<int32_t>(head_size);
  plane.head_stride_bytes = head_size * DataTypeBits(type) / 8;
  plane.token_stride_bytes = kv_heads * plane.head_stride_bytes;
  plane.block_stride_bytes = tokens * plane.token_stride_bytes;
  return plane;
}

// The view of two planes with one block of `tokens` for each sequence.
inline KvView ContiguousKv(const KvPlane& key, const KvPlane& value, DataType type, int64_t kv_heads,
                           int64_t tokens) {
  KvView view;
  view.key = key;
  view.value = value;
  view.type = type;
  view.kv_heads = static_cast<int32_t>(kv_heads);
  view.block_tokens = static_cast<int32_t>(tokens > 0 ? tokens : 1);
  view.capacity_tokens = static_cast<int32_t>(tokens);
  return view;
}

}  // namespace lamina
