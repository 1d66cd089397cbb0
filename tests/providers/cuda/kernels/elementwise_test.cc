#include <gtest/gtest.h>

#include "cuda_op_test.h"

namespace lamina::testing {
namespace {

TEST(CudaElementwiseTest, FunctionsOfOneElement) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const char* op : {"Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Exp", "Sin", "Cos", "Tanh", "Erf",
                           "Relu", "LeakyRelu", "Elu", "Sigmoid", "HardSigmoid", "HardSwish", "Softplus"}) {
      CudaOpTest(op).Random(type, {7, 131}, -5, 5).Output(type).Run();
    }
    for (const char* op : {"Sqrt", "Log", "Reciprocal"}) {
      CudaOpTest(op).Random(type, {300}, 0.1, 5).Output(type).Run();
    }
    for (const char* approximate : {"none", "tanh"}) {
      CudaOpTest("Gelu").Attr("approximate", approximate).Random(type, {5, 9}, -4, 4).Output(type).Run();
    }
    CudaOpTest("QuickGelu", 1, "com.microsoft").Random(type, {33}, -4, 4).Output(type).Run();
  }
  for (const DataType type : {DataType::kInt32, DataType::kInt64}) {
    for (const char* op : {"Abs", "Neg", "Sign"}) CudaOpTest(op).Random(type, {65}, -9, 9).Output(type).Run();
  }
  CudaOpTest("Not").Random(DataType::kBool, {70}).Output(DataType::kBool).Run();
}

TEST(CudaElementwiseTest, FunctionsOfTwoElementsBroadcast) {
  LAMINA_CUDA_OR_SKIP();
  const std::pair<Shape, Shape> shapes[] = {{{3, 5, 7}, {3, 5, 7}},
                                            {{3, 5, 7}, {7}},
                                            {{3, 1, 7}, {5, 1}},
                                            {{}, {4, 3}},
                                            {{2, 1, 3}, {1, 4, 1}},
                                            {{0, 3}, {1, 3}},
                                            {{2, 3, 1, 5, 1, 2}, {1, 3, 4, 1, 6, 2}}};
  for (const auto& [a, b] : shapes) {
    for (const DataType type :
         {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kInt32, DataType::kInt64}) {
      for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
        CudaOpTest(op).Random(type, a, -20, 20).Random(type, b, 1, 20).Output(type).Run();
      }
      for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
        CudaOpTest(op).Random(type, a, -2, 2).Random(type, b, -2, 2).Output(DataType::kBool).Run();
      }
    }
    for (const char* op : {"And", "Or", "Xor", "Equal"}) {
      CudaOpTest(op).Random(DataType::kBool, a).Random(DataType::kBool, b).Output(DataType::kBool).Run();
    }
    CudaOpTest("SwiGLU", 1, "lamina")
        .Random(DataType::kFloat16, a, -3, 3)
        .Random(DataType::kFloat16, b, -3, 3)
        .Output(DataType::kFloat16)
        .Run();
  }
  for (const DataType type : kFloatTypesOnCuda) {
    CudaOpTest("Pow").Random(type, {40}, 0.5, 2).Random(type, {40}, -2, 2).Output(type).Run();
  }
  CudaOpTest("Pow")
      .Random(DataType::kInt64, {9}, -5, 5)
      .Random(DataType::kInt64, {9}, 0, 6)
      .Output(DataType::kInt64)
      .Run();
}

TEST(CudaElementwiseTest, SwiGluOfHalves) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    CudaOpTest("SwiGLU", 1, "lamina").Random(type, {3, 5, 14}, -3, 3).Output(type).Run();
  }
}

TEST(CudaElementwiseTest, VariadicAndWhere) {
  LAMINA_CUDA_OR_SKIP();
  for (const char* op : {"Max", "Min", "Sum"}) {
    CudaOpTest(op).Random(DataType::kFloat, {3, 4}).Output(DataType::kFloat).Run();
    CudaOpTest(op)
        .Random(DataType::kFloat, {4})
        .Random(DataType::kFloat, {3, 1})
        .Random(DataType::kFloat, {3, 4})
        .Output(DataType::kFloat)
        .Run();
  }
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kInt64, DataType::kUint8}) {
    CudaOpTest("Where")
        .Random(DataType::kBool, {2, 1, 5})
        .Random(type, {3, 1}, 0, 90)
        .Random(type, {}, 0, 90)
        .Output(type)
        .Run();
  }
}

TEST(CudaElementwiseTest, CastsBetweenAllTypes) {
  LAMINA_CUDA_OR_SKIP();
  const DataType types[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kInt8,  DataType::kUint8,  DataType::kInt16,   DataType::kUint16,
                            DataType::kInt32, DataType::kUint32, DataType::kInt64,   DataType::kUint64,
                            DataType::kBool};
  for (const DataType from : types) {
    for (const DataType to : types) {
      CudaOpTest("Cast").Attr("to", static_cast<int>(to)).Random(from, {257}, 0, 120).Output(to).Run();
    }
  }
  // Beyond what integers hold.
  CudaOpTest("Cast")
      .Attr("to", static_cast<int>(DataType::kInt32))
      .Random(DataType::kFloat, {64}, -1e12, 1e12)
      .Output(DataType::kInt32)
      .Run();
}

}  // namespace
}  // namespace lamina::testing
