// Writes a Model as an ONNX file.
//
// Nodes are written in topological order under their names; initializers as raw_data, as the external data
// they refer to, or into a data file of their own (ModelWriteOptions). Reading the result gives the same
// model. The format holds 2 GiB: a model with more than that in itself is UNSUPPORTED, with a hint to
// external data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

struct ModelWriteOptions {
  // Initializers of at least this many bytes go to the data file; nothing: none does.
  std::optional<uint64_t> external_from_bytes;
  // The data file's name, in the folder of the model; empty: the model file's name and ".data".
  std::string data_file_name;
  // Where set, external data is fetched through it and stored again like any other initializer, for a model
  // that goes to another folder. Where not, its references are kept.
  std::function<Result<Tensor>(const Initializer&)> load_external;
  // Where set, asked for every initializer that is external or derived: hands its elements to the sink piece
  // by piece, which puts them into the data file. Returns false, without a piece, where the reference is to
  // be kept. REQUIRES: external_from_bytes.
  using Sink = std::function<Status(std::span<const std::byte>)>;
  std::function<Result<bool>(const Initializer&, const Sink&)> stream;
};

// Writes `path`, and the data file where initializers go there. Both appear only when they are whole, the
// data file first.
Status WriteModel(const Model& model, const std::string& path, const ModelWriteOptions& options = {});

// The bytes of the model file; external data stays where it is.
Result<std::string> EncodeModel(const Model& model);

}  // namespace lamina
