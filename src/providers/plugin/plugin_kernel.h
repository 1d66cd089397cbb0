// Kernels of a plugin.
#pragma once

#include <memory>

#include "lamina/lamina_ep.h"
#include "provider/kernel.h"
#include "providers/plugin/device_map.h"
#include "providers/plugin/host_kernel_def.h"

namespace lamina::plugin {

// The kernel that was registered for the node. Errors of the plugin, and INTERNAL where it returns no kernel
// or one with missing entries. `ep` and `devices` must outlive it.
Result<std::unique_ptr<Kernel>> MakePluginKernel(const LaminaKernelRegistry::Registration& registration,
                                                 const NodeInfo& node, LaminaEp& ep,
                                                 const DeviceMap& devices);

// The registered estimate of the node's scratch. REQUIRES: there is one.
Status EstimatePluginWorkspace(const LaminaKernelRegistry::Registration& registration, const NodeInfo& node,
                               LaminaEp& ep, const DeviceMap& devices, size_t* bytes);

// The kernel of a fused group, from `info`, which goes back to `ep` with the kernel, also where this fails.
Result<std::unique_ptr<Kernel>> MakeFusedKernel(LaminaNodeComputeInfo* info, const NodeInfo& node,
                                                LaminaEp& ep, const DeviceMap& devices);

}  // namespace lamina::plugin
