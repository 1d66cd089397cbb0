// Activation functions by name, as attributes of recurrent and fused operators ask for them.
#pragma once

#include <span>
#include <string_view>

#include "providers/cpu/elementwise/unary.h"

namespace lamina {

struct Activation {
  UnaryFunction function = nullptr;  // of floats
  UnaryParams params;
  void Apply(float* values, int64_t count) const { function(values, values, count, params); }
};

// Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, HardSwish, Elu, Softsign,
// Softplus, Clip; names in any case. `params` are the values of its parameters in the order of the formula;
// those not given have ONNX's defaults. INVALID_MODEL for another name.
Result<Activation> FindActivation(std::string_view name, std::span<const float> params);

}  // namespace lamina
