// Loading a model and running it.
//
//   auto env = lamina::Env::Create();
//   auto session = lamina::Session::Load(*env, "model.onnx", {});
//   std::vector<lamina::Value> outputs;
//   lamina::Status status = (*session)->Run({}, inputs, &outputs);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/env.h"
#include "lamina/status.h"
#include "lamina/types.h"
#include "lamina/value.h"

namespace lamina {

// Set from any thread; loads and runs that were given the token then return CANCELLED soon.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void Reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

// What the user says about a session: option keys (docs/options.md) and their values as text.
class SessionOptions {
 public:
  // INVALID_ARGUMENT for a key that does not exist (the text suggests the nearest) or a value it does not
  // take. Keys of providers, ep.NAME.KEY, are checked when a session is loaded.
  Status Set(std::string_view key, std::string_view value);
  // The session uses this execution provider, after those appended before; the CPU is always last. Where none
  // is appended it uses all of the environment. `options` without their prefix: {"devices", "2"} is
  // ep.NAME.devices. INVALID_ARGUMENT where the provider was appended before.
  Status AppendProvider(std::string_view name,
                        const std::map<std::string, std::string, std::less<>>& options = {});
  // The value set, or null.
  const std::string* Find(std::string_view key) const;
  const std::map<std::string, std::string, std::less<>>& entries() const { return entries_; }
  const std::vector<std::string>& providers() const { return providers_; }

 private:
  std::map<std::string, std::string, std::less<>> entries_;
  std::vector<std::string> providers_;
};

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct LoadOptions {
  // Called from the loading thread now and then, and once with done == total.
  std::function<void(const LoadProgress&)> progress;
  const CancelToken* cancel = nullptr;
  // Names of a language model's inputs and outputs where they are not the usual ones, with the keys of
  // genai_config.json: {"input_ids", "tokens"}, {"past_key_names", "k.%d"}, ...
  std::map<std::string, std::string> decoder_names;
};

// An input or output of a model.
struct ValueSpec {
  std::string name;
  ValueType type;
  bool has_shape = false;
  // Per dimension: its size, or -1 and the expression that stands for it ("past + seq", or empty: anything).
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
  // An input with a default may be left undefined.
  bool optional = false;
};

// What one step of a run did.
struct StepProfile {
  std::string_view node;  // valid while the session lives
  std::string_view op_type;
  Device device;
  int64_t start_ns = 0;  // since the start of the run
  int64_t duration_ns = 0;
  uint64_t bytes = 0;  // inputs read and outputs written
};

struct RunOptions {
  const CancelToken* cancel = nullptr;
  std::string tag;  // in log messages and profiles
  // Called after every step on the running thread; null costs nothing.
  std::function<void(const StepProfile&)> on_step;
};

// One sequence of a run: its slot in the cache and how many tokens of it are there.
struct KvRow {
  int32_t slot = 0;
  int32_t past_tokens = 0;
};

class KvCacheImpl;

// Keys and values of earlier tokens for the attention nodes of a session, allocated when the session was
// loaded. A cache has `slots` sequences of up to `capacity_tokens`; the caller counts the tokens of each
// (KvRow). Used by one run at a time. Goes back to its session when destroyed; may outlive it.
class KvCache {
 public:
  explicit KvCache(std::shared_ptr<KvCacheImpl> impl) : impl_(std::move(impl)) {}
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;
  int slots() const;
  int capacity_tokens() const;
  uint64_t size_bytes() const;
  // Whether one run may hold several sequences: true where every attention node of the model works in place.
  // Else a run has exactly one row.
  bool supports_batches() const;
  // Whether the sequences of one run may have different lengths.
  bool supports_ragged_batches() const;
  // Keeps the first `tokens` of the row's past. UNSUPPORTED where the model carries state without a token
  // axis and `tokens` is neither 0 nor all of them.
  Status Truncate(const KvRow& row, int32_t tokens);
  // Whether Truncate can keep any number of tokens.
  bool supports_truncation() const;
  // Makes slot `to_slot` what the row is: the same past_tokens tokens.
  Status CopySlot(const KvRow& from, int32_t to_slot);
  KvCacheImpl& impl() const { return *impl_; }

 private:
  std::shared_ptr<KvCacheImpl> impl_;
};

// Values for one run, by position. Reusable: keeps what was bound until it is bound again.
class RunBinding {
 public:
  void BindInput(size_t index, Value value);
  // The run writes this output into the memory of `tensor` (any shape; its capacity must do).
  void BindOutput(size_t index, Tensor tensor);
  // Past inputs and present outputs then live in the cache: they are neither given nor returned. Row b of the
  // batch is rows[b].
  void BindKvCache(KvCache* cache, std::span<const KvRow> rows);

  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Tensor>& bound_outputs() const { return bound_outputs_; }
  KvCache* kv_cache() const { return kv_cache_; }
  std::span<const KvRow> kv_rows() const { return kv_rows_; }
  // Filled by the run: by position, undefined for outputs that live in the cache.
  std::vector<Value>& outputs() { return outputs_; }

 private:
  std::vector<Value> inputs_;
  std::vector<Tensor> bound_outputs_;
  std::vector<Value> outputs_;
  KvCache* kv_cache_ = nullptr;
  std::vector<KvRow> kv_rows_;
};

// How weights came to a device.
struct DeviceLoadStats {
  Device device;
  std::string strategy;  // "pinned", "mapped", "direct", "auto"
  uint64_t bytes = 0;
  int64_t total_ns = 0;
  // Summed over the threads that load.
  int64_t read_ns = 0;
  int64_t copy_ns = 0;
  int64_t wait_ns = 0;
};

struct SessionStats {
  int64_t num_steps = 0;          // kernels in the main graph
  uint64_t weights_bytes = 0;     // of constants the kernels read
  uint64_t prepacked_bytes = 0;   // of those, in private memory in a kernel's own layout
  uint64_t arena_peak_bytes = 0;  // most bytes of activations and scratch held at once, so far
  // The phases of loading, one after the other.
  int64_t load_parse_ns = 0;
  int64_t load_context_ns = 0;                // opening the devices
  int64_t load_plan_ns = 0;                   // shapes, rewrites, plan
  int64_t load_allocate_ns = 0;               // device memory for weights, KV caches, execution frames
  int64_t load_weights_ns = 0;                // bringing weights to devices
  int64_t load_prepack_ns = 0;                // making the kernels, packing weights for them
  uint64_t loaded_bytes = 0;                  // brought to devices
  std::vector<DeviceLoadStats> device_loads;  // of loaders; small weights may come without one
};

class SessionImpl;

// A loaded model. Run is thread-safe.
class Session {
 public:
  // `path`: an .onnx file. Errors: INVALID_MODEL, UNSUPPORTED (an operator without a kernel),
  // INVALID_ARGUMENT (options), RESOURCE_EXHAUSTED, IO, NOT_FOUND, CANCELLED.
  static Result<std::unique_ptr<Session>> Load(std::shared_ptr<Env> env, const std::string& path,
                                               const SessionOptions& options = {},
                                               const LoadOptions& load_options = {});
  // From memory, which is copied; external data is looked for below `folder`.
  static Result<std::unique_ptr<Session>> Load(std::shared_ptr<Env> env, std::span<const std::byte> model,
                                               const std::string& folder, const SessionOptions& options = {},
                                               const LoadOptions& load_options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::span<const ValueSpec> inputs() const;
  std::span<const ValueSpec> outputs() const;
  // The position, or -1.
  int FindInput(std::string_view name) const;
  int FindOutput(std::string_view name) const;

  // Inputs by position. INVALID_ARGUMENT names the input, what was expected and what was found.
  Status Run(const RunOptions& options, std::span<const Value> inputs, std::vector<Value>* outputs);
  Status Run(const RunOptions& options, RunBinding& binding);

  // One of the caches that the session allocated at load; RESOURCE_EXHAUSTED where all are out, UNSUPPORTED
  // where the model has no past and present.
  Result<KvCache> CreateKvCache();

  SessionStats stats() const;
  SessionImpl& impl() const { return *impl_; }

 private:
  explicit Session(std::unique_ptr<SessionImpl> impl);
  std::unique_ptr<SessionImpl> impl_;
};

}  // namespace lamina
