// Index tensors (int32 or int64) as operators of the gather and scatter families read them: negative ones
// count from the end, and all are checked before anything is read or written through them.
#pragma once

#include "lamina/value.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {

// Element `i` of an index tensor.
inline int64_t IndexAt(const Tensor& indices, int64_t i) {
  return indices.type() == DataType::kInt32 ? indices.data<int32_t>()[i] : indices.data<int64_t>()[i];
}

// INVALID_ARGUMENT naming the first index outside [-extent, extent), or where the type is not int32 or int64.
Status CheckIndices(const Tensor& indices, int64_t extent);
// The same where the last axis of `indices` holds one index for each of `extents`.
Status CheckIndexTuples(const Tensor& indices, std::span<const int64_t> extents);

}  // namespace lamina
