#include "text/format/model_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "text/json_fields.h"
#include "text/model/bpe.h"
#include "text/model/merge_table_builder.h"
#include "text/model/unigram.h"
#include "text/model/word_level.h"
#include "text/model/word_piece.h"

namespace lamina::text {
namespace {

// A merge in one string: "left right".
Status AddSplit(std::string_view merge, MergeTableBuilder& builder) {
  if (merge.starts_with("#version")) return {};
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
    return InvalidModelError("model: merge '{}': expected two tokens with a space between", merge);
  }
  return builder.Add(merge.substr(0, space), merge.substr(space + 1));
}

// Tables are sized by the strings of the file, within what a real tokenizer has.
constexpr size_t kMostReserved = size_t{1} << 20;

void ReserveTokens(size_t num_strings, Vocabulary& vocabulary) {
  constexpr size_t kBytesOfToken = 8;
  const size_t tokens = std::min(num_strings, kMostReserved);
  vocabulary.Reserve(tokens, kBytesOfToken * tokens);
}

Result<MergeTable> ReadMerges(const ModelDescription& description, const Vocabulary& vocabulary,
                              const BpeOptions& options) {
  JsonReader reader(description.document, description.merges->begin);
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  std::optional<MergeTableBuilder> builder;
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    const bool in_one_string = more && reader.Peek() == JsonReader::Kind::kString;
    if (!builder) {
      const size_t num_strings = description.merges->num_strings;
      builder.emplace(vocabulary, std::min(in_one_string ? num_strings : num_strings / 2, kMostReserved),
                      options.continuing_subword_prefix);
    }
    if (!more) return builder->Finish();
    std::string_view left;
    if (in_one_string) {
      LAMINA_RETURN_IF_ERROR(reader.ReadString(left));
      LAMINA_RETURN_IF_ERROR(AddSplit(left, *builder));
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
    LAMINA_RETURN_IF_ERROR(builder->Add(left, right));
  }
}

Result<Vocabulary> ReadVocab(const ModelDescription& description) {
  if (!description.vocab) return InvalidModelError("model: field 'vocab' is missing or no object of ids");
  Vocabulary vocabulary;
  ReserveTokens(description.vocab->num_strings, vocabulary);
  JsonReader reader(description.document, description.vocab->begin);
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  while (true) {
    std::string_view token;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(token));
    if (!more) return vocabulary;
    uint64_t id = 0;
    LAMINA_RETURN_IF_ERROR(reader.ReadUnsigned(id));
    LAMINA_RETURN_IF_ERROR(vocabulary.Add(token, id));
  }
}

// The ids are the positions.
Status ReadScoredVocab(const ModelDescription& description, Vocabulary& vocabulary,
                       std::vector<double>& scores) {
  ReserveTokens(description.scored_vocab->num_strings, vocabulary);
  scores.reserve(description.scored_vocab->num_strings);
  JsonReader reader(description.document, description.scored_vocab->begin);
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
    LAMINA_RETURN_IF_ERROR(vocabulary.Add(token, scores.size()));
    scores.push_back(score);
  }
}

// Older files leave the type out; then the fields tell.
Result<std::string> ModelType(const ModelDescription& description, const JsonFields& fields) {
  if (fields.Find("type") != nullptr) return fields.String("type");
  if (description.merges) return std::string("BPE");
  if (description.scored_vocab) return std::string("Unigram");
  return std::string(fields.Find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel");
}

Result<std::unique_ptr<Model>> MakeBpe(const ModelDescription& description, const JsonFields& fields,
                                       bool pieces_are_bytes) {
  if (!description.merges) return fields.Missing("merges");
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
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocab(description));
  LAMINA_ASSIGN_OR_RETURN(MergeTable merges, ReadMerges(description, vocabulary, options));
  return std::unique_ptr<Model>(
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options)));
}

Result<std::unique_ptr<Model>> MakeUnigram(const ModelDescription& description, const JsonFields& fields) {
  if (!description.scored_vocab) {
    return InvalidModelError("{}: field 'vocab' is missing or no array of [token, score]", fields.what());
  }
  Vocabulary vocabulary;
  std::vector<double> scores;
  LAMINA_RETURN_IF_ERROR(ReadScoredVocab(description, vocabulary, scores));
  std::optional<TokenId> unk_id;
  if (fields.Find("unk_id") != nullptr) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t id, fields.Unsigned("unk_id"));
    if (id >= scores.size()) {
      return InvalidModelError("{}: unk_id {} with {} tokens", fields.what(), id, scores.size());
    }
    unk_id = static_cast<TokenId>(id);
  }
  LAMINA_ASSIGN_OR_RETURN(const bool byte_fallback, fields.Bool("byte_fallback", false));
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
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocab(description));
  return std::unique_ptr<Model>(std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options)));
}

Result<std::unique_ptr<Model>> MakeWordLevel(const ModelDescription& description, const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string unk_token, fields.String("unk_token", "<unk>"));
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocab(description));
  return std::unique_ptr<Model>(
      std::make_unique<WordLevelModel>(std::move(vocabulary), std::move(unk_token)));
}

}  // namespace

Status ReadModelDescription(std::string_view document, JsonReader& reader, ModelDescription& description) {
  description.document = document;
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  description.other_fields = "{";
  while (true) {
    std::string_view key;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(key));
    if (!more) break;
    const JsonReader::Kind kind = reader.Peek();
    if (key == "vocab" && kind == JsonReader::Kind::kObject) {
      LAMINA_ASSIGN_OR_RETURN(description.vocab, reader.Skip());
    } else if (key == "vocab" && kind == JsonReader::Kind::kArray) {
      LAMINA_ASSIGN_OR_RETURN(description.scored_vocab, reader.Skip());
    } else if (key == "merges") {
      LAMINA_ASSIGN_OR_RETURN(description.merges, reader.Skip());
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
