// Shapes of layer normalisation, shared with the fused operators that contain one.
#pragma once

#include "model/shape_inference/inference_context.h"

namespace lamina {

// Output 0 has the shape of input 0; further outputs are statistics with the axes from `axis` on reduced
// to 1.
Status InferNormalized(InferenceContext& context);

}  // namespace lamina
