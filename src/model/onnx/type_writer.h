// Writes TypeProto, ValueInfoProto and metadata entries.
#pragma once

#include <protozero/pbf_writer.hpp>

#include "model/attribute.h"
#include "model/graph.h"

namespace lamina::onnx {

// REQUIRES: the kind is not kUndefined.
void WriteType(const TypeAndShape& type, protozero::pbf_writer& message);

void WriteValueInfo(std::string_view name, const ValueInfo& value, protozero::pbf_writer& message);

// Each entry as a message in field `field` of `message`.
void WriteMetadata(const MetadataProps& props, uint32_t field, protozero::pbf_writer& message);

}  // namespace lamina::onnx
