// Reads small constants for shape inference.
#pragma once

#include <optional>

#include "lamina/value.h"
#include "model/graph.h"
#include "model/shape_inference/shape_inference.h"

namespace lamina {

// Elements of an integer or bool tensor, or of floats that are all whole numbers, of at most
// kMaxSymbolicElements elements; null for others.
SymbolicElements ElementsOfTensor(const Tensor& tensor);

// The constant where it is at most kMaxInferenceConstantBytes, read through the options where it is external.
// Nothing where it cannot be read.
std::optional<Tensor> ReadSmallConstant(const Initializer& initializer, const InferenceOptions& options);

// What a Constant node gives, whichever attribute holds it, under the same limits.
std::optional<Tensor> TensorOfConstantNode(const Node& node, const InferenceOptions& options);

}  // namespace lamina
