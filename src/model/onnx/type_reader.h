// Reads TypeProto and ValueInfoProto.
#pragma once

#include <string_view>

#include "model/attribute.h"
#include "model/graph.h"
#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

// The type and, of tensors, the shape. A dimension without value or name becomes the symbol "NAME[AXIS]" with
// the `value_name` given. Types that no value can have here (opaque types, containers nested deeper than
// ValueType says) are kUndefined.
TypeAndShape ReadType(ProtoReader message, std::string_view value_name);

struct ValueInfoFields {
  std::string_view name;
  TypeAndShape type;
  MetadataProps metadata_props;
};
ValueInfoFields ReadValueInfo(ProtoReader message);

// Reads one StringStringEntryProto and appends it.
void ReadMetadataEntry(ProtoReader entry, MetadataProps& props);

}  // namespace lamina::onnx
