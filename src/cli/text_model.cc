#include "cli/text_model.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "cli/progress_bar.h"

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

Result<std::unique_ptr<TextModel>> TextModel::Load(const ModelFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  auto model = std::make_unique<TextModel>();
  LAMINA_ASSIGN_OR_RETURN(model->env, MakeEnv(flags));
  LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags.model));
  LAMINA_ASSIGN_OR_RETURN(model->folder, ModelFolder::Open(path, flags.variant));
  LAMINA_ASSIGN_OR_RETURN(const EngineOptions options, MakeEngineOptions(flags, model->folder));
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
  model->load_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return model;
}

Result<std::vector<int32_t>> TextModel::EncodeChat(std::span<const ChatMessage> messages) const {
  LAMINA_ASSIGN_OR_RETURN(const std::string text, chat_template->Render(messages));
  return tokenizer->Encode(text);
}

}  // namespace lamina::cli
