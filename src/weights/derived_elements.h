// Computes derived constants (model/derived_tensor.h), a piece at a time: the memory it takes does not grow
// with the tensors, apart from sources of a concatenation or transposition that are themselves derived.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/derived_tensor.h"

namespace lamina {

// Gives the elements of an initializer of the model's files (ExternalData::Map).
using ElementReader = std::function<Result<Tensor>(const Initializer&)>;
// Takes the next whole elements, in row-major order.
using ElementSink = std::function<Status(std::span<const std::byte>)>;

// The elements of the expression. Errors: those of `read` and `sink`.
Status StreamElements(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink);

// The elements in memory: of a source what `read` gives, else in memory of their own.
Result<Tensor> ComputeDerived(const DerivedTensor& derived, const ElementReader& read);

// How far a matrix moved when it was quantised.
struct QuantizationError {
  double relative = 0;  // root of the mean square of the differences over that of the weights
  double largest = 0;   // largest difference
};
// REQUIRES: `packed` was made by DeriveQuantized.
Result<QuantizationError> MeasureQuantization(const DerivedTensor& packed, const ElementReader& read);

}  // namespace lamina
