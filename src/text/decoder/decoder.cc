#include "text/decoder/decoder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/decoder/byte_stages.h"
#include "text/decoder/text_stages.h"
#include "text/json_fields.h"
#include "text/pre_tokenizer/metaspace.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

using Made = std::unique_ptr<Decoder>;

// A decoder of one stage, which make(next) makes.
template <typename Make>
class OneStageDecoder : public Decoder {
 public:
  explicit OneStageDecoder(Make make) : make_(std::move(make)) {}
  DecodeStage& AddStages(DecodeStage& next, DecodeStages& stages) const override {
    stages.push_back(make_(next));
    return *stages.back();
  }

 private:
  Make make_;
};

template <typename Make>
Made OneStage(Make make) {
  return std::make_unique<OneStageDecoder<Make>>(std::move(make));
}

// For a stage without settings.
template <typename Stage>
Made Plain() {
  return OneStage([](DecodeStage& next) { return std::make_unique<Stage>(next); });
}

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<Made> parts) : parts_(std::move(parts)) {}
  DecodeStage& AddStages(DecodeStage& next, DecodeStages& stages) const override {
    DecodeStage* first = &next;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
      first = &(*part)->AddStages(*first, stages);
    return *first;
  }

 private:
  std::vector<Made> parts_;
};

Result<Made> MakeSequence(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* parts_json, fields.Array("decoders"));
  std::vector<Made> parts;
  for (const nlohmann::json& part_json : *parts_json) {
    LAMINA_ASSIGN_OR_RETURN(Made part, MakeDecoder(part_json));
    parts.push_back(std::move(part));
  }
  return Made(std::make_unique<SequenceDecoder>(std::move(parts)));
}

Result<Made> MakeStrip(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const char32_t c, fields.Char("content"));
  LAMINA_ASSIGN_OR_RETURN(const uint64_t start, fields.Unsigned("start"));
  LAMINA_ASSIGN_OR_RETURN(const uint64_t stop, fields.Unsigned("stop"));
  return OneStage([content = EncodeUtf8(c), start, stop](DecodeStage& next) {
    return std::make_unique<StripStage>(next, content, start, stop);
  });
}

Result<Made> MakeReplace(const JsonFields& fields) {
  const nlohmann::json* pattern_json = fields.Find("pattern");
  if (pattern_json == nullptr) return fields.Missing("pattern");
  LAMINA_ASSIGN_OR_RETURN(Pattern pattern, Pattern::FromJson(*pattern_json, fields.what()));
  LAMINA_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
  return OneStage([pattern = std::move(pattern), content = std::move(content)](DecodeStage& next) {
    return std::make_unique<ReplaceStage>(next, pattern, content);
  });
}

Result<Made> MakeMetaspace(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const char32_t c, fields.Char("replacement"));
  LAMINA_ASSIGN_OR_RETURN(const PrependScheme scheme, ParsePrependScheme(fields));
  return OneStage([replacement = EncodeUtf8(c), drop = scheme != PrependScheme::kNever](DecodeStage& next) {
    return std::make_unique<MetaspaceStage>(next, replacement, drop);
  });
}

Result<Made> MakeWordPiece(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string prefix, fields.String("prefix", "##"));
  LAMINA_ASSIGN_OR_RETURN(const bool cleanup, fields.Bool("cleanup", true));
  return MakeWordPieceDecoder(std::move(prefix), cleanup);
}

Result<Made> MakeBpe(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string suffix, fields.String("suffix", "</w>"));
  return OneStage([suffix = std::move(suffix)](DecodeStage& next) {
    return std::make_unique<BpeSuffixStage>(next, suffix);
  });
}

Result<Made> MakeCtc(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(std::string pad, fields.String("pad_token", "<pad>"));
  LAMINA_ASSIGN_OR_RETURN(std::string delimiter, fields.String("word_delimiter_token", "|"));
  LAMINA_ASSIGN_OR_RETURN(const bool cleanup, fields.Bool("cleanup", true));
  return OneStage([pad = std::move(pad), delimiter = std::move(delimiter), cleanup](DecodeStage& next) {
    return std::make_unique<CtcStage>(next, pad, delimiter, cleanup);
  });
}

}  // namespace

Result<std::unique_ptr<Decoder>> MakeDecoder(const nlohmann::json& json) {
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ComponentType(json, "decoder"));
  const JsonFields fields(json, "decoder '" + type + "'");
  if (type == "Sequence") return MakeSequence(fields);
  if (type == "ByteLevel") return MakeByteLevelDecoder();
  if (type == "ByteFallback") return Plain<ByteFallbackStage>();
  if (type == "Fuse") return Plain<FuseStage>();
  if (type == "Strip") return MakeStrip(fields);
  if (type == "Replace") return MakeReplace(fields);
  if (type == "Metaspace") return MakeMetaspace(fields);
  if (type == "WordPiece") return MakeWordPiece(fields);
  if (type == "BPEDecoder") return MakeBpe(fields);
  if (type == "CTC") return MakeCtc(fields);
  return UnsupportedError("decoder '{}' is not known", type);
}

std::unique_ptr<Decoder> MakeByteLevelDecoder() { return Plain<ByteLevelStage>(); }
std::unique_ptr<Decoder> MakeJoinDecoder() { return Plain<JoinStage>(); }

std::unique_ptr<Decoder> MakeWordPieceDecoder(std::string prefix, bool cleanup) {
  return OneStage([prefix = std::move(prefix), cleanup](DecodeStage& next) {
    return std::make_unique<WordPieceStage>(next, prefix, cleanup);
  });
}

}  // namespace lamina::text
