#include "text/format/model_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/json_fields.h"
#include "text/model/bpe.h"
#include "text/model/unigram.h"
#include "text/model/word_level.h"
#include "text/model/word_piece.h"
#include "text/run_beside.h"

namespace lamina::text {
namespace {

// From so many tokens on a second thread is worth its start.
constexpr size_t kTokensForTwoThreads = 10'000;

// Room for the elements of an array or object that begins at the reader's place, so that they need not move:
// memory that is not used is never touched.
template <typename T>
std::vector<T> RoomForElements(const JsonReader& reader) {
  constexpr size_t kBytesOfElement = 12;  // few are shorter
  std::vector<T> elements;
  elements.reserve(reader.bytes_left() / kBytesOfElement);
  return elements;
}

// A merge in one string: "left right".
Status AddSplit(std::string_view merge, std::vector<MergeSpelling>& merges) {
  if (merge.starts_with("#version")) return {};
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
    return InvalidModelError("model: merge '{}': expected two tokens with a space between", merge);
  }
  merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  return {};
}

Result<std::vector<MergeSpelling>> ReadMerges(JsonReader& reader) {
  auto merges = RoomForElements<MergeSpelling>(reader);
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    if (!more) return merges;
    std::string_view left;
    if (reader.Peek() == JsonReader::Kind::kString) {
      LAMINA_RETURN_IF_ERROR(reader.ReadString(left));
      LAMINA_RETURN_IF_ERROR(AddSplit(left, merges));
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
    merges.push_back({left, right});
  }
}

std::future<Result<Vocabulary>> MakeVocabulary(std::vector<Vocabulary::Entry> entries) {
  const auto kept = std::make_shared<const std::vector<Vocabulary::Entry>>(std::move(entries));
  const auto make = [kept] { return Vocabulary::FromEntries(*kept); };
  return kept->size() < kTokensForTwoThreads ? std::async(std::launch::deferred, make) : RunBeside(make);
}

Result<std::vector<Vocabulary::Entry>> ReadVocab(JsonReader& reader) {
  auto entries = RoomForElements<Vocabulary::Entry>(reader);
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  while (true) {
    Vocabulary::Entry entry;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(entry.token));
    if (!more) return entries;
    LAMINA_RETURN_IF_ERROR(reader.ReadUnsigned(entry.id));
    entries.push_back(entry);
  }
}

// The ids are the positions.
Result<std::vector<Vocabulary::Entry>> ReadScoredVocab(JsonReader& reader, std::vector<double>& scores) {
  auto entries = RoomForElements<Vocabulary::Entry>(reader);
  LAMINA_RETURN_IF_ERROR(reader.EnterArray());
  while (true) {
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextElement());
    if (!more) return entries;
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
    entries.push_back({token, scores.size()});
    scores.push_back(score);
  }
}

Result<Vocabulary> TakeVocabulary(ModelDescription& description) {
  if (!description.vocabulary.valid() || description.scores) {
    return InvalidModelError("model: field 'vocab' is missing or no object of ids");
  }
  return description.vocabulary.get();
}

// Older files leave the type out; then the fields tell.
Result<std::string> ModelType(const ModelDescription& description, const JsonFields& fields) {
  if (fields.Find("type") != nullptr) return fields.String("type");
  if (description.merges) return std::string("BPE");
  if (description.scores) return std::string("Unigram");
  return std::string(fields.Find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel");
}

Result<std::unique_ptr<Model>> MakeBpe(ModelDescription& description, const JsonFields& fields,
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
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, TakeVocabulary(description));
  LAMINA_ASSIGN_OR_RETURN(MergeTable merges,
                          MakeMergeTable(vocabulary, *description.merges, options.continuing_subword_prefix));
  return std::unique_ptr<Model>(
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options)));
}

Result<std::unique_ptr<Model>> MakeUnigram(ModelDescription& description, const JsonFields& fields) {
  if (!description.scores) {
    return InvalidModelError("{}: field 'vocab' is missing or no array of [token, score]", fields.what());
  }
  std::vector<double> scores = *std::move(description.scores);
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, description.vocabulary.get());
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

Result<std::unique_ptr<Model>> MakeWordPiece(ModelDescription& description, const JsonFields& fields) {
  WordPieceOptions options;
  LAMINA_ASSIGN_OR_RETURN(options.unk_token, fields.String("unk_token", options.unk_token));
  LAMINA_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                          fields.String("continuing_subword_prefix", options.continuing_subword_prefix));
  LAMINA_ASSIGN_OR_RETURN(options.max_input_chars_per_word,
                          fields.Unsigned("max_input_chars_per_word", options.max_input_chars_per_word));
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, TakeVocabulary(description));
  return std::unique_ptr<Model>(std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options)));
}

Result<std::unique_ptr<Model>> MakeWordLevel(ModelDescription& description, const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string unk_token, fields.String("unk_token", "<unk>"));
  LAMINA_ASSIGN_OR_RETURN(Vocabulary vocabulary, TakeVocabulary(description));
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
      LAMINA_ASSIGN_OR_RETURN(std::vector<Vocabulary::Entry> entries, ReadVocab(reader));
      description.vocabulary = MakeVocabulary(std::move(entries));
      description.scores.reset();
    } else if (key == "vocab" && kind == JsonReader::Kind::kArray) {
      std::vector<double>& scores = description.scores.emplace();
      LAMINA_ASSIGN_OR_RETURN(std::vector<Vocabulary::Entry> entries, ReadScoredVocab(reader, scores));
      description.vocabulary = MakeVocabulary(std::move(entries));
    } else if (key == "merges" && kind == JsonReader::Kind::kArray) {
      LAMINA_ASSIGN_OR_RETURN(description.merges, ReadMerges(reader));
    } else {
      LAMINA_ASSIGN_OR_RETURN(const std::string_view value, reader.RawValue());
      if (description.other_fields.size() > 1) description.other_fields += ',';
      // Whether the document is valid UTF-8 may not be known yet.
      description.other_fields
          .append(nlohmann::json(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
          .append(":")
          .append(value);
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

Result<std::unique_ptr<Model>> MakeModel(ModelDescription& description, bool pieces_are_bytes) {
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
