// Constant tensors of a model: where their bytes are, without the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "lamina/types.h"
#include "lamina/value.h"
#include "model/name.h"

namespace lamina {

// A reference to bytes in a file beside the model, as written in the model and checked for form only: keys
// are known, numbers are non-negative and do not overflow, the length (where given) is the tensor's.
// Opening the file is the business of weights/external_data.
struct ExternalDataRef {
  std::string location;  // relative, as written
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;  // of the tensor, whether written or not
  std::string checksum;       // SHA-1 of the whole file in hex, or empty
};

// Where the elements of a constant are.
//   TensorBytesView: inside the mapped model file (raw_data): `bytes` stay valid while the Model lives.
//   Tensor:          decoded from typed fields, made by a rewrite, or of strings: host memory.
//   ExternalDataRef: another file.
struct TensorBytesView {
  std::span<const std::byte> bytes;
};
using InitializerSource = std::variant<TensorBytesView, Tensor, ExternalDataRef>;

struct Initializer {
  Name name;  // of the value it defines; empty for a tensor attribute
  DataType type = DataType::kUndefined;
  Shape shape;
  InitializerSource source;

  // Bytes of the elements.
  uint64_t size_bytes() const;
  bool is_external() const { return std::holds_alternative<ExternalDataRef>(source); }
  // The tensor where its bytes are in memory (a view for TensorBytesView, possibly unaligned for the type);
  // nothing for external data. Views are read-only: writing through them faults.
  std::optional<Tensor> InMemory() const;
};

}  // namespace lamina
