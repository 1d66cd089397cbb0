// Reads TensorProto and SparseTensorProto.
//
// raw_data stays a view of the file, external data a reference; typed fields (float_data, int32_data, ...,
// string_data) are decoded into host memory, but only after the number of their values was found to match the
// dimensions: what is allocated is bounded by the bytes of the message.
//
// On an error the result is empty and message.ok() is false.
#pragma once

#include <memory>

#include "model/initializer.h"
#include "model/name.h"
#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

Initializer ReadTensor(ProtoReader message, NamePool& names);

std::shared_ptr<const SparseTensor> ReadSparseTensor(ProtoReader message, NamePool& names);

}  // namespace lamina::onnx
