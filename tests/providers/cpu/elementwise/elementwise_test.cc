#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "providers/cpu/elementwise/broadcast.h"
#include "support/op_tester.h"

namespace lamina::testing {
namespace {

constexpr DataType kFloats[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16};

TEST(Broadcast, ShapesFollowNumpy) {
  EXPECT_EQ(*BroadcastShapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(*BroadcastShapes({}, {5}), (Shape{5}));
  EXPECT_EQ(*BroadcastShapes({0, 1}, {1, 7}), (Shape{0, 7}));
  EXPECT_FALSE(BroadcastShapes({2}, {3}).ok());
}

TEST(Broadcast, EveryCombinationOfRepeatedAxesMatchesIndexing) {
  // All operands of rank 4 whose axes are either whole or 1, against indices computed one by one.
  const Shape whole{3, 2, 5, 4};
  for (int a_mask = 0; a_mask < 16; ++a_mask) {
    for (int b_mask = 0; b_mask < 16; ++b_mask) {
      Shape a_shape = whole;
      Shape b_shape = whole;
      for (int axis = 0; axis < 4; ++axis) {
        if ((a_mask >> axis & 1) != 0) a_shape[axis] = 1;
        if ((b_mask >> axis & 1) != 0) b_shape[axis] = 1;
      }
      std::vector<int32_t> a(static_cast<size_t>(a_shape.num_elements()));
      std::vector<int32_t> b(static_cast<size_t>(b_shape.num_elements()));
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int32_t>(i);
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int32_t>(1000 * i);
      const Shape out = *BroadcastShapes(a_shape, b_shape);
      std::vector<int32_t> expected;
      for (int64_t i = 0; i < out.num_elements(); ++i) {
        size_t a_index = 0;
        size_t b_index = 0;
        int64_t rest = i;
        int64_t place[4];
        for (int axis = 3; axis >= 0; --axis) {
          place[axis] = rest % out[axis];
          rest /= out[axis];
        }
        for (int axis = 0; axis < 4; ++axis) {
          a_index = a_index * static_cast<size_t>(a_shape[axis]) +
                    static_cast<size_t>(a_shape[axis] == 1 ? 0 : place[axis]);
          b_index = b_index * static_cast<size_t>(b_shape[axis]) +
                    static_cast<size_t>(b_shape[axis] == 1 ? 0 : place[axis]);
        }
        expected.push_back(a[a_index] + b[b_index]);
      }
      OpTester test("Add", 14);
      test.Input<int32_t>(a_shape, a).Input<int32_t>(b_shape, b).Output<int32_t>(out, expected);
      const auto outputs = test.Compute({2, true});
      ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
      const Tensor& result = (*outputs)[0].tensor();
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), result.data<int32_t>()));
    }
  }
}

TEST(Arithmetic, FloatsOfEveryWidth) {
  for (const DataType type : kFloats) {
    OpTester test("Mul", 14);
    test.FloatInput(type, {2, 3}, {1, 2, 3, 4, 5, 6}).FloatInput(type, {3}, {1, 0.5, -2});
    test.FloatOutput(type, {2, 3}, {1, 1, -6, 4, 2.5, -12});
    test.Run();
  }
}

TEST(Arithmetic, LongArraysGiveTheSameBitsForAnyNumberOfThreads) {
  std::vector<double> a;
  std::vector<double> sum;
  for (int i = 0; i < 100'003; ++i) {
    a.push_back(i % 251);
    sum.push_back(i % 251 + 0.5);
  }
  for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
    OpTester test("Add", 14);
    test.FloatInput(type, {100'003}, a).FloatInput(type, {}, {0.5}).FloatOutput(type, {100'003}, sum);
    test.Run();
  }
}

TEST(Arithmetic, LegacyBroadcastAlignsAtTheAxis) {
  OpTester test("Add", 6);
  test.Attr("broadcast", 1).Attr("axis", 0);
  test.Input<float>({2, 3}, {1, 2, 3, 4, 5, 6}).Input<float>({2}, {10, 20});
  test.Output<float>({2, 3}, {11, 12, 13, 24, 25, 26});
  test.Run();
  OpTester refused("Add", 6);
  refused.Input<float>({2, 3}, {1, 2, 3, 4, 5, 6}).Input<float>({3}, {1, 2, 3});
  refused.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  refused.ExpectError(StatusCode::kInvalidArgument, "broadcast is 0");
}

TEST(Arithmetic, IntegersNeverTrap) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  OpTester div("Div", 14);
  div.Input<int32_t>({4}, {7, -7, kMin, 1}).Input<int32_t>({4}, {2, 2, -1, 0});
  div.Output<int32_t>({4}, {3, -3, kMin, 0});
  div.Run();
  OpTester mod("Mod", 13);
  mod.Input<int32_t>({4}, {-7, 7, kMin, 5})
      .Input<int32_t>({4}, {3, -3, -1, 0})
      .Output<int32_t>({4}, {2, -2, 0, 0});
  mod.Run();
  OpTester add("Add", 14);
  add.Input<int8_t>({1}, {127}).Input<int8_t>({1}, {1}).Output<int8_t>({1}, {-128});
  add.Run();
}

TEST(Arithmetic, MixedTypesAreRefused) {
  OpTester test("Add", 14);
  test.Input<float>({1}, {1}).Input<double>({1}, {1}).UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  test.ExpectError(StatusCode::kInvalidArgument, "types differ");
}

TEST(Variadic, MeanOfBroadcastInputs) {
  for (const DataType type : kFloats) {
    OpTester test("Mean", 13);
    test.FloatInput(type, {2, 1}, {3, 6}).FloatInput(type, {2}, {0, 3}).FloatInput(type, {}, {3});
    test.FloatOutput(type, {2, 2}, {2, 3, 3, 4});
    test.Run();
  }
}

TEST(Variadic, MaxPropagatesNan) {
  OpTester test("Max", 13);
  test.Input<float>({3}, {NAN, 1, 2}).Input<float>({3}, {0, NAN, 3}).Output<float>({3}, {NAN, NAN, 3});
  test.Run();
}

TEST(Pow, IntegerBaseAndExponentTypes) {
  OpTester integers("Pow", 15);
  integers.Input<int64_t>({4}, {2, 3, -1, 2})
      .Input<int32_t>({4}, {10, 0, 3, -1})
      .Output<int64_t>({4}, {1024, 1, -1, 0});
  integers.Run();
  OpTester half("Pow", 15);
  half.FloatInput(DataType::kFloat16, {3}, {2, 3, 4}).Input<int64_t>({}, {2});
  half.FloatOutput(DataType::kFloat16, {3}, {4, 9, 16});
  half.Run();
  OpTester root("Pow", 13);
  root.Input<float>({4}, {4, -0.0f, -INFINITY, 2})
      .Input<float>({1}, {0.5f})
      .Output<float>({4}, {2, 0, INFINITY, std::sqrt(2.0f)});
  root.Run();
}

TEST(Compare, NanIsUnequalAndUnordered) {
  OpTester equal("Equal", 13);
  equal.Input<float>({2}, {NAN, 1}).Input<float>({2}, {NAN, 1}).Output<bool>({2}, {false, true});
  equal.Run();
  OpTester less("LessOrEqual", 16);
  less.FloatInput(DataType::kBfloat16, {3}, {1, 2, NAN}).FloatInput(DataType::kBfloat16, {1}, {1});
  less.Output<bool>({3}, {true, false, false});
  less.Run();
}

TEST(Compare, StringsAreEqualByText) {
  OpTester test("Equal", 19);
  test.Input<std::string>({2}, {"a", "b"}).Input<std::string>({1}, {"b"}).Output<bool>({2}, {false, true});
  test.AllowAllocations();
  test.Run();
}

TEST(Where, BroadcastsAllThree) {
  OpTester test("Where", 16);
  test.Input<bool>({2, 1}, {true, false}).Input<float>({3}, {1, 2, 3}).Input<float>({}, {9});
  test.Output<float>({2, 3}, {1, 2, 3, 9, 9, 9});
  test.Run();
}

TEST(BitShift, ByTheWidthGivesZero) {
  OpTester test("BitShift", 11);
  test.Attr("direction", "LEFT");
  test.Input<uint8_t>({3}, {1, 1, 255}).Input<uint8_t>({3}, {7, 8, 1}).Output<uint8_t>({3}, {128, 0, 254});
  test.Run();
}

TEST(Unary, SpecialValues) {
  OpTester sign("Sign", 13);
  sign.Input<float>({4}, {-3, 0, 5, NAN}).Output<float>({4}, {-1, 0, 1, NAN});
  sign.Run();
  OpTester round("Round", 11);
  round.Input<double>({5}, {0.5, 1.5, 2.5, -0.5, -1.5}).Output<double>({5}, {0, 2, 2, 0, -2});
  round.Run();
  OpTester is_inf("IsInf", 20);
  is_inf.Attr("detect_negative", 0);
  is_inf.FloatInput(DataType::kFloat16, {4}, {INFINITY, -INFINITY, NAN, 1})
      .Output<bool>({4}, {true, false, false, false});
  is_inf.Run();
  OpTester abs("Abs", 13);
  abs.Input<int8_t>({2}, {-128, -5}).Output<int8_t>({2}, {-128, 5});
  abs.Run();
}

TEST(Activation, FollowTheirFormulasInEveryType) {
  const std::vector<double> x = {-100, -2, -0.5, 0, 0.5, 2, 100};
  const auto check = [&](const char* op, int version, double (*formula)(double)) {
    std::vector<double> y;
    for (const double value : x) y.push_back(formula(value));
    for (const DataType type : kFloats) {
      OpTester test(op, version);
      test.FloatInput(type, {7}, x).FloatOutput(type, {7}, y);
      test.Run();
    }
  };
  check("Sigmoid", 13, [](double v) { return 1 / (1 + std::exp(-v)); });
  check("Softplus", 22, [](double v) { return v > 50 ? v : std::log1p(std::exp(v)); });
  check("Elu", 22, [](double v) { return v < 0 ? std::expm1(v) : v; });
  check("Gelu", 20, [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
  check("Mish", 22, [](double v) { return v * std::tanh(v > 50 ? v : std::log1p(std::exp(v))); });
  check("HardSwish", 22, [](double v) { return v * std::fmax(0, std::fmin(1, v / 6 + 0.5)); });
}

TEST(Activation, BiasedGeluRepeatsTheBias) {
  OpTester test("FastGelu", 1, kMsDomain);
  test.Input<float>({2, 2}, {-1, 0, 1, 2}).Input<float>({2}, {1, 0});
  test.Output<float>({2, 2}, {0, 0, 1.9545977f, 1.9545977f});
  test.Run();
}

TEST(SwiGlu, HalvesOfOneTensorAreGateAndUp) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16}) {
    constexpr int64_t kRows = 3, kWidth = 700;  // more than a piece of a row
    std::vector<double> packed, expected;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < 2 * kWidth; ++i)
        packed.push_back(static_cast<double>((row * 7 + i) % 16 - 8) / 4);
      for (int64_t i = 0; i < kWidth; ++i) {
        const double gate = packed[static_cast<size_t>(row * 2 * kWidth + i)];
        const double up = packed[static_cast<size_t>(row * 2 * kWidth + kWidth + i)];
        expected.push_back(gate / (1 + std::exp(-1.5 * gate)) * up);
      }
    }
    OpTester test("SwiGLU", 1, "lamina");
    test.Attr("alpha", 1.5f).FloatInput(type, {kRows, 2 * kWidth}, packed);
    test.FloatOutput(type, {kRows, kWidth}, expected);
    test.Run();
  }
}

TEST(Clip, BoundsAreAttributesThenOptionalInputs) {
  OpTester old_version("Clip", 6);
  old_version.Attr("min", AttributeValue(-1.0f)).Input<float>({3}, {-5, 0, 5}).Output<float>({3}, {-1, 0, 5});
  old_version.Run();
  OpTester only_max("Clip", 13);
  only_max.Input<int32_t>({3}, {-5, 0, 5})
      .AbsentInput()
      .Input<int32_t>({}, {2})
      .Output<int32_t>({3}, {-5, 0, 2});
  only_max.Run();
}

TEST(PRelu, SlopeIsPerChannelBeforeOpset7) {
  OpTester test("PRelu", 6);
  test.Input<float>({1, 2, 2}, {-1, 1, -1, 1}).Input<float>({2}, {0.5f, 0.25f});
  test.Output<float>({1, 2, 2}, {-0.5f, 1, -0.25f, 1});
  test.Run();
}

}  // namespace
}  // namespace lamina::testing
