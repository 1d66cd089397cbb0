#include "runtime/session_impl.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "runtime/budgeted_allocator.h"
#include "runtime/fit_rounds.h"
#include "runtime/model_preparation.h"
#include "runtime/node_stats_recorder.h"
#include "runtime/plan_model.h"
#include "runtime/planned_frames.h"
#include "runtime/session_config.h"
#include "runtime/value_specs.h"
#include "weights/external_data.h"

namespace lamina {

// Reusable memory for one run, given back at the end.
class SessionImpl::StorageLease {
 public:
  explicit StorageLease(SessionImpl& session) : session_(session) {
    {
      const std::lock_guard lock(session_.storage_mutex_);
      if (!session_.free_storage_.empty()) {
        storage_ = std::move(session_.free_storage_.back());
        session_.free_storage_.pop_back();
      }
    }
    if (!storage_) {
      storage_ = std::make_unique<RunStorage>(session_.lasting_->devices);
    }
  }
  ~StorageLease() {
    const std::lock_guard lock(session_.storage_mutex_);
    session_.free_storage_.push_back(std::move(storage_));
  }
  StorageLease(const StorageLease&) = delete;
  StorageLease& operator=(const StorageLease&) = delete;
  RunStorage& operator*() { return *storage_; }

 private:
  SessionImpl& session_;
  std::unique_ptr<RunStorage> storage_;
};

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

int64_t SessionImpl::execution_buffer_bytes() const {
  return planned_frames_ ? planned_frames_->size_bytes() : 0;
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

Result<KvCache> SessionImpl::CreateKvCache() {
  if (lasting_->kv_layout.empty()) {
    return UnsupportedError("this model has no past inputs and present outputs: it needs no KV cache");
  }
  std::unique_ptr<KvCacheStorage> storage = kv_caches_->Take();
  if (!storage) {
    return ResourceExhaustedError("all {} KV caches of the session are in use (session.max_kv_caches)",
                                  kv_caches_->size());
  }
  return KvCache(std::make_shared<KvCacheImpl>(std::move(storage), kv_caches_, lasting_));
}

namespace {

// Streams are idle when the run is over, also a failed one: memory of the run may then be used again.
class RunScope {
 public:
  RunScope(RunQueues* queues, const RunInfo& info) : queues_(queues), info_(info) {}
  ~RunScope() {
    if (queues_) static_cast<void>(queues_->Finish(info_));
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;
  Status Finish() { return queues_ ? std::exchange(queues_, nullptr)->Finish(info_) : Status(); }

 private:
  RunQueues* queues_;
  RunInfo info_;
};

}  // namespace

Status SessionImpl::Run(const RunOptions& options, RunBinding& binding) {
  {
    const std::lock_guard lock(closed_mutex_);
    LAMINA_RETURN_IF_ERROR(closed_);
  }
  StorageLease storage(*this);
  std::unique_ptr<Frame> frame = (*storage).Take(*executable_);
  LAMINA_RETURN_IF_ERROR(BindInputs(binding, *frame));
  LAMINA_ASSIGN_OR_RETURN(RunQueues * queues, (*storage).Queues(lasting_->devices, *executable_));

  EnvImpl& env = lasting_->env->impl();
  RunContext run{options, env.threads(),    lasting_->devices, lasting_, *storage, queues, {},
                 0,       node_stats_.get()};
  if (options.on_step) run.start_ns = SystemClock().NowNs();
  if (binding.kv_cache()) {
    KvCacheStorage& cache = binding.kv_cache()->impl().storage();
    if (&cache.layout() != &lasting_->kv_layout)
      return InvalidArgumentError("the KV cache belongs to another session");
    LAMINA_ASSIGN_OR_RETURN(run.kv_views, cache.Bind(binding.kv_rows()));
  }
  frame->bound.assign(frame->values.size(), Tensor());
  const std::span<const ValueId> output_ids = model_->graph->outputs();
  for (size_t i = 0; i < std::min(binding.bound_outputs().size(), output_ids.size()); ++i) {
    frame->bound[static_cast<size_t>(output_ids[i].index)] = binding.bound_outputs()[i];
  }
  LAMINA_RETURN_IF_ERROR(BindCarried(binding, *frame));
  LAMINA_ASSIGN_OR_RETURN(const PlannedFrames::Lease lease, AcquireFrame(binding, *frame));
  if (frame->planned.empty()) ChoosePattern(binding, *storage, *frame);
  run.recording = FindRecording(options, binding, lease);
  if (binding.kv_cache() && !run.recording) {
    LAMINA_RETURN_IF_ERROR(binding.kv_cache()->impl().storage().UploadRowNumbers());
  }
  const Status status = RunBound(run, binding, *frame);
  if (!status.ok()) return Close(status);
  if (frame->pattern.is_tracing()) KeepPattern(binding, *frame);
  if (binding.kv_cache() && !lasting_->kv_layout.carried.empty()) {
    binding.kv_cache()->impl().storage().SwapCarried(binding.kv_rows().front());
  }
  (*storage).Return(*executable_, std::move(frame));
  return Status();
}

Status SessionImpl::RunBound(RunContext& run, RunBinding& binding, Frame& frame) {
  const ThreadPool::KeepAwake awake(run.threads);
  const RunInfo info{num_runs_.fetch_add(1, std::memory_order_relaxed), run.options.tag};
  RunScope scope(run.queues, info);
  if (run.queues) LAMINA_RETURN_IF_ERROR(run.queues->Start(info));
  if (run.recording) {
    LAMINA_RETURN_IF_ERROR(run.recording->Run(binding.kv_cache()->impl().storage(), frame, run));
  } else {
    LAMINA_RETURN_IF_ERROR(RunExecutable(*executable_, frame, run));
  }
  LAMINA_RETURN_IF_ERROR(CollectOutputs(run, binding, frame));
  LAMINA_RETURN_IF_ERROR(scope.Finish());
  for (auto& [staged, output] : run.staged_outputs) {
    std::memcpy(output.mutable_raw_data(), staged.raw_data(), staged.size_bytes());
  }
  return Status();
}

Status SessionImpl::Close(const Status& status) {
  if (status.code() != StatusCode::kDeviceLost) return status;
  const std::lock_guard lock(closed_mutex_);
  if (closed_.ok()) closed_ = status.WithContext("the session is closed since a device was lost");
  return status;
}

Result<PlannedFrames::Lease> SessionImpl::AcquireFrame(const RunBinding& binding, Frame& frame) {
  if (!planned_frames_) return PlannedFrames::Lease(nullptr, 0);
  if (tokens_input_ >= 0) {
    if (!binding.kv_cache()) return PlannedFrames::Lease(nullptr, 0);
    const Shape& shape = binding.inputs()[static_cast<size_t>(tokens_input_)].tensor().shape();
    return planned_frames_->Acquire(shape[0], shape[1], frame);
  }
  LAMINA_RETURN_IF_ERROR(CheckWithinBounds(binding));
  return planned_frames_->Acquire(frame);
}

namespace {

// Of the inputs by position; what is not given counts as a scalar.
std::vector<Shape> ShapesOf(const std::vector<Value>& inputs) {
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (const Value& input : inputs) shapes.push_back(input.is_tensor() ? input.tensor().shape() : Shape());
  return shapes;
}

}  // namespace

void SessionImpl::ChoosePattern(const RunBinding& binding, RunStorage& storage, Frame& frame) {
  if (!patterns_) return;
  const std::vector<Shape> shapes = ShapesOf(binding.inputs());
  const MemoryPatternCache::Lookup found = patterns_->Find(shapes);
  const Graph& graph = *model_->graph;
  if (found.patterns) {
    frame.pattern = RunPattern::Replaying(graph, found.patterns, lasting_->devices, storage.pattern_blocks());
  } else if (found.seen_before) {
    frame.pattern = RunPattern::Tracing(graph);
  }
}

void SessionImpl::KeepPattern(const RunBinding& binding, Frame& frame) {
  Result<MemoryPatternGroup> traced = frame.pattern.FinishTrace();
  if (traced.ok()) patterns_->Insert(ShapesOf(binding.inputs()), *std::move(traced));
}

Status SessionImpl::CheckWithinBounds(const RunBinding& binding) const {
  const SymbolBounds& bounds = planned_->phases.front().bounds;
  const Graph& graph = *model_->graph;
  for (size_t i = 0; i < std::min(binding.inputs().size(), graph.inputs().size()); ++i) {
    const ValueInfo& input = graph.value(graph.inputs()[i]);
    if (!binding.inputs()[i].is_tensor() || !input.shape) continue;
    const Shape& shape = binding.inputs()[i].tensor().shape();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const DimBounds planned = input.shape->dims[static_cast<size_t>(axis)].Bounds(bounds);
      if (shape[axis] >= planned.min && shape[axis] <= planned.max) continue;
      return InvalidArgumentError("input {} '{}' has the shape {}: dimension {} was planned for at most {}",
                                  i, inputs_[i].name, shape.ToString(), axis, planned.max);
    }
  }
  return Status();
}

Status SessionImpl::CheckInput(size_t index, const Value& value) const {
  const ValueSpec& spec = inputs_[index];
  if (!value.defined()) {
    if (spec.optional || spec.type.kind == ValueKind::kOptional) return Status();
    return InvalidArgumentError("input {} '{}': expected {}, found nothing", index, spec.name,
                                SpecText(spec));
  }
  if (value.is_tensor() && spec.type.is_tensor()) {
    const Tensor& tensor = value.tensor();
    const int32_t device = executable_->DeviceOf(model_->graph->inputs()[index]);
    if (!tensor.device().is_host() &&
        tensor.device() != lasting_->devices[static_cast<size_t>(device)].device()) {
      return InvalidArgumentError("input {} '{}': expected memory of the host or of {}, found {}", index,
                                  spec.name, lasting_->devices[static_cast<size_t>(device)].name(),
                                  tensor.device().ToString());
    }
    if (tensor.type() == spec.type.element && FitsSpec(spec, tensor.shape())) return Status();
    return InvalidArgumentError("input {} '{}': expected {}, found {}{}", index, spec.name, SpecText(spec),
                                value.type().ToString(), tensor.shape().ToString());
  }
  // A value of the type itself stands for a present optional.
  if (spec.type.kind == value.kind() || spec.type.kind == ValueKind::kOptional) return Status();
  return InvalidArgumentError("input {} '{}': expected {}, found {}", index, spec.name, SpecText(spec),
                              value.type().ToString());
}

Status SessionImpl::BindInputs(const RunBinding& binding, Frame& frame) const {
  const std::vector<Value>& given = binding.inputs();
  if (given.size() > inputs_.size()) {
    return InvalidArgumentError("the model has {} inputs, {} were given", inputs_.size(), given.size());
  }
  static const Value nothing;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (LivesInCache(inputs_in_cache_, binding, i)) continue;
    const Value& value = i < given.size() ? given[i] : nothing;
    LAMINA_RETURN_IF_ERROR(CheckInput(i, value));
    const ValueId id = model_->graph->inputs()[i];
    const Value* default_value = constants_.FindDefault(*model_->graph, id);
    frame.values[static_cast<size_t>(id.index)] = value.defined() || !default_value ? value : *default_value;
  }
  return Status();
}

Status SessionImpl::BindCarried(const RunBinding& binding, Frame& frame) const {
  if (!binding.kv_cache()) return Status();
  const KvCacheStorage& cache = binding.kv_cache()->impl().storage();
  for (size_t i = 0; i < lasting_->kv_layout.carried.size(); ++i) {
    const CarriedState& state = lasting_->kv_layout.carried[i];
    const KvRow& row = binding.kv_rows().front();
    LAMINA_ASSIGN_OR_RETURN(Tensor past, cache.CarriedPast(i, row));
    const Graph& graph = *model_->graph;
    frame.values[static_cast<size_t>(graph.inputs()[static_cast<size_t>(state.input)].index)] =
        Value(std::move(past));
    frame.bound[static_cast<size_t>(graph.outputs()[static_cast<size_t>(state.output)].index)] =
        cache.CarriedPresent(i, row);
  }
  return Status();
}

Status SessionImpl::CollectOutputs(RunContext& run, RunBinding& binding, Frame& frame) const {
  const Graph& graph = *model_->graph;
  binding.outputs().assign(outputs_.size(), Value());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool in_cache = LivesInCache(outputs_in_cache_, binding, i);
    const Operand& operand = executable_->outputs()[i];
    Value value = operand.constant ? *operand.constant : frame.values[static_cast<size_t>(operand.value)];
    const Tensor& bound = frame.bound[static_cast<size_t>(graph.outputs()[i].index)];
    // Carried state that a kernel handed on (If, Identity) is not where the next run reads it.
    if (in_cache && !(value.is_tensor() && bound.defined() && !value.tensor().SharesMemoryWith(bound))) {
      continue;
    }
    if (!value.defined()) return InternalError("output {} '{}' was not computed", i, outputs_[i].name);
    if (value.is_tensor()) {
      const Tensor& tensor = value.tensor();
      if (bound.defined() && tensor.SharesMemoryWith(bound)) {
        // The kernel wrote it there.
      } else if (!tensor.device().is_host()) {
        LAMINA_ASSIGN_OR_RETURN(value, Fetch(run, tensor, bound, i));
      } else if (bound.defined()) {
        LAMINA_ASSIGN_OR_RETURN(value, CopyInto(bound, tensor, i));
      } else if (IsBorrowed(binding, operand, tensor) || frame.pattern.Holds(tensor)) {
        // Passed through, or in memory of the run: the caller gets memory of its own.
        LAMINA_ASSIGN_OR_RETURN(value, tensor.Clone());
      }
    }
    if (!in_cache) binding.outputs()[i] = std::move(value);
  }
  return Status();
}

Result<Value> SessionImpl::Fetch(RunContext& run, const Tensor& tensor, const Tensor& bound,
                                 size_t index) const {
  Tensor destination;
  if (bound.defined()) {
    LAMINA_RETURN_IF_ERROR(CheckHolds(bound, tensor, index));
    destination = bound.Reshaped(tensor.shape());
  } else {
    LAMINA_ASSIGN_OR_RETURN(destination, Tensor::Allocate(tensor.type(), tensor.shape()));
  }
  if (run.recording) {
    LAMINA_ASSIGN_OR_RETURN(Tensor staged, run.recording->StartFetch(index, tensor, run));
    if (staged.defined()) {
      run.staged_outputs.emplace_back(std::move(staged), destination);
      return Value(std::move(destination));
    }
  }
  const SessionDevices& devices = lasting_->devices;
  const auto device = std::find_if(devices.begin(), devices.end(), [&](const SessionDevice& candidate) {
    return candidate.device() == tensor.device();
  });
  const Status status =
      run.queues->StartFetch(static_cast<int32_t>(device - devices.begin()), tensor, destination);
  if (!status.ok()) return status.WithContext(fmt::format("output '{}'", outputs_[index].name));
  return Value(std::move(destination));
}

bool SessionImpl::IsBorrowed(const RunBinding& binding, const Operand& operand, const Tensor& tensor) {
  if (operand.constant || !tensor.owner()) return true;
  return std::any_of(binding.inputs().begin(), binding.inputs().end(), [&](const Value& input) {
    return input.is_tensor() && input.tensor().owner() == tensor.owner();
  });
}

Status SessionImpl::CheckHolds(const Tensor& bound, const Tensor& tensor, size_t index) const {
  const bool holds = bound.type() == tensor.type() && bound.capacity_bytes() >= tensor.size_bytes() &&
                     tensor.type() != DataType::kString &&
                     (bound.device().is_host() || bound.device() == tensor.device());
  if (holds) return Status();
  return InvalidArgumentError(
      "output {} '{}' is {}{}, which the tensor bound to it ({}, {} bytes on {}) does not hold", index,
      outputs_[index].name, DataTypeName(tensor.type()), tensor.shape().ToString(),
      DataTypeName(bound.type()), bound.capacity_bytes(), bound.device().ToString());
}

Result<Value> SessionImpl::CopyInto(const Tensor& bound, const Tensor& tensor, size_t index) const {
  LAMINA_RETURN_IF_ERROR(CheckHolds(bound, tensor, index));
  Tensor copy = bound.Reshaped(tensor.shape());
  std::copy_n(tensor.data<std::byte>(), tensor.size_bytes(), copy.mutable_data<std::byte>());
  return Value(std::move(copy));
}

SessionImpl::~SessionImpl() {
  if (!node_stats_) return;
  const Status written = node_stats_->Write();
  if (!written.ok()) LogWarning("statistics of nodes were not written: {}", written.message());
}

SessionStats SessionImpl::stats() const {
  SessionStats stats = load_stats_;
  stats.arena_peak_bytes = lasting_->devices.back().memory->GetStats().max_in_use_bytes;
  return stats;
}

}  // namespace lamina
