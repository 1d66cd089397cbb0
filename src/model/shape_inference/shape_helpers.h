// What inference functions of many operators have in common.
#pragma once

#include <span>
#include <vector>

#include "lamina/status.h"
#include "model/shape_inference/inference_context.h"
#include "model/shape_inference/operator_registry.h"

namespace lamina {

// The dimension that broadcasting `a` with `b` gives; see shape_inference.h.
Result<DimExpr> BroadcastDims(const InferenceContext& context, const DimExpr& a, const DimExpr& b);
// NumPy broadcasting, aligned at the last axis.
Result<SymbolicShape> BroadcastShapes(const InferenceContext& context, const SymbolicShape& a,
                                      const SymbolicShape& b);
// Broadcasts inputs [first, first + count); nothing where the shape of one is not known.
Result<std::optional<SymbolicShape>> BroadcastInputs(const InferenceContext& context, int first, int count);

// A shape of which only the rank is known.
SymbolicShape UnknownShape(int rank);
// The product of dims[begin, end).
DimExpr Product(std::span<const DimExpr> dims, int begin, int end);
// A 0/1 truth value as an element: 1 where `difference` is certainly within [low, high], 0 where certainly
// not.
DimExpr TruthOfRange(const DimExpr& difference, int64_t low, int64_t high);

// A data type given by number in an attribute; an error where ONNX has no such type.
Result<DataType> DataTypeFromNumber(const InferenceContext& context, int64_t number);

// Inference functions of their own.
// Output i has the shape of input 0, and its elements are not known.
Status InferSameShape(InferenceContext& context);
// Input 0 passes through unchanged: type, shape and elements.
Status InferIdentity(InferenceContext& context);
// Output 0 is the broadcast of all inputs.
Status InferBroadcast(InferenceContext& context);
// Nothing is inferred beyond what the signature says.
Status InferNothing(InferenceContext& context);

}  // namespace lamina
