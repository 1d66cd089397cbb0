// A language model ready to answer: engine, tokenizer, chat template and what ends an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "cli/sampling_flags.h"
#include "generate/engine.h"
#include "generate/generator.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lamina::cli {

struct TextModel {
  std::shared_ptr<Env> env;
  ModelFolder folder;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // nothing where the model has none
  std::vector<int32_t> stop_ids;
  std::unique_ptr<Engine> engine;
  int64_t load_ns = 0;

  // With a progress bar on a terminal. The engine is made large enough for the beams and drafts that flags
  // and the model's files ask for.
  static Result<std::unique_ptr<TextModel>> Load(const ModelFlags& flags, const SamplingFlags& sampling);

  // Token ids of a conversation as the template writes it; the answer comes next.
  Result<std::vector<int32_t>> EncodeChat(std::span<const ChatMessage> messages) const;
  // A request with everything but the prompt and its callbacks.
  Result<GenerationRequest> NewRequest(const GenerationSettings& settings) const;
};

}  // namespace lamina::cli
