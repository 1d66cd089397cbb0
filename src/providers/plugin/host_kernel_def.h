// Kernel definitions and registries that a plugin builds through LaminaEpApi.
#pragma once

#include <deque>

#include "lamina/lamina_ep.h"
#include "provider/kernel_registry.h"
#include "providers/plugin/host_status.h"

struct LaminaKernelDef {
  lamina::KernelDef def;
};

struct LaminaKernelDefBuilder {
  lamina::KernelDef def;
};

struct LaminaKernelRegistry {
  struct Registration {
    lamina::KernelDef def;
    LaminaKernelCreateFunc create = nullptr;
    void* state = nullptr;
    LaminaKernelWorkspaceEstimateFunc workspace_estimate = nullptr;
  };
  std::deque<Registration> registrations;  // at addresses that stay
};

namespace lamina::plugin {

void FillKernelDefApi(LaminaEpApi& api);

}  // namespace lamina::plugin
