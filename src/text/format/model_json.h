// The "model" of tokenizer.json: most of the file, so it is read without a document tree.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "text/json_reader.h"
#include "text/model/make_merge_table.h"
#include "text/model/model.h"
#include "text/vocabulary.h"

namespace lamina::text {

// A model as the file has it, before it is known what the pre-tokenizer hands it. Strings live as long as
// their reader and its text.
struct ModelDescription {
  // Of an object of ids or an array of [token, score]; made beside the reading of what follows.
  std::future<Result<Vocabulary>> vocabulary;
  std::optional<std::vector<double>> scores;  // by id, of an array of [token, score]
  std::optional<std::vector<MergeSpelling>> merges;
  std::string other_fields;  // all others, as a JSON object
};

Status ReadModelDescription(JsonReader& reader, ModelDescription& description);

// Uses the description up. `pieces_are_bytes`: see BpeOptions. Ignored by models other than BPE; the caller
// asks CanReadBytes first.
Result<std::unique_ptr<Model>> MakeModel(ModelDescription& description, bool pieces_are_bytes);

// Whether the model is one that can take plain bytes instead of byte letters.
Result<bool> CanReadBytes(const ModelDescription& description);

}  // namespace lamina::text
