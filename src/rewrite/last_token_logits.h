// A decoder that computes logits for the last token of each row only: during prefill the product with the
// vocabulary is then as cheap as for one token.
#pragma once

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// Puts a Slice of the last position before the product that makes output `logits_output` [batch, tokens,
// vocabulary], where only operators that work token by token lie between them; shapes on the way are
// adjusted. Returns whether the model's head allowed it. REQUIRES: inferred shapes.
bool KeepLastTokenLogits(Model& model, int logits_output);

}  // namespace lamina
