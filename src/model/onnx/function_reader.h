// Reads FunctionProto: local functions of a model.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/name.h"
#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

LocalFunction ReadFunction(ProtoReader message, int64_t ir_version, std::shared_ptr<NamePool> names);

}  // namespace lamina::onnx
