// Loading a session: model, plan, weights, caches, frames.
#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/budgeted_allocator.h"
#include "runtime/fit_rounds.h"
#include "runtime/model_preparation.h"
#include "runtime/node_stats_recorder.h"
#include "runtime/plan_model.h"
#include "runtime/planned_frames.h"
#include "runtime/session_config.h"
#include "runtime/session_impl.h"
#include "runtime/value_specs.h"
#include "weights/external_data.h"

namespace lamina {

Result<std::unique_ptr<SessionImpl>> SessionImpl::Create(std::shared_ptr<Env> env,
                                                         const ModelReader& read_model,
                                                         const SessionOptions& options,
                                                         const LoadOptions& load_options) {
  LAMINA_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfig::FromOptions(options));
  FitRounds rounds(config);
  const auto lasting = std::make_shared<Lasting>();
  lasting->env = std::move(env);
  SessionStats stats;
  while (true) {
    const int64_t start_ns = SystemClock().NowNs();
    auto session = std::make_unique<SessionImpl>();
    LAMINA_ASSIGN_OR_RETURN(session->model_, read_model());
    const int64_t parsed_ns = SystemClock().NowNs();
    stats.load_parse_ns += parsed_ns - start_ns;
    if (lasting->devices.empty()) {
      LAMINA_ASSIGN_OR_RETURN(lasting->devices, OpenDevices(lasting->env->impl(), options));
      stats.load_context_ns = SystemClock().NowNs() - parsed_ns;
    }
    session->lasting_ = lasting;
    const int64_t plan_start_ns = SystemClock().NowNs();
    Status status = session->Prepare(config, load_options, rounds.withheld_bytes());
    stats.load_plan_ns += SystemClock().NowNs() - plan_start_ns;
    if (rounds.TryAgain(status, PlacementDevicesOf(lasting->devices))) continue;
    status = rounds.Outcome(status);
    session->load_stats_ = stats;
    if (status.ok()) status = session->Commit(config, load_options);
    if (status.ok()) return session;
    const std::string& path = session->model_->path;
    return path.empty() ? status : status.WithContext(path);
  }
}

namespace {

uint64_t InitializerBytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (const Initializer& initializer : graph.initializers()) bytes += initializer.size_bytes();
  return bytes;
}

}  // namespace

Status SessionImpl::Prepare(const SessionConfig& config, const LoadOptions& load_options,
                            std::span<const uint64_t> withheld_bytes) {
  LAMINA_ASSIGN_OR_RETURN(
      external_data_, ExternalData::Open(*model_, {config.external_data_strict, config.verify_checksums}));
  const auto read = [this](const Initializer& initializer) { return external_data_->Map(initializer); };
  const bool host_only = lasting_->devices.size() == 1;
  LAMINA_ASSIGN_OR_RETURN(PreparedModel prepared,
                          PrepareModel(lasting_->env, *model_, config, load_options, host_only, read));
  decoder_ = std::move(prepared.decoder);
  not_a_decoder_ = prepared.not_a_decoder;
  LAMINA_RETURN_IF_ERROR(ReadConstants());
  if (load_options.cancel && load_options.cancel->cancelled())
    return CancelledError("the load was cancelled");
  return MakeThePlan(config, withheld_bytes);
}

Status SessionImpl::Commit(const SessionConfig& config, const LoadOptions& load_options) {
  const uint64_t total_bytes = InitializerBytes(*model_->graph);
  LoadProgress progress{0, total_bytes};
  const auto report = [&](uint64_t bytes) -> Status {
    if (load_options.cancel && load_options.cancel->cancelled())
      return CancelledError("the load was cancelled");
    progress.done_bytes = std::min(progress.done_bytes + bytes, total_bytes);
    if (load_options.progress) load_options.progress(progress);
    return Status();
  };
  LAMINA_RETURN_IF_ERROR(report(0));
  KeepToBudgets();
  LAMINA_RETURN_IF_ERROR(constants_.AddMissing(
      *model_->graph, [this](const Initializer& initializer) { return external_data_->Map(initializer); }));
  if (!config.node_stats_file.empty()) {
    node_stats_ = std::make_unique<NodeStatsRecorder>(BesideModel(config.node_stats_file, model_->folder));
  }

  device_constants_ = std::make_unique<DeviceConstants>(lasting_->devices, external_data_);
  ExecutableOptions executable_options;
  executable_options.devices = &lasting_->devices;
  executable_options.placed = planned_ && planned_->placed ? &*planned_->placed : nullptr;
  executable_options.threads = &lasting_->env->impl().threads();
  executable_options.constants = &constants_;
  executable_options.device_constants = device_constants_.get();
  executable_options.prepack = config.prepack;
  executable_options.on_prepacked = report;
  const int64_t prepack_start_ns = SystemClock().NowNs();
  LAMINA_ASSIGN_OR_RETURN(executable_, BuildExecutable(*model_->graph, executable_options, prepacked_));
  const int64_t prepack_end_ns = SystemClock().NowNs();

  for (const ValueId id : model_->graph->inputs()) inputs_.push_back(SpecOf(*model_->graph, id));
  for (const ValueId id : model_->graph->outputs()) outputs_.push_back(SpecOf(*model_->graph, id));
  const int64_t allocate_start_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(CreateKvCaches(config));
  LAMINA_RETURN_IF_ERROR(AllocateFrames(config));
  LAMINA_RETURN_IF_ERROR(RecordDecode(config));
  const int64_t allocate_end_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(report(total_bytes));

  load_stats_.num_steps = static_cast<int64_t>(executable_->steps().size());
  load_stats_.weights_bytes = total_bytes;
  load_stats_.prepacked_bytes = prepacked_.total_bytes();
  const DeviceConstants::LoadTimes& brought = device_constants_->times();
  load_stats_.load_allocate_ns = brought.allocate_ns + allocate_end_ns - allocate_start_ns;
  load_stats_.load_weights_ns = brought.fill_ns;
  load_stats_.loaded_bytes = brought.bytes;
  load_stats_.load_prepack_ns = prepack_end_ns - prepack_start_ns - brought.allocate_ns - brought.fill_ns;
  load_stats_.device_loads = brought.loads;
  return Status();
}

Status SessionImpl::ReadConstants() {
  LAMINA_ASSIGN_OR_RETURN(constants_,
                          ConstantTable::Build(*model_->graph, [this](const Initializer& initializer) {
                            return external_data_->Map(initializer);
                          }));
  return Status();
}

Status SessionImpl::MakeThePlan(const SessionConfig& config, std::span<const uint64_t> withheld_bytes) {
  LAMINA_ASSIGN_OR_RETURN(PlanSettings settings, PlanSettingsOf(config, model_->folder));
  const std::vector<PlacementDevice> devices = PlacementDevicesOf(lasting_->devices);
  LAMINA_RETURN_IF_ERROR(CheckThatGpusArePresent(*lasting_->env, settings, devices));
  const bool host_only = devices.size() == 1;
  const bool runs_from_caches = decoder_ && config.max_kv_caches > 0;
  const bool needs_plan =
      !host_only || settings.rules || runs_from_caches || config.pre_allocate_execution_buffers;
  if (!needs_plan) return Status();

  PlanRequest request;
  request.graph = model_->graph.get();
  request.applied = model_->graph.get();
  request.derived = model_->derived.get();
  request.decoder = decoder_ ? &*decoder_ : nullptr;
  request.devices = devices;
  const std::vector<uint64_t> free_bytes = FreeBytesOf(lasting_->devices);
  request.free_bytes = free_bytes;
  request.withheld_bytes = withheld_bytes;
  request.constants = &constants_;
  request.settings = std::move(settings);
  const std::vector<DeviceLoaderOptions> loading = LoadingOf(lasting_->devices);
  request.loading = loading;
  request.rewrites.model = model_.get();
  request.rewrites.disabled = config.disabled_rewrites;
  request.rewrites.on_rewritten = [this] { return ReadConstants(); };
  LAMINA_ASSIGN_OR_RETURN(planned_, MakePlan(request));
  for (const Plan::Rule& rule : planned_->plan.rules) {
    if (!rule.note.empty()) LogWarning("layer rule {}: {}", rule.text, rule.note);
  }
  for (const Plan::Fallback& fallback : planned_->plan.fallbacks) {
    LogInfo("node '{}' does not run on {}: {}", fallback.node, fallback.provider, fallback.reason);
  }
  if (!planned_->plan.planned) {
    if (config.pre_allocate_execution_buffers) {
      return UnsupportedError(
          "session.pre_allocate_execution_buffers: the sizes of this model have no bounds: {} "
          "(session.max_shape_override can give them)",
          planned_->plan.not_planned_because);
    }
    LogInfo("activations are not planned, they come from the arena: {}", planned_->plan.not_planned_because);
  }
  return CheckFreeMemory();
}

void SessionImpl::KeepToBudgets() {
  if (!planned_) return;
  for (size_t i = 0; i + 1 < lasting_->devices.size(); ++i) {
    const Plan::DeviceMemory& planned = planned_->plan.devices[i];
    if (!planned.is_bounded_by_user) continue;
    SessionDevice& device = lasting_->devices[i];
    device.memory = std::make_unique<BudgetedAllocator>(std::move(device.memory), *planned.budget_bytes,
                                                        device.description.granularity_bytes);
  }
}

Status SessionImpl::CheckFreeMemory() const {
  const std::vector<uint64_t> free_bytes = FreeBytesOf(lasting_->devices);
  for (size_t i = 0; i + 1 < free_bytes.size(); ++i) {
    const DeviceNeed& need = planned_->needs[i];
    if (free_bytes[i] == 0 || need.allocated_bytes <= free_bytes[i]) continue;
    return MemoryShortageError(*model_->graph, lasting_->devices[i].description, need, free_bytes[i],
                               planned_->plan.kv_caches, planned_->plan.frames);
  }
  return Status();
}

Status SessionImpl::AllocateFrames(const SessionConfig& config) {
  if (config.enable_mem_pattern && CanUsePatterns(*model_->graph)) {
    patterns_ = std::make_unique<MemoryPatternCache>();
  }
  const bool runs_from_caches = decoder_ && config.max_kv_caches > 0;
  if (!planned_ || !planned_->plan.planned) return Status();
  if (!runs_from_caches && !config.pre_allocate_execution_buffers) return Status();
  PlannedFramesOptions options;
  options.frames = config.max_concurrent_runs;
  options.fail_fast = config.pre_allocate_execution_buffers;
  options.max_batch = config.max_batch;
  options.prefill_chunk_tokens = std::min(config.prefill_chunk_tokens, ContextLength(config));
  LAMINA_ASSIGN_OR_RETURN(planned_frames_, PlannedFrames::Create(*planned_, lasting_->devices, options));
  if (!runs_from_caches) return Status();
  const DecoderPort& tokens = decoder_->input_ids.present() ? decoder_->input_ids : decoder_->inputs_embeds;
  tokens_input_ = PositionOf(*model_->graph, model_->graph->inputs(), tokens.name);
  return Status();
}

Status SessionImpl::CreateKvCaches(const SessionConfig& config) {
  inputs_in_cache_.assign(inputs_.size(), false);
  outputs_in_cache_.assign(outputs_.size(), false);
  kv_caches_ = std::make_shared<KvCachePool>();
  if (!decoder_) return Status();
  const std::vector<StatePair> pairs = StatePairsOf(*model_->graph, *decoder_);
  if (pairs.empty()) return Status();
  std::vector<NodeId> order;
  std::unordered_map<int32_t, Step*> step_of_node;
  for (Step& step : executable_->mutable_steps()) {
    order.push_back(step.id);
    step_of_node[step.id.index] = &step;
  }
  LAMINA_ASSIGN_OR_RETURN(
      lasting_->kv_layout,
      MakeKvLayout(*model_->graph, order, pairs, std::string(decoder_->batch.symbol()),
                   std::string(decoder_->past.symbol()),
                   [&](NodeId id) -> const KernelDef& { return step_of_node.at(id.index)->info->def; }));
  for (size_t layer = 0; layer < lasting_->kv_layout.in_place.size(); ++layer) {
    InPlaceKv& in_place = lasting_->kv_layout.in_place[layer];
    Step& step = *step_of_node.at(in_place.node.index);
    step.kv_layer = static_cast<int32_t>(layer);
    in_place.device = step.device;
  }
  for (CarriedState& state : lasting_->kv_layout.carried) {
    state.device = executable_->DeviceOf(model_->graph->inputs()[static_cast<size_t>(state.input)]);
    if (executable_->DeviceOf(model_->graph->outputs()[static_cast<size_t>(state.output)]) != state.device) {
      state.device = executable_->host();
    }
  }
  for (const StatePair& pair : pairs) {
    inputs_in_cache_[static_cast<size_t>(pair.input)] = true;
    outputs_in_cache_[static_cast<size_t>(pair.output)] = true;
  }
  for (int i = 0; i < config.max_kv_caches; ++i) {
    LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<KvCacheStorage> cache,
                            KvCacheStorage::Allocate(lasting_->kv_layout, config.max_batch,
                                                     ContextLength(config), lasting_->devices));
    kv_caches_->Add(std::move(cache));
  }
  return Status();
}

}  // namespace lamina
