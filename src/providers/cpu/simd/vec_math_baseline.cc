#include "providers/cpu/simd/vec_math_inl.h"

namespace lamina {

extern const VecMath kVecMathBaseline;
const VecMath kVecMathBaseline = kVecMath;

}  // namespace lamina
