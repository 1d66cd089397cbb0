#include "providers/cpu/moe/moe_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {

Result<MoeShape> MoeShapeOf(const MoeAttributes& attributes, const Shape& x, const Shape& router,
                            const Shape& fc1, const Shape& fc2, int64_t pack, bool has_fc3) {
  if (x.rank() < 2 || router.rank() != 2 || fc1.rank() != 3 || fc2.rank() != 3) {
    return InvalidArgumentError(
        "input, router_probs and expert weights must have 2 or 3, 2 and 3 dimensions, found {}, {}, {} and "
        "{}",
        x.ToString(), router.ToString(), fc1.ToString(), fc2.ToString());
  }
  MoeShape shape;
  shape.hidden = x[x.rank() - 1];
  shape.tokens = x.num_elements(0, x.rank() - 1);
  shape.experts = router[1];
  shape.fc1_rows = fc1[1];
  shape.inter = fc2[2] * pack;
  shape.has_fc3 = has_fc3;
  if (router[0] != shape.tokens) {
    return InvalidArgumentError("router_probs must have a row for each of {} tokens, found shape {}",
                                shape.tokens, router.ToString());
  }
  if (attributes.k > shape.experts) {
    return InvalidArgumentError("k = {} experts of {}", attributes.k, shape.experts);
  }
  const bool fused = attributes.activation == MoeActivation::kSwiglu && attributes.swiglu_fusion != 0;
  if (attributes.activation == MoeActivation::kSwiglu && fused == has_fc3) {
    return InvalidArgumentError("swiglu needs either swiglu_fusion or fc3, found swiglu_fusion = {} {} fc3",
                                attributes.swiglu_fusion, has_fc3 ? "and" : "without");
  }
  if (fc1[0] != shape.experts || fc2[0] != shape.experts || fc1[2] * pack != shape.hidden ||
      fc2[1] != shape.hidden || shape.fc1_rows != (fused ? 2 : 1) * shape.inter) {
    return InvalidArgumentError(
        "expert weights of shapes {} and {} do not match {} experts, hidden size {}, {} weights to an "
        "element and {} fc1",
        fc1.ToString(), fc2.ToString(), shape.experts, shape.hidden, pack, fused ? "a fused" : "a plain");
  }
  return shape;
}

Status CheckMoeBiases(const KernelContext& context, const MoeShape& shape, int fc1, int fc2, int fc3) {
  const struct {
    int input;
    int64_t outputs;
  } biases[] = {{fc1, shape.fc1_rows}, {fc2, shape.hidden}, {fc3, shape.inter}};
  for (const auto& [input, outputs] : biases) {
    const Tensor* bias = input < context.num_inputs() ? context.Input(input) : nullptr;
    if (bias && bias->shape() != Shape{shape.experts, outputs}) {
      return InvalidArgumentError("the bias at input {} must have shape [{},{}], found {}", input,
                                  shape.experts, outputs, bias->shape().ToString());
    }
  }
  return Status();
}

void StoreWithBias(const Tensor* bias, int64_t first, int64_t count, const float* values, float* target) {
  if (!bias) {
    std::copy_n(values, count, target);
    return;
  }
  const int64_t element_bytes = DataTypeBits(bias->type()) / 8;
  ConvertToFloat(bias->type(), static_cast<const char*>(bias->raw_data()) + first * element_bytes, target,
                 count);
  for (int64_t i = 0; i < count; ++i) target[i] += values[i];
}

}  // namespace lamina
