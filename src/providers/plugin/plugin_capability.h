// Asking a plugin for the nodes it takes, and for the code of those that it fuses.
#pragma once

#include <string_view>

#include "lamina/lamina_ep.h"
#include "provider/capability.h"
#include "provider/kernel_registry.h"
#include "providers/plugin/device_map.h"

namespace lamina::plugin {

// The plugin's answer, checked: nodes that were not asked for, and nodes that are in two lists, are INTERNAL.
// A node that the plugin says nothing of gets a reason.
Result<Capability> AskCapability(const CapabilityRequest& request, LaminaEp& ep,
                                 const KernelRegistry& kernels, const DeviceMap& devices,
                                 std::string_view provider);

// What LaminaEp::Compile makes of the group that `node` stands for; the caller's. REQUIRES: ep.Compile.
Result<LaminaNodeComputeInfo*> CompileBody(const NodeInfo& node, const Graph& body, LaminaEp& ep,
                                           const DeviceMap& devices);

}  // namespace lamina::plugin
