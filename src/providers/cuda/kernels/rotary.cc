// RotaryEmbedding, of com.microsoft and of ai.onnx 23. The two differ in the order of their inputs and in
// what the caches may look like:
//   com.microsoft: x, position_ids [1] (offset) or [batch, sequence], cos_cache, sin_cache [positions,
//   pairs];
//                  rewrites also write it without position_ids, like the other
//   ai.onnx 23:    x, cos_cache, sin_cache, position_ids [batch, sequence] (optional; without it the caches
//                  are [batch, sequence, pairs])
// x is [batch, heads, sequence, head_size] or [batch, sequence, heads * head_size].
#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"

namespace lamina::cuda {
namespace {

struct RotaryInputs {
  int cos, sin, position_ids;
};

class RotaryEmbedding : public CudaKernel {
 public:
  RotaryEmbedding(const NodeInfo& node, const KernelLauncher& launcher, const RotaryInputs& inputs,
                  int64_t num_heads)
      : CudaKernel(node, launcher),
        inputs_(inputs),
        interleaved_(node.Int("interleaved", 0) != 0),
        rotary_dim_(node.Int("rotary_embedding_dim", 0)),
        num_heads_(num_heads) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* cos, Required(context, inputs_.cos));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* sin, Required(context, inputs_.sin));
    const Tensor* ids = Optional(context, inputs_.position_ids);
    const int cache_rank = ids ? 2 : 3;
    if (cos->shape().rank() != cache_rank || cos->shape() != sin->shape()) {
      return InvalidArgumentError(
          "cos_cache and sin_cache must have {} dimensions and one shape, found {} and {}", cache_rank,
          cos->shape().ToString(), sin->shape().ToString());
    }
    RotaryArguments arguments{};
    arguments.pairs = static_cast<int32_t>(cos->shape()[cache_rank - 1]);
    LAMINA_RETURN_IF_ERROR(FindHeads(x->shape(), arguments));
    const int64_t rotary_dim = rotary_dim_ == 0 ? arguments.head_size : rotary_dim_;
    if (rotary_dim != 2 * int64_t{arguments.pairs} || rotary_dim > arguments.head_size) {
      return InvalidArgumentError(
          "the caches hold {} pairs, expected half of the rotary dimension {} of a head of {}",
          arguments.pairs, rotary_dim, arguments.head_size);
    }
    const int64_t tokens = int64_t{arguments.batch} * arguments.sequence;
    arguments.cache_rows = cos->shape().num_elements(0, cache_rank - 1);
    arguments.position = RotaryPosition::kByToken;
    if (ids) {
      arguments.ids = static_cast<const int64_t*>(ids->raw_data());
      arguments.position =
          ids->num_elements() == 1 && tokens != 1 ? RotaryPosition::kFirstId : RotaryPosition::kIds;
      if (arguments.position == RotaryPosition::kIds && ids->num_elements() != tokens) {
        return InvalidArgumentError("position_ids must have shape [1] or [{},{}], found {}", arguments.batch,
                                    arguments.sequence, ids->shape().ToString());
      }
    } else if (cos->shape()[0] != arguments.batch || cos->shape()[1] != arguments.sequence) {
      return InvalidArgumentError("without position_ids the caches must be [{},{},pairs], found {}",
                                  arguments.batch, arguments.sequence, cos->shape().ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y || y->num_elements() == 0) return Status();
    arguments.type = ElementTypeOf(x->type());
    arguments.x = x->raw_data();
    arguments.y = y->mutable_raw_data();
    arguments.cos = cos->raw_data();
    arguments.sin = sin->raw_data();
    arguments.interleaved = interleaved_ ? 1 : 0;
    return Launch(context.stream(), "rotary", &KernelApi::rotary, arguments);
  }

 private:
  Status FindHeads(const Shape& x, RotaryArguments& arguments) const {
    HeadStrides strides{};
    if (x.rank() == 4) {
      arguments.batch = static_cast<int32_t>(x[0]);
      arguments.heads = static_cast<int32_t>(x[1]);
      arguments.sequence = static_cast<int32_t>(x[2]);
      arguments.head_size = static_cast<int32_t>(x[3]);
      strides = {x[1] * x[2] * x[3], x[3], x[2] * x[3]};
    } else {
      const int64_t size = rotary_dim_ == 0 ? 2 * int64_t{arguments.pairs} : 0;
      if (x.rank() != 3 || (num_heads_ == 0 && size == 0)) {
        return InvalidArgumentError(
            "the input must have 4 dimensions, or 3 and num_heads be given, found shape {}", x.ToString());
      }
      const int64_t heads = num_heads_ == 0 ? x[2] / size : num_heads_;
      if (heads == 0 || x[2] % heads != 0) {
        return InvalidArgumentError("a hidden size of {} is not divisible into {} heads", x[2], heads);
      }
      arguments.batch = static_cast<int32_t>(x[0]);
      arguments.sequence = static_cast<int32_t>(x[1]);
      arguments.heads = static_cast<int32_t>(heads);
      arguments.head_size = static_cast<int32_t>(x[2] / heads);
      strides = {x[1] * x[2], x[2], x[2] / heads};
    }
    arguments.x_strides = arguments.y_strides = strides;
    return Status();
  }

  RotaryInputs inputs_;
  bool interleaved_;
  int64_t rotary_dim_;
  int64_t num_heads_;
};

class MsRotaryEmbedding : public RotaryEmbedding {
 public:
  // num_heads counts only beside rotary_embedding_dim; else the caches say how large a head is.
  MsRotaryEmbedding(const NodeInfo& node, const KernelLauncher& launcher)
      : RotaryEmbedding(node, launcher, {2, 3, 1},
                        node.Int("rotary_embedding_dim", 0) > 0 ? node.Int("num_heads", 0) : 0) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("rotary_embedding_dim", 0) > 0 && node.Int("num_heads", 0) <= 0) {
      return InvalidModelError("num_heads must be given with rotary_embedding_dim");
    }
    if (node.Float("scale", 1.0f) != 1.0f) {
      return UnsupportedError("scale {}: only 1 is supported", node.Float("scale", 1.0f));
    }
    return Status();
  }
};

class OnnxRotaryEmbedding : public RotaryEmbedding {
 public:
  OnnxRotaryEmbedding(const NodeInfo& node, const KernelLauncher& launcher)
      : RotaryEmbedding(node, launcher, {1, 2, 3}, node.Int("num_heads", 0)) {}
};

}  // namespace

void RegisterRotary(KernelRegistrar& registrar) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registrar.Add<MsRotaryEmbedding>(KernelDef("RotaryEmbedding", kMsDomain)
                                         .Input(0, type)
                                         .Input(1, DataType::kInt64)
                                         .Input(2, type)
                                         .Input(3, type)
                                         .Output(0, type)
                                         .MayInplace(0, 0));
    registrar.Add<OnnxRotaryEmbedding>(KernelDef("RotaryEmbedding")
                                           .Since(23)
                                           .Input(0, type)
                                           .Input(1, type)
                                           .Input(2, type)
                                           .Input(3, DataType::kInt64)
                                           .Output(0, type)
                                           .MayInplace(0, 0));
  }
}

}  // namespace lamina::cuda
