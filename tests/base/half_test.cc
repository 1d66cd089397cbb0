#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lamina {
namespace {

// The value of a binary16 pattern from the definition of the format.
double HalfByDefinition(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryPatternConvertsAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfBitsToFloat(static_cast<uint16_t>(bits));
    const double expected = HalfByDefinition(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(FloatToHalfBits(value), bits);
  }
}

TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {  // neighbours of one sign, all finite
    const float low = HalfBitsToFloat(static_cast<uint16_t>(bits));
    const float high = HalfBitsToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(FloatToHalfBits(std::nextafter(middle, low)), bits);
    ASSERT_EQ(FloatToHalfBits(std::nextafter(middle, high)), bits + 1);
    ASSERT_EQ(FloatToHalfBits(middle), bits + (bits & 1));
  }
  EXPECT_EQ(FloatToHalfBits(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalfBits(1e-30f), 0);
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(FloatToBfloat16Bits(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(FloatToBfloat16Bits(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(FloatToBfloat16Bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(Bfloat16BitsToFloat(FloatToBfloat16Bits(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace lamina
