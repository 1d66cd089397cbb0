#include "support/sim_env.h"

#include <gtest/gtest.h>

#include "providers/plugin/plugin_library.h"
#include "providers/plugin/plugin_provider.h"
#include "runtime/env_impl.h"

namespace lamina::testing {
namespace {

// Remembers what the factory makes.
class WatchedFactory : public ProviderFactory {
 public:
  using OnCreate = std::function<void(const std::shared_ptr<ExecutionProvider>&)>;
  WatchedFactory(std::unique_ptr<ProviderFactory> factory, OnCreate on_create)
      : factory_(std::move(factory)), on_create_(std::move(on_create)) {}
  std::string_view name() const override { return factory_->name(); }
  std::string_view vendor() const override { return factory_->vendor(); }
  DeviceKind device_kind() const override { return factory_->device_kind(); }
  Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) override {
    LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<ExecutionProvider> provider, factory_->Create(config));
    on_create_(provider);
    return provider;
  }

 private:
  const std::unique_ptr<ProviderFactory> factory_;
  const OnCreate on_create_;
};

}  // namespace

SimEnv::SimEnv(int num_threads)
    : env_(*Env::Create({num_threads})),
      provider_(std::make_shared<std::weak_ptr<ExecutionProvider>>()),
      on_create_(std::make_shared<std::function<void(const SimEnv&)>>()) {
  auto factories =
      plugin::LoadProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libsimulated_accelerator.so");
  if (!factories.ok()) {
    ADD_FAILURE() << factories.status().ToString();
    return;
  }
  const Status registered = env_->impl().RegisterProvider(std::make_shared<WatchedFactory>(
      std::move(factories->front()), [this](const std::shared_ptr<ExecutionProvider>& provider) {
        *provider_ = provider;
        if (*on_create_) (*on_create_)(*this);
      }));
  EXPECT_TRUE(registered.ok()) << registered.ToString();
}

const SimControl* SimEnv::Control() const {
  const std::shared_ptr<ExecutionProvider> provider = provider_->lock();
  if (!provider) return nullptr;
  return static_cast<const SimControl*>(
      static_cast<plugin::PluginProvider&>(*provider).Extension(SIM_CONTROL_EXTENSION));
}

SimCounters SimEnv::Counters(int32_t device) const {
  SimCounters counters{};
  if (const SimControl* control = Control()) control->GetCounters(control->self, device, &counters);
  return counters;
}

void SimEnv::Inject(int32_t device, SimFailure failure, uint64_t nth) const {
  const SimControl* control = Control();
  ASSERT_NE(control, nullptr);
  control->Inject(control->self, device, failure, nth);
}

}  // namespace lamina::testing
