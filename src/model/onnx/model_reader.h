// Reads ONNX models.
//
//   Result<std::unique_ptr<Model>> model = ReadModel("llama/model.onnx");
//
// The file is mapped, not copied: initializers stored in it are views, and only what is looked at becomes
// resident. External data files are not touched (weights/external_data opens them). Local functions are kept;
// InlineFunctions (model/function_inliner.h) replaces the nodes that call them.
//
// Whatever the bytes, reading ends with a model or a status, in time and memory bounded by a small multiple
// of the file size. INVALID_MODEL and UNSUPPORTED texts name the file, the byte offset, and the node, tensor
// or graph concerned. Checked are: the form of every message; that every name is defined, and once (nodes may
// stand in any order); that no graph has a cycle and no function calls itself; that
// tensors have a known type, a size that does not overflow, at most Shape::kMaxRank dimensions, and as many
// bytes or values as their shape says.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// Errors of FileSystem::Open where the file cannot be opened.
Result<std::unique_ptr<Model>> ReadModel(const std::string& path, const FileSystem& files = SystemFiles());

// A model in memory. `owner` keeps the bytes alive; without one the caller does, as long as the Model lives.
// External data lies beneath `folder`; with an empty folder a model that has some can be read but not loaded.
Result<std::unique_ptr<Model>> ReadModelFromBytes(std::span<const std::byte> bytes,
                                                  const std::string& folder = {},
                                                  std::shared_ptr<const void> owner = nullptr);

}  // namespace lamina
