// Files that hold one value: the input_N.pb and output_N.pb of a test_data_set_N. Such a file does not say
// which message it holds (TensorProto, SequenceProto or OptionalProto): the type of the model's input or
// output does.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file.h"
#include "lamina/status.h"
#include "lamina/value.h"

namespace lamina {

// Reads the value as `type` says, a tensor for kUndefined. The value has memory of its own. Whether a
// tensor's element type and shape fit the model is the caller's business. INVALID_MODEL with the file and
// byte offset where it is malformed; UNSUPPORTED for sparse tensors and external data.
Result<Value> ReadValueFile(const std::string& path, const ValueType& type,
                            const FileSystem& files = SystemFiles());

// The same from bytes; `name` stands for the file in errors.
Result<Value> ReadValue(std::span<const std::byte> bytes, const std::string& name, const ValueType& type);

// The bytes of such a file. `name` becomes the name of the tensor. UNSUPPORTED for a tensor that is not in
// host memory and for more than 2 GiB.
Result<std::string> EncodeValue(const Value& value, const std::string& name);
Status WriteValueFile(const std::string& path, const Value& value, const std::string& name);

}  // namespace lamina
