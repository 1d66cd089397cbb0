#include "generate/sampling/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "generate/sampling/candidates.h"
#include "generate/sampling/history_penalties.h"
#include "generate/sampling/portable_math.h"
#include "generate/sampling/sampling_params.h"

namespace lamina {

namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// A continuation of a beam.
struct Continuation {
  int32_t beam = 0;
  int32_t token = 0;
  float score = kImpossible;
};

// Better first; ties go to the lower beam, then to the lower token.
bool Better(const Continuation& a, const Continuation& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

// Finished texts, best first.
struct HypothesisList {
  size_t limit;
  float length_penalty;
  std::vector<BeamHypothesis> items;

  float ScoreOf(float log_probability, size_t tokens) const {
    return log_probability / std::pow(static_cast<float>(tokens), length_penalty);
  }
  void Add(std::vector<int32_t> tokens, float log_probability, int32_t end_token) {
    const float score = ScoreOf(log_probability, tokens.size());
    const auto place = std::find_if(items.begin(), items.end(),
                                    [&](const BeamHypothesis& other) { return other.score < score; });
    items.insert(place, {std::move(tokens), score, end_token});
    if (items.size() > limit) items.pop_back();
  }
  bool full() const { return items.size() == limit; }
  // REQUIRES: full().
  bool CanImprove(float log_probability, size_t tokens) const {
    return items.back().score < ScoreOf(log_probability, tokens);
  }
};

SamplingParams PenaltyParams(const BeamSearchParams& params) {
  SamplingParams penalties;
  penalties.repetition_penalty = params.repetition_penalty;
  penalties.penalty_last_n = -1;
  penalties.no_repeat_ngram_size = params.no_repeat_ngram_size;
  return penalties;
}

}  // namespace

struct BeamSearch::State {
  State(const BeamSearchParams& search, int32_t vocab, std::span<const int32_t> prompt)
      : params(search),
        vocab_size(vocab),
        penalty_params(PenaltyParams(search)),
        penalties(penalty_params, vocab, 0),
        candidates(vocab),
        beams(static_cast<size_t>(search.num_beams)),
        sequences(static_cast<size_t>(search.num_beams), {prompt.begin(), prompt.end()}),
        hypotheses{static_cast<size_t>(search.num_beams), search.length_penalty, {}} {
    // All beams are the prompt; only the first may be continued, so that the first step finds different ones.
    for (size_t i = 0; i < beams.size(); ++i) {
      beams[i] = {static_cast<int32_t>(i), prompt.back(), i == 0 ? 0.0F : kImpossible};
    }
    done = AtMaxLength();
  }

  size_t num_beams() const { return beams.size(); }
  size_t length() const { return sequences.front().size(); }
  bool AtMaxLength() const {
    return params.max_length > 0 && length() >= static_cast<size_t>(params.max_length);
  }
  bool EndsText(int32_t token) const {
    return std::find(params.end_tokens.begin(), params.end_tokens.end(), token) != params.end_tokens.end();
  }

  void Collect(size_t beam, std::span<const float> logits);
  void Advance();

  const BeamSearchParams params;
  const int32_t vocab_size;
  const SamplingParams penalty_params;
  HistoryPenalties penalties;
  Candidates candidates;
  std::vector<Beam> beams;
  std::vector<std::vector<int32_t>> sequences;  // by beam
  std::vector<Continuation> best;               // the 2 * num_beams best of a step
  HypothesisList hypotheses;
  bool settled = false;  // no beam that has not ended can count
  bool done = false;
};

// Adds the continuations of one beam to the best of the step.
void BeamSearch::State::Collect(size_t beam, std::span<const float> logits) {
  if (beams[beam].score == kImpossible) return;
  candidates.Assign(logits);
  double sum = 0;
  candidates.Weights(&sum);
  if (sum <= 0) return;
  const double log_sum = portable::Log(sum);
  const auto largest = static_cast<double>(candidates.MaxLogit());
  for (Candidate& item : candidates.items()) {
    const double shifted = item.logit == static_cast<float>(largest) ? 0.0 : item.logit - largest;
    item.logit = static_cast<float>(shifted - log_sum);
  }
  penalties.ApplyPenalties(sequences[beam], &candidates);
  penalties.BanRepeatedNgrams(sequences[beam], &candidates);
  const bool may_end = length() + 1 > static_cast<size_t>(std::max(params.min_length, 0));
  const size_t wanted = 2 * num_beams();
  for (const Candidate& item : candidates.items()) {
    if (item.logit == kImpossible || (!may_end && EndsText(item.token))) continue;
    const Continuation next{static_cast<int32_t>(beam), item.token, beams[beam].score + item.logit};
    // `best` is a heap with its worst in front.
    if (best.size() == wanted && !Better(next, best.front())) continue;
    best.push_back(next);
    std::push_heap(best.begin(), best.end(), Better);
    if (best.size() > wanted) {
      std::pop_heap(best.begin(), best.end(), Better);
      best.pop_back();
    }
  }
}

// Turns the best continuations into hypotheses and the next beams.
void BeamSearch::State::Advance() {
  std::vector<Beam> next_beams;
  std::vector<std::vector<int32_t>> next_sequences;
  for (size_t i = 0; i < best.size() && next_beams.size() < num_beams(); ++i) {
    const Continuation& continuation = best[i];
    const auto& sequence = sequences[static_cast<size_t>(continuation.beam)];
    if (EndsText(continuation.token)) {
      if (i < num_beams()) hypotheses.Add(sequence, continuation.score, continuation.token);
      continue;
    }
    next_beams.push_back({continuation.beam, continuation.token, continuation.score});
    next_sequences.push_back(sequence);
    next_sequences.back().push_back(continuation.token);
  }
  const float best_score = best.front().score;
  const size_t scored_length = length();
  if (next_beams.empty()) {
    done = settled = true;
    return;
  }
  // A vocabulary too small for all beams leaves some without a continuation.
  while (next_beams.size() < num_beams()) {
    next_beams.push_back({next_beams.front().parent, next_beams.front().token, kImpossible});
    next_sequences.push_back(next_sequences.front());
  }
  beams = std::move(next_beams);
  sequences = std::move(next_sequences);
  settled = hypotheses.full() && (params.early_stopping || !hypotheses.CanImprove(best_score, scored_length));
  done = settled || AtMaxLength();
}

BeamSearch::BeamSearch(std::unique_ptr<State> state) : state_(std::move(state)) {}
BeamSearch::BeamSearch(BeamSearch&&) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&&) noexcept = default;
BeamSearch::~BeamSearch() = default;

Result<BeamSearch> BeamSearch::Create(const BeamSearchParams& params, int32_t vocab_size,
                                      std::span<const int32_t> prompt) {
  if (vocab_size <= 0)
    return InvalidArgumentError("vocabulary size: expected at least 1, found {}", vocab_size);
  if (prompt.empty()) return InvalidArgumentError("beam search: the prompt is empty");
  if (params.num_beams < 1 || params.num_beams > 1024) {
    return InvalidArgumentError("num_beams: expected 1 to 1024, found {}", params.num_beams);
  }
  if (params.num_return_sequences < 1 || params.num_return_sequences > params.num_beams) {
    return InvalidArgumentError("num_return_sequences: expected 1 to num_beams ({}), found {}",
                                params.num_beams, params.num_return_sequences);
  }
  if (!std::isfinite(params.length_penalty)) {
    return InvalidArgumentError("length_penalty: expected a finite number, found {}", params.length_penalty);
  }
  LAMINA_RETURN_IF_ERROR(PenaltyParams(params).Validate());
  return BeamSearch(std::make_unique<State>(params, vocab_size, prompt));
}

Status BeamSearch::Step(std::span<const float> logits) {
  State& state = *state_;
  if (state.done) return InvalidArgumentError("beam search: the search is done");
  const auto row = static_cast<size_t>(state.vocab_size);
  if (logits.size() != row * state.num_beams()) {
    return InvalidArgumentError("logits: expected {} ({} beams of {} tokens), found {}",
                                row * state.num_beams(), state.num_beams(), row, logits.size());
  }
  state.best.clear();
  for (size_t beam = 0; beam < state.num_beams(); ++beam)
    state.Collect(beam, logits.subspan(beam * row, row));
  if (state.best.empty()) return InvalidArgumentError("beam search: no beam has a possible continuation");
  std::sort_heap(state.best.begin(), state.best.end(), Better);
  state.Advance();
  return Status();
}

std::span<const Beam> BeamSearch::beams() const { return state_->beams; }
std::span<const int32_t> BeamSearch::sequence(size_t beam) const { return state_->sequences[beam]; }
bool BeamSearch::done() const { return state_->done; }

std::vector<BeamHypothesis> BeamSearch::Finish() const {
  HypothesisList finished = state_->hypotheses;
  for (size_t beam = 0; beam < state_->num_beams() && !state_->settled; ++beam) {
    if (state_->beams[beam].score != kImpossible)
      finished.Add(state_->sequences[beam], state_->beams[beam].score, /*end_token=*/-1);
  }
  finished.items.resize(
      std::min(finished.items.size(), static_cast<size_t>(state_->params.num_return_sequences)));
  return std::move(finished.items);
}

}  // namespace lamina
