// Sparse constants: their form, and their dense elements.
#pragma once

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/initializer.h"

namespace lamina {

// Checks types and shapes: one-dimensional values of a whole-byte type, int64 indices [nnz] or [nnz, rank], a
// shape whose size does not overflow. INVALID_MODEL else. The indices themselves are checked by MakeDense.
Status ValidateSparseTensor(const SparseTensor& sparse);

// The whole tensor in fresh host memory, zero where there is no value. INVALID_MODEL for an index outside the
// shape, UNSUPPORTED for values or indices in external data.
// REQUIRES: ValidateSparseTensor(sparse) is OK.
Result<Tensor> MakeDense(const SparseTensor& sparse);

}  // namespace lamina
