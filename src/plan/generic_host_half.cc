#include "plan/generic_host_half.h"

#include "base/error.h"

namespace lamina {
namespace {

// Declares what the kernel declares, less packing that is a matter of speed.
class UnpackedKernel : public Kernel {
 public:
  explicit UnpackedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  Status Compute(KernelContext&) const override {
    return UnsupportedError("the device is described, not present: nothing can run on it");
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return kernel_->DeclareWorkspaceRequirements(node, requirements);
  }
  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override {
    PrepackDeclaration declared;
    LAMINA_RETURN_IF_ERROR(kernel_->DeclarePrepack(node, input, declared));
    if (declared.required) declaration = declared;
    return Status();
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

GenericHostHalf::GenericHostHalf(std::string name, std::string vendor, DeviceKind kind,
                                 const KernelRegistry& kernels)
    : name_(std::move(name)), vendor_(std::move(vendor)), kind_(kind) {
  for (const KernelCreateInfo* info : kernels.All()) {
    const auto create = [make = info->create](const NodeInfo& node) -> Result<std::unique_ptr<Kernel>> {
      LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make(node));
      return std::unique_ptr<Kernel>(std::make_unique<UnpackedKernel>(std::move(kernel)));
    };
    kernels_.Add(info->def, create, info->workspace_estimate_func);
  }
}

}  // namespace lamina
