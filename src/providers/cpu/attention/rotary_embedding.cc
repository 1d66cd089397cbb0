// RotaryEmbedding, of com.microsoft and of ai.onnx 23. The two differ in the order of their inputs and in
// what the caches may look like:
//   com.microsoft: x, position_ids [1] (offset) or [batch, sequence], cos_cache, sin_cache [positions,
//   pairs];
//                  rewrites also write it without position_ids, like the other
//   ai.onnx 23:    x, cos_cache, sin_cache, position_ids [batch, sequence] (optional; without it the caches
//                  are [batch, sequence, pairs])
// x is [batch, heads, sequence, head_size] or [batch, sequence, heads * head_size].
#include <memory>

#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/rows/row_kernels.h"

namespace lamina {
namespace {

// Where heads of x lie, in elements.
struct HeadLayout {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t batch_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// heads: 0 where unknown; then head_size (of a 3-D x) must be given.
Result<HeadLayout> LayoutOf(const Shape& x, int64_t heads, int64_t head_size) {
  HeadLayout layout;
  if (x.rank() == 4) {
    layout.batch = x[0];
    layout.heads = x[1];
    layout.sequence = x[2];
    layout.head_size = x[3];
    layout.head_stride = x[2] * x[3];
    layout.token_stride = x[3];
    layout.batch_stride = x[1] * layout.head_stride;
    return layout;
  }
  if (x.rank() != 3) {
    return InvalidArgumentError("the input must have 3 or 4 dimensions, found shape {}", x.ToString());
  }
  if (heads == 0 && head_size == 0) {
    return InvalidArgumentError("num_heads must be given for an input of shape {}", x.ToString());
  }
  const int64_t hidden = x[2];
  if (heads == 0) heads = hidden / head_size;
  if (heads == 0 || hidden % heads != 0) {
    return InvalidArgumentError("a hidden size of {} is not divisible into {} heads", hidden, heads);
  }
  layout.batch = x[0];
  layout.sequence = x[1];
  layout.heads = heads;
  layout.head_size = hidden / heads;
  layout.head_stride = layout.head_size;
  layout.token_stride = hidden;
  layout.batch_stride = x[1] * hidden;
  return layout;
}

class RotaryEmbedding : public Kernel {
 public:
  // Input indices, by operator.
  struct Inputs {
    int cos, sin, position_ids;
  };

  RotaryEmbedding(const NodeInfo& node, const Inputs& inputs, int64_t num_heads)
      : kernels_(RowKernelsFor(ActiveIsa())),
        inputs_(inputs),
        interleaved_(node.Int("interleaved", 0) != 0),
        rotary_dim_(node.Int("rotary_embedding_dim", 0)),
        num_heads_(num_heads) {}

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(0);
    const Tensor& cos = *context.Input(inputs_.cos);
    const Tensor& sin = *context.Input(inputs_.sin);
    const Tensor* position_ids =
        inputs_.position_ids < context.num_inputs() ? context.Input(inputs_.position_ids) : nullptr;
    const int cache_rank = position_ids ? 2 : 3;
    if (cos.shape().rank() != cache_rank || cos.shape() != sin.shape()) {
      return InvalidArgumentError(
          "cos_cache and sin_cache must have {} dimensions and one shape, found {} and {}", cache_rank,
          cos.shape().ToString(), sin.shape().ToString());
    }
    const int64_t pairs = cos.shape()[cache_rank - 1];
    LAMINA_ASSIGN_OR_RETURN(const HeadLayout layout,
                            LayoutOf(x.shape(), num_heads_, rotary_dim_ == 0 ? 2 * pairs : 0));
    const int64_t rotary_dim = rotary_dim_ == 0 ? layout.head_size : rotary_dim_;
    if (rotary_dim != 2 * pairs || rotary_dim > layout.head_size) {
      return InvalidArgumentError(
          "the caches hold {} pairs, expected half of the rotary dimension {} of a head of {}", pairs,
          rotary_dim, layout.head_size);
    }
    LAMINA_RETURN_IF_ERROR(CheckPositions(position_ids, cos.shape(), layout));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x.shape()));

    const int64_t element_bytes = DataTypeBits(x.type()) / 8;
    const auto rotate = kernels_.For(x.type()).rotate;
    const char* x_data = static_cast<const char*>(x.raw_data());
    const char* cos_data = static_cast<const char*>(cos.raw_data());
    const char* sin_data = static_cast<const char*>(sin.raw_data());
    char* y_data = static_cast<char*>(y->mutable_raw_data());
    context.threads().ParallelFor(
        layout.batch * layout.sequence, GrainFor(static_cast<double>(layout.heads * layout.head_size) * 0.3),
        [&](int64_t begin, int64_t end, int) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t row = RowOfCache(position_ids, token, layout) * pairs * element_bytes;
            RotateHead head;
            head.cos = cos_data + row;
            head.sin = sin_data + row;
            head.head_size = layout.head_size;
            head.pairs = pairs;
            head.interleaved = interleaved_;
            const int64_t first =
                token / layout.sequence * layout.batch_stride + token % layout.sequence * layout.token_stride;
            for (int64_t h = 0; h < layout.heads; ++h) {
              const int64_t offset = (first + h * layout.head_stride) * element_bytes;
              head.x = x_data + offset;
              head.y = y_data + offset;
              rotate(head);
            }
          }
        });
    return Status();
  }

 private:
  static bool IsOffset(const Tensor& position_ids, const HeadLayout& layout) {
    return position_ids.num_elements() == 1 && layout.batch * layout.sequence != 1;
  }

  static int64_t RowOfCache(const Tensor* position_ids, int64_t token, const HeadLayout& layout) {
    if (!position_ids) return token;
    const int64_t* ids = position_ids->data<int64_t>();
    return IsOffset(*position_ids, layout) ? ids[0] + token % layout.sequence : ids[token];
  }

  static Status CheckPositions(const Tensor* position_ids, const Shape& cache, const HeadLayout& layout) {
    if (!position_ids) {
      if (cache[0] == layout.batch && cache[1] == layout.sequence) return Status();
      return InvalidArgumentError("without position_ids the caches must be [{},{},pairs], found {}",
                                  layout.batch, layout.sequence, cache.ToString());
    }
    const int64_t* ids = position_ids->data<int64_t>();
    if (IsOffset(*position_ids, layout)) {
      if (ids[0] >= 0 && ids[0] <= cache[0] - layout.sequence) return Status();
      return InvalidArgumentError(
          "position_ids base value {} with sequence_length {} exceeds cos/sin cache range [0, {})", ids[0],
          layout.sequence, cache[0]);
    }
    if (position_ids->num_elements() != layout.batch * layout.sequence) {
      return InvalidArgumentError("position_ids must have shape [1] or [{},{}], found {}", layout.batch,
                                  layout.sequence, position_ids->shape().ToString());
    }
    for (const int64_t id : position_ids->elements<int64_t>()) {
      if (id < 0 || id >= cache[0]) {
        return InvalidArgumentError("position_ids value {} exceeds cos/sin cache range [0, {})", id,
                                    cache[0]);
      }
    }
    return Status();
  }

  const RowKernels& kernels_;
  Inputs inputs_;
  bool interleaved_;
  int64_t rotary_dim_;
  int64_t num_heads_;
};

class MsRotaryEmbedding : public RotaryEmbedding {
 public:
  // num_heads counts only beside rotary_embedding_dim; else the caches say how large a head is.
  explicit MsRotaryEmbedding(const NodeInfo& node)
      : RotaryEmbedding(node, {2, 3, 1},
                        node.Int("rotary_embedding_dim", 0) > 0 ? node.Int("num_heads", 0) : 0) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("rotary_embedding_dim", 0) > 0 && node.Int("num_heads", 0) <= 0) {
      return InvalidModelError("node '{}': num_heads must be given with rotary_embedding_dim", node.name());
    }
    if (node.Float("scale", 1.0f) != 1.0f) {
      return UnsupportedError("node '{}': RotaryEmbedding with scale {}: only 1 is supported", node.name(),
                              node.Float("scale", 1.0f));
    }
    return Status();
  }
};

class OnnxRotaryEmbedding : public RotaryEmbedding {
 public:
  explicit OnnxRotaryEmbedding(const NodeInfo& node)
      : RotaryEmbedding(node, {1, 2, 3}, node.Int("num_heads", 0)) {}
};

}  // namespace

void RegisterRotaryEmbedding(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registry.Add(KernelDef("RotaryEmbedding", kMsDomain)
                     .Input(0, type)
                     .Input(1, DataType::kInt64)
                     .Input(2, type)
                     .Input(3, type)
                     .Output(0, type)
                     .MayInplace(0, 0),
                 CreateKernel<MsRotaryEmbedding>);
    registry.Add(KernelDef("RotaryEmbedding")
                     .Since(23)
                     .Input(0, type)
                     .Input(1, type)
                     .Input(2, type)
                     .Input(3, DataType::kInt64)
                     .Output(0, type)
                     .MayInplace(0, 0),
                 CreateKernel<OnnxRotaryEmbedding>);
  }
}

}  // namespace lamina
