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

// A product of matrices [batches, rows, columns] by definition, stored as FusedMatMul's transposes say.
class FusedMatMulCase {
 public:
  FusedMatMulCase(bool trans_a, bool trans_b, bool trans_batch_a, bool trans_batch_b)
      : trans_a_(trans_a), trans_b_(trans_b), trans_batch_a_(trans_batch_a), trans_batch_b_(trans_batch_b) {}

  void Run(DataType type, bool constant_b) const {
    std::vector<double> a, b, y(kBatch * kM * kN, 0.0);
    for (const float value : RandomNumbers(kBatch * kM * kK, 1)) a.push_back(Bfloat16(value));
    for (const float value : RandomNumbers(kBatch * kK * kN, 2)) b.push_back(Bfloat16(value));
    for (int64_t i = 0; i < kBatch * kM * kN; ++i) {
      const int64_t batch = i / (kM * kN);
      for (int64_t x = 0; x < kK; ++x) {
        y[static_cast<size_t>(i)] += 0.5 * a[static_cast<size_t>((batch * kM + i / kN % kM) * kK + x)] *
                                     b[static_cast<size_t>((batch * kK + x) * kN + i % kN)];
      }
    }
    OpTester test("FusedMatMul", 1, "com.microsoft");
    test.Attr("alpha", 0.5f).Attr("transA", trans_a_ ? 1 : 0).Attr("transB", trans_b_ ? 1 : 0);
    test.Attr("transBatchA", trans_batch_a_ ? 1 : 0).Attr("transBatchB", trans_batch_b_ ? 1 : 0);
    Shape a_shape, b_shape;
    const std::vector<double> a_stored = Store(a, kM, kK, trans_a_, trans_batch_a_, a_shape);
    const std::vector<double> b_stored = Store(b, kK, kN, trans_b_, trans_batch_b_, b_shape);
    test.FloatInput(type, a_shape, a_stored);
    if (constant_b) {
      test.ConstantValue(OpTester::MakeFloatTensor(type, b_shape, b_stored));
    } else {
      test.FloatInput(type, b_shape, b_stored);
    }
    test.FloatOutput(type, {kBatch, kM, kN}, y);
    test.Run();
  }

 private:
  static constexpr int64_t kBatch = 3, kM = 7, kK = 19, kN = 18;

  // `matrices` [batch, rows, columns] as they lie in an input of `shape`.
  static std::vector<double> Store(const std::vector<double>& matrices, int64_t rows, int64_t columns,
                                   bool trans, bool trans_batch, Shape& shape) {
    const int64_t lines = trans ? columns : rows;
    const int64_t width = trans ? rows : columns;
    shape = trans_batch ? Shape{lines, kBatch, width} : Shape{kBatch, lines, width};
    std::vector<double> stored(matrices.size());
    for (int64_t batch = 0; batch < kBatch; ++batch) {
      for (int64_t i = 0; i < lines; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          const int64_t to = ((trans_batch ? i * kBatch + batch : batch * lines + i)) * width + j;
          const int64_t from = batch * rows * columns + (trans ? j * columns + i : i * columns + j);
          stored[static_cast<size_t>(to)] = matrices[static_cast<size_t>(from)];
        }
      }
    }
    return stored;
  }

  bool trans_a_, trans_b_, trans_batch_a_, trans_batch_b_;
};

TEST(FusedMatMulTest, EveryTransposeOfEveryType) {
  for (int bits = 0; bits < 16; ++bits) {
    SCOPED_TRACE(bits);
    const FusedMatMulCase test((bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0);
    for (const DataType type :
         {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble}) {
      test.Run(type, false);
      test.Run(type, true);
    }
  }
}

TEST(FusedMatMulTest, PackedWeightsAndBroadcastBatches) {
  OpTester weights("FusedMatMul", 1, "com.microsoft");
  weights.Attr("transB", 1).Attr("alpha", 2.0f);
  weights.Input<float>({2, 1, 2}, {1, 2, 3, 4}).Constant<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  weights.Output<float>({2, 1, 3}, {2, 4, 6, 6, 8, 14});
  weights.Run();
  // A' of one matrix meets two of B; a transpose of a vector means nothing.
  OpTester broadcast("TransposeMatMul", 1, "com.microsoft");
  broadcast.Attr("transA", 1);
  broadcast.Input<float>({2, 1}, {1, 10}).Input<float>({2, 2, 1}, {1, 2, 3, 4});
  broadcast.Output<float>({2, 1, 1}, {21, 43});
  broadcast.Run();
  OpTester vector("FusedMatMul", 1, "com.microsoft");
  vector.Attr("transA", 1).Attr("transBatchA", 1);
  vector.Input<float>({2}, {1, 2}).Input<float>({2, 2}, {1, 2, 3, 4}).Output<float>({2}, {7, 10});
  vector.Run();
  OpTester mismatch("FusedMatMul", 1, "com.microsoft");
  mismatch.Attr("transA", 1);
  mismatch.Input<float>({2, 3}, std::vector<float>(6)).Input<float>({3, 2}, std::vector<float>(6));
  mismatch.Output<float>({2, 2}, std::vector<float>(4));
  mismatch.ExpectError(StatusCode::kInvalidArgument, "inner dimensions differ");
}

TEST(FusedGemmTest, AppliesTheActivationAfterTheBias) {
  // A B + C = [-5, 4, -2]
  const auto gemm = [](const char* activation) {
    OpTester test("FusedGemm", 1, "com.microsoft");
    test.Attr("activation", activation);
    test.Input<float>({1, 1}, {2}).Input<float>({1, 3}, {-1, 1, -2}).Input<float>({3}, {-3, 2, 2});
    return test;
  };
  OpTester relu = gemm("Relu");
  relu.Output<float>({1, 3}, {0, 4, 0}).Run();
  OpTester leaky = gemm("LeakyRelu");
  leaky.Attr("activation_alpha", 0.5f).Output<float>({1, 3}, {-2.5f, 4, -1}).Run();
  OpTester hard = gemm("HardSigmoid");
  hard.Attr("activation_beta", 0.75f).Output<float>({1, 3}, {0, 1, 0.35f}).Run();
  OpTester selu = gemm("Selu");
  selu.Attr("activation_gamma", 2.0f);
  selu.Output<float>({1, 3}, {-3.3239777f, 8, -2.8936233f}).Run();
  OpTester none("FusedGemm", 1, "com.microsoft");
  none.Input<float>({1, 1}, {2}).Input<float>({1, 1}, {-1}).Output<float>({1, 1}, {-2}).Run();
  OpTester unknown = gemm("Swirl");
  unknown.Output<float>({1, 3}, {0, 0, 0});
  unknown.ExpectError(StatusCode::kInvalidModel, "there is no activation 'Swirl'");
}

}  // namespace
}  // namespace lamina
