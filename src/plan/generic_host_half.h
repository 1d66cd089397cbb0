// The host half that answers for a described device whose provider is not compiled in: kernels with the types
// and workspace functions of another provider (the CPU's), as functions of the described device. Weights stay
// as the model stores them unless a kernel cannot do without packing.
#pragma once

#include <memory>
#include <string>

#include "provider/provider.h"

namespace lamina {

class GenericHostHalf : public ProviderHostHalf {
 public:
  // `kernels`: those whose definitions and sizes it has.
  GenericHostHalf(std::string name, std::string vendor, DeviceKind kind, const KernelRegistry& kernels);

  std::string_view name() const override { return name_; }
  std::string_view vendor() const override { return vendor_; }
  DeviceKind device_kind() const override { return kind_; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }

 private:
  std::string name_;
  std::string vendor_;
  DeviceKind kind_;
  KernelRegistry kernels_;
};

}  // namespace lamina
