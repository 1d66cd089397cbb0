#include "base/small_float.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace lamina {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Format {
  const char* name;
  float (*to_float)(uint8_t);
  uint8_t (*from_float)(float, Saturate);
  int exponent_bits;
  int mantissa_bits;
  int bias;
  float largest;
  bool has_infinity;
  bool has_negative_zero;
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

const std::vector<Format> kFormats = {
    {"E4M3FN", E4M3FnToFloat, FloatToE4M3Fn, 4, 3, 7, 448, false, true},
    {"E4M3FNUZ", E4M3FnuzToFloat, FloatToE4M3Fnuz, 4, 3, 8, 240, false, false},
    {"E5M2", E5M2ToFloat, FloatToE5M2, 5, 2, 15, 57344, true, true},
    {"E5M2FNUZ", E5M2FnuzToFloat, FloatToE5M2Fnuz, 5, 2, 16, 57344, false, false},
    {"E2M1", E2M1ToFloat, [](float value, Saturate) { return FloatToE2M1(value); }, 2, 1, 1, 6, false, true},
};

class SmallFloatTest : public ::testing::TestWithParam<Format> {
 protected:
  int code_bits() const { return 1 + GetParam().exponent_bits + GetParam().mantissa_bits; }

  // Codes of the finite magnitudes in ascending order of value: 0, 1, 2, ...
  std::vector<uint8_t> FiniteMagnitudes() const {
    std::vector<uint8_t> codes;
    for (int code = 0; code < 1 << (code_bits() - 1); ++code) {
      if (!std::isfinite(GetParam().to_float(static_cast<uint8_t>(code)))) break;
      codes.push_back(static_cast<uint8_t>(code));
    }
    return codes;
  }

  uint8_t Negated(uint8_t code) const { return static_cast<uint8_t>(code | 1 << (code_bits() - 1)); }
};

TEST_P(SmallFloatTest, CodesMeanWhatTheirLayoutSays) {
  const Format& format = GetParam();
  const std::vector<uint8_t> codes = FiniteMagnitudes();
  for (const uint8_t code : codes) {
    const int exponent = code >> format.mantissa_bits;
    const double mantissa = code & ((1 << format.mantissa_bits) - 1);
    const double fraction = mantissa / (1 << format.mantissa_bits);
    const double expected = exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                                          : std::ldexp(1 + fraction, exponent - format.bias);
    EXPECT_EQ(format.to_float(code), expected) << int{code};
    if (code == 0) continue;
    EXPECT_EQ(format.to_float(Negated(code)), -expected) << int{code};
  }
  EXPECT_EQ(format.to_float(codes.back()), format.largest);
  const float negative_zero = format.to_float(Negated(0));
  if (format.has_negative_zero) {
    EXPECT_TRUE(negative_zero == 0 && std::signbit(negative_zero));
  } else {
    EXPECT_TRUE(std::isnan(negative_zero));
  }
}

TEST_P(SmallFloatTest, EveryCodeComesBack) {
  const Format& format = GetParam();
  for (int code = 0; code < 1 << code_bits(); ++code) {
    const float value = format.to_float(static_cast<uint8_t>(code));
    const uint8_t back = format.from_float(value, Saturate::kNo);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(format.to_float(back))) << code;
    } else {
      EXPECT_EQ(back, code);
    }
  }
}

// Between any two neighbours: the middle goes to the even code, what is beside it to the nearer one.
TEST_P(SmallFloatTest, RoundsToNearestEven) {
  const Format& format = GetParam();
  const std::vector<uint8_t> codes = FiniteMagnitudes();
  for (size_t i = 0; i + 1 < codes.size(); ++i) {
    const float low = format.to_float(codes[i]);
    const float high = format.to_float(codes[i + 1]);
    const float middle = low + (high - low) / 2;
    const uint8_t even = codes[i] % 2 == 0 ? codes[i] : codes[i + 1];
    EXPECT_EQ(format.from_float(middle, Saturate::kYes), even) << middle;
    EXPECT_EQ(format.from_float(std::nextafter(middle, 0.0f), Saturate::kYes), codes[i]) << middle;
    EXPECT_EQ(format.from_float(std::nextafter(middle, kInf), Saturate::kYes), codes[i + 1]) << middle;
    EXPECT_EQ(format.from_float(std::nextafter(low, kInf), Saturate::kYes), codes[i]) << low;
    EXPECT_EQ(format.from_float(std::nextafter(high, 0.0f), Saturate::kYes), codes[i + 1]) << high;
  }
}

TEST_P(SmallFloatTest, RandomFloatsGoToTheNearest) {
  const Format& format = GetParam();
  const std::vector<uint8_t> codes = FiniteMagnitudes();
  std::mt19937 random(6);
  for (int round = 0; round < 20'000; ++round) {
    // Half of them from all floats, half near the format's range.
    auto bits = static_cast<uint32_t>(random());
    if (round % 2 == 0) bits = (bits & 0x807fffffu) | (100 + random() % 45) << 23;
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const double magnitude = std::min(std::fabs(value), format.largest);
    uint8_t nearest = 0;
    for (const uint8_t code : codes) {
      const double distance = std::fabs(magnitude - format.to_float(code));
      const double least = std::fabs(magnitude - format.to_float(nearest));
      if (distance < least || (distance == least && code % 2 == 0)) nearest = code;
    }
    const float expected = std::copysign(format.to_float(nearest), value);
    ASSERT_EQ(format.to_float(format.from_float(value, Saturate::kYes)), expected) << value;
  }
}

TEST_P(SmallFloatTest, BeyondTheLargest) {
  const Format& format = GetParam();
  const std::vector<uint8_t> codes = FiniteMagnitudes();
  const float step = format.largest - format.to_float(codes[codes.size() - 2]);
  const float limit = format.largest + step / 2;  // from here on the rounded value is out of range
  // Where the largest code is odd a tie would go beyond it.
  EXPECT_EQ(format.from_float(std::nextafter(limit, 0.0f), Saturate::kNo), codes.back());
  for (const float value : {limit * 1.01f, 1e30f, kInf}) {
    EXPECT_EQ(format.from_float(value, Saturate::kYes), codes.back());
    EXPECT_EQ(format.from_float(-value, Saturate::kYes), Negated(codes.back()));
    if (std::string(format.name) == "E2M1") continue;  // always saturates
    const float up = format.to_float(format.from_float(value, Saturate::kNo));
    const float down = format.to_float(format.from_float(-value, Saturate::kNo));
    if (format.has_infinity) {
      EXPECT_EQ(up, kInf);
      EXPECT_EQ(down, -kInf);
    } else {
      EXPECT_TRUE(std::isnan(up) && std::isnan(down));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatTest, ::testing::ValuesIn(kFormats),
                         [](const auto& format) { return std::string(format.param.name); });

TEST(SmallFloatSpecialsTest, NanAndZeros) {
  EXPECT_EQ(FloatToE4M3Fn(kNan), 0x7f);
  EXPECT_EQ(FloatToE4M3Fn(-kNan), 0xff);
  EXPECT_EQ(FloatToE5M2(kNan), 0x7e);
  EXPECT_EQ(FloatToE4M3Fnuz(kNan), 0x80);
  EXPECT_EQ(FloatToE5M2Fnuz(-kNan), 0x80);
  EXPECT_EQ(FloatToE2M1(kNan), 0x8);
  EXPECT_EQ(FloatToE4M3Fn(-0.0f), 0x80);
  EXPECT_EQ(FloatToE5M2(-0.0f), 0x80);
  EXPECT_EQ(FloatToE4M3Fnuz(-0.0f), 0);
  EXPECT_EQ(FloatToE5M2Fnuz(-1e-30f), 0);
  EXPECT_EQ(FloatToE2M1(-0.0f), 0x8);
  static_assert(FloatToE4M3Fn(1.0f) == 0x38 && E4M3FnToFloat(0x38) == 1.0f);
}

// The inputs and expected codes of the ONNX node tests test_cast_[no_saturate_]FLOAT_to_*.
TEST(SmallFloatSpecialsTest, OnnxCastVectors) {
  const std::vector<float> inputs = {0.47892547f, 0.48033667f, 0.49968487f, 0.81910545f, 0.47031248f,
                                     0.7229038f,  1000000.0f,  1e-7f,       kNan,        kInf,
                                     kInf,        -kInf,       -1e-7f,      1e-7f,       -1000000.0f};
  const auto codes = [&](uint8_t (*convert)(float, Saturate), Saturate saturate) {
    std::vector<int> all;
    for (const float input : inputs) all.push_back(convert(input, saturate));
    return all;
  };
  EXPECT_EQ(codes(FloatToE5M2, Saturate::kYes), (std::vector<int>{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7b, 0,
                                                                  0x7e, 0x7b, 0x7b, 0xfb, 0x80, 0, 0xfb}));
  EXPECT_EQ(codes(FloatToE5M2, Saturate::kNo), (std::vector<int>{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7c, 0,
                                                                 0x7e, 0x7c, 0x7c, 0xfc, 0x80, 0, 0xfc}));
  EXPECT_EQ(
      codes(FloatToE4M3Fn, Saturate::kNo),
      (std::vector<int>{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7f, 0, 0x7f, 0x7f, 0x7f, 0xff, 0x80, 0, 0xff}));
  EXPECT_EQ(
      codes(FloatToE4M3Fnuz, Saturate::kYes),
      (std::vector<int>{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x7f, 0, 0x80, 0x7f, 0x7f, 0xff, 0, 0, 0xff}));
  EXPECT_EQ(codes(FloatToE4M3Fnuz, Saturate::kNo), (std::vector<int>{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x80,
                                                                     0, 0x80, 0x80, 0x80, 0x80, 0, 0, 0x80}));
}

TEST(E8M0Test, EveryCodeIsAPowerOfTwoAndComesBack) {
  for (int code = 0; code < 255; ++code) {
    const float value = E8M0ToFloat(static_cast<uint8_t>(code));
    EXPECT_EQ(value, std::ldexp(1.0f, code - 127));
    for (const auto rounding : {E8M0Rounding::kUp, E8M0Rounding::kDown, E8M0Rounding::kNearest}) {
      EXPECT_EQ(FloatToE8M0(value, Saturate::kNo, rounding), code);
    }
  }
  EXPECT_TRUE(std::isnan(E8M0ToFloat(255)));
}

TEST(E8M0Test, RoundingModes) {
  for (int code = 0; code < 254; ++code) {
    const float power = E8M0ToFloat(static_cast<uint8_t>(code));
    const float middle = power * 1.5f;
    const float below = std::nextafter(middle, 0.0f);
    for (const float value : {std::nextafter(power, kInf), below, middle, std::nextafter(power * 2, 0.0f)}) {
      EXPECT_EQ(FloatToE8M0(value, Saturate::kYes, E8M0Rounding::kUp), code + 1);
      EXPECT_EQ(FloatToE8M0(value, Saturate::kYes, E8M0Rounding::kDown), code);
      EXPECT_EQ(FloatToE8M0(value, Saturate::kYes, E8M0Rounding::kNearest), value < middle ? code : code + 1);
    }
  }
}

TEST(E8M0Test, OutOfRange) {
  EXPECT_EQ(FloatToE8M0(0.0f), 0);
  EXPECT_EQ(FloatToE8M0(1e-40f), 0);
  EXPECT_EQ(FloatToE8M0(0.0f, Saturate::kNo, E8M0Rounding::kNearest), 0xff);
  EXPECT_EQ(FloatToE8M0(kInf), 0xfe);
  EXPECT_EQ(FloatToE8M0(kInf, Saturate::kNo), 0xff);
  EXPECT_EQ(FloatToE8M0(3e38f), 0xfe);
  EXPECT_EQ(FloatToE8M0(3e38f, Saturate::kNo, E8M0Rounding::kNearest), 0xff);
  EXPECT_EQ(FloatToE8M0(3e38f, Saturate::kNo, E8M0Rounding::kDown), 0xfe);
  EXPECT_EQ(FloatToE8M0(kNan), 0xff);
  EXPECT_EQ(FloatToE8M0(-2.0f), 0x80);
}

}  // namespace
}  // namespace lamina
