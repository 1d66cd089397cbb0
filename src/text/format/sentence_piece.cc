#include "text/format/sentence_piece.h"

#include <fmt/format.h>

#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/decoder/byte_stages.h"
#include "text/decoder/sentence_piece_decoder.h"
#include "text/model/sentence_piece.h"
#include "text/normalizer/sentence_piece_normalizer.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// Field numbers of sentencepiece_model.proto.
namespace field {
enum Model : uint32_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kDenormalizerSpec = 5 };
enum Piece : uint32_t { kSpelling = 1, kScore = 2, kType = 3 };
enum Trainer : uint32_t {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kUnkSurface = 44,
  kBosPiece = 46,
  kEosPiece = 47,
  kPadPiece = 48,
};
enum Normalizer : uint32_t {
  kCharsMap = 2,
  kAddDummyPrefix = 3,
  kRemoveExtraWhitespaces = 4,
  kEscapeWhitespaces = 5
};
}  // namespace field

// A field with the wire type it must have; with another it is skipped like an unknown field.
constexpr uint32_t Varint(uint32_t number) {
  return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(number),
                                 protozero::pbf_wire_type::varint);
}
constexpr uint32_t Bytes(uint32_t number) {
  return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(number),
                                 protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t Fixed32(uint32_t number) {
  return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(number),
                                 protozero::pbf_wire_type::fixed32);
}

constexpr int32_t kUnigram = 1;
constexpr int32_t kBpe = 2;

struct File {
  SentencePieceVocabulary pieces;
  std::optional<TokenId> unk_id;
  int32_t model_type = kUnigram;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  SentencePieceNormalizerOptions normalizer;
  std::string charsmap;
};

Status ReadPiece(protozero::pbf_reader message, File& file) {
  std::string spelling;
  float score = 0;
  int32_t type = static_cast<int32_t>(SentencePieceType::kNormal);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case Bytes(field::kSpelling):
        spelling = message.get_string();
        break;
      case Fixed32(field::kScore):
        score = message.get_float();
        break;
      case Varint(field::kType):
        type = message.get_enum();
        break;
      default:
        message.skip();
    }
  }
  const auto id = static_cast<TokenId>(file.pieces.types.size());
  if (spelling.empty()) return InvalidModelError("piece {} is empty", id);
  if (ValidUtf8Prefix(spelling) != spelling.size())
    return InvalidModelError("piece {} is not valid UTF-8", id);
  if (type < 1 || type > 6) return InvalidModelError("piece '{}': type {} is not known", spelling, type);
  if (file.pieces.vocabulary.Find(spelling)) return InvalidModelError("piece '{}' is there twice", spelling);
  LAMINA_RETURN_IF_ERROR(file.pieces.vocabulary.Add(spelling, static_cast<uint64_t>(id)));
  file.pieces.scores.push_back(score);
  file.pieces.types.push_back(static_cast<SentencePieceType>(type));
  if (file.pieces.types.back() == SentencePieceType::kUnknown) {
    if (file.unk_id) return InvalidModelError("pieces {} and {} are both the unknown one", *file.unk_id, id);
    file.unk_id = id;
  }
  return {};
}

void ReadTrainerSpec(protozero::pbf_reader message, File& file) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case Varint(field::kModelType):
        file.model_type = message.get_enum();
        break;
      case Varint(field::kWhitespaceAsSuffix):
        file.normalizer.whitespace_as_suffix = message.get_bool();
        break;
      case Varint(field::kByteFallback):
        file.pieces.byte_fallback = message.get_bool();
        break;
      case Bytes(field::kUnkSurface):
        file.unk_surface = message.get_string();
        break;
      case Bytes(field::kBosPiece):
        file.bos_piece = message.get_string();
        break;
      case Bytes(field::kEosPiece):
        file.eos_piece = message.get_string();
        break;
      case Bytes(field::kPadPiece):
        file.pad_piece = message.get_string();
        break;
      default:
        message.skip();
    }
  }
}

void ReadNormalizerSpec(protozero::pbf_reader message, File& file) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case Bytes(field::kCharsMap):
        file.charsmap = message.get_string();
        break;
      case Varint(field::kAddDummyPrefix):
        file.normalizer.add_dummy_prefix = message.get_bool();
        break;
      case Varint(field::kRemoveExtraWhitespaces):
        file.normalizer.remove_extra_whitespaces = message.get_bool();
        break;
      case Varint(field::kEscapeWhitespaces):
        file.normalizer.escape_whitespaces = message.get_bool();
        break;
      default:
        message.skip();
    }
  }
}

Status ReadFile(std::string_view content, File& file) {
  try {
    protozero::pbf_reader message(content.data(), content.size());
    while (message.next()) {
      switch (message.tag_and_type()) {
        case Bytes(field::kPieces):
          LAMINA_RETURN_IF_ERROR(ReadPiece(message.get_message(), file));
          break;
        case Bytes(field::kTrainerSpec):
          ReadTrainerSpec(message.get_message(), file);
          break;
        case Bytes(field::kNormalizerSpec):
          ReadNormalizerSpec(message.get_message(), file);
          break;
        case Bytes(field::kDenormalizerSpec):
          if (message.get_view().size() > 0) return UnsupportedError("denormalizer_spec");
          break;
        default:
          message.skip();
      }
    }
  } catch (const protozero::exception& error) {
    return InvalidModelError("malformed protocol buffer: {}", error.what());
  }
  return {};
}

Status CheckFile(const File& file) {
  if (file.pieces.types.empty()) return InvalidModelError("no pieces");
  if (!file.unk_id) return InvalidModelError("no unknown piece");
  if (ValidUtf8Prefix(file.unk_surface) != file.unk_surface.size()) {
    return InvalidModelError("unk_surface is not valid UTF-8");
  }
  if (file.model_type != kUnigram && file.model_type != kBpe) {
    return UnsupportedError("SentencePiece model type {} (1 is unigram, 2 is BPE)", file.model_type);
  }
  for (unsigned byte = 0; file.pieces.byte_fallback && byte < 256; ++byte) {
    const std::string spelling = fmt::format("<0x{:02X}>", byte);
    const std::optional<TokenId> id = file.pieces.vocabulary.Find(spelling);
    if (!id || file.pieces.types[static_cast<size_t>(*id)] != SentencePieceType::kByte) {
      return InvalidModelError("byte_fallback without a byte piece '{}'", spelling);
    }
  }
  for (size_t id = 0; id < file.pieces.types.size(); ++id) {
    const std::string_view spelling = file.pieces.vocabulary.Text(static_cast<TokenId>(id));
    if (file.pieces.types[id] == SentencePieceType::kByte && ByteOfToken(spelling) < 0) {
      return InvalidModelError("byte piece '{}': expected the form <0x0A>", spelling);
    }
  }
  return {};
}

bool IsClass(const TokenizerConfig& config, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    if (config.tokenizer_class == name) return true;
  }
  return false;
}

// What the tokenizer classes of these files put around a text where their configuration does not say.
void SetSpecialTokens(const File& file, const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  const auto control = [&](const std::string& spelling) -> std::optional<TokenId> {
    const std::optional<TokenId> id = file.pieces.vocabulary.Find(spelling);
    if (!id || file.pieces.types[static_cast<size_t>(*id)] != SentencePieceType::kControl)
      return std::nullopt;
    return id;
  };
  TokenRoles& roles = tokenizer.roles;
  roles.bos = control(file.bos_piece);
  roles.eos = control(file.eos_piece);
  roles.pad = control(file.pad_piece);
  roles.unk = file.unk_id;
  const bool ends_text =
      IsClass(config, {"T5Tokenizer", "MT5Tokenizer", "PegasusTokenizer", "BigBirdTokenizer"});
  roles.add_bos = config.add_bos.value_or(file.model_type == kBpe && roles.bos.has_value() && !ends_text);
  roles.add_eos = config.add_eos.value_or(ends_text);
  for (size_t id = 0; id < file.pieces.types.size(); ++id) {
    const SentencePieceType type = file.pieces.types[id];
    if (type == SentencePieceType::kControl || type == SentencePieceType::kUnknown) {
      tokenizer.added.MarkSpecial(file.pieces.vocabulary.Text(static_cast<TokenId>(id)));
    }
  }
}

}  // namespace

Status ReadSentencePiece(std::string_view content, const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  File file;
  LAMINA_RETURN_IF_ERROR(ReadFile(content, file));
  LAMINA_RETURN_IF_ERROR(CheckFile(file));
  file.pieces.unk_id = *file.unk_id;

  SentencePieceDecoderOptions decoder;
  std::vector<std::string> user_defined = UserDefinedSpellings(file.pieces);
  for (size_t id = 0; id < file.pieces.types.size(); ++id) {
    const std::string spelling(file.pieces.vocabulary.Text(static_cast<TokenId>(id)));
    const SentencePieceType type = file.pieces.types[id];
    if (type == SentencePieceType::kUnknown || type == SentencePieceType::kControl ||
        type == SentencePieceType::kByte) {
      decoder.types[spelling] = type;
    }
  }
  decoder.unk_surface = file.unk_surface;
  decoder.drops_first_space = file.normalizer.add_dummy_prefix || file.normalizer.remove_extra_whitespaces;
  decoder.drops_all_leading_spaces = file.normalizer.remove_extra_whitespaces;
  tokenizer.decoder = MakeSentencePieceDecoder(std::move(decoder));

  std::optional<CharsMap> map;
  if (!file.charsmap.empty()) {
    LAMINA_ASSIGN_OR_RETURN(map, CharsMap::Parse(std::move(file.charsmap)));
  }
  tokenizer.normalizer =
      MakeSentencePieceNormalizer(file.normalizer, std::move(map), std::move(user_defined));
  SetSpecialTokens(file, config, tokenizer);
  tokenizer.model = file.model_type == kBpe ? MakeSentencePieceBpe(std::move(file.pieces))
                                            : MakeSentencePieceUnigram(std::move(file.pieces));
  tokenizer.replaces_each_invalid_byte = true;
  return {};
}

}  // namespace lamina::text
