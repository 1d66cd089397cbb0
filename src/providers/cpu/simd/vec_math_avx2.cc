#include "providers/cpu/simd/vec_math_inl.h"

namespace lamina {

extern const VecMath kVecMathAvx2;
const VecMath kVecMathAvx2 = kVecMath;

}  // namespace lamina
