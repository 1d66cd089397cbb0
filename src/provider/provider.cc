#include "provider/provider.h"

#include "base/error.h"

namespace lamina {

Result<Capability> ProviderHostHalf::GetCapability(const CapabilityRequest& request) const {
  Capability capability;
  for (const NodeId id : request.nodes) {
    const Result<const KernelCreateInfo*> kernel = kernel_registry().Lookup(request.info(id));
    if (kernel.ok()) {
      capability.nodes.push_back(id);
    } else {
      capability.refused.emplace_back(id, kernel.status());
    }
  }
  return capability;
}

Result<std::unique_ptr<Kernel>> ExecutionProvider::Compile(const NodeInfo& node, const Graph&) {
  return UnsupportedError("provider {} does not compile fused nodes ('{}')", name(), node.name());
}

}  // namespace lamina
