#include <gtest/gtest.h>

#include "cuda_op_test.h"
#include "support/nbits_data.h"
#include "support/op_tester.h"

namespace lamina::testing {
namespace {

// Sums of many products.
const CompareOptions kSums{false, true};

TEST(CudaProductTest, MatricesThatArePacked) {
  LAMINA_CUDA_OR_SKIP();
  struct Size {
    int64_t m, k, n;
  };
  for (const Size& size : {Size{1, 64, 33},
                           {1, 1000, 7},
                           {3, 40, 128},
                           {8, 136, 65},
                           {9, 64, 64},
                           {33, 100, 70},
                           {130, 96, 129},
                           {1, 4096, 16},
                           {2, 7, 1}}) {
    for (const DataType type : kFloatTypesOnCuda) {
      CudaOpTest("MatMul")
          .WithOptions(kSums)
          .Random(type, {size.m, size.k})
          .Constant(type, {size.k, size.n})
          .Output(type)
          .Run();
      for (const int transposed : {0, 1}) {
        CudaOpTest("Gemm")
            .WithOptions(kSums)
            .Attr("transB", transposed)
            .Attr("alpha", 0.5f)
            .Attr("beta", 2.0f)
            .Random(type, {size.m, size.k})
            .Constant(type, transposed != 0 ? Shape{size.n, size.k} : Shape{size.k, size.n})
            .Random(type, {size.n})
            .Output(type)
            .Run();
      }
    }
  }
  CudaOpTest("MatMul")
      .Random(DataType::kFloat, {2, 3, 24})
      .Constant(DataType::kFloat, {24, 5})
      .Output(DataType::kFloat)
      .Run();
  CudaOpTest("MatMul")
      .Random(DataType::kFloat, {24})
      .Constant(DataType::kFloat, {24, 5})
      .Output(DataType::kFloat)
      .Run();
}

TEST(CudaProductTest, MatricesAsTheyAre) {
  LAMINA_CUDA_OR_SKIP();
  const std::pair<Shape, Shape> shapes[] = {
      {{5, 33}, {33, 70}}, {{2, 3, 4, 17}, {2, 3, 17, 9}}, {{2, 1, 4, 17}, {3, 17, 9}},   {{17}, {17, 4}},
      {{4, 17}, {17}},     {{70, 20}, {20, 80}},           {{3, 1, 1, 20}, {1, 2, 20, 5}}};
  for (const auto& [a, b] : shapes) {
    for (const DataType type : kFloatTypesOnCuda) {
      CudaOpTest("MatMul").Random(type, a).Random(type, b).Output(type).Run();
    }
  }
}

enum class Zeros { kNone, kPacked, kFloats };

void RunNBits(DataType type, int bits, int64_t block, const Shape& a, int64_t n, Zeros zeros, bool bias,
              int accuracy_level) {
  SCOPED_TRACE(::testing::Message() << bits << " bits, block " << block << ", A " << a.ToString() << ", N "
                                    << n << ", zeros " << static_cast<int>(zeros) << ", level "
                                    << accuracy_level);
  const int64_t k = a[a.rank() - 1];
  const NBitsData data(bits, n, k, block, 5);
  CudaOpTest test("MatMulNBits", 1, "com.microsoft");
  test.WithOptions({accuracy_level == 4, true});
  test.Attr("K", static_cast<int>(k)).Attr("N", static_cast<int>(n)).Attr("bits", bits);
  test.Attr("block_size", static_cast<int>(block)).Attr("accuracy_level", accuracy_level);
  test.Random(type, a);
  test.Input(OpTester::MakeTensor(Shape{n, data.blocks, block * bits / 8}, data.packed), true);
  test.Constant(type, Shape{n, data.blocks}, -0.05, 0.1);
  if (zeros == Zeros::kPacked) {
    test.Input(OpTester::MakeTensor(Shape{static_cast<int64_t>(data.zeros.size())}, data.zeros), true);
  } else if (zeros == Zeros::kFloats) {
    test.Constant(type, Shape{n, data.blocks}, 0, 1 << bits);
  } else if (bias) {
    test.Absent();
  }
  if (bias) test.Absent().Constant(type, Shape{n});
  test.Output(type).Run();
}

TEST(CudaProductTest, WeightsOfFewBits) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const Shape& a : {Shape{1, 96}, {2, 2, 200}, {7, 96}, {70, 130}}) {
      for (const Zeros zeros : {Zeros::kNone, Zeros::kPacked, Zeros::kFloats}) {
        RunNBits(type, 4, 32, a, 37, zeros, true, 0);
      }
      RunNBits(type, 4, 16, a, 20, Zeros::kPacked, false, 0);
      RunNBits(type, 8, 32, a, 20, Zeros::kPacked, false, 0);
      RunNBits(type, 2, 64, a, 20, Zeros::kPacked, true, 0);
    }
    RunNBits(type, 4, 128, {1, 1, 2048}, 130, Zeros::kNone, false, 0);
    RunNBits(type, 4, 32, {1, 3000}, 9, Zeros::kPacked, false, 0);
    RunNBits(type, 4, 32, {3, 160}, 33, Zeros::kNone, false, 4);
    RunNBits(type, 4, 32, {9, 160}, 33, Zeros::kPacked, false, 4);
  }
}

}  // namespace
}  // namespace lamina::testing
