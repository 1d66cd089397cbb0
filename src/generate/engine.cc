#include "generate/engine.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/half.h"
#include "model/decoder_contract.h"
#include "runtime/session_impl.h"

namespace lamina {
namespace {

constexpr int64_t kDefaultContextTokens = 4096;

// One element at `index` of an integer or bool tensor.
void StoreInteger(Tensor& tensor, int64_t index, int64_t value) {
  switch (tensor.type()) {
    case DataType::kInt64:
      tensor.mutable_data<int64_t>()[index] = value;
      break;
    case DataType::kInt32:
      tensor.mutable_data<int32_t>()[index] = static_cast<int32_t>(value);
      break;
    case DataType::kBool:
      tensor.mutable_data<bool>()[index] = value != 0;
      break;
    default:
      tensor.mutable_data<float>()[index] = static_cast<float>(value);
      break;
  }
}

bool IsFeedable(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool ||
         type == DataType::kFloat;
}

#ifdef __x86_64__
// How many of the first `count` elements were converted. The logits of a token are many, and the device waits
// meanwhile.
__attribute__((target("avx,f16c"))) int64_t ConvertHalvesByEight(const Float16* source, int64_t count,
                                                                 float* out) {
  constexpr int64_t kEight = 8;
  int64_t done = 0;
  for (; done + kEight <= count; done += kEight) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + done));
    _mm256_storeu_ps(out + done, _mm256_cvtph_ps(halves));
  }
  return done;
}
bool ConvertsByEight() { return __builtin_cpu_supports("avx2") != 0; }  // all that have it have these
#else
int64_t ConvertHalvesByEight(const Float16*, int64_t, float*) { return 0; }
bool ConvertsByEight() { return false; }
#endif

void ConvertHalves(const Float16* source, int64_t count, float* out) {
  const int64_t done = ConvertsByEight() ? ConvertHalvesByEight(source, count, out) : 0;
  for (int64_t i = done; i < count; ++i) out[i] = source[i];
}

// Converts `count` elements of a floating-point tensor from `first` on.
Status ConvertToFloat(const Tensor& tensor, int64_t first, int64_t count, float* out) {
  const auto convert = [&](const auto* source) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(source[first + i]);
    return Status();
  };
  switch (tensor.type()) {
    case DataType::kFloat:
      return convert(tensor.data<float>());
    case DataType::kDouble:
      return convert(tensor.data<double>());
    case DataType::kFloat16:
      ConvertHalves(tensor.data<Float16>() + first, count, out);
      return Status();
    case DataType::kBfloat16:
      return convert(tensor.data<Bfloat16>());
    default:
      return UnsupportedError("logits of type {}", DataTypeName(tensor.type()));
  }
}

int64_t ContextTokens(const EngineOptions& options, const ModelFolder& folder) {
  if (options.context_length_tokens > 0) return options.context_length_tokens;
  return folder.context_length_tokens > 0 ? std::min(folder.context_length_tokens, kDefaultContextTokens)
                                          : kDefaultContextTokens;
}

}  // namespace

Result<SessionOptions> SessionOptionsOf(const EngineOptions& options, const ModelFolder& folder) {
  SessionOptions session = options.session;
  LAMINA_RETURN_IF_ERROR(
      session.Set("session.context_length", std::to_string(ContextTokens(options, folder))));
  LAMINA_RETURN_IF_ERROR(session.Set("session.max_batch", std::to_string(options.max_sequences)));
  LAMINA_RETURN_IF_ERROR(session.Set("session.prefill_chunk", std::to_string(options.prefill_chunk_tokens)));
  LAMINA_RETURN_IF_ERROR(session.Set("session.last_token_logits", std::to_string(options.max_row_logits)));
  return session;
}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(std::shared_ptr<Env> env, const ModelFolder& folder,
                                               const EngineOptions& options,
                                               const LoadOptions& load_options) {
  std::unique_ptr<Engine> engine(new Engine());
  if (options.max_sequences < 1 || options.prefill_chunk_tokens < 1) {
    return InvalidArgumentError("expected at least one sequence and one token a chunk, found {} and {}",
                                options.max_sequences, options.prefill_chunk_tokens);
  }
  if (options.max_row_logits < 1 || options.max_row_logits > options.prefill_chunk_tokens) {
    return InvalidArgumentError("logits of a row: expected 1 to the prefill chunk ({} tokens), found {}",
                                options.prefill_chunk_tokens, options.max_row_logits);
  }
  engine->context_length_tokens_ = ContextTokens(options, folder);
  engine->prefill_chunk_tokens_ = options.prefill_chunk_tokens;
  engine->max_row_logits_ = options.max_row_logits;
  LAMINA_ASSIGN_OR_RETURN(const SessionOptions session_options, SessionOptionsOf(options, folder));
  LoadOptions decoder_load = load_options;
  decoder_load.decoder_names = folder.decoder_names;
  LAMINA_ASSIGN_OR_RETURN(engine->session_,
                          Session::Load(std::move(env), folder.model_path, session_options, decoder_load));
  Status found = engine->FindInputsAndOutputs();
  if (!found.ok()) return found.WithContext(folder.model_path);
  LAMINA_ASSIGN_OR_RETURN(KvCache cache, engine->session_->CreateKvCache());
  engine->kv_cache_ = std::make_unique<KvCache>(std::move(cache));
  engine->sequences_.resize(static_cast<size_t>(options.max_sequences));
  LAMINA_RETURN_IF_ERROR(engine->AllocateMemory());
  return engine;
}

Status Engine::AllocateMemory() {
  const auto num_sequences = static_cast<int64_t>(sequences_.size());
  // A prefill chunk has one row, a batch one token each.
  const int64_t most_tokens = std::max<int64_t>(prefill_chunk_tokens_, num_sequences);
  const std::span<const ValueSpec> inputs = session_->inputs();
  input_memory_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (roles_[i] == InputRole::kCached) continue;
    const bool is_mask = roles_[i] == InputRole::kAttentionMask;
    const Shape shape{is_mask ? num_sequences * context_length_tokens_ : most_tokens};
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(inputs[i].type.element, shape));
    input_memory_[i].resize(bytes);
  }
  const DataType type = session_->outputs()[logits_output_].type.element;
  const Shape logits_shape{num_sequences * max_row_logits_, vocab_size_};
  LAMINA_ASSIGN_OR_RETURN(run_logits_, Tensor::Allocate(type, logits_shape));
  logits_.reserve(static_cast<size_t>(logits_shape.num_elements()));
  members_.reserve(sequences_.size());
  done_.reserve(sequences_.size());
  kv_rows_.reserve(sequences_.size());
  first_logits_.reserve(sequences_.size() + 1);
  return Status();
}

Status Engine::FindInputsAndOutputs() {
  const DecoderSignature* decoder = session_->impl().decoder();
  if (!decoder) return session_->impl().not_a_decoder();
  if (!decoder->input_ids.present()) {
    return UnsupportedError("the model takes embeddings ('{}'), not token ids", decoder->inputs_embeds.name);
  }
  if (!decoder->other_inputs.empty()) {
    return UnsupportedError("the decoder has the input '{}', which is not known",
                            decoder->other_inputs.front().name);
  }
  if (decoder->kv_layers.empty() && decoder->state_layers.empty()) {
    return UnsupportedError(
        "the decoder has no past inputs and present outputs, so it cannot be run token by token");
  }
  const std::span<const ValueSpec> inputs = session_->inputs();
  roles_.assign(inputs.size(), InputRole::kCached);
  const auto set_role = [&](const DecoderPort& port, InputRole role) {
    if (port.present()) roles_[static_cast<size_t>(session_->FindInput(port.name))] = role;
  };
  set_role(decoder->input_ids, InputRole::kTokens);
  set_role(decoder->attention_mask, InputRole::kAttentionMask);
  set_role(decoder->position_ids, InputRole::kPositions);
  set_role(decoder->use_cache_branch, InputRole::kUseCache);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (roles_[i] != InputRole::kCached && !IsFeedable(inputs[i].type.element)) {
      return UnsupportedError("input '{}' is {}", inputs[i].name, inputs[i].type.ToString());
    }
  }
  logits_output_ = static_cast<size_t>(session_->FindOutput(decoder->logits.name));
  vocab_size_ = decoder->vocabulary_size();
  if (vocab_size_ <= 0) return UnsupportedError("the size of the vocabulary is not known from the model");
  return Status();
}

Result<SequenceId> Engine::AddSequence() {
  for (size_t slot = 0; slot < sequences_.size(); ++slot) {
    if (sequences_[slot].used) continue;
    sequences_[slot] = {true, 0};
    return SequenceId{static_cast<int32_t>(slot)};
  }
  return ResourceExhaustedError("all {} sequences of the engine are in use", sequences_.size());
}

void Engine::RemoveSequence(SequenceId sequence) {
  sequences_[static_cast<size_t>(sequence.slot)].used = false;
}

int64_t Engine::length_tokens(SequenceId sequence) const {
  return sequences_[static_cast<size_t>(sequence.slot)].length_tokens;
}

Status Engine::Rewind(SequenceId sequence, int64_t length_tokens) {
  Sequence& found = sequences_[static_cast<size_t>(sequence.slot)];
  if (length_tokens < 0 || length_tokens > found.length_tokens) {
    return InvalidArgumentError("cannot rewind a sequence of {} tokens to {}", found.length_tokens,
                                length_tokens);
  }
  const KvRow row{sequence.slot, static_cast<int32_t>(found.length_tokens)};
  LAMINA_RETURN_IF_ERROR(kv_cache_->Truncate(row, static_cast<int32_t>(length_tokens)));
  found.length_tokens = length_tokens;
  return Status();
}

Status Engine::CopySequence(SequenceId from, SequenceId to) {
  const int64_t length_tokens = this->length_tokens(from);
  LAMINA_RETURN_IF_ERROR(kv_cache_->CopySlot({from.slot, static_cast<int32_t>(length_tokens)}, to.slot));
  sequences_[static_cast<size_t>(to.slot)].length_tokens = length_tokens;
  return Status();
}

Status Engine::CheckRows(std::span<const SequenceStep> rows) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    const SequenceStep& row = rows[i];
    const int32_t slot = row.sequence.slot;
    if (slot < 0 || static_cast<size_t>(slot) >= sequences_.size() ||
        !sequences_[static_cast<size_t>(slot)].used) {
      return InvalidArgumentError("row {}: there is no sequence {}", i, slot);
    }
    if (row.tokens.empty()) return InvalidArgumentError("row {}: a step needs at least one token", i);
    const auto most_logits = std::min(static_cast<size_t>(max_row_logits_), row.tokens.size());
    if (row.num_logits < 0 || static_cast<size_t>(row.num_logits) > most_logits) {
      return InvalidArgumentError("row {}: logits of {} tokens are wanted, at most {} are possible", i,
                                  row.num_logits, most_logits);
    }
    const auto same = [&](const SequenceStep& other) { return other.sequence == row.sequence; };
    if (std::count_if(rows.begin(), rows.end(), same) > 1) {
      return InvalidArgumentError("row {}: sequence {} stands in the step twice", i, slot);
    }
    const int64_t length_tokens = sequences_[static_cast<size_t>(slot)].length_tokens;
    if (length_tokens + static_cast<int64_t>(row.tokens.size()) > context_length_tokens_) {
      return ResourceExhaustedError("{} tokens do not fit: the context holds {}, {} are taken",
                                    row.tokens.size(), context_length_tokens_, length_tokens);
    }
  }
  return Status();
}

bool Engine::CanShareRun(const SequenceStep& a, const SequenceStep& b) const {
  if (!kv_cache_->supports_batches() || a.tokens.size() != 1 || b.tokens.size() != 1) return false;
  return kv_cache_->supports_ragged_batches() || length_tokens(a.sequence) == length_tokens(b.sequence);
}

Status Engine::Step(std::span<const SequenceStep> rows, const RunOptions& run_options) {
  LAMINA_RETURN_IF_ERROR(CheckRows(rows));
  first_logits_.assign(1, 0);
  for (const SequenceStep& row : rows) {
    first_logits_.push_back(first_logits_.back() + static_cast<size_t>(row.num_logits));
  }
  logits_.resize(first_logits_.back() * static_cast<size_t>(vocab_size_));
  done_.assign(rows.size(), false);
  for (size_t first = 0; first < rows.size(); ++first) {
    if (done_[first]) continue;
    members_.clear();
    for (size_t i = first; i < rows.size(); ++i) {
      if (!done_[i] && (i == first || CanShareRun(rows[first], rows[i]))) members_.push_back(i);
    }
    for (const size_t member : members_) done_[member] = true;
    LAMINA_RETURN_IF_ERROR(RunGroup(rows, members_, run_options));
  }
  return Status();
}

Status Engine::RunGroup(std::span<const SequenceStep> rows, std::span<const size_t> members,
                        const RunOptions& run_options) {
  const size_t num_tokens = rows[members.front()].tokens.size();
  const auto chunk = static_cast<size_t>(prefill_chunk_tokens_);
  // All tokens that logits are wanted for lie in the last chunk. Rows share a run with one token each only.
  const auto num_logits = static_cast<size_t>(rows[members.front()].num_logits);
  for (size_t first_token = 0; first_token < num_tokens;) {
    const size_t left = num_tokens - first_token;
    const TokenRange range{first_token, left <= chunk ? left : std::min(chunk, left - num_logits)};
    LAMINA_RETURN_IF_ERROR(RunChunk(rows, members, range, run_options));
    first_token += range.count;
  }
  return KeepLogits(binding_.outputs()[logits_output_].tensor(), rows, members);
}

Status Engine::RunChunk(std::span<const SequenceStep> rows, std::span<const size_t> members, TokenRange range,
                        const RunOptions& run_options) {
  kv_rows_.clear();
  for (const size_t member : members) {
    const SequenceId sequence = rows[member].sequence;
    kv_rows_.push_back({sequence.slot, static_cast<int32_t>(length_tokens(sequence))});
  }
  for (size_t input = 0; input < roles_.size(); ++input) {
    if (roles_[input] == InputRole::kCached) continue;
    LAMINA_ASSIGN_OR_RETURN(Value value, MakeInput(input, rows, members, range));
    binding_.BindInput(input, std::move(value));
  }
  binding_.BindKvCache(kv_cache_.get(), kv_rows_);
  BindLogits(static_cast<int64_t>(members.size() * range.count));
  LAMINA_RETURN_IF_ERROR(session_->Run(run_options, binding_));
  for (const size_t member : members) {
    sequences_[static_cast<size_t>(rows[member].sequence.slot)].length_tokens +=
        static_cast<int64_t>(range.count);
  }
  return Status();
}

// Models whose logits cannot be cut to the last tokens give those of a whole prefill chunk, in memory of the
// run.
void Engine::BindLogits(int64_t num_tokens) {
  const bool holds = num_tokens <= run_logits_.shape()[0];
  binding_.BindOutput(logits_output_, holds ? run_logits_ : Tensor());
}

Result<Value> Engine::MakeInput(size_t input, std::span<const SequenceStep> rows,
                                std::span<const size_t> members, TokenRange range) {
  const auto batch = static_cast<int64_t>(members.size());
  const auto count = static_cast<int64_t>(range.count);
  int64_t longest_total = 0;
  for (const KvRow& row : kv_rows_) longest_total = std::max(longest_total, row.past_tokens + count);
  Shape shape{batch, count};
  if (roles_[input] == InputRole::kAttentionMask) shape = Shape{batch, longest_total};
  if (roles_[input] == InputRole::kUseCache) shape = Shape{1};

  const DataType type = session_->inputs()[input].type.element;
  LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
  std::vector<std::byte>& memory = input_memory_[input];
  if (memory.size() < bytes) {
    return InternalError("input '{}' needs {} bytes, {} are there", session_->inputs()[input].name, bytes,
                         memory.size());
  }
  Tensor tensor = Tensor::View(type, shape, memory.data(), memory.size());
  if (roles_[input] == InputRole::kUseCache) {
    StoreInteger(tensor, 0, kv_rows_.front().past_tokens > 0 ? 1 : 0);
    return Value(std::move(tensor));
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t past = kv_rows_[static_cast<size_t>(b)].past_tokens;
    const std::span<const int32_t> tokens = rows[members[static_cast<size_t>(b)]].tokens.subspan(range.first);
    for (int64_t i = 0; i < shape[1]; ++i) {
      int64_t element = 0;
      switch (roles_[input]) {
        case InputRole::kTokens:
          element = tokens[static_cast<size_t>(i)];
          break;
        case InputRole::kPositions:
          element = past + i;
          break;
        default:
          element = i < past + count ? 1 : 0;
          break;  // the mask: shorter rows are padded on the right
      }
      StoreInteger(tensor, b * shape[1] + i, element);
    }
  }
  return Value(std::move(tensor));
}

Status Engine::KeepLogits(const Tensor& logits, std::span<const SequenceStep> rows,
                          std::span<const size_t> members) {
  // [batch, tokens or 1, vocab_size] or [batch, vocab_size]
  const Shape& shape = logits.shape();
  const int rank = shape.rank();
  if (rank < 2 || shape[rank - 1] != vocab_size_ || shape[0] != static_cast<int64_t>(members.size())) {
    return InvalidModelError("logits have shape {}, expected [{}, tokens, {}]", shape.ToString(),
                             members.size(), vocab_size_);
  }
  const int64_t tokens = rank == 2 ? 1 : shape[1];
  for (size_t b = 0; b < members.size(); ++b) {
    const size_t row = members[b];
    const int64_t wanted = rows[row].num_logits;
    if (wanted > tokens) {
      return InvalidModelError("logits have shape {}, those of {} tokens are wanted", shape.ToString(),
                               wanted);
    }
    const int64_t first = ((static_cast<int64_t>(b) + 1) * tokens - wanted) * vocab_size_;
    float* target = logits_.data() + first_logits_[row] * static_cast<size_t>(vocab_size_);
    LAMINA_RETURN_IF_ERROR(ConvertToFloat(logits, first, wanted * vocab_size_, target));
  }
  return Status();
}

std::span<const float> Engine::logits(size_t row, size_t index) const {
  if (row + 1 >= first_logits_.size() || index >= first_logits_[row + 1] - first_logits_[row]) return {};
  const auto vocab_size = static_cast<size_t>(vocab_size_);
  return {logits_.data() + (first_logits_[row] + index) * vocab_size, vocab_size};
}

}  // namespace lamina
