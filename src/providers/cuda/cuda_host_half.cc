#include "providers/cuda/cuda_host_half.h"

#include "providers/cuda/kernels/families.h"

namespace lamina {
namespace cuda {
namespace {

class CudaHostHalf : public ProviderHostHalf {
 public:
  CudaHostHalf() { RegisterCudaKernels(kernels_, KernelLauncher()); }
  std::string_view name() const override { return kProviderName; }
  std::string_view vendor() const override { return kProviderVendor; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  Result<Capability> GetCapability(const CapabilityRequest& request) const override {
    return CudaCapability(kernels_, request);
  }

 private:
  KernelRegistry kernels_;
};

}  // namespace

void RegisterCudaKernels(KernelRegistry& registry, const KernelLauncher& launcher) {
  KernelRegistrar registrar(registry, launcher);
  RegisterElementwise(registrar);
  RegisterReshape(registrar);
  RegisterLayout(registrar);
  RegisterGather(registrar);
  RegisterGenerators(registrar);
  RegisterRows(registrar);
  RegisterRotary(registrar);
  RegisterGroupQueryAttention(registrar);
  RegisterMatMul(registrar);
  RegisterMatMulNBits(registrar);
}

Result<Capability> CudaCapability(const KernelRegistry& kernels, const CapabilityRequest& request) {
  Capability capability;
  for (const NodeId id : request.nodes) {
    const NodeInfo& node = request.info(id);
    const Result<const KernelCreateInfo*> found = kernels.Lookup(node);
    Status status = found.status();
    // Making a kernel reads attributes and shapes alone; what it does not take, another device may.
    if (status.ok()) status = (*found)->create(node).status();
    if (status.ok()) {
      capability.nodes.push_back(id);
    } else {
      capability.refused.emplace_back(id, std::move(status));
    }
  }
  return capability;
}

}  // namespace cuda

std::unique_ptr<ProviderHostHalf> CreateCudaHostHalf() { return std::make_unique<cuda::CudaHostHalf>(); }

}  // namespace lamina
