// Reads AttributeProto.
#pragma once

#include "model/attribute.h"
#include "model/onnx/graph_reader.h"
#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

// Subgraphs become graphs inside `graph`. Where the file has no type (IR versions before 2) the field that is
// present tells it.
Attribute ReadAttribute(ProtoReader message, const GraphContext& context, Graph& graph);

}  // namespace lamina::onnx
