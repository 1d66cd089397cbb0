// Writes TensorProto and SparseTensorProto: elements as raw_data (strings as string_data), external data as
// the reference it is.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "model/initializer.h"

namespace lamina::onnx {

// Writes the fields of the tensor into `message`. REQUIRES: the source is not a SparseTensor.
void WriteTensor(const Initializer& tensor, std::string_view name, protozero::pbf_writer& message);

void WriteSparseTensor(const SparseTensor& sparse, std::string_view name, protozero::pbf_writer& message);

}  // namespace lamina::onnx
