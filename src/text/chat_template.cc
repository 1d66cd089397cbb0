#include "text/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "text/jinja/template.h"

namespace lamina {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr char kDefaultName[] = "default";

struct NamedTemplate {
  std::string name;
  std::string source;
  jinja::Template parsed;
};

// The text of an assistant's message in a probe conversation; no template writes it by itself.
constexpr char kProbe[] = "laminaprobeanswer";

Result<std::string> ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("{}: cannot be opened", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return IoError("{}: cannot be read", path.string());
  return text.str();
}

Result<Json> ReadJson(const fs::path& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) return InvalidModelError("{}: expected a JSON object", path.string());
    return json;
  } catch (const Json::exception& error) {
    return InvalidModelError("{}: {}", path.string(), error.what());
  }
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The templates of a folder by name, in the order of the files that Hugging Face transformers reads.
class TemplateSources {
 public:
  Status ReadFolder(const fs::path& folder) {
    LAMINA_RETURN_IF_ERROR(ReadTemplateFiles(folder));
    if (sources_.empty() && Exists(folder / "chat_template.json")) {
      const fs::path path = folder / "chat_template.json";
      LAMINA_ASSIGN_OR_RETURN(const Json json, ReadJson(path));
      if (!json.contains("chat_template")) return InvalidModelError("{}: no chat_template", path.string());
      LAMINA_RETURN_IF_ERROR(AddConfigured(json["chat_template"]).WithContext(path.string()));
    }
    return Status();
  }

  // `configured`: one text or a list of {name, template}.
  Status AddConfigured(const Json& configured) {
    if (configured.is_string()) {
      sources_.emplace_back(kDefaultName, configured.get<std::string>());
      return Status();
    }
    // transformers also wrote {name: text} in chat_template.json.
    if (configured.is_object()) {
      for (const auto& [name, source] : configured.items()) {
        if (!source.is_string()) return InvalidModelError("chat_template '{}' is not a string", name);
        sources_.emplace_back(name, source.get<std::string>());
      }
      return Status();
    }
    if (!configured.is_array()) return InvalidModelError("chat_template is neither a string nor a list");
    for (const Json& entry : configured) {
      if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
          !entry.contains("template") || !entry["template"].is_string()) {
        return InvalidModelError("an entry of chat_template lacks name or template");
      }
      sources_.emplace_back(entry["name"].get<std::string>(), entry["template"].get<std::string>());
    }
    return Status();
  }

  bool empty() const { return sources_.empty(); }

  Result<std::vector<NamedTemplate>> Parse() const {
    std::vector<NamedTemplate> templates;
    for (const auto& [name, source] : sources_) {
      Result<jinja::Template> parsed = jinja::Template::Parse(source);
      if (!parsed.ok()) return parsed.status().WithContext("chat template '" + name + "'");
      templates.push_back({name, source, std::move(parsed).value()});
    }
    std::stable_partition(templates.begin(), templates.end(),
                          [](const NamedTemplate& entry) { return entry.name == kDefaultName; });
    return templates;
  }

 private:
  Status ReadTemplateFiles(const fs::path& folder) {
    if (Exists(folder / "chat_template.jinja")) {
      LAMINA_ASSIGN_OR_RETURN(std::string source, ReadText(folder / "chat_template.jinja"));
      sources_.emplace_back(kDefaultName, std::move(source));
    }
    std::error_code error;
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", error)) {
      if (entry.path().extension() == ".jinja") files.insert(entry.path());
    }
    for (const fs::path& file : files) {
      LAMINA_ASSIGN_OR_RETURN(std::string source, ReadText(file));
      sources_.emplace_back(file.stem().string(), std::move(source));
    }
    return Status();
  }

  std::vector<std::pair<std::string, std::string>> sources_;
};

// Special tokens are texts or objects with their text in `content`.
void TakeSpecialTokens(const Json& json, Json* tokens) {
  for (const auto& [key, value] : json.items()) {
    if (key.size() < 6 || key.compare(key.size() - 6, 6, "_token") != 0) continue;
    if (value.is_string()) {
      (*tokens)[key] = value;
    } else if (value.is_object() && value.contains("content") && value["content"].is_string()) {
      (*tokens)[key] = value["content"];
    }
  }
}

// The special tokens that lie one after another at the start of `text`, white space between them skipped.
std::vector<std::string> LeadingTokens(std::string_view text, std::span<const std::string> special_tokens) {
  std::vector<std::string> found;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    const std::string* longest = nullptr;
    for (const std::string& token : special_tokens) {
      const bool matches = !token.empty() && text.substr(0, token.size()) == token;
      if (matches && (longest == nullptr || token.size() > longest->size())) longest = &token;
    }
    if (longest == nullptr) return found;
    found.push_back(*longest);
    text.remove_prefix(longest->size());
  }
}

}  // namespace

struct ChatTemplate::State {
  std::vector<NamedTemplate> templates;
  Json special_tokens = Json::object();  // bos_token, eos_token, ... as the configuration names them
  std::string bos_token;
  std::string eos_token;

  void SetSpecialTokens(Json tokens) {
    bos_token = tokens.value("bos_token", "");
    eos_token = tokens.value("eos_token", "");
    special_tokens = std::move(tokens);
  }

  Result<const NamedTemplate*> Choose(const ChatTemplateInput& input) const {
    const auto find = [&](const std::string& name) -> const NamedTemplate* {
      const auto found = std::find_if(templates.begin(), templates.end(),
                                      [&](const NamedTemplate& entry) { return entry.name == name; });
      return found == templates.end() ? nullptr : &*found;
    };
    if (!input.template_name.empty()) {
      if (const NamedTemplate* found = find(input.template_name)) return found;
      return NotFoundError("no chat template is named '{}'; there are: {}", input.template_name, Names());
    }
    if (input.tools != nullptr) {
      if (const NamedTemplate* found = find("tool_use")) return found;
    }
    if (const NamedTemplate* found = find(kDefaultName)) return found;
    if (templates.size() == 1) return &templates.front();
    return InvalidArgumentError("the model has several chat templates and no default; choose one of: {}",
                                Names());
  }

  std::string Names() const {
    std::string names;
    for (const NamedTemplate& entry : templates) names += (names.empty() ? "" : ", ") + entry.name;
    return names;
  }
};

Result<ChatTemplate> ChatTemplate::Load(const std::string& model_folder) {
  const fs::path folder(model_folder);
  auto state = std::make_shared<State>();
  TemplateSources sources;
  LAMINA_RETURN_IF_ERROR(sources.ReadFolder(folder));
  Json tokens = Json::object();
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    if (!Exists(folder / name)) continue;
    LAMINA_ASSIGN_OR_RETURN(const Json json, ReadJson(folder / name));
    TakeSpecialTokens(json, &tokens);
    if (sources.empty() && json.contains("chat_template") && !json["chat_template"].is_null()) {
      LAMINA_RETURN_IF_ERROR(
          sources.AddConfigured(json["chat_template"]).WithContext((folder / name).string()));
    }
  }
  if (sources.empty()) {
    return NotFoundError(
        "{}: no chat template; expected chat_template.jinja, chat_template.json or a chat_template in "
        "tokenizer_config.json",
        model_folder);
  }
  Result<std::vector<NamedTemplate>> templates = sources.Parse();
  if (!templates.ok()) return templates.status().WithContext(model_folder);
  state->templates = std::move(templates).value();
  state->SetSpecialTokens(std::move(tokens));
  return ChatTemplate(std::move(state));
}

Result<ChatTemplate> ChatTemplate::FromSource(const std::string& source, const std::string& bos_token,
                                              const std::string& eos_token) {
  Result<jinja::Template> parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return parsed.status().WithContext("chat template");
  auto state = std::make_shared<State>();
  state->templates.push_back({kDefaultName, source, std::move(parsed).value()});
  Json tokens = Json::object();
  if (!bos_token.empty()) tokens["bos_token"] = bos_token;
  if (!eos_token.empty()) tokens["eos_token"] = eos_token;
  state->SetSpecialTokens(std::move(tokens));
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::Render(const ChatTemplateInput& input) const {
  if (input.messages == nullptr || !input.messages->is_array()) {
    return InvalidArgumentError("chat messages: expected an array");
  }
  if (input.extra != nullptr && !input.extra->is_object()) {
    return InvalidArgumentError("chat template variables: expected an object");
  }
  LAMINA_ASSIGN_OR_RETURN(const NamedTemplate* chosen, state_->Choose(input));

  const Json add_generation_prompt = input.add_generation_prompt;
  std::vector<jinja::Variable> variables;
  for (const auto& [key, value] : state_->special_tokens.items()) variables.push_back({key, &value});
  variables.push_back({"messages", input.messages});
  variables.push_back({"tools", input.tools});
  variables.push_back({"documents", input.documents});
  variables.push_back({"add_generation_prompt", &add_generation_prompt});
  if (input.extra != nullptr) {
    for (const auto& [key, value] : input.extra->items()) variables.push_back({key, &value});
  }
  jinja::RenderOptions options;
  options.now = input.now;
  Result<std::string> text = chosen->parsed.Render(variables, options);
  if (!text.ok()) return text.status().WithContext("chat template '" + chosen->name + "'");
  return text;
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  Json json = Json::array();
  for (const ChatMessage& message : messages)
    json.push_back({{"role", message.role}, {"content", message.content}});
  ChatTemplateInput input;
  input.messages = &json;
  input.add_generation_prompt = add_generation_prompt;
  return Render(input);
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> names;
  for (const NamedTemplate& entry : state_->templates) names.push_back(entry.name);
  return names;
}

std::string ChatTemplate::source(const std::string& name) const {
  for (const NamedTemplate& entry : state_->templates) {
    if (entry.name == name) return entry.source;
  }
  return {};
}

const std::string& ChatTemplate::bos_token() const { return state_->bos_token; }
const std::string& ChatTemplate::eos_token() const { return state_->eos_token; }

std::vector<std::string> ChatTemplate::EndOfTurnTokens(std::span<const std::string> special_tokens) const {
  struct Probe {
    std::vector<std::string> openers;  // the tokens that the text starts with
    std::vector<std::string> behind;   // the tokens behind the answer
  };
  const auto probe = [&](std::span<const ChatMessage> messages) {
    const Result<std::string> text = Render(messages, /*add_generation_prompt=*/false);
    const size_t answer = text.ok() ? text->rfind(kProbe) : std::string::npos;
    if (answer == std::string::npos) return Probe();
    return Probe{LeadingTokens(*text, special_tokens),
                 LeadingTokens(std::string_view(*text).substr(answer + sizeof(kProbe) - 1), special_tokens)};
  };
  const std::vector<ChatMessage> turns = {{"user", "Hi"}, {"assistant", kProbe}, {"user", "Go on"}};
  const Probe at_end = probe(std::span(turns).first(2));
  const Probe in_between = probe(turns);

  // What follows an answer everywhere ends the turn, its last token for certain: the first may only close the
  // text. Tokens that open turns can follow too, where a template always writes the header of an answer.
  size_t common = 0;
  size_t closing = 0;
  bool opened = false;
  while (common < std::min(at_end.behind.size(), in_between.behind.size()) &&
         at_end.behind[common] == in_between.behind[common]) {
    const auto& openers = at_end.openers;
    opened = opened || std::find(openers.begin(), openers.end(), at_end.behind[common]) != openers.end();
    ++common;
    if (!opened) closing = common;
  }
  if (closing > 0) return {at_end.behind[closing - 1]};
  if (common > 0) return {at_end.behind.front()};  // one token both opens and closes
  // An answer that ends differently when it is the last; or one that nothing closes, but the user's turn
  // opens with a token that no answer contains.
  if (!at_end.behind.empty()) return {at_end.behind.back()};
  if (!in_between.behind.empty()) return {in_between.behind.front()};
  return {};
}

}  // namespace lamina
