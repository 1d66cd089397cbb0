// The chat template of a model: how a conversation becomes the text that the model was trained on.
//
//   LAMINA_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Load("models/tales"));
//   ChatTemplateInput input;
//   input.messages = &messages;                    // [{"role": "user", "content": "Hi"}]
//   Result<std::string> prompt = chat.Render(input);
//
// The template is a Jinja program of the dialect that Hugging Face transformers runs (text/jinja/template.h).
// A template that cannot be parsed or that fails gives an error with its line and reason; no format is ever
// guessed. Conversations are `ordered_json`, because templates print tools in the order of their keys.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"

namespace lamina {

namespace jinja {
class Template;
}

// A message of plain text, for callers without tools, images or reasoning.
struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

// What one rendering sees. The JSON values must outlive the call; null pointers mean absent.
struct ChatTemplateInput {
  // Array of objects: role, content (text, null or a list of parts), tool_calls, reasoning_content, ... as
  // the template reads them. Required.
  const nlohmann::ordered_json* messages = nullptr;
  const nlohmann::ordered_json* tools = nullptr;  // array of JSON schemas; None in the template where absent
  const nlohmann::ordered_json* documents =
      nullptr;  // array of {title, text}; None in the template where absent
  // Object: further variables (`enable_thinking`, `reasoning_effort`, ...). They win over special tokens.
  const nlohmann::ordered_json* extra = nullptr;
  // Ends the text with the header of the assistant's turn, so that the model answers.
  bool add_generation_prompt = true;
  // Chooses among named templates. Empty: "tool_use" where tools are given and the model has it, else
  // "default".
  std::string template_name;
  // What `strftime_now` prints, as local time; the system clock where unset.
  std::optional<std::chrono::system_clock::time_point> now;
};

// Immutable after loading; every const method may be called from several threads at once.
class ChatTemplate {
 public:
  // Reads the template of a model folder: chat_template.jinja (and additional_chat_templates/NAME.jinja),
  // else chat_template.json, else the `chat_template` of tokenizer_config.json (one text or a list of named
  // ones). Special tokens come from tokenizer_config.json and special_tokens_map.json. NOT_FOUND where the
  // folder has no template, INVALID_MODEL where a file or the template is malformed.
  static Result<ChatTemplate> Load(const std::string& model_folder);

  // One template from its text, for --chat-template and tests. Tokens that are empty are undefined.
  static Result<ChatTemplate> FromSource(const std::string& source, const std::string& bos_token,
                                         const std::string& eos_token);

  // The prompt. INVALID_ARGUMENT with line and reason where the template refuses the conversation
  // (raise_exception) or fails on it; RESOURCE_EXHAUSTED where it exceeds the limits of the engine.
  Result<std::string> Render(const ChatTemplateInput& input) const;
  Result<std::string> Render(std::span<const ChatMessage> messages, bool add_generation_prompt = true) const;

  // Names of the templates, "default" first; at least one.
  std::vector<std::string> names() const;
  // The text of a template; empty for an unknown name.
  std::string source(const std::string& name = "default") const;
  const std::string& bos_token() const;
  const std::string& eos_token() const;

  // The tokens that end an assistant's turn as this template writes it; they join the stop set. Found by
  // rendering a probe conversation and looking at what follows the assistant's message; `special_tokens` are
  // the texts of the tokenizer's special tokens. Empty where the template shows none.
  std::vector<std::string> EndOfTurnTokens(std::span<const std::string> special_tokens) const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace lamina
