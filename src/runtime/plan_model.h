// The plan of a model file, without loading it: what `lamina plan` shows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/env.h"
#include "lamina/session.h"
#include "lamina/status.h"
#include "model/model.h"
#include "plan/make_plan.h"
#include "plan/planning_constants.h"
#include "provider/device_description.h"
#include "provider/provider.h"
#include "runtime/model_preparation.h"
#include "runtime/session_config.h"
#include "runtime/session_devices.h"

namespace lamina {

// The devices a plan is made for, and who answers for them.
struct PlanDevices {
  std::vector<PlacementDevice> devices;      // the host last
  std::vector<uint64_t> free_bytes;          // by device
  std::vector<DeviceLoaderOptions> loading;  // by device
  // What `devices` points into.
  SessionDevices present;
  std::vector<std::shared_ptr<ProviderHostHalf>> halves;
};

// Those that a session with these options would open, or, where any are described, the described ones and the
// CPU. A described device is answered for by the provider that it names where there is one, else by a generic
// host half.
Result<PlanDevices> DevicesForPlan(const Env& env, const SessionOptions& options,
                                   std::span<const DeviceDescription> described);

// Bytes of each device that can be allocated now; of the host 0.
std::vector<uint64_t> FreeBytesOf(const SessionDevices& devices);

// How weights are loaded to each device.
std::vector<DeviceLoaderOptions> LoadingOf(const SessionDevices& devices);

// A file that an option names: relative paths are relative to the model's folder.
std::string BesideModel(const std::string& path, const std::string& folder);

// What the options say about planning. INVALID_ARGUMENT names the option. `folder`: of the model, for files
// that options name.
Result<PlanSettings> PlanSettingsOf(const SessionConfig& config, const std::string& folder);

// NOT_FOUND where the settings place layers on GPUs, or bound the memory of every GPU, and there is none.
// Says what the providers of the environment miss.
Status CheckThatGpusArePresent(const Env& env, const PlanSettings& settings,
                               std::span<const PlacementDevice> devices);

struct ModelPlan {
  std::unique_ptr<Model> model;
  PreparedModel prepared;
  PlanDevices devices;
  std::unique_ptr<PlanningConstants> constants;
  PlannedGraph planned;
  int64_t parse_ns = 0;
  int64_t prepare_ns = 0;  // shape inference and rewrites
  int64_t plan_ns = 0;
};

struct PlanModelOptions {
  SessionOptions session;
  LoadOptions load;
  std::vector<DeviceDescription> described;
  // The largest context that keeps the placement, up to this many tokens (--context max).
  std::optional<int64_t> largest_context_tokens;
};

// Needs the model's file but neither its weights nor a device. Errors: those of reading the model, of options
// and of MakePlan.
Result<std::unique_ptr<ModelPlan>> PlanModel(const std::shared_ptr<Env>& env, const std::string& path,
                                             const PlanModelOptions& options);

}  // namespace lamina
