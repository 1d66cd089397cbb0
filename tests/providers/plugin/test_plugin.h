// A provider plugin that is linked to the test: a factory, a provider with one device in host memory, and
// kernels in C++ or in C. A test says what it offers and may spoil any table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lamina/lamina_ep.h"
#include "provider/kernel_registry.h"
#include "provider/provider.h"
#include "support/test_node.h"

namespace lamina::testing {

struct TestPlugin {
  // What it offers.
  std::function<void(KernelRegistry&)> kernels;  // through the shared-source adapter
  std::function<LaminaStatus*(const LaminaEpApi&, LaminaKernelRegistry*)> abi_kernels;  // instead, by hand
  uint32_t asked_version = LAMINA_EP_API_VERSION;
  bool offers_nothing = false;

  // Called last on what was made.
  std::function<void(LaminaEpFactory**, size_t*)> edit_factories;
  std::function<void(LaminaEp&)> edit_ep;
  std::function<void(LaminaDeviceInfo&)> edit_device;
  LaminaStatusCode create_ep_failure = LAMINA_OK;

  // What happened.
  int live_factories = 0;
  int live_providers = 0;
  std::vector<std::string> options;  // "key=value" that CreateEp was given

  // The factories of the plugin. REQUIRES: this outlives them.
  Result<std::vector<std::unique_ptr<ProviderFactory>>> Factories(const std::string& registered_name = "");
  // Its provider, of default options.
  Result<std::shared_ptr<ExecutionProvider>> Provider(const std::string& registered_name = "");
};

// A node that is planned for device 0 of the plugin.
class PluginNode : public TestNode {
 public:
  PluginNode(std::string_view op_type, int opset_version, std::string_view domain = "");
  const DeviceDescription& device() const override { return plugin_device_; }

 private:
  DeviceDescription plugin_device_;
};

// Name, vendor and kind of the test plugin.
inline constexpr const char* kTestPluginName = "testing";
inline constexpr const char* kTestPluginVendor = "tests";

}  // namespace lamina::testing
