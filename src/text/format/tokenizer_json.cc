#include "text/format/tokenizer_json.h"

#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "text/format/model_json.h"
#include "text/json_fields.h"
#include "text/run_beside.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// From here on a second thread is worth its start.
constexpr size_t kBytesForTwoThreads = size_t{1} << 20;

// The top level of the file: the model as read, the rest as text.
struct Document {
  std::string_view version, truncation, padding, added_tokens, normalizer, pre_tokenizer, post_processor,
      decoder;
  ModelDescription model;
  bool has_model = false;
};

Status ReadDocument(JsonReader& reader, Document& document) {
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  while (true) {
    std::string_view key;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(key));
    if (!more) return reader.ExpectEnd();
    if (key == "model") {
      LAMINA_RETURN_IF_ERROR(ReadModelDescription(reader, document.model));
      document.has_model = true;
      continue;
    }
    LAMINA_ASSIGN_OR_RETURN(const std::string_view value, reader.RawValue());
    if (key == "version") document.version = value;
    if (key == "truncation") document.truncation = value;
    if (key == "padding") document.padding = value;
    if (key == "added_tokens") document.added_tokens = value;
    if (key == "normalizer") document.normalizer = value;
    if (key == "pre_tokenizer") document.pre_tokenizer = value;
    if (key == "post_processor") document.post_processor = value;
    if (key == "decoder") document.decoder = value;
  }
}

// The parsed value of a field; null where it is absent.
Result<nlohmann::json> ParseField(std::string_view value, const char* name) {
  if (value.empty()) return nlohmann::json();
  return ParseJson(value, name);
}

Result<bool> IsLeft(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const std::string direction, fields.String("direction", "Right"));
  if (direction != "Left" && direction != "Right") return fields.Wrong("direction", "Left or Right");
  return direction == "Left";
}

Status ReadTruncation(const nlohmann::json& json, TokenizerImpl& tokenizer) {
  if (json.is_null()) return {};
  const JsonFields fields(json, "truncation");
  TruncationLimits limits;
  LAMINA_ASSIGN_OR_RETURN(limits.max_tokens, fields.Unsigned("max_length"));
  LAMINA_ASSIGN_OR_RETURN(limits.from_left, IsLeft(fields));
  tokenizer.truncation = limits;
  return {};
}

Status ReadPadding(const nlohmann::json& json, TokenizerImpl& tokenizer) {
  if (json.is_null()) return {};
  const JsonFields fields(json, "padding");
  PaddingRule rule;
  const nlohmann::json* strategy = fields.Find("strategy");
  if (strategy != nullptr && strategy->is_object()) {
    LAMINA_ASSIGN_OR_RETURN(rule.fixed_tokens, JsonFields(*strategy, "padding: strategy").Unsigned("Fixed"));
    // Padding is memory: bound what a file may ask for.
    if (*rule.fixed_tokens > Vocabulary::kMaxId)
      return fields.Wrong("strategy", "a sensible number of tokens");
  } else if (strategy != nullptr && *strategy != "BatchLongest") {
    return fields.Wrong("strategy", "BatchLongest or {\"Fixed\": tokens}");
  }
  LAMINA_ASSIGN_OR_RETURN(rule.multiple_of, fields.Unsigned("pad_to_multiple_of", 0));
  if (rule.multiple_of > Vocabulary::kMaxId)
    return fields.Wrong("pad_to_multiple_of", "a sensible number of tokens");
  LAMINA_ASSIGN_OR_RETURN(rule.on_left, IsLeft(fields));
  LAMINA_ASSIGN_OR_RETURN(const uint64_t id, fields.Unsigned("pad_id", 0));
  if (id > Vocabulary::kMaxId) return fields.Wrong("pad_id", "a token id");
  rule.id = static_cast<TokenId>(id);
  LAMINA_ASSIGN_OR_RETURN(rule.token, fields.String("pad_token", "[PAD]"));
  tokenizer.padding = std::move(rule);
  return {};
}

Status ReadAddedTokens(const nlohmann::json& json, TokenizerImpl& tokenizer) {
  if (json.is_null()) return {};
  if (!json.is_array()) return InvalidModelError("added_tokens: expected an array");
  for (const nlohmann::json& token_json : json) {
    const JsonFields fields(token_json, "added token");
    AddedToken token;
    LAMINA_ASSIGN_OR_RETURN(token.content, fields.String("content"));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t id, fields.Unsigned("id"));
    LAMINA_ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
    LAMINA_ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
    LAMINA_ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
    LAMINA_ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
    LAMINA_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
    LAMINA_RETURN_IF_ERROR(tokenizer.added.Add(token, tokenizer.model->vocabulary()));
    // As in the reference, ids follow from the vocabulary and the order of tokens.
    const std::optional<TokenId> given = tokenizer.added.Find(token.content);
    if (given && static_cast<uint64_t>(*given) != id) {
      LogWarning("tokenizer.json: added token '{}' has id {}, the file says {}", token.content, *given, id);
    }
  }
  return {};
}

}  // namespace

Status ReadTokenizerJson(std::string_view json, TokenizerImpl& tokenizer) {
  // Reading needs no valid text, what is read does: the two go on beside each other.
  const auto find_invalid = [json] { return ValidUtf8Prefix(json); };
  std::future<size_t> valid_prefix = json.size() < kBytesForTwoThreads
                                         ? std::async(std::launch::deferred, find_invalid)
                                         : RunBeside(find_invalid);
  JsonReader reader(json);
  Document document;
  const Status status = ReadDocument(reader, document);
  if (const size_t valid_bytes = valid_prefix.get(); valid_bytes != json.size()) {
    return InvalidModelError("JSON at byte {}: not valid UTF-8", valid_bytes);
  }
  LAMINA_RETURN_IF_ERROR(status);
  if (!document.has_model) return InvalidModelError("field 'model' is missing");
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json version, ParseField(document.version, "version"));
  if (!version.is_null() && version != "1.0")
    return UnsupportedError("version {} is not known", version.dump());

  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json normalizer, ParseField(document.normalizer, "normalizer"));
  if (!normalizer.is_null()) {
    LAMINA_ASSIGN_OR_RETURN(tokenizer.normalizer, MakeNormalizer(normalizer));
  }
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json pre_tokenizer,
                          ParseField(document.pre_tokenizer, "pre_tokenizer"));
  LAMINA_ASSIGN_OR_RETURN(const bool can_read_bytes, CanReadBytes(document.model));
  const bool pieces_are_bytes = can_read_bytes && EndsInByteLevel(pre_tokenizer);
  if (!pre_tokenizer.is_null()) {
    LAMINA_ASSIGN_OR_RETURN(tokenizer.pre_tokenizer, MakePreTokenizer(pre_tokenizer, pieces_are_bytes));
  }
  LAMINA_ASSIGN_OR_RETURN(tokenizer.model, MakeModel(document.model, pieces_are_bytes));
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json post_processor,
                          ParseField(document.post_processor, "post_processor"));
  if (!post_processor.is_null()) {
    LAMINA_ASSIGN_OR_RETURN(tokenizer.post_processor, MakePostProcessor(post_processor));
  }
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json decoder, ParseField(document.decoder, "decoder"));
  if (decoder.is_null()) {
    tokenizer.decoder = MakeJoinDecoder();
  } else {
    LAMINA_ASSIGN_OR_RETURN(tokenizer.decoder, MakeDecoder(decoder));
  }
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json truncation, ParseField(document.truncation, "truncation"));
  LAMINA_RETURN_IF_ERROR(ReadTruncation(truncation, tokenizer));
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json padding, ParseField(document.padding, "padding"));
  LAMINA_RETURN_IF_ERROR(ReadPadding(padding, tokenizer));
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json added_tokens,
                          ParseField(document.added_tokens, "added_tokens"));
  return ReadAddedTokens(added_tokens, tokenizer);
}

}  // namespace lamina::text
