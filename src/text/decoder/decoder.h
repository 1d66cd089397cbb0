// From token spellings back to text: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "lamina/status.h"
#include "text/decoder/decode_stage.h"

namespace lamina::text {

// Stages that a decoder made, in order; each refers to the next.
using DecodeStages = std::vector<std::unique_ptr<DecodeStage>>;

// Immutable; usable by many threads, each with stages of its own.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Appends stages to `stages` so that the last one's output goes to `next`, and returns the first: where
  // tokens are fed. The decoder must outlive the stages.
  virtual DecodeStage& AddStages(DecodeStage& next, DecodeStages& stages) const = 0;
};

// The decoder that `json` describes: Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace,
// WordPiece, BPEDecoder, CTC. UNSUPPORTED names any other type.
Result<std::unique_ptr<Decoder>> MakeDecoder(const nlohmann::json& json);

// Makers for formats other than tokenizer.json.
std::unique_ptr<Decoder> MakeByteLevelDecoder();
std::unique_ptr<Decoder> MakeWordPieceDecoder(std::string prefix, bool cleanup);
// What stands in where a file names no decoder: tokens joined by spaces.
std::unique_ptr<Decoder> MakeJoinDecoder();

}  // namespace lamina::text
