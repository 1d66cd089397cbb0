// The decode loop of a language model: sequences in a KV cache, advanced step by step.
//
//   LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Create(env, folder, {}));
//   LAMINA_ASSIGN_OR_RETURN(const SequenceId sequence, engine->AddSequence());
//   LAMINA_RETURN_IF_ERROR(engine->Step({{{sequence, prompt_ids, /*num_logits=*/1}}}));
//   std::span<const float> logits = engine->logits(0);          // of the last token of the first row
//
// A step takes any mix of prefill chunks and single tokens; rows that a model can run together share one run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/model_folder.h"
#include "lamina/session.h"
#include "lamina/status.h"

namespace lamina {

struct EngineOptions {
  SessionOptions session;
  // Tokens a sequence may have; 0: the smaller of the model's context and 4096.
  int64_t context_length_tokens = 0;
  int max_sequences = 1;
  // Longer prompts are run in chunks of this many tokens.
  int prefill_chunk_tokens = 512;
  // Logits that a row of a step can ask for; more than 1 to check a draft (SequenceStep::num_logits).
  int max_row_logits = 1;
};

// The options of the session that an engine with these loads.
Result<SessionOptions> SessionOptionsOf(const EngineOptions& options, const ModelFolder& folder);

struct SequenceId {
  int32_t slot = -1;
  friend bool operator==(SequenceId, SequenceId) = default;
};

// Tokens to append to a sequence.
struct SequenceStep {
  SequenceId sequence;
  std::span<const int32_t> tokens;
  int num_logits = 0;  // how many of the last tokens to give logits for
};

// Not thread-safe.
class Engine {
 public:
  // Loads the model and allocates the KV cache. UNSUPPORTED where the model is no decoder Lamina can drive:
  // the text names the input or output that is missing or unknown.
  static Result<std::unique_ptr<Engine>> Create(std::shared_ptr<Env> env, const ModelFolder& folder,
                                                const EngineOptions& options,
                                                const LoadOptions& load_options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // RESOURCE_EXHAUSTED where max_sequences are in use.
  Result<SequenceId> AddSequence();
  void RemoveSequence(SequenceId sequence);
  // Tokens of the sequence in the cache.
  int64_t length_tokens(SequenceId sequence) const;
  // Forgets all tokens after the first `length_tokens`. INVALID_ARGUMENT where there are fewer, UNSUPPORTED
  // where the model carries state that cannot be cut back (then only 0 is possible).
  Status Rewind(SequenceId sequence, int64_t length_tokens);
  // Whether sequences can be cut back to any length.
  bool can_rewind() const { return kv_cache_->supports_truncation(); }
  // Makes `to` the same tokens as `from`.
  Status CopySequence(SequenceId from, SequenceId to);

  // Runs the tokens of every row. RESOURCE_EXHAUSTED where a sequence would exceed the context; nothing ran
  // then. After another error the rows' sequences keep the tokens of the chunks that were finished.
  Status Step(std::span<const SequenceStep> rows, const RunOptions& run_options = {});
  // After Step: logits [vocab_size] of row `row` for the `index`-th of the tokens it wanted them for; empty
  // where it did not want so many. Valid until the next Step.
  std::span<const float> logits(size_t row, size_t index = 0) const;

  int64_t context_length_tokens() const { return context_length_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  int max_sequences() const { return static_cast<int>(sequences_.size()); }
  int max_row_logits() const { return max_row_logits_; }
  const Session& session() const { return *session_; }
  uint64_t kv_cache_bytes() const { return kv_cache_->size_bytes(); }

 private:
  struct Sequence {
    bool used = false;
    int64_t length_tokens = 0;
  };
  // Tokens [first, first + count) of every row of a run.
  struct TokenRange {
    size_t first = 0;
    size_t count = 0;
  };

  Engine() = default;
  Status FindInputsAndOutputs();
  // All that steps with one token a row need, so that they allocate nothing.
  Status AllocateMemory();
  void BindLogits(int64_t num_tokens);
  Status CheckRows(std::span<const SequenceStep> rows) const;
  bool CanShareRun(const SequenceStep& a, const SequenceStep& b) const;
  // `members`: indices of the rows that share the runs.
  Status RunGroup(std::span<const SequenceStep> rows, std::span<const size_t> members,
                  const RunOptions& run_options);
  Status RunChunk(std::span<const SequenceStep> rows, std::span<const size_t> members, TokenRange range,
                  const RunOptions& run_options);
  Result<Value> MakeInput(size_t input, std::span<const SequenceStep> rows, std::span<const size_t> members,
                          TokenRange range);
  Status KeepLogits(const Tensor& logits, std::span<const SequenceStep> rows,
                    std::span<const size_t> members);

  // What the engine feeds to an input of the model.
  enum class InputRole { kTokens, kAttentionMask, kPositions, kUseCache, kCached };

  std::unique_ptr<Session> session_;
  std::unique_ptr<KvCache> kv_cache_;
  std::vector<InputRole> roles_;  // by input position
  size_t logits_output_ = 0;
  int64_t vocab_size_ = 0;
  int64_t context_length_tokens_ = 0;
  int prefill_chunk_tokens_ = 0;
  int max_row_logits_ = 1;
  std::vector<Sequence> sequences_;                   // by slot
  std::vector<std::vector<std::byte>> input_memory_;  // by input position
  std::vector<float> logits_;                         // [all that the rows want, vocab_size]
  std::vector<size_t> first_logits_;                  // by row, and the end: its first among them
  Tensor run_logits_;                                 // [rows that may be wanted in one run, vocab_size]
  RunBinding binding_;
  std::vector<KvRow> kv_rows_;
  std::vector<size_t> members_;  // of the run: indices of rows
  std::vector<bool> done_;       // by row
};

}  // namespace lamina
