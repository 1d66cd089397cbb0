// Normalisations and softmax as operators.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/op_tester.h"

namespace lamina {
namespace {

using testing::OpTester;

TEST(LayerNormTest, NormalizesOverTheAxesAndGivesStatistics) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    OpTester test("LayerNormalization", 17);
    test.Attr("axis", 1).Attr("epsilon", 0.0f);
    test.FloatInput(type, {2, 2, 2}, {1, 2, 3, 4, -1, -1, 1, 1});
    test.FloatInput(type, {2, 2}, {1, 1, 2, 2}).FloatInput(type, {2}, {0, 1});
    const double a = 1.5 / std::sqrt(1.25), b = 0.5 / std::sqrt(1.25);
    test.FloatOutput(type, {2, 2, 2}, {-a, 1 - b, 2 * b, 1 + 2 * a, -1, 0, 2, 3});
    test.Output<float>({2, 1, 1}, {2.5f, 0});
    test.Output<float>({2, 1, 1}, {static_cast<float>(1 / std::sqrt(1.25)), 1});
    test.Run();
  }
}

TEST(LayerNormTest, RmsFormsAndTheirTypes) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble}) {
    OpTester simplified("SimplifiedLayerNormalization", 23);
    simplified.Attr("epsilon", 0.0f).FloatInput(type, {2, 2}, {3, 4, 0, 2}).FloatInput(type, {2}, {1, 2});
    const double r = std::sqrt(12.5), s = std::sqrt(2.0);
    simplified.FloatOutput(type, {2, 2}, {3 / r, 8 / r, 0, 4 / s});
    simplified.Run();
    OpTester rms("RMSNormalization", 23);
    rms.Attr("epsilon", 0.0f).FloatInput(type, {2, 2}, {3, 4, 0, 2}).FloatInput(type, {1}, {2});
    rms.FloatOutput(type, {2, 2}, {6 / r, 8 / r, 0, 4 / s});
    rms.Run();
  }
  OpTester mixed("SimplifiedLayerNormalization", 14);
  mixed.Attr("epsilon", 0.0f).FloatInput(DataType::kFloat16, {1, 2}, {3, 3}).Input<float>({2}, {1, 0.5f});
  mixed.FloatOutput(DataType::kFloat16, {1, 2}, {1, 0.5});
  mixed.Run();
}

TEST(LayerNormTest, ErrorsNameTheShapes) {
  OpTester axis("LayerNormalization", 17);
  axis.Attr("axis", 2).Input<float>({1, 2}, {1, 2}).Input<float>({2}, {1, 1}).Output<float>({1, 2}, {0, 0});
  axis.ExpectError(StatusCode::kInvalidArgument, "axis 2 is out of range for an input of shape [1,2]");
  OpTester scale("RMSNormalization", 23);
  scale.Input<float>({1, 2}, {1, 2}).Input<float>({3}, {1, 1, 1}).Output<float>({1, 2}, {0, 0});
  scale.ExpectError(StatusCode::kInvalidArgument, "shape [3] does not broadcast to the normalised axes [2]");
}

TEST(SkipLayerNormTest, SimplifiedAddsSkipAndBias) {
  OpTester test("SkipSimplifiedLayerNormalization", 1, "com.microsoft");
  test.Input<float>({2, 1, 2}, {1, 2, 0, 0}).Input<float>({1, 2}, {1, 1}).Input<float>({2}, {1, 2});
  test.Input<float>({2}, {1, 1});
  const float r = std::sqrt(12.5f);
  test.Output<float>({2, 1, 2}, {3 / r, 8 / r, 1, 2});
  test.AbsentOutput().AbsentOutput();
  test.Output<float>({2, 1, 2}, {3, 4, 2, 2});
  test.Run();
}

TEST(SkipLayerNormTest, DefaultEpsilonIsTiny) {
  OpTester test("SkipLayerNormalization", 1, "com.microsoft");
  test.Input<float>({1, 2}, {1e-4f, -1e-4f}).Input<float>({1, 2}, {0, 0}).Input<float>({2}, {1, 1});
  test.Input<float>({2}, {0.5f, 0.5f});
  test.Output<float>({1, 2}, {1.5f, -0.5f});
  test.Run();
}

TEST(SkipLayerNormTest, WrongShapesAreNamed) {
  OpTester test("SkipLayerNormalization", 1, "com.microsoft");
  test.Input<float>({1, 2}, {1, 1}).Input<float>({2, 2}, {0, 0, 0, 0}).Input<float>({2}, {1, 1});
  test.Output<float>({1, 2}, {0, 0});
  test.ExpectError(StatusCode::kInvalidArgument,
                   "skip of shape [2,2] does not broadcast to the input's [1,2]");
}

TEST(SoftmaxTest, OldOpsetsJoinAxes) {
  const float e = 1 / (1 + std::exp(1.0f) + std::exp(2.0f) + std::exp(3.0f));
  OpTester old("Softmax", 11);
  old.Input<float>({1, 2, 2}, {0, 1, 2, 3});
  old.Output<float>({1, 2, 2}, {e, e * std::exp(1.0f), e * std::exp(2.0f), e * std::exp(3.0f)});
  old.Run();
  const float a = 1 / (1 + std::exp(1.0f)), b = 1 / (1 + std::exp(2.0f));
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble}) {
    OpTester last("Softmax", 13);
    last.FloatInput(type, {1, 2, 2}, {0, 1, 2, 3}).FloatOutput(type, {1, 2, 2}, {a, 1 - a, a, 1 - a});
    last.Run();
    OpTester middle("Softmax", 13);
    middle.Attr("axis", 1).FloatInput(type, {1, 2, 2}, {0, 1, 2, 3});
    middle.FloatOutput(type, {1, 2, 2}, {b, b, 1 - b, 1 - b});
    middle.Run();
    OpTester logarithm("LogSoftmax", 13);
    logarithm.FloatInput(type, {2}, {0, 1}).FloatOutput(type, {2}, {std::log(a), std::log(1 - a)});
    logarithm.Run();
  }
}

}  // namespace
}  // namespace lamina
