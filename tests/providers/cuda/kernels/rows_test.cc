#include <gtest/gtest.h>

#include "cuda_op_test.h"

namespace lamina::testing {
namespace {

TEST(CudaRowsTest, Reductions) {
  LAMINA_CUDA_OR_SKIP();
  const std::vector<int64_t> axes[] = {{0}, {1}, {-1}, {0, 2}, {0, 1, 2}, {}};
  for (const DataType type :
       {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kInt32, DataType::kInt64}) {
    for (const std::vector<int64_t>& over : axes) {
      for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare"}) {
        for (const int keep : {0, 1}) {
          CudaOpTest test(op);
          test.Attr("keepdims", keep).Random(type, {3, 70, 5}, -4, 4).Ints(over).Output(type).Run();
        }
      }
    }
    CudaOpTest("ReduceMean", 13)
        .Attr("axes", AttributeValue(std::vector<int64_t>{1}))
        .Random(type, {3, 40}, -9, 9)
        .Output(type)
        .Run();
  }
  CudaOpTest("ReduceProd")
      .Random(DataType::kFloat, {4, 6}, 0.5, 1.5)
      .Ints({1})
      .Output(DataType::kFloat)
      .Run();
  CudaOpTest("ReduceL2").Random(DataType::kFloat, {4, 600}).Ints({1}).Output(DataType::kFloat).Run();
  CudaOpTest("ReduceSum")
      .Attr("noop_with_empty_axes", 1)
      .Random(DataType::kFloat, {4, 6})
      .Ints({})
      .Output(DataType::kFloat)
      .Run();
}

TEST(CudaRowsTest, Softmax) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      for (const int axis : {0, 1, 2, -1}) {
        CudaOpTest(op).Attr("axis", axis).Random(type, {3, 70, 9}, -6, 6).Output(type).Run();
      }
      CudaOpTest(op, 11).Random(type, {3, 5, 9}, -6, 6).Output(type).Run();
      CudaOpTest(op).Random(type, {2, 1000}, -6, 6).Output(type).Run();
    }
  }
}

TEST(CudaRowsTest, Normalisations) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const int64_t hidden : {8, 96, 1000, 5000}) {
      CudaOpTest("LayerNormalization", 17)
          .Random(type, {2, 3, hidden}, -2, 2)
          .Random(type, {hidden})
          .Random(type, {hidden})
          .Output(type)
          .Output(DataType::kFloat)
          .Output(DataType::kFloat)
          .Run();
      CudaOpTest("RMSNormalization", 23)
          .Random(type, {2, 3, hidden}, -2, 2)
          .Random(type, {hidden})
          .Output(type)
          .Run();
      CudaOpTest("SimplifiedLayerNormalization", 1)
          .Random(type, {5, hidden}, -2, 2)
          .Random(DataType::kFloat, {hidden})
          .Output(type)
          .Run();
      for (const bool simplified : {false, true}) {
        CudaOpTest test(simplified ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization", 1,
                        "com.microsoft");
        test.Attr("epsilon", 1e-5f).Random(type, {2, 3, hidden}).Random(type, {3, hidden}, -2, 2);
        test.Random(type, {hidden});
        if (!simplified) test.Random(type, {hidden});
        test.Random(type, {hidden});
        test.Output(type).AbsentOutput().AbsentOutput().Output(type).Run();
      }
    }
    CudaOpTest("LayerNormalization", 17)
        .Attr("axis", 1)
        .Random(type, {2, 3, 4})
        .Random(type, {3, 4})
        .Output(type)
        .Run();
  }
}

}  // namespace
}  // namespace lamina::testing
