#pragma once

#include "provider/kernel_registry.h"

namespace lamina {

// CausalMask of the domain `lamina`.
void RegisterCausalMask(KernelRegistry& registry);

}  // namespace lamina
