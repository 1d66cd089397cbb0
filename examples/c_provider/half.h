/* IEEE half-precision numbers. */
#ifndef C_PROVIDER_HALF_H_
#define C_PROVIDER_HALF_H_

#include <stdint.h>

float HalfToFloat(uint16_t half);
/* Rounds to nearest, ties to even. */
uint16_t FloatToHalf(float number);

#endif
