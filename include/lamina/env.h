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
  // The devices present now, the CPU last.
  std::vector<DeviceInfo> Devices() const;

  EnvImpl& impl() const { return *impl_; }

 private:
  explicit Env(std::unique_ptr<EnvImpl> impl);
  std::unique_ptr<EnvImpl> impl_;
};

}  // namespace lamina
