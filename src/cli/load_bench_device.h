// The device and the CPU session that `lamina bench load` measures with.
#pragma once

#include <memory>
#include <string>

#include "lamina/status.h"
#include "provider/provider.h"

namespace lamina::cli {

struct LoadBenchDevice {
  std::shared_ptr<ExecutionProvider> provider;
  DeviceDescription description;
};

// The device with this designator, or the first accelerator where it is empty. NOT_FOUND says what the
// providers that could not be made gave as their reasons.
Result<LoadBenchDevice> FindLoadBenchDevice(const std::string& designator);

// Seconds to load a model into a session on the CPU alone, which uses no loader.
Result<double> TimeCpuSession(const std::string& model_path);

}  // namespace lamina::cli
