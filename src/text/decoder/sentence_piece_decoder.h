// Decoding as SentencePiece's library does it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "text/decoder/decoder.h"
#include "text/model/sentence_piece.h"

namespace lamina::text {

struct SentencePieceDecoderOptions {
  // Types of the pieces that are not plain text, by spelling.
  std::unordered_map<std::string, SentencePieceType> types;
  std::string unk_surface = " \xE2\x81\x87 ";  // what the unknown piece is written as
  bool drops_first_space = true;               // add_dummy_prefix or remove_extra_whitespaces
  bool drops_all_leading_spaces = true;        // remove_extra_whitespaces
};

std::unique_ptr<Decoder> MakeSentencePieceDecoder(SentencePieceDecoderOptions options);

}  // namespace lamina::text
