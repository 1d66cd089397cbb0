// The part of SessionImpl that records decode runs and finds the recording for a run.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "runtime/session_config.h"
#include "runtime/session_impl.h"

namespace lamina {
namespace {

// Recordings of one session at most; runs beyond go step by step.
constexpr int64_t kMostRecordings = 64;

}  // namespace

Status SessionImpl::RecordDecode(const SessionConfig& config) {
  if (!planned_frames_ || tokens_input_ < 0 || lasting_->devices.size() == 1 || kv_caches_->size() == 0) {
    return Status();
  }
  if (!config.record_decode) {
    recordings_.set_why_not("session.record_decode is off");
    return Status();
  }
  if (!lasting_->kv_layout.carried.empty()) {
    recordings_.set_why_not("the model carries state from run to run as ordinary tensors");
    return Status();
  }
  // All of both are taken before the first goes back.
  std::vector<PlannedFrames::Lease> leases;
  std::vector<std::unique_ptr<Frame>> frames;
  for (int i = 0; i < config.max_concurrent_runs; ++i) {
    frames.push_back(std::make_unique<Frame>());
    LAMINA_ASSIGN_OR_RETURN(PlannedFrames::Lease lease, planned_frames_->Acquire(1, 1, *frames.back()));
    leases.push_back(std::move(lease));
  }
  std::vector<std::unique_ptr<KvCacheStorage>> caches;
  while (std::unique_ptr<KvCacheStorage> cache = kv_caches_->Take()) caches.push_back(std::move(cache));
  Status status;
  int64_t left = kMostRecordings;
  for (int64_t batch = 1; batch <= config.max_batch && status.ok(); ++batch) {
    for (size_t frame = 0; frame < frames.size() && status.ok(); ++frame) {
      for (size_t cache = 0; cache < caches.size() && status.ok() && left > 0; ++cache, --left) {
        status = RecordDecode(batch, *caches[cache], leases[frame], *frames[frame]);
      }
    }
  }
  for (std::unique_ptr<KvCacheStorage>& cache : caches) kv_caches_->Add(std::move(cache));
  if (left == 0) recordings_.set_why_not(fmt::format("at most {} are recorded", kMostRecordings));
  if (status.code() == StatusCode::kDeviceLost) return status;
  // The session runs without.
  if (!status.ok()) recordings_.set_why_not(std::string(status.message()));
  return Status();
}

Status SessionImpl::RecordDecode(int64_t batch, KvCacheStorage& cache, const PlannedFrames::Lease& lease,
                                 Frame& frame) {
  const auto decode = std::find_if(planned_->phases.begin(), planned_->phases.end(),
                                   [](const Phase& phase) { return phase.name == "decode"; });
  if (decode == planned_->phases.end()) return InternalError("the plan has no decode phase");
  DecodeOutlineRequest request;
  request.executable = executable_.get();
  request.num_devices = static_cast<int32_t>(lasting_->devices.size());
  request.batch = batch;
  request.bounds = decode->bounds;
  const std::string batch_symbol(decoder_->batch.symbol());
  if (!batch_symbol.empty()) request.bounds[batch_symbol] = {batch, batch};
  request.inputs_in_cache = &inputs_in_cache_;
  request.outputs_in_cache = &outputs_in_cache_;
  const DecodeOutline& outline = recordings_.OutlineOf(batch, [&] { return OutlineDecode(request); });
  if (outline.num_recorded_parts() == 0) return UnsupportedError("no kernel does the same in every run");

  std::vector<KvRow> rows;
  rows.reserve(static_cast<size_t>(batch));
  for (int32_t slot = 0; slot < batch; ++slot) rows.push_back({slot, 0});
  RunStorage storage(lasting_->devices);
  LAMINA_ASSIGN_OR_RETURN(RunQueues * queues, storage.Queues(lasting_->devices, *executable_));
  LAMINA_ASSIGN_OR_RETURN(const std::span<const KvView> views, cache.Bind(rows));
  const RunOptions options;
  RunContext run{options, lasting_->env->impl().threads(), lasting_->devices, lasting_, storage, queues,
                 views};
  LAMINA_RETURN_IF_ERROR(MakeDecodeInputs(request.bounds, frame));
  LAMINA_RETURN_IF_ERROR(queues->Start({}));
  Result<std::unique_ptr<DecodeRecording>> recording =
      DecodeRecording::Record(*executable_, outline, cache, frame, run);
  const Status finished = queues->Finish({});
  frame.values.clear();
  LAMINA_RETURN_IF_ERROR(recording.status());
  LAMINA_RETURN_IF_ERROR(finished);
  recordings_.Add(lease.index(), cache, batch, *std::move(recording));
  return Status();
}

Status SessionImpl::MakeDecodeInputs(const SymbolBounds& bounds, Frame& frame) const {
  const Graph& graph = *model_->graph;
  frame.values.assign(graph.values().size(), Value());
  frame.bound.assign(graph.values().size(), Tensor());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_in_cache_[i]) continue;
    const ValueId id = graph.inputs()[i];
    Value& value = frame.values[static_cast<size_t>(id.index)];
    if (const Value* default_value = constants_.FindDefault(graph, id)) {
      value = *default_value;
      continue;
    }
    const ValueInfo& info = graph.value(id);
    if (!info.type.is_tensor() || !info.shape || info.type.element == DataType::kString) {
      return UnsupportedError("input '{}' has no shape", inputs_[i].name);
    }
    Shape shape;
    for (const DimExpr& dim : info.shape->dims) shape.Append(std::max<int64_t>(1, dim.Bounds(bounds).min));
    LAMINA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(info.type.element, shape));
    std::memset(tensor.mutable_raw_data(), 0, tensor.size_bytes());
    // Ones: of a mask, a valid token.
    for (int64_t element = 0; element < tensor.num_elements(); ++element) {
      if (info.type.element == DataType::kInt64) tensor.mutable_data<int64_t>()[element] = 1;
      if (info.type.element == DataType::kInt32) tensor.mutable_data<int32_t>()[element] = 1;
      if (info.type.element == DataType::kBool) tensor.mutable_data<bool>()[element] = true;
    }
    value = Value(std::move(tensor));
  }
  return Status();
}

DecodeRecording* SessionImpl::FindRecording(const RunOptions& options, const RunBinding& binding,
                                            const PlannedFrames::Lease& lease) const {
  if (!lease || !binding.kv_cache() || options.on_step || node_stats_) return nullptr;
  const Shape& tokens = binding.inputs()[static_cast<size_t>(tokens_input_)].tensor().shape();
  if (tokens[1] != 1) return nullptr;
  DecodeRecording* const found =
      recordings_.Find(lease.index(), binding.kv_cache()->impl().storage(), tokens[0]);
  return found && found->Fits(binding) ? found : nullptr;
}

}  // namespace lamina
