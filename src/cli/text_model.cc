#include "cli/text_model.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "cli/progress_bar.h"
#include "generate/sampling/dry_breakers.h"

namespace lamina::cli {
namespace {

// Every token that ends an answer: what the model's files say, and the end of a turn in its template.
std::vector<int32_t> FindStopIds(const TextModel& model) {
  std::vector<int32_t> ids = model.folder.eos_ids;
  const auto add = [&](std::optional<int32_t> id) {
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  };
  add(model.tokenizer->roles().eos);
  if (model.chat_template) {
    std::vector<std::string> special;
    for (int32_t id = 0; id < static_cast<int32_t>(model.tokenizer->id_limit()); ++id) {
      if (!model.tokenizer->IsSpecial(id)) continue;
      if (std::optional<std::string> text = model.tokenizer->IdToToken(id))
        special.push_back(*std::move(text));
    }
    for (const std::string& token : model.chat_template->EndOfTurnTokens(special)) {
      add(model.tokenizer->TokenToId(token));
    }
  }
  return ids;
}

}  // namespace

Result<std::unique_ptr<TextModel>> TextModel::Load(const ModelFlags& flags, const SamplingFlags& sampling) {
  const int64_t start_ns = SystemClock().NowNs();
  auto model = std::make_unique<TextModel>();
  LAMINA_ASSIGN_OR_RETURN(model->env, MakeEnv(flags));
  LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags.model));
  LAMINA_ASSIGN_OR_RETURN(model->folder, ModelFolder::Open(path, flags.variant));
  LAMINA_ASSIGN_OR_RETURN(EngineOptions options, MakeEngineOptions(flags, model->folder));
  LAMINA_ASSIGN_OR_RETURN(const GenerationSettings settings,
                          ResolveSampling(sampling, model->folder.sampling));
  options.max_sequences = std::max(options.max_sequences, settings.beams.num_beams);
  options.max_row_logits = settings.prompt_lookup.max_draft_tokens + 1;
  LAMINA_ASSIGN_OR_RETURN(model->tokenizer, Tokenizer::Load(model->folder.text_folder));
  Result<ChatTemplate> chat_template = ChatTemplate::Load(model->folder.text_folder);
  if (chat_template.ok()) {
    model->chat_template = *std::move(chat_template);
  } else if (chat_template.status().code() != StatusCode::kNotFound) {
    return chat_template.status();
  }
  model->stop_ids = FindStopIds(*model);
  ProgressBar progress("loading");
  LoadOptions load_options;
  load_options.progress = [&](const LoadProgress& done) {
    progress.Update(done.done_bytes, done.total_bytes);
  };
  LAMINA_ASSIGN_OR_RETURN(model->engine, Engine::Create(model->env, model->folder, options, load_options));
  progress.Finish();
  model->load_ns = SystemClock().NowNs() - start_ns;
  return model;
}

Result<std::vector<int32_t>> TextModel::EncodeChat(std::span<const ChatMessage> messages) const {
  LAMINA_ASSIGN_OR_RETURN(const std::string text, chat_template->Render(messages));
  return tokenizer->Encode(text);
}

Result<GenerationRequest> TextModel::NewRequest(const GenerationSettings& settings) const {
  GenerationRequest request;
  request.max_tokens = settings.max_tokens;
  request.max_length_tokens = settings.max_length_tokens;
  request.min_length_tokens = settings.min_length_tokens;
  request.sampling = settings.sampling;
  if (settings.sampling.dry_multiplier > 0) {
    LAMINA_ASSIGN_OR_RETURN(request.sampling.dry_sequence_breakers,
                            DrySequenceBreakers(*tokenizer, settings.dry_sequence_breakers));
  }
  if (settings.searches()) request.beams = settings.beams;
  request.prompt_lookup = settings.prompt_lookup;
  request.stop_strings = settings.stop;
  request.stop_ids = stop_ids;
  return request;
}

}  // namespace lamina::cli
