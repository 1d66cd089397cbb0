// The environment that sessions share: threads and execution providers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

struct EnvOptions {
  // Threads that compute on the CPU, the calling one included; 0: one per physical core this process may use.
  int num_threads = 0;
};

// A device that a provider of the environment offers.
struct DeviceInfo {
  Device device;
  std::string provider;
  std::string name;
  std::string driver;  // version, empty where there is none
  uint64_t memory_free_bytes = 0;
  uint64_t memory_total_bytes = 0;
};

// A provider that cannot be used.
struct ProviderProblem {
  std::string provider;  // its name, or where that is not known the path of its library
  Status reason;
};

class EnvImpl;

// Make one per process and keep it alive while sessions exist. Thread-safe.
class Env {
 public:
  // INVALID_ARGUMENT where num_threads is negative or above 4096.
  static Result<std::shared_ptr<Env>> Create(const EnvOptions& options = {});
  ~Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  int num_threads() const;
  // Loads execution providers from a library (lamina_ep.h, docs/providers.md); sessions loaded from now on
  // may use them. A library with one provider offers it as `name`; where `name` is empty, and of several,
  // each has its own. They come after those registered before and before the CPU. Errors say why: NOT_FOUND,
  // IO where it cannot be loaded, UNSUPPORTED where it is no provider library or one for a newer Lamina,
  // INTERNAL where it is broken, INVALID_ARGUMENT for a name that is taken or that rules could not say.
  // Nothing of the library stays loaded then.
  Status RegisterProviderLibrary(const std::string& name, const std::string& path);
  // The devices present now, the CPU last.
  std::vector<DeviceInfo> Devices() const;
  // Libraries that were not loaded and providers that refuse to work, and why.
  std::vector<ProviderProblem> ProviderProblems() const;

  EnvImpl& impl() const { return *impl_; }

 private:
  explicit Env(std::unique_ptr<EnvImpl> impl);
  std::unique_ptr<EnvImpl> impl_;
};

}  // namespace lamina
