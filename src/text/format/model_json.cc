#include "text/format/model_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "text/json_fields.h"
#include "text/model/bpe.h"
#include "text/model/unigram.h"
#include "text/model/word_level.h"
#include "text/model/word_piece.h"

namespace lamina::text {
namespace {

// A merge in one string: "left right".
Status SplitMerge(std::string_view merge, ModelDescription& description) {
  if (merge.starts_with("#version")) return {};
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
    return InvalidModelError("model: merge '{}': expected two tokens with a space between", merge);
  }
  description.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  return {};
}

Status ReadMerges(JsonReader& reader, ModelDescription& description) {
  description.has_merges = true;
  description.merges.clear();
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    if (!more) return {};
    std::string_view left;
    if (reader.Peek() == JsonReader::Kind::kString) {
      LAMINA_RETURN_IF_ERROR(reader.ReadString(left));
      LAMINA_RETURN_IF_ERROR(SplitMerge(left, description));
      continue;
    }
    std::string_view right;
    LAMINA_RETURN_IF_ERROR(reader.EnterArray());
    LAMINA_ASSIGN_OR_RETURN(const bool has_left, reader.NextElement());
    if (has_left) LAMINA_RETURN_IF_ERROR(reader.ReadString(left));
    LAMINA_ASSIGN_OR_RETURN(const bool has_right, reader.NextElement());
    if (has_right) LAMINA_RETURN_IF_ERROR(reader.ReadString(right));
    LAMINA_ASSIGN_OR_RETURN(const bool has_third, reader.NextElement());
    if (!has_left || !has_right || has_third) {
      return InvalidModelError("model: merge before byte {}: expected two tokens", reader.position());
    }
    description.merges.emplace_back(left, right);
  }
}

Status ReadVocab(JsonReader& reader, ModelDescription& description) {
  description.has_vocab = true;
  description.vocab.clear();
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  while (true) {
    std::string_view token;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(token));
    if (!more) return {};
    uint64_t id = 0;
    LAMINA_RETURN_IF_ERROR(reader.ReadUnsigned(id));
    description.vocab.emplace_back(token, id);
  }
}

Status ReadScoredVocab(JsonReader& reader, ModelDescription& description) {
  description.has_scored_vocab = true;
  description.scored_vocab.clear();
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    if (!more) return {};
    std::string_view token;
    double score = 0;
    LAMINA_RETURN_IF_ERROR(reader.EnterArray());
    LAMINA_ASSIGN_OR_RETURN(const bool has_token, reader.NextElement());
    if (has_token) LAMINA_RETURN_IF_ERROR(reader.ReadString(token));
    LAMINA_ASSIGN_OR_RETURN(const bool has_score, reader.NextElement());
    if (has_score) LAMINA_RETURN_IF_ERROR(reader.ReadDouble(score));
    LAMINA_ASSIGN_OR_RETURN(const bool has_third, reader.NextElement());
    if (!has_token || !has_score || has_third) {
      return InvalidModelError("model: vocab before byte {}: expected [token, score]", reader.position());
    }
    description.scored_vocab.emplace_back(token, score);
  }
}

Result<Vocabulary> MakeVocabulary(const ModelDescription& description) {
  if (!description.has_vocab) return InvalidModelError("model: field 'vocab' is missing or no object of ids");
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const auto& [token, id] : description.vocab) bytes += token.size();
  vocabulary.Reserve(description.vocab.size(), bytes);
  for (const auto& [token, id] : description.vocab) LAMINA_RETURN_IF_ERROR(vocabulary.Add(token, id));
  return vocabulary;
}

// Older files leave the type out; then the fields tell.
Result<std::string> ModelType(const ModelDescription& description, const JsonFields& fields) {
  if (fields.Find("type") != nullptr) return fields.String("type");
  if (description.has_merges) return std::string("BPE");
  if (description.has_scored_vocab) return std::string("Unigram");
  return std::string(fields.Find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel");
}

Result<std::unique_ptr<Model>> MakeBpe(const ModelDescription& description, const JsonFields& fields,
                                       bool pieces_are_bytes) {
  if (!description.has_merges) return fields.Missing("merges");
  BpeOptions options;
  if (fields.Find("unk_token") != nullptr) {
    LAMINA_ASSIGN_OR_RETURN(options.unk_token, fields.String("unk_token"));
  }
  LAMINA_ASSIGN_OR_RETURN(options.continuing_subword_prefix, fields.String("continuing_subword_prefix", ""));
  LAMINA_ASSIGN_OR_RETURN(options.end_of_word_suffix, fields.String("end_of_word_suffix", ""));
  LAMINA_ASSIGN_OR_RETURN(options.fuse_unk, fields.Bool("fuse_unk", false));
  LAMINA_ASSIGN_OR_RETURN(options.byte_fallback, fields.Bool("byte_fallback", false));
  LAMINA_ASSIGN_OR_RETURN(options.ignore_merges, fields.Bool("ignore_merges", false));
  options.pieces_are_bytes = pieces_are_bytes;
  // dropout is for training and left out.
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeVocabulary(description));
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<BpeModel> model,
                          BpeModel::Create(std::move(vocabulary), description.merges, std::move(options)));
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> MakeUnigram(const ModelDescription& description, const JsonFields& fields) {
  if (!description.has_scored_vocab) {
    return InvalidModelError("{}: field 'vocab' is missing or no array of [token, score]", fields.what());
  }
  std::optional<TokenId> unk_id;
  if (fields.Find("unk_id") != nullptr) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t id, fields.Unsigned("unk_id"));
    if (id >= description.scored_vocab.size()) {
      return InvalidModelError("{}: unk_id {} with {} tokens", fields.what(), id,
                               description.scored_vocab.size());
    }
    unk_id = static_cast<TokenId>(id);
  }
  LAMINA_ASSIGN_OR_RETURN(const bool byte_fallback, fields.Bool("byte_fallback", false));
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const auto& [token, score] : description.scored_vocab) bytes += token.size();
  vocabulary.Reserve(description.scored_vocab.size(), bytes);
  std::vector<double> scores;
  scores.reserve(description.scored_vocab.size());
  for (const auto& [token, score] : description.scored_vocab) {
    LAMINA_RETURN_IF_ERROR(vocabulary.Add(token, scores.size()));
    scores.push_back(score);
  }
  return std::unique_ptr<Model>(
      std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), unk_id, byte_fallback));
}

Result<std::unique_ptr<Model>> MakeWordPiece(const ModelDescription& description, const JsonFields& fields) {
  WordPieceOptions options;
  LAMINA_ASSIGN_OR_RETURN(options.unk_token, fields.String("unk_token", options.unk_token));
  LAMINA_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                          fields.String("continuing_subword_prefix", options.continuing_subword_prefix));
  LAMINA_ASSIGN_OR_RETURN(options.max_input_chars_per_word,
                          fields.Unsigned("max_input_chars_per_word", options.max_input_chars_per_word));
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeVocabulary(description));
  return std::unique_ptr<Model>(std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options)));
}

Result<std::unique_ptr<Model>> MakeWordLevel(const ModelDescription& description, const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string unk_token, fields.String("unk_token", "<unk>"));
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeVocabulary(description));
  return std::unique_ptr<Model>(
      std::make_unique<WordLevelModel>(std::move(vocabulary), std::move(unk_token)));
}

}  // namespace

Status ReadModelDescription(JsonReader& reader, ModelDescription& description) {
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  description.other_fields = "{";
  while (true) {
    std::string_view key;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(key));
    if (!more) break;
    const JsonReader::Kind kind = reader.Peek();
    if (key == "vocab" && kind == JsonReader::Kind::kObject) {
      LAMINA_RETURN_IF_ERROR(ReadVocab(reader, description));
    } else if (key == "vocab" && kind == JsonReader::Kind::kArray) {
      LAMINA_RETURN_IF_ERROR(ReadScoredVocab(reader, description));
    } else if (key == "merges") {
      LAMINA_RETURN_IF_ERROR(ReadMerges(reader, description));
    } else {
      LAMINA_ASSIGN_OR_RETURN(const std::string_view value, reader.RawValue());
      if (description.other_fields.size() > 1) description.other_fields += ',';
      description.other_fields.append(nlohmann::json(key).dump()).append(":").append(value);
    }
  }
  description.other_fields += '}';
  return {};
}

Result<bool> CanReadBytes(const ModelDescription& description) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(description.other_fields, "model"));
  const JsonFields fields(json, "model");
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ModelType(description, fields));
  return type == "BPE";
}

Result<std::unique_ptr<Model>> MakeModel(const ModelDescription& description, bool pieces_are_bytes) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(description.other_fields, "model"));
  const JsonFields untyped(json, "model");
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ModelType(description, untyped));
  const JsonFields fields(json, "model '" + type + "'");
  if (type == "BPE") return MakeBpe(description, fields, pieces_are_bytes);
  if (type == "Unigram") return MakeUnigram(description, fields);
  if (type == "WordPiece") return MakeWordPiece(description, fields);
  if (type == "WordLevel") return MakeWordLevel(description, fields);
  return UnsupportedError("model '{}' is not known", type);
}

}  // namespace lamina::text
