#include "runtime/session_impl.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "runtime/node_stats_recorder.h"
#include "runtime/planned_frames.h"
#include "runtime/value_specs.h"

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

int64_t SessionImpl::execution_buffer_bytes() const {
  return planned_frames_ ? planned_frames_->size_bytes() : 0;
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
