// The "model" of tokenizer.json: most of the file, so it is read without a document tree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/json_reader.h"
#include "text/model/model.h"

namespace lamina::text {

// Where the large parts of a model stand, before it is known what the pre-tokenizer hands it.
struct ModelDescription {
  std::string_view document;
  std::optional<JsonReader::Skipped> vocab;         // an object of ids
  std::optional<JsonReader::Skipped> scored_vocab;  // an array of [token, score]
  std::optional<JsonReader::Skipped> merges;
  std::string other_fields;  // all others, as a JSON object
};

// `document`: the text of the reader.
Status ReadModelDescription(std::string_view document, JsonReader& reader, ModelDescription& description);

// `pieces_are_bytes`: see BpeOptions. Ignored by models other than BPE; the caller asks CanReadBytes first.
Result<std::unique_ptr<Model>> MakeModel(const ModelDescription& description, bool pieces_are_bytes);

// Whether the model is one that can take plain bytes instead of byte letters.
Result<bool> CanReadBytes(const ModelDescription& description);

}  // namespace lamina::text
