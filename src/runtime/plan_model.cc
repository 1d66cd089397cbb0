#include "runtime/plan_model.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "model/onnx/model_reader.h"
#include "plan/generic_host_half.h"
#include "providers/cuda/cuda_host_half.h"
#include "runtime/env_impl.h"
#include "runtime/fit_rounds.h"
#include "weights/external_data.h"

namespace lamina {
namespace {

uint64_t UsableBytes(const DeviceDescription& device) {
  return device.memory_bytes - std::min(device.reserved_bytes, device.memory_bytes);
}

Status AddDescribed(const Env& env, std::span<const DeviceDescription> described, PlanDevices& plan_devices) {
  std::map<std::string, std::shared_ptr<ProviderHostHalf>> halves;
  for (const auto& factory : env.impl().ProviderFactories()) {
    if (factory->device_kind() == DeviceKind::kCpu) continue;
    // A provider without its library here: the generic half answers for it.
    Result<std::shared_ptr<ExecutionProvider>> provider = factory->Create({});
    if (provider.ok()) halves[std::string(factory->name())] = *std::move(provider);
  }
  for (const DeviceDescription& device : described) {
    std::shared_ptr<ProviderHostHalf>& half = halves[device.provider];
    if (!half && device.provider == cuda::kProviderName) half = CreateCudaHostHalf();
    if (!half) {
      half = std::make_shared<GenericHostHalf>(device.provider, device.vendor, device.device.kind,
                                               env.impl().cpu().kernel_registry());
    }
    plan_devices.devices.push_back({device, half.get()});
    plan_devices.free_bytes.push_back(UsableBytes(device));
  }
  for (auto& [name, half] : halves) plan_devices.halves.push_back(std::move(half));
  ExecutionProvider& cpu = env.impl().cpu();
  plan_devices.devices.push_back({cpu.devices().front(), &cpu});
  plan_devices.free_bytes.push_back(0);
  plan_devices.loading.resize(plan_devices.devices.size());
  return Status();
}

}  // namespace

Result<PlanDevices> DevicesForPlan(const Env& env, const SessionOptions& options,
                                   std::span<const DeviceDescription> described) {
  PlanDevices plan_devices;
  if (!described.empty()) {
    LAMINA_RETURN_IF_ERROR(AddDescribed(env, described, plan_devices));
    return plan_devices;
  }
  LAMINA_ASSIGN_OR_RETURN(plan_devices.present, OpenDevices(env.impl(), options));
  plan_devices.devices = PlacementDevicesOf(plan_devices.present);
  plan_devices.free_bytes = FreeBytesOf(plan_devices.present);
  plan_devices.loading = LoadingOf(plan_devices.present);
  return plan_devices;
}

std::vector<uint64_t> FreeBytesOf(const SessionDevices& devices) {
  std::vector<uint64_t> free_bytes;
  for (const SessionDevice& device : devices) {
    free_bytes.push_back(device.is_host() ? 0
                                          : device.provider->available_resource_bytes(device.device())
                                                .value_or(UsableBytes(device.description)));
  }
  return free_bytes;
}

std::vector<DeviceLoaderOptions> LoadingOf(const SessionDevices& devices) {
  std::vector<DeviceLoaderOptions> loading;
  for (const SessionDevice& device : devices) loading.push_back(device.loading);
  return loading;
}

std::string BesideModel(const std::string& path, const std::string& folder) {
  const std::filesystem::path file(path);
  return file.is_absolute() || folder.empty() ? path : (std::filesystem::path(folder) / file).string();
}

Result<PlanSettings> PlanSettingsOf(const SessionConfig& config, const std::string& folder) {
  PlanSettings settings;
  settings.context_tokens = ContextLength(config);
  settings.max_batch = config.max_batch;
  settings.prefill_chunk_tokens = config.prefill_chunk_tokens;
  settings.frames = config.max_concurrent_runs;
  settings.kv_caches = config.max_kv_caches;
  settings.prepack = config.prepack;
  settings.offsets.effort = config.plan_effort;
  settings.allow_unmatched_devices = config.allow_unmatched_layer_devices;
  settings.disable_cpu_fallback = config.disable_cpu_ep_fallback;
  const bool by_name = !config.name_based_layer_assignment.empty();
  LAMINA_ASSIGN_OR_RETURN(
      LayerRules rules,
      ParseLayerRules(by_name ? config.name_based_layer_assignment : config.layer_assignment_settings,
                      by_name ? RuleMode::kName : RuleMode::kAnnotation));
  if (!rules.rules.empty()) settings.rules = std::make_shared<const LayerRules>(std::move(rules));
  LAMINA_ASSIGN_OR_RETURN(settings.max_shapes, ParseShapeOverrides(config.max_shape_override));
  LAMINA_ASSIGN_OR_RETURN(settings.budgets, ParseDeviceBudgets(config.device_memory_budget));
  if (!config.gpu_layers.empty()) {
    const Result<GpuLayers> layers = GpuLayers::Parse(config.gpu_layers);
    if (!layers.ok()) return layers.status().WithContext("session.gpu_layers");
    settings.gpu_layers = *layers;
  }
  if (!config.partitioning_settings.empty()) {
    LAMINA_ASSIGN_OR_RETURN(settings.partitioning, ParsePartitioningSettings(config.partitioning_settings));
    if (!settings.partitioning->stats_file.empty()) {
      const std::string path = BesideModel(settings.partitioning->stats_file, folder);
      LAMINA_ASSIGN_OR_RETURN(NodeMemoryStatsTable stats, NodeMemoryStatsTable::Read(path));
      settings.node_stats = std::make_shared<const NodeMemoryStatsTable>(std::move(stats));
    }
  }
  return settings;
}

Status CheckThatGpusArePresent(const Env& env, const PlanSettings& settings,
                               std::span<const PlacementDevice> devices) {
  const auto is_gpu = [](const PlacementDevice& device) {
    return device.description.device.kind == DeviceKind::kGpu;
  };
  if (std::any_of(devices.begin(), devices.end(), is_gpu)) return Status();
  const bool bounds_gpus = std::any_of(settings.budgets.begin(), settings.budgets.end(),
                                       [](const DeviceBudget& budget) { return budget.designator.empty(); });
  const bool places_layers =
      settings.gpu_layers && (settings.gpu_layers->all || settings.gpu_layers->count > 0);
  if (!bounds_gpus && !places_layers) return Status();
  std::string reasons;
  for (const ProviderProblem& problem : env.ProviderProblems()) {
    reasons += fmt::format("; provider {}: {}", problem.provider, problem.reason.message());
  }
  return NotFoundError(
      "{}: there is no GPU that could be used{}",
      places_layers ? "session.gpu_layers (--gpu-layers)" : "session.device_memory_budget (--gpu-memory)",
      reasons);
}

namespace {

// One round; `made` has its devices.
Status PlanOnce(const std::shared_ptr<Env>& env, const SessionConfig& config, const PlanModelOptions& options,
                std::span<const uint64_t> withheld_bytes, ModelPlan& made) {
  const Clock& clock = SystemClock();
  const int64_t start_ns = clock.NowNs();
  LAMINA_ASSIGN_OR_RETURN(
      const std::shared_ptr<ExternalData> data,
      ExternalData::Open(*made.model, {config.external_data_strict, /*verify_checksums=*/false}));
  const auto read = [&](const Initializer& initializer) { return data->Map(initializer); };
  const bool host_only = made.devices.devices.size() == 1;
  Result<PreparedModel> prepared = PrepareModel(env, *made.model, config, options.load, host_only, read);
  if (!prepared.ok()) return prepared.status().WithContext(made.model->path);
  made.prepared = *std::move(prepared);
  const int64_t prepared_ns = clock.NowNs();
  made.constants = std::make_unique<PlanningConstants>(*made.model->graph, read);

  PlanRequest request;
  request.graph = made.model->graph.get();
  request.decoder = made.prepared.decoder ? &*made.prepared.decoder : nullptr;
  request.devices = made.devices.devices;
  request.free_bytes = made.devices.free_bytes;
  request.withheld_bytes = withheld_bytes;
  request.loading = made.devices.loading;
  request.constants = made.constants.get();
  LAMINA_ASSIGN_OR_RETURN(request.settings, PlanSettingsOf(config, made.model->folder));
  LAMINA_RETURN_IF_ERROR(CheckThatGpusArePresent(*env, request.settings, request.devices));
  if (options.largest_context_tokens && request.decoder) {
    LAMINA_ASSIGN_OR_RETURN(request.settings.context_tokens,
                            LargestContext(request, *options.largest_context_tokens));
  }
  request.applied = made.model->graph.get();
  request.derived = made.model->derived.get();
  request.rewrites.model = made.model.get();
  request.rewrites.disabled = config.disabled_rewrites;
  request.rewrites.on_rewritten = [&] {
    *made.constants = PlanningConstants(*made.model->graph, read);
    return Status();
  };
  LAMINA_ASSIGN_OR_RETURN(made.planned, MakePlan(request));
  made.prepare_ns = prepared_ns - start_ns;
  made.plan_ns = clock.NowNs() - prepared_ns;
  return Status();
}

}  // namespace

Result<std::unique_ptr<ModelPlan>> PlanModel(const std::shared_ptr<Env>& env, const std::string& path,
                                             const PlanModelOptions& options) {
  LAMINA_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfig::FromOptions(options.session));
  FitRounds rounds(config);
  std::optional<PlanDevices> devices;
  while (true) {
    auto made = std::make_unique<ModelPlan>();
    const int64_t start_ns = SystemClock().NowNs();
    LAMINA_ASSIGN_OR_RETURN(made->model, ReadModel(path));
    made->parse_ns = SystemClock().NowNs() - start_ns;
    if (!devices) {
      LAMINA_ASSIGN_OR_RETURN(devices, DevicesForPlan(*env, options.session, options.described));
    }
    made->devices = *std::move(devices);
    const Status status = PlanOnce(env, config, options, rounds.withheld_bytes(), *made);
    if (status.ok()) return made;
    if (!rounds.TryAgain(status, made->devices.devices)) {
      return rounds.Outcome(status);
    }
    devices = std::move(made->devices);
  }
}

}  // namespace lamina
