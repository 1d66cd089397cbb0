// The engine's sequences behind the beams of a search: reordered, and copied where a beam has several
// continuations.
#pragma once

#include <span>
#include <vector>

#include "generate/engine.h"
#include "generate/sampling/beam_search.h"
#include "lamina/status.h"

namespace lamina {

// The engine must outlive it.
class BeamSequences {
 public:
  // Takes num_beams - 1 more sequences of the engine and gives them back at its end. RESOURCE_EXHAUSTED where
  // there are not so many. `first` holds the prompt, or will before Advance is called.
  static Result<BeamSequences> Create(Engine& engine, SequenceId first, int32_t num_beams);
  BeamSequences(BeamSequences&&) noexcept = default;
  BeamSequences& operator=(BeamSequences&&) = delete;
  ~BeamSequences();

  // Sequence i becomes what the sequence of beams[i].parent was, and runs beams[i].token.
  // REQUIRES: num_beams beams.
  Status Advance(std::span<const Beam> beams, const RunOptions& run_options);
  // After Advance: logits [num_beams, vocab_size].
  std::span<const float> logits();

 private:
  explicit BeamSequences(Engine& engine, SequenceId first)
      : engine_(&engine), first_(first), sequences_{first} {}
  Status Reorder(std::span<const Beam> beams);

  Engine* engine_;
  SequenceId first_;
  std::vector<SequenceId> sequences_;  // by beam
  std::vector<float> logits_;
};

}  // namespace lamina
