// What happens to a model between its file and its plan: functions are inlined, shapes inferred, level-1
// rewrites made, and, where all of it will run on the CPU, those of level 2. Reads small constants at most.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lamina/env.h"
#include "lamina/session.h"
#include "lamina/status.h"
#include "lamina/value.h"
#include "model/decoder_contract.h"
#include "model/model.h"
#include "runtime/session_config.h"

namespace lamina {

struct PreparedModel {
  // What makes the model a language model; nothing for others, and then `not_a_decoder` says why.
  std::optional<DecoderSignature> decoder;
  Status not_a_decoder;
};

// `host_only`: there is no device but the CPU. `read_external` gives small constants of external data, or an
// error where they are not at hand.
Result<PreparedModel> PrepareModel(std::shared_ptr<Env> env, Model& model, const SessionConfig& config,
                                   const LoadOptions& load_options, bool host_only,
                                   const std::function<Result<Tensor>(const Initializer&)>& read_external);

// Tokens a sequence may have: the option, else 4096.
int ContextLength(const SessionConfig& config);

}  // namespace lamina
