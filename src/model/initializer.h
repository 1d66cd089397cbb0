// Constant tensors of a model: where their bytes are, without the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

struct SparseTensor;

// Where the elements of a constant are.
//   TensorBytesView: inside the mapped model file (raw_data): `bytes` stay valid while the Model lives.
//   Tensor:          decoded from typed fields, made by a rewrite, or of strings: host memory.
//   ExternalDataRef: another file.
//   SparseTensor:    a sparse initializer; MakeDense (model/sparse_tensor.h) gives its elements.
struct TensorBytesView {
  std::span<const std::byte> bytes;
};
using InitializerSource =
    std::variant<TensorBytesView, Tensor, ExternalDataRef, std::shared_ptr<const SparseTensor>>;

struct Initializer {
  Name name;  // of the value it defines; empty for a tensor attribute
  DataType type = DataType::kUndefined;
  Shape shape;
  InitializerSource source;

  // Bytes of the elements. Readers have checked that the shape has a size.
  uint64_t size_bytes() const;
  bool is_external() const { return std::holds_alternative<ExternalDataRef>(source); }
  // The tensor where its bytes are in memory (a view for TensorBytesView, possibly unaligned for the type);
  // nothing for external data and sparse tensors. Views are read-only: writing through them faults.
  std::optional<Tensor> InMemory() const;
};

// A sparse tensor constant: `values` [nnz]; `indices` int64, [nnz] into the flattened tensor or [nnz, rank];
// `shape` of the whole.
struct SparseTensor {
  Initializer values;
  Initializer indices;
  Shape shape;
};

}  // namespace lamina
