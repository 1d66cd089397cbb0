// Opset imports: which version of each operator domain a model or function uses.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

// "ai.onnx" and "" name the same domain; the second is used here.
std::string_view NormalDomain(std::string_view domain);

// Reads an OperatorSetIdProto into `imports`. Fails where the domain is there already with another version.
void ReadOpsetImport(ProtoReader message, std::map<std::string, int>& imports);

}  // namespace lamina::onnx
