#include "providers/cpu/simd/vec_math_inl.h"

namespace lamina {

extern const VecMath kVecMathAvx512;
const VecMath kVecMathAvx512 = kVecMath;

}  // namespace lamina
