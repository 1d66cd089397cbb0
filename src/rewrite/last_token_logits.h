// A decoder that computes logits for the last tokens of each row only: during prefill the product with the
// vocabulary is then as cheap as for a few.
#pragma once

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// Puts a Slice of the last `num_tokens` positions (all where a run has fewer) before the product that makes
// output `logits_output` [batch, tokens, vocabulary], where only operators that work token by token lie
// between them; shapes on the way are adjusted. Returns whether the model's head allowed it. REQUIRES:
// inferred shapes, num_tokens >= 1.
bool KeepLastTokenLogits(Model& model, int logits_output, int64_t num_tokens);

}  // namespace lamina
