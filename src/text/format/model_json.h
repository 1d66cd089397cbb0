// The "model" of tokenizer.json: most of the file, so it is read without a document tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "text/json_reader.h"
#include "text/model/model.h"

namespace lamina::text {

// What the file says, before it is known what the pre-tokenizer hands the model. Strings live in the reader
// and its text.
struct ModelDescription {
  std::vector<std::pair<std::string_view, uint64_t>> vocab;       // an object of ids
  std::vector<std::pair<std::string_view, double>> scored_vocab;  // an array of [token, score]
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  bool has_vocab = false;
  bool has_scored_vocab = false;
  bool has_merges = false;
  std::string other_fields;  // all others, as a JSON object
};

Status ReadModelDescription(JsonReader& reader, ModelDescription& description);

// `pieces_are_bytes`: see BpeOptions. Ignored by models other than BPE; the caller asks CanReadBytes first.
Result<std::unique_ptr<Model>> MakeModel(const ModelDescription& description, bool pieces_are_bytes);

// Whether the model is one that can take plain bytes instead of byte letters.
Result<bool> CanReadBytes(const ModelDescription& description);

}  // namespace lamina::text
