// What an Env owns.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "lamina/env.h"
#include "provider/provider.h"

namespace lamina {

// Thread-safe.
class EnvImpl {
 public:
  explicit EnvImpl(int num_threads);

  ThreadPool& threads() { return threads_; }
  // Shared by all sessions.
  ExecutionProvider& cpu() const { return *cpu_; }

  // Sessions loaded from now on may use the factory's provider. INVALID_ARGUMENT where the name is taken.
  Status RegisterProvider(std::shared_ptr<ProviderFactory> factory);
  // All of them or none.
  Status RegisterProviders(std::vector<std::shared_ptr<ProviderFactory>> factories);
  // In the order of registration; the CPU's is last.
  std::vector<std::shared_ptr<ProviderFactory>> ProviderFactories() const;
  // Libraries that could not be loaded.
  void AddProblem(ProviderProblem problem);
  std::vector<ProviderProblem> Problems() const;

 private:
  ThreadPool threads_;
  std::shared_ptr<ExecutionProvider> cpu_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ProviderFactory>> factories_;  // guarded by mutex_
  std::vector<ProviderProblem> problems_;                    // guarded by mutex_
};

}  // namespace lamina
