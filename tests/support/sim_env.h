// An environment with the simulated accelerator, and a hand on the devices of its sessions.
#pragma once

#include <memory>
#include <string>

#include "../examples/simulated_accelerator/simulated_accelerator.h"
#include "lamina/lamina.h"
#include "provider/provider.h"

namespace lamina::testing {

class SimEnv {
 public:
  // Fails the running test where the library cannot be loaded.
  explicit SimEnv(int num_threads = 2);

  const std::shared_ptr<Env>& env() const { return env_; }

  // Of the provider that the last session was loaded with; zeros where it is gone.
  SimCounters Counters(int32_t device) const;
  // On that provider. REQUIRES: it is there.
  void Inject(int32_t device, SimFailure failure, uint64_t nth) const;
  // Called with every provider that is made, before its session uses it.
  void OnCreate(std::function<void(const SimEnv&)> on_create) { *on_create_ = std::move(on_create); }
  // Whether sessions still hold the provider.
  bool ProviderLives() const { return !provider_->expired(); }

 private:
  const SimControl* Control() const;

  std::shared_ptr<Env> env_;
  std::shared_ptr<std::weak_ptr<ExecutionProvider>> provider_;
  std::shared_ptr<std::function<void(const SimEnv&)>> on_create_;
};

}  // namespace lamina::testing
