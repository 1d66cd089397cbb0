#include "providers/plugin/test_plugin.h"

#include "base/thread_pool.h"
#include "provider/adapter/kernel_exporter.h"
#include "providers/plugin/plugin_library.h"

namespace lamina::testing {
namespace {

thread_local TestPlugin* current = nullptr;  // while CreateEpFactories runs

class Hooks : public adapter::KernelHooks {
 public:
  Hooks() : devices_(1) { devices_[0].name = "test device"; }
  std::span<const DeviceDescription> devices() const override { return devices_; }
  ThreadPool& threads(int32_t) override { return threads_; }

 private:
  std::vector<DeviceDescription> devices_;
  ThreadPool threads_{2};
};

class TestEp : public LaminaEp {
 public:
  TestEp(TestPlugin& plugin, const LaminaEpApi& api) : LaminaEp{}, plugin_(plugin), api_(api) {
    ++plugin_.live_providers;
    lamina_version = LAMINA_EP_API_VERSION;
    GetKernelRegistry = [](LaminaEp* ep, const LaminaKernelRegistry** registry) noexcept -> LaminaStatus* {
      auto& self = *static_cast<TestEp*>(ep);
      *registry = self.exporter_ ? self.exporter_->abi_registry() : self.registry_;
      return nullptr;
    };
  }
  ~TestEp() {
    --plugin_.live_providers;
    api_.ReleaseKernelRegistry(registry_);
  }
  LaminaStatus* Open() {
    return adapter::Guarded(api_, [&]() -> Status {
      if (plugin_.abi_kernels) {
        LAMINA_RETURN_IF_ERROR(adapter::FromAbi(api_, api_.CreateKernelRegistry(&registry_)));
        return adapter::FromAbi(api_, plugin_.abi_kernels(api_, registry_));
      }
      KernelRegistry kernels;
      if (plugin_.kernels) plugin_.kernels(kernels);
      exporter_ = std::make_unique<adapter::KernelExporter>(api_, std::move(kernels), hooks_);
      return exporter_->Export(adapter::EstimateWorkspaceOf<TestEp>);
    });
  }
  const adapter::KernelExporter& exporter() const { return *exporter_; }

 private:
  TestPlugin& plugin_;
  const LaminaEpApi& api_;
  Hooks hooks_;
  std::unique_ptr<adapter::KernelExporter> exporter_;
  LaminaKernelRegistry* registry_ = nullptr;
};

class TestFactory : public LaminaEpFactory {
 public:
  TestFactory(TestPlugin& plugin, const LaminaEpApi& api) : LaminaEpFactory{}, plugin_(plugin), api_(api) {
    ++plugin_.live_factories;
    lamina_version = LAMINA_EP_API_VERSION;
    GetName = [](const LaminaEpFactory*) noexcept { return kTestPluginName; };
    GetVendor = [](const LaminaEpFactory*) noexcept { return kTestPluginVendor; };
    GetDeviceKind = [](const LaminaEpFactory*) noexcept { return LAMINA_DEVICE_NPU; };
    GetSupportedDevices = [](LaminaEpFactory* self, const LaminaKeyValues*, LaminaDeviceInfo* const* devices,
                             size_t, size_t* count) noexcept -> LaminaStatus* {
      devices[0]->kind = LAMINA_DEVICE_NPU;
      devices[0]->name = "test device";
      devices[0]->memory_bytes = 1 << 20;
      *count = 1;
      const auto& edit = static_cast<TestFactory*>(self)->plugin_.edit_device;
      if (edit) edit(*devices[0]);
      return nullptr;
    };
    CreateEp = [](LaminaEpFactory* factory, const LaminaKeyValues* options, const LaminaLogger*,
                  LaminaEp** ep) noexcept -> LaminaStatus* {
      auto& self = *static_cast<TestFactory*>(factory);
      TestPlugin& test_plugin = self.plugin_;
      for (size_t i = 0; i < options->count; ++i) {
        test_plugin.options.push_back(std::string(options->keys[i]) + "=" + options->values[i]);
      }
      if (test_plugin.create_ep_failure != LAMINA_OK) {
        return self.api_.CreateStatus(test_plugin.create_ep_failure, "it does not want to");
      }
      auto made = std::make_unique<TestEp>(test_plugin, self.api_);
      if (LaminaStatus* status = made->Open()) return status;
      *ep = made.release();
      if (test_plugin.edit_ep) test_plugin.edit_ep(**ep);
      return nullptr;
    };
    ReleaseEp = [](LaminaEpFactory*, LaminaEp* ep) noexcept { delete static_cast<TestEp*>(ep); };
  }
  ~TestFactory() { --plugin_.live_factories; }

 private:
  TestPlugin& plugin_;
  const LaminaEpApi& api_;
};

LaminaStatus* CreateTestFactories(const char*, const LaminaApiBase* base, const LaminaLogger*,
                                  LaminaEpFactory** factories, size_t, size_t* num_factories) noexcept {
  *num_factories = 0;
  const LaminaEpApi* api = base->GetEpApi(current->asked_version);
  if (!api || current->offers_nothing) return nullptr;
  factories[0] = new TestFactory(*current, *api);
  *num_factories = 1;
  if (current->edit_factories) current->edit_factories(factories, num_factories);
  return nullptr;
}

void ReleaseTestFactory(LaminaEpFactory* factory) noexcept { delete static_cast<TestFactory*>(factory); }

}  // namespace

Result<std::vector<std::unique_ptr<ProviderFactory>>> TestPlugin::Factories(
    const std::string& registered_name) {
  current = this;
  auto factories = plugin::MakePluginFactories(registered_name, &CreateTestFactories, &ReleaseTestFactory);
  current = nullptr;
  return factories;
}

Result<std::shared_ptr<ExecutionProvider>> TestPlugin::Provider(const std::string& registered_name) {
  LAMINA_ASSIGN_OR_RETURN(const auto factories, Factories(registered_name));
  return factories.front()->Create({});
}

PluginNode::PluginNode(std::string_view op_type, int opset_version, std::string_view domain)
    : TestNode(op_type, opset_version, domain) {
  plugin_device_.device = {DeviceKind::kNpu, 0};
  plugin_device_.provider = kTestPluginName;
}

}  // namespace lamina::testing
