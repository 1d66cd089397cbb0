// What a Session owns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lamina/session.h"
#include "model/decoder_contract.h"
#include "model/model.h"
#include "plan/kv_layout.h"
#include "plan/make_plan.h"
#include "runtime/decode_recordings.h"
#include "runtime/device_constants.h"
#include "runtime/env_impl.h"
#include "runtime/executable.h"
#include "runtime/executor.h"
#include "runtime/kv_cache.h"
#include "runtime/planned_frames.h"
#include "runtime/session_devices.h"
#include "weights/constant_table.h"

namespace lamina {

class ExternalData;
class NodeStatsRecorder;
struct SessionConfig;

// Immutable after load but for the pools, which have locks.
class SessionImpl {
 public:
  ~SessionImpl();
  // `read_model` is called again where the plan has to be made again (FitRounds).
  using ModelReader = std::function<Result<std::unique_ptr<Model>>()>;
  static Result<std::unique_ptr<SessionImpl>> Create(std::shared_ptr<Env> env, const ModelReader& read_model,
                                                     const SessionOptions& options,
                                                     const LoadOptions& load_options);

  Status Run(const RunOptions& options, RunBinding& binding);
  Result<KvCache> CreateKvCache();

  const std::vector<ValueSpec>& inputs() const { return inputs_; }
  const std::vector<ValueSpec>& outputs() const { return outputs_; }
  SessionStats stats() const;
  const Model& model() const { return *model_; }
  const Executable& executable() const { return *executable_; }
  // Where the nodes run; null where the host is the only device.
  const Placement* placement() const { return planned_ && planned_->placed ? &planned_->placement : nullptr; }
  // What the session does; null for a session on the host alone that takes its memory from an arena.
  const Plan* plan() const { return planned_ ? &planned_->plan : nullptr; }
  const SessionDevices& devices() const { return lasting_->devices; }
  // What makes the model a language model; null for others, and then not_a_decoder() says why.
  const DecoderSignature* decoder() const { return decoder_ ? &*decoder_ : nullptr; }
  const Status& not_a_decoder() const { return not_a_decoder_; }
  // How decode runs reach devices: text for people; empty where everything is on the host.
  std::string recordings_text() const { return recordings_.Summary(); }
  // Bytes of the planned execution buffer; 0 in an arena session.
  int64_t execution_buffer_bytes() const;

 private:
  // Shared by the session and what outlives it: tensors and caches.
  struct Lasting {
    std::shared_ptr<Env> env;
    SessionDevices devices;
    KvLayout kv_layout;
  };
  class StorageLease;

  // Up to a plan that the memory which is free now can hold: nothing is allocated, no weight is read.
  Status Prepare(const SessionConfig& config, const LoadOptions& load_options,
                 std::span<const uint64_t> withheld_bytes);
  // Allocates and reads what the plan says.
  Status Commit(const SessionConfig& config, const LoadOptions& load_options);
  Status ReadConstants();
  // Decides what lives where and makes the graph ready for it.
  Status MakeThePlan(const SessionConfig& config, std::span<const uint64_t> withheld_bytes);
  // RESOURCE_EXHAUSTED where the devices have less memory now than the plan takes.
  Status CheckFreeMemory() const;
  // From here on devices refuse what would exceed a budget that the user set.
  void KeepToBudgets();
  Status CreateKvCaches(const SessionConfig& config);
  Status AllocateFrames(const SessionConfig& config);
  // Runs decode steps of all frames and caches once, and records them.
  Status RecordDecode(const SessionConfig& config);
  Status RecordDecode(int64_t batch, KvCacheStorage& cache, const PlannedFrames::Lease& lease, Frame& frame);
  // Inputs of a decode run without a past, of one valid token a sequence.
  Status MakeDecodeInputs(const SymbolBounds& bounds, Frame& frame) const;
  DecodeRecording* FindRecording(const RunOptions& options, const RunBinding& binding,
                                 const PlannedFrames::Lease& lease) const;
  Status BindInputs(const RunBinding& binding, Frame& frame) const;
  Status RunBound(RunContext& run, RunBinding& binding, Frame& frame);
  // After an error that no later run can recover from.
  Status Close(const Status& status);
  Result<PlannedFrames::Lease> AcquireFrame(const RunBinding& binding, Frame& frame);
  // Of a run without a planned frame: where its values go (session.enable_mem_pattern).
  void ChoosePattern(const RunBinding& binding, RunStorage& storage, Frame& frame);
  void KeepPattern(const RunBinding& binding, Frame& frame);
  // Of a model that is no decoder: whether its frame holds what a run with these inputs makes.
  Status CheckWithinBounds(const RunBinding& binding) const;
  Status CheckInput(size_t index, const Value& value) const;
  Status BindCarried(const RunBinding& binding, Frame& frame) const;
  Status CollectOutputs(RunContext& run, RunBinding& binding, Frame& frame) const;
  // A tensor on a device, put on its way to host memory (the bound tensor's where there is one).
  Result<Value> Fetch(RunContext& run, const Tensor& tensor, const Tensor& bound, size_t index) const;
  // Whether the memory of an output belongs to the caller's inputs or to the model.
  static bool IsBorrowed(const RunBinding& binding, const Operand& operand, const Tensor& tensor);
  Status CheckHolds(const Tensor& bound, const Tensor& tensor, size_t index) const;
  Result<Value> CopyInto(const Tensor& bound, const Tensor& tensor, size_t index) const;
  bool LivesInCache(const std::vector<bool>& by_cache, const RunBinding& binding, size_t index) const {
    return binding.kv_cache() != nullptr && by_cache[index];
  }

  std::shared_ptr<Lasting> lasting_;
  std::unique_ptr<Model> model_;
  std::optional<DecoderSignature> decoder_;
  Status not_a_decoder_;
  std::shared_ptr<ExternalData> external_data_;
  ConstantTable constants_;
  std::unique_ptr<DeviceConstants> device_constants_;
  PrepackedWeights prepacked_;
  std::optional<PlannedGraph> planned_;  // see plan()
  std::unique_ptr<Executable> executable_;
  std::vector<ValueSpec> inputs_;
  std::vector<ValueSpec> outputs_;
  std::vector<bool> inputs_in_cache_;  // by position
  std::vector<bool> outputs_in_cache_;
  std::shared_ptr<KvCachePool> kv_caches_;
  std::unique_ptr<PlannedFrames> planned_frames_;  // null in an arena session
  std::unique_ptr<MemoryPatternCache> patterns_;   // null: not used
  DecodeRecordings recordings_;
  int32_t tokens_input_ = -1;                      // position of a decoder's tokens (or embeddings)
  std::unique_ptr<NodeStatsRecorder> node_stats_;  // null: nothing is collected
  SessionStats load_stats_;

  std::atomic<uint64_t> num_runs_{0};
  std::mutex closed_mutex_;
  Status closed_;  // why no run is possible any more; guarded by closed_mutex_
  std::mutex storage_mutex_;
  std::vector<std::unique_ptr<RunStorage>> free_storage_;  // guarded by storage_mutex_
};

}  // namespace lamina
