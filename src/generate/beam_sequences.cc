#include "generate/beam_sequences.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

Result<BeamSequences> BeamSequences::Create(Engine& engine, SequenceId first, int32_t num_beams) {
  BeamSequences made(engine, first);
  for (int32_t beam = 1; beam < num_beams; ++beam) {
    Result<SequenceId> sequence = engine.AddSequence();
    if (!sequence.ok()) {
      return sequence.status().WithContext(fmt::format("{} beams need as many sequences, the engine has {}",
                                                       num_beams, engine.max_sequences()));
    }
    made.sequences_.push_back(*sequence);
  }
  return made;
}

BeamSequences::~BeamSequences() {
  for (const SequenceId sequence : sequences_) {
    if (!(sequence == first_)) engine_->RemoveSequence(sequence);
  }
}

Status BeamSequences::Reorder(std::span<const Beam> beams) {
  // The first beam that continues a sequence takes it over; the others get a copy in one that nobody
  // continues.
  std::vector<SequenceId> next(beams.size());
  std::vector<bool> taken(beams.size(), false);
  for (size_t i = 0; i < beams.size(); ++i) {
    const auto parent = static_cast<size_t>(beams[i].parent);
    if (taken[parent]) continue;
    taken[parent] = true;
    next[i] = sequences_[parent];
  }
  size_t unused = 0;
  for (size_t i = 0; i < beams.size(); ++i) {
    if (next[i].slot >= 0) continue;
    while (taken[unused]) ++unused;
    next[i] = sequences_[unused++];
    LAMINA_RETURN_IF_ERROR(engine_->CopySequence(sequences_[static_cast<size_t>(beams[i].parent)], next[i]));
  }
  sequences_ = std::move(next);
  return Status();
}

Status BeamSequences::Advance(std::span<const Beam> beams, const RunOptions& run_options) {
  LAMINA_RETURN_IF_ERROR(Reorder(beams));
  std::vector<SequenceStep> rows;
  for (size_t i = 0; i < beams.size(); ++i) {
    rows.push_back({sequences_[i], {&beams[i].token, 1}, /*num_logits=*/1});
  }
  return engine_->Step(rows, run_options);
}

std::span<const float> BeamSequences::logits() {
  logits_.clear();
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const std::span<const float> row = engine_->logits(i);
    logits_.insert(logits_.end(), row.begin(), row.end());
  }
  return logits_;
}

}  // namespace lamina
