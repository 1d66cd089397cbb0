#include "providers/cpu/attention/head_tensor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

const char* HeadOf(const KvPlane& plane, int64_t b, int64_t h, int64_t token) {
  return static_cast<const char*>(plane.base) + b * plane.block_stride_bytes + h * plane.head_stride_bytes +
         token * plane.token_stride_bytes;
}

void CopyHead(DataType type, const char* source, const char* bias, int64_t size, char* target) {
  const int64_t element_bytes = DataTypeBits(type) / 8;
  if (!bias) {
    std::memcpy(target, source, static_cast<size_t>(size * element_bytes));
    return;
  }
  constexpr int64_t kRun = 64;
  for (int64_t i = 0; i < size; i += kRun) {
    float x[kRun];
    float y[kRun];
    const int64_t run = std::min(kRun, size - i);
    ConvertToFloat(type, source + i * element_bytes, x, run);
    ConvertToFloat(type, bias + i * element_bytes, y, run);
    for (int64_t j = 0; j < run; ++j) x[j] += y[j];
    ConvertFromFloat(type, x, target + i * element_bytes, run);
  }
}

}  // namespace

Result<Heads> HeadsOf(const char* name, const Shape& shape, int64_t heads) {
  Heads result;
  result.batch = shape.rank() > 0 ? shape[0] : 0;
  if (shape.rank() == 4) {
    result.heads = shape[1];
    result.tokens = shape[2];
    result.size = shape[3];
    return result;
  }
  if (shape.rank() != 3) {
    return InvalidArgumentError("{} must have 3 or 4 dimensions, found shape {}", name, shape.ToString());
  }
  if (heads <= 0) {
    return InvalidArgumentError("{} of shape {} needs the number of heads as an attribute", name,
                                shape.ToString());
  }
  if (shape[2] % heads != 0) {
    return InvalidArgumentError("{}: hidden size {} is not divisible into {} heads", name, shape[2], heads);
  }
  result.heads = heads;
  result.tokens = shape[1];
  result.size = shape[2] / heads;
  result.by_token = true;
  return result;
}

KvPlane PlaneOf(const Heads& heads, DataType type, const void* data) {
  void* base = const_cast<void*>(data);
  return heads.by_token ? PlaneOfTokens(base, type, heads.heads, heads.tokens, heads.size)
                        : PlaneOfHeads(base, type, heads.heads, heads.tokens, heads.size);
}

KvPlane PlaneOf(const Heads& heads, const Tensor& tensor) {
  return PlaneOf(heads, tensor.type(), tensor.raw_data());
}

void AppendTokens(ThreadPool& threads, const KvPlane& source, const Heads& heads, const KvView& view,
                  const KvPlane& plane, const AttentionSequence* sequences, const void* bias) {
  const int64_t head_bytes = heads.size * DataTypeBits(view.type) / 8;
  threads.ParallelFor(
      heads.batch * heads.tokens, GrainFor(static_cast<double>(heads.heads * heads.size) * 0.25),
      [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t b = i / heads.tokens;
          const int64_t s = i % heads.tokens;
          for (int64_t h = 0; h < heads.heads; ++h) {
            const char* bias_head = bias ? static_cast<const char*>(bias) + h * head_bytes : nullptr;
            CopyHead(view.type, HeadOf(source, b, h, s), bias_head, heads.size,
                     KvTokenAddress(view, plane, b, h, sequences[b].query_offset + s));
          }
        }
      });
}

void ConcatenateTokens(ThreadPool& threads, const void* past, int64_t past_tokens, const KvPlane& source,
                       const Heads& heads, const KvPlane& target, DataType type, const void* bias) {
  const int64_t head_bytes = heads.size * DataTypeBits(type) / 8;
  const int64_t tokens = past_tokens + heads.tokens;
  threads.ParallelFor(heads.batch * heads.heads, GrainFor(static_cast<double>(tokens * head_bytes) * 0.1),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t i = begin; i < end; ++i) {
                          const int64_t b = i / heads.heads;
                          const int64_t h = i % heads.heads;
                          char* to = const_cast<char*>(HeadOf(target, b, h, 0));
                          if (past_tokens > 0) {
                            std::memcpy(to, static_cast<const char*>(past) + i * past_tokens * head_bytes,
                                        static_cast<size_t>(past_tokens * head_bytes));
                          }
                          const char* bias_head =
                              bias ? static_cast<const char*>(bias) + h * head_bytes : nullptr;
                          for (int64_t s = 0; s < heads.tokens; ++s) {
                            CopyHead(type, HeadOf(source, b, h, s), bias_head, heads.size,
                                     to + (past_tokens + s) * target.token_stride_bytes);
                          }
                        }
                      });
}

const Tensor* OptionalInput(const KernelContext& context, int index) {
  return index < context.num_inputs() ? context.Input(index) : nullptr;
}

Result<Tensor*> OptionalOutput(KernelContext& context, int index, const Shape& shape) {
  if (index >= context.num_outputs() || !context.HasOutput(index)) return static_cast<Tensor*>(nullptr);
  return context.Output(index, shape);
}

}  // namespace lamina
