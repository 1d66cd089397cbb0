// What MoE and QMoE check alike.
#pragma once

#include <cstdint>

#include "provider/kernel_context.h"
#include "providers/cpu/moe/moe_core.h"

namespace lamina {

// From x [.., hidden], router logits [tokens, experts], fc1 [experts, fc1_rows, hidden / pack] and fc2
// [experts, hidden, inter / pack], `pack` weights to an element. INVALID_ARGUMENT where they do not match.
Result<MoeShape> MoeShapeOf(const MoeAttributes& attributes, const Shape& x, const Shape& router,
                            const Shape& fc1, const Shape& fc2, int64_t pack, bool has_fc3);

// Biases [experts, outputs of the layer] at these inputs, where present.
Status CheckMoeBiases(const KernelContext& context, const MoeShape& shape, int fc1, int fc2, int fc3);

// target[i] = values[i] + bias[first + i]; bias may be null.
void StoreWithBias(const Tensor* bias, int64_t first, int64_t count, const float* values, float* target);

}  // namespace lamina
