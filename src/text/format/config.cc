#include "text/format/config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/format/text_file.h"
#include "text/json_fields.h"

namespace lamina::text {
namespace {

// A token written as its spelling or as an object with 'content'; nothing for null.
std::optional<std::string> TokenSpelling(const nlohmann::json* json) {
  if (json == nullptr) return std::nullopt;
  if (json->is_string()) return json->get<std::string>();
  if (json->is_object() && json->contains("content") && (*json)["content"].is_string()) {
    return (*json)["content"].get<std::string>();
  }
  return std::nullopt;
}

// Takes over the roles that `fields` names and no earlier file has.
void ReadRoles(const JsonFields& fields, TokenizerConfig& config) {
  const auto read = [&](const char* key, std::optional<std::string>& role) {
    if (!role) role = TokenSpelling(fields.Find(key));
  };
  read("bos_token", config.bos);
  read("eos_token", config.eos);
  read("unk_token", config.unk);
  read("pad_token", config.pad);
  read("sep_token", config.sep);
  read("cls_token", config.cls);
  read("mask_token", config.mask);
  const nlohmann::json* additional = fields.Find("additional_special_tokens");
  if (additional == nullptr || !additional->is_array() || !config.additional_special_tokens.empty()) return;
  for (const nlohmann::json& token : *additional) {
    if (std::optional<std::string> spelling = TokenSpelling(&token)) {
      config.additional_special_tokens.push_back(*std::move(spelling));
    }
  }
}

Result<std::optional<TokenId>> ParseId(const std::string& text, const std::string& what) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id > Vocabulary::kMaxId) {
    return InvalidModelError("{}: '{}' is no token id", what, text);
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

Status ReadAddedTokensDecoder(const JsonFields& fields, TokenizerConfig& config) {
  const nlohmann::json* decoder = fields.Find("added_tokens_decoder");
  if (decoder == nullptr) return {};
  if (!decoder->is_object()) return fields.Wrong("added_tokens_decoder", "an object");
  for (const auto& [key, value] : decoder->items()) {
    const JsonFields token_fields(value, fields.what() + ": added token " + key);
    TokenizerConfig::Added added;
    LAMINA_ASSIGN_OR_RETURN(added.id, ParseId(key, token_fields.what()));
    LAMINA_ASSIGN_OR_RETURN(added.token.content, token_fields.String("content"));
    LAMINA_ASSIGN_OR_RETURN(added.token.single_word, token_fields.Bool("single_word", false));
    LAMINA_ASSIGN_OR_RETURN(added.token.lstrip, token_fields.Bool("lstrip", false));
    LAMINA_ASSIGN_OR_RETURN(added.token.rstrip, token_fields.Bool("rstrip", false));
    LAMINA_ASSIGN_OR_RETURN(added.token.special, token_fields.Bool("special", false));
    LAMINA_ASSIGN_OR_RETURN(added.token.normalized, token_fields.Bool("normalized", !added.token.special));
    config.added_tokens.push_back(std::move(added));
  }
  return {};
}

// A flag; a value of another type counts as absent, since these files hold all kinds of things.
std::optional<bool> Flag(const JsonFields& fields, const char* key) {
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->get<bool>();
}

Status ReadConfigFile(const std::string& folder, TokenizerConfig& config) {
  const std::string path = JoinPath(folder, "tokenizer_config.json");
  LAMINA_ASSIGN_OR_RETURN(const std::optional<TextFile> file, TextFile::OpenIfThere(path));
  if (!file) return {};
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(file->text(), path));
  const JsonFields fields(json, path);
  ReadRoles(fields, config);
  LAMINA_RETURN_IF_ERROR(ReadAddedTokensDecoder(fields, config));
  config.add_bos = Flag(fields, "add_bos_token");
  config.add_eos = Flag(fields, "add_eos_token");
  config.do_lower_case = Flag(fields, "do_lower_case");
  config.tokenize_chinese_chars = Flag(fields, "tokenize_chinese_chars");
  config.strip_accents = Flag(fields, "strip_accents");
  config.add_prefix_space = Flag(fields, "add_prefix_space");
  if (const nlohmann::json* name = fields.Find("tokenizer_class"); name != nullptr && name->is_string()) {
    config.tokenizer_class = name->get<std::string>();
    if (config.tokenizer_class.ends_with("Fast"))
      config.tokenizer_class.resize(config.tokenizer_class.size() - 4);
  }
  return {};
}

Status ReadSpecialTokensMap(const std::string& folder, TokenizerConfig& config) {
  const std::string path = JoinPath(folder, "special_tokens_map.json");
  LAMINA_ASSIGN_OR_RETURN(const std::optional<TextFile> file, TextFile::OpenIfThere(path));
  if (!file) return {};
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(file->text(), path));
  ReadRoles(JsonFields(json, path), config);
  return {};
}

Status ReadAddedTokensFile(const std::string& folder, TokenizerConfig& config) {
  const std::string path = JoinPath(folder, "added_tokens.json");
  LAMINA_ASSIGN_OR_RETURN(const std::optional<TextFile> file, TextFile::OpenIfThere(path));
  if (!file) return {};
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(file->text(), path));
  if (!json.is_object()) return InvalidModelError("{}: expected an object of ids", path);
  for (const auto& [content, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > Vocabulary::kMaxId) {
      return InvalidModelError("{}: '{}': expected a token id", path, content);
    }
    const auto is_same = [&](const TokenizerConfig::Added& added) { return added.token.content == content; };
    if (std::any_of(config.added_tokens.begin(), config.added_tokens.end(), is_same)) continue;
    TokenizerConfig::Added added;
    added.token.content = content;
    added.id = id.get<TokenId>();
    config.added_tokens.push_back(std::move(added));
  }
  return {};
}

}  // namespace

Result<TokenizerConfig> ReadTokenizerConfig(const std::string& folder) {
  TokenizerConfig config;
  LAMINA_RETURN_IF_ERROR(ReadConfigFile(folder, config));
  LAMINA_RETURN_IF_ERROR(ReadSpecialTokensMap(folder, config));
  LAMINA_RETURN_IF_ERROR(ReadAddedTokensFile(folder, config));
  std::stable_sort(config.added_tokens.begin(), config.added_tokens.end(),
                   [](const auto& a, const auto& b) { return *a.id < *b.id; });
  return config;
}

Status ApplyTokenizerConfig(const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.model->vocabulary();
  for (const TokenizerConfig::Added& added : config.added_tokens) {
    if (tokenizer.added.Find(added.token.content)) continue;
    LAMINA_RETURN_IF_ERROR(tokenizer.added.Add(added.token, vocabulary, added.id));
  }
  // A token with a role is special whether or not the list of added tokens says so.
  const auto find = [&](const std::string& spelling, std::optional<TokenId>& role) -> Status {
    if (!tokenizer.added.Find(spelling) && vocabulary.Find(spelling)) {
      AddedToken token;
      token.content = spelling;
      token.normalized = false;
      token.special = true;
      LAMINA_RETURN_IF_ERROR(tokenizer.added.Add(token, vocabulary));
    }
    role = tokenizer.TokenToId(spelling);
    return {};
  };
  TokenRoles& roles = tokenizer.roles;
  const std::pair<const std::optional<std::string>*, std::optional<TokenId>*> named[] = {
      {&config.bos, &roles.bos},  {&config.eos, &roles.eos}, {&config.unk, &roles.unk},
      {&config.pad, &roles.pad},  {&config.sep, &roles.sep}, {&config.cls, &roles.cls},
      {&config.mask, &roles.mask}};
  for (const auto& [spelling, role] : named) {
    if (*spelling) LAMINA_RETURN_IF_ERROR(find(**spelling, *role));
  }
  for (const std::string& spelling : config.additional_special_tokens) {
    std::optional<TokenId> id;
    LAMINA_RETURN_IF_ERROR(find(spelling, id));
    if (id) roles.additional.push_back(*id);
  }
  if (config.add_bos) roles.add_bos = config.add_bos;
  if (config.add_eos) roles.add_eos = config.add_eos;
  return {};
}

void SetDefaultRole(std::optional<TokenId>& role, const TokenizerImpl& tokenizer,
                    std::initializer_list<const char*> spellings) {
  for (const char* spelling : spellings) {
    if (!role) role = tokenizer.TokenToId(spelling);
  }
}

}  // namespace lamina::text
