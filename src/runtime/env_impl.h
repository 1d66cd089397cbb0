// What an Env owns.
#pragma once

#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "lamina/env.h"
#include "provider/provider.h"

namespace lamina {

class EnvImpl {
 public:
  explicit EnvImpl(int num_threads);

  ThreadPool& threads() { return threads_; }
  // In order of priority; the CPU provider is last.
  const std::vector<std::unique_ptr<ExecutionProvider>>& providers() const { return providers_; }
  ExecutionProvider& cpu() const { return *providers_.back(); }

 private:
  ThreadPool threads_;
  std::vector<std::unique_ptr<ExecutionProvider>> providers_;
};

}  // namespace lamina
