#pragma once

#include <span>

#include "model/shape_inference/operator_registry.h"

namespace lamina {

// The operators of the domain `lamina`.
std::span<const OperatorEntry> LaminaOperators();

}  // namespace lamina
