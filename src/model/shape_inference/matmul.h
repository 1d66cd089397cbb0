// Shapes of matrix products, shared by the operators that contain one.
#pragma once

#include <string_view>

#include "model/shape_inference/inference_context.h"

namespace lamina {

// NumPy's matmul of two shapes: vectors are promoted, leading dimensions broadcast.
Result<SymbolicShape> MatMulShape(InferenceContext& context, const SymbolicShape& a, const SymbolicShape& b);

// Output 0 is the matmul of two inputs.
Status InferMatMulOf(InferenceContext& context, int a, int b);

}  // namespace lamina
