// MatMul and Gemm as operators.
#include <gtest/gtest.h>

#include <vector>

#include "support/op_tester.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::OpTester;
using testing::RandomNumbers;

TEST(MatMulTest, BroadcastsBatches) {
  OpTester test("MatMul", 13);
  test.Input<float>({2, 1, 1, 2}, {1, 2, 3, 4});
  test.Input<float>({3, 2, 1}, {1, 10, 2, 20, 3, 30});
  test.Output<float>({2, 3, 1, 1}, {21, 42, 63, 43, 86, 129});
  test.Run();
}

TEST(MatMulTest, VectorsLoseTheirAxis) {
  OpTester dot("MatMul", 13);
  dot.Input<float>({3}, {1, 2, 3}).Input<float>({3}, {4, 5, 6}).Output<float>({}, {32});
  dot.Run();
  OpTester left("MatMul", 13);
  left.Input<float>({2}, {1, 2}).Input<float>({2, 2, 1}, {1, 2, 3, 4}).Output<float>({2, 1}, {5, 11});
  left.Run();
  OpTester right("MatMul", 13);
  right.Input<float>({1, 2, 2}, {1, 2, 3, 4}).Input<float>({2}, {1, 1}).Output<float>({1, 2}, {3, 7});
  right.Run();
}

TEST(MatMulTest, EmptyInnerDimensionGivesZeros) {
  OpTester test("MatMul", 13);
  test.Input<float>({2, 0}, {}).Input<float>({0, 3}, {}).Output<float>({2, 3}, {0, 0, 0, 0, 0, 0});
  test.Run();
}

TEST(MatMulTest, EveryElementTypeAndConstantWeights) {
  constexpr int64_t kM = 5, kK = 37, kN = 34;
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble}) {
    std::vector<double> a, b, y(kM * kN, 0.0);
    for (const float value : RandomNumbers(kM * kK, 1)) a.push_back(static_cast<double>(Bfloat16(value)));
    for (const float value : RandomNumbers(kK * kN, 2)) b.push_back(static_cast<double>(Bfloat16(value)));
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        for (int64_t x = 0; x < kK; ++x) {
          y[static_cast<size_t>(i * kN + j)] +=
              a[static_cast<size_t>(i * kK + x)] * b[static_cast<size_t>(x * kN + j)];
        }
      }
    }
    OpTester plain("MatMul", 13);
    plain.FloatInput(type, {kM, kK}, a).FloatInput(type, {kK, kN}, b).FloatOutput(type, {kM, kN}, y);
    plain.Run();
  }
  OpTester constant("MatMul", 13);
  constant.Input<float>({1, 2}, {1, 2})
      .Constant<float>({2, 3}, {1, 2, 3, 4, 5, 6})
      .Output<float>({1, 3}, {9, 12, 15});
  constant.Run();
  OpTester integers("MatMul", 13);
  integers.Input<int32_t>({1, 2}, {INT32_MAX, 2})
      .Input<int32_t>({2, 1}, {1, 1})
      .Output<int32_t>({1, 1}, {INT32_MIN + 1});
  integers.Run();
  OpTester wide("MatMul", 13);
  wide.Input<uint64_t>({1, 1}, {uint64_t{1} << 63})
      .Input<uint64_t>({1, 1}, {1})
      .Output<uint64_t>({1, 1}, {uint64_t{1} << 63});
  wide.Run();
}

TEST(MatMulTest, MismatchesAreNamed) {
  OpTester inner("MatMul", 13);
  inner.Input<float>({2, 3}, std::vector<float>(6))
      .Input<float>({2, 3}, std::vector<float>(6))
      .Output<float>({2, 3}, std::vector<float>(6));
  inner.ExpectError(StatusCode::kInvalidArgument, "inner dimensions differ for shapes [2,3] and [2,3]");
  OpTester batch("MatMul", 13);
  batch.Input<float>({2, 1, 1}, {1, 1})
      .Input<float>({3, 1, 1}, {1, 1, 1})
      .Output<float>({3, 1, 1}, {1, 1, 1});
  batch.ExpectError(StatusCode::kInvalidArgument, "batch dimensions do not broadcast");
}

TEST(GemmTest, TransposesScalesAndBroadcastsC) {
  // A' = [[1,3],[2,4]], B' = [[1,0],[0,2]] after their transposes.
  for (const bool constant : {false, true}) {
    OpTester test("Gemm", 13);
    test.Attr("transA", 1).Attr("transB", 1).Attr("alpha", 2.0f).Attr("beta", 0.5f);
    test.Input<float>({2, 2}, {1, 2, 3, 4});
    if (constant) {
      test.Constant<float>({3, 2}, {1, 0, 0, 2, 1, 1});
    } else {
      test.Input<float>({3, 2}, {1, 0, 0, 2, 1, 1});
    }
    test.Input<float>({2, 1}, {10, 20});
    // A' B' = [[1, 6, 4], [2, 8, 6]]
    test.Output<float>({2, 3}, {7, 17, 13, 14, 26, 22});
    test.Run();
  }
  OpTester row("Gemm", 7);
  row.Input<double>({1, 1}, {3})
      .Input<double>({1, 2}, {1, 2})
      .Input<double>({2}, {0.5, 1})
      .Output<double>({1, 2}, {3.5, 7});
  row.Run();
  OpTester half("Gemm", 13);
  half.Attr("transA", 1)
      .FloatInput(DataType::kFloat16, {2, 1}, {1, 2})
      .FloatInput(DataType::kFloat16, {2, 2}, {1, 2, 3, 4})
      .FloatInput(DataType::kFloat16, {}, {0.5})
      .FloatOutput(DataType::kFloat16, {1, 2}, {7.5, 10.5});
  half.Run();
  OpTester integers("Gemm", 13);
  integers.Attr("alpha", 2.0f)
      .Input<int64_t>({1, 1}, {3})
      .Input<int64_t>({1, 2}, {1, -2})
      .Input<int64_t>({1, 2}, {1, 1})
      .Output<int64_t>({1, 2}, {7, -11});
  integers.Run();
}

TEST(GemmTest, WrongShapesAreNamed) {
  OpTester test("Gemm", 13);
  test.Input<float>({2, 3}, std::vector<float>(6))
      .Input<float>({3, 2}, std::vector<float>(6))
      .Input<float>({3}, std::vector<float>(3))
      .Output<float>({2, 2}, std::vector<float>(4));
  test.ExpectError(StatusCode::kInvalidArgument, "C of shape [3] does not broadcast to [2,2]");
}

}  // namespace
}  // namespace lamina
