// Activation functions by name, as attributes of recurrent and fused operators ask for them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "provider/node_info.h"
#include "providers/cpu/elementwise/unary.h"

namespace lamina {

struct Activation {
  UnaryFunction of_float = nullptr;
  UnaryFunction of_double = nullptr;
  UnaryParams params;
  void Apply(float* values, int64_t count) const { of_float(values, values, count, params); }
  void Apply(double* values, int64_t count) const { of_double(values, values, count, params); }
};

// Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, HardSwish, Elu, Celu,
// Selu, Softsign, Softplus, Clip; names in any case. `params` are the values of its parameters in the order
// of the formula; those not given have ONNX's defaults. INVALID_MODEL for another name.
Result<Activation> FindActivation(std::string_view name, std::span<const float> params);

// The attribute `activation` of com.microsoft's fused operators, with its parameters in `activation_params`
// or, one by one, in `activation_alpha`, `activation_beta` and `activation_gamma`; nothing where it is absent
// or empty.
Result<std::optional<Activation>> FusedActivation(const NodeInfo& node);

}  // namespace lamina
