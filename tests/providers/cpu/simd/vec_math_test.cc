#include "providers/cpu/simd/vec_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/cpu_isa_param.h"

namespace lamina {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance in units in the last place of the float nearest to `exact`.
double UlpError(float value, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isnan(nearest)) return std::isnan(value) ? 0 : 1e9;
  if (std::isinf(nearest)) return value == nearest ? 0 : 1e9;
  const double ulp = std::max(std::ldexp(1.0, std::ilogb(nearest == 0 ? 1e-45f : nearest) - 23), 0x1p-149);
  return std::abs(value - exact) / ulp;
}

class VecMathTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  const VecMath& math() const { return VecMathFor(GetParam()); }

  // Every step-th float of both signs with magnitude below `limit`.
  static std::vector<float> Floats(float limit, uint32_t step) {
    std::vector<float> values;
    for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(limit); bits += step) {
      values.push_back(std::bit_cast<float>(bits));
      values.push_back(-std::bit_cast<float>(bits));
    }
    return values;
  }

  static void ExpectWithinUlp(VecMath::Unary function, const std::vector<float>& inputs,
                              const std::function<double(double)>& exact, double ulp) {
    std::vector<float> outputs(inputs.size());
    function(inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
    double worst = 0;
    float worst_input = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double error = UlpError(outputs[i], exact(inputs[i]));
      if (error > worst) {
        worst = error;
        worst_input = inputs[i];
      }
    }
    EXPECT_LE(worst, ulp) << "at " << worst_input;
  }
};

TEST_P(VecMathTest, ExpIsExactTo2Ulp) {
  ExpectWithinUlp(
      math().exp, Floats(110.0f, 4099), [](double x) { return std::exp(x); }, 2.0);
}

TEST_P(VecMathTest, ExpOfSpecialValues) {
  const std::vector<float> inputs{0.0f,   -0.0f, kInfinity, -kInfinity, std::nanf(""),
                                  88.72f, 89.0f, -103.9f,   1e38f,      -1e38f};
  std::vector<float> outputs(inputs.size());
  math().exp(inputs.data(), outputs.data(), static_cast<int64_t>(inputs.size()));
  EXPECT_EQ(outputs[0], 1.0f);
  EXPECT_EQ(outputs[1], 1.0f);
  EXPECT_EQ(outputs[2], kInfinity);
  EXPECT_EQ(outputs[3], 0.0f);
  EXPECT_TRUE(std::isnan(outputs[4]));
  EXPECT_TRUE(std::isfinite(outputs[5]));
  EXPECT_EQ(outputs[6], kInfinity);
  EXPECT_EQ(outputs[7], 0x1p-149f);
  EXPECT_EQ(outputs[8], kInfinity);
  EXPECT_EQ(outputs[9], 0.0f);
}

TEST_P(VecMathTest, TanhErfSigmoidAndSiluAreExactToFewUlp) {
  const std::vector<float> inputs = Floats(kInfinity, 40093);
  ExpectWithinUlp(
      math().tanh, inputs, [](double x) { return std::tanh(x); }, 4.0);
  ExpectWithinUlp(
      math().erf, inputs, [](double x) { return std::erf(x); }, 5.0);
  ExpectWithinUlp(
      math().sigmoid, Floats(87.0f, 40093), [](double x) { return 1 / (1 + std::exp(-x)); }, 4.0);
  ExpectWithinUlp(
      math().silu, Floats(87.0f, 40093), [](double x) { return x / (1 + std::exp(-x)); }, 5.0);
}

TEST_P(VecMathTest, GeluVariantsFollowTheirFormulas) {
  std::vector<float> inputs;
  for (int i = -800; i <= 800; ++i) inputs.push_back(static_cast<float>(i) / 100);
  std::vector<float> erf(inputs.size()), tanh(inputs.size()), quick(inputs.size());
  const auto count = static_cast<int64_t>(inputs.size());
  math().gelu_erf(inputs.data(), erf.data(), count);
  math().gelu_tanh(inputs.data(), tanh.data(), count);
  math().quick_gelu(inputs.data(), quick.data(), count, 1.702f);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double x = inputs[i];
    EXPECT_NEAR(erf[i], 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 1e-6);
    EXPECT_NEAR(tanh[i], 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))), 1e-6);
    EXPECT_NEAR(quick[i], x / (1 + std::exp(-1.702 * x)), 1e-6);
  }
}

TEST_P(VecMathTest, TailsOfEveryLengthEqualTheWhole) {
  std::vector<float> inputs;
  for (int i = 0; i < 70; ++i) inputs.push_back(static_cast<float>(i) * 0.11f - 3.0f);
  std::vector<float> whole(inputs.size());
  math().exp(inputs.data(), whole.data(), static_cast<int64_t>(inputs.size()));
  for (size_t length = 0; length <= inputs.size(); ++length) {
    std::vector<float> part(length + 1, -7.0f);
    math().exp(inputs.data(), part.data(), static_cast<int64_t>(length));
    for (size_t i = 0; i < length; ++i) ASSERT_EQ(part[i], whole[i]) << length << " " << i;
    ASSERT_EQ(part[length], -7.0f);
  }
}

TEST_P(VecMathTest, HalfConversionsEqualTheScalarOnes) {
  std::vector<Float16> halves(65536);
  std::vector<Bfloat16> bfloats(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    halves[bits] = Float16::FromBits(static_cast<uint16_t>(bits));
    bfloats[bits] = Bfloat16::FromBits(static_cast<uint16_t>(bits));
  }
  std::vector<float> from_half(65536), from_bfloat(65536);
  math().half_to_float(halves.data(), from_half.data(), 65536);
  math().bfloat16_to_float(bfloats.data(), from_bfloat.data(), 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if (!std::isnan(static_cast<float>(halves[bits]))) {
      ASSERT_EQ(from_half[bits], static_cast<float>(halves[bits])) << bits;
    } else {
      ASSERT_TRUE(std::isnan(from_half[bits]));
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(from_bfloat[bits]), bits << 16);
  }
  std::vector<float> floats = Floats(kInfinity, 20011);
  const auto count = static_cast<int64_t>(floats.size());
  std::vector<Float16> to_half(floats.size());
  std::vector<Bfloat16> to_bfloat(floats.size());
  math().float_to_half(floats.data(), to_half.data(), count);
  math().float_to_bfloat16(floats.data(), to_bfloat.data(), count);
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(to_half[i].bits, Float16(floats[i]).bits) << floats[i];
    ASSERT_EQ(to_bfloat[i].bits, Bfloat16(floats[i]).bits) << floats[i];
  }
}

LAMINA_INSTANTIATE_FOR_EACH_ISA(VecMathTest);

}  // namespace
}  // namespace lamina
