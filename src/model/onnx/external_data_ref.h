// The form of TensorProto.external_data: a list of keys and values, all texts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "lamina/status.h"
#include "model/initializer.h"

namespace lamina::onnx {

// Keys: location (required), offset, length (must be `tensor_bytes`), checksum; `basepath` and `prepacked*`
// are ignored, others and repeated ones are errors. Whether the location may be opened, and whether the file
// is long enough, is checked where it is opened (weights/external_data).
Result<ExternalDataRef> ParseExternalData(
    std::span<const std::pair<std::string_view, std::string_view>> entries, uint64_t tensor_bytes);

}  // namespace lamina::onnx
