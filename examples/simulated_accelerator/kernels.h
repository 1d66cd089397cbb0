// The kernels of the simulated accelerator: those of Lamina's CPU provider, compiled into this library by the
// shared-source adapter. A device "computes" by running them on its own thread, in its own memory.
#pragma once

#include <memory>

#include "lamina/lamina_ep.h"
#include "memory.h"
#include "options.h"

namespace sim {

class Kernels {
 public:
  // `estimate` leads to EstimateWorkspace. Everything must outlive this.
  static Outcome Make(const LaminaEpApi& api, const Devices& devices, const Options& options,
                      LaminaKernelWorkspaceEstimateFunc estimate, std::unique_ptr<Kernels>* kernels);
  virtual ~Kernels() = default;
  virtual const LaminaKernelRegistry* registry() const = 0;
  virtual LaminaStatus* EstimateWorkspace(const LaminaNode* node, size_t* bytes) const noexcept = 0;
};

}  // namespace sim
