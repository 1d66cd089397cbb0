#include <gtest/gtest.h>

#include "cuda_op_test.h"

namespace lamina::testing {
namespace {

constexpr DataType kMoved[] = {DataType::kFloat, DataType::kFloat16, DataType::kInt64, DataType::kBool};

TEST(CudaLayoutTest, TransposeExpandSlice) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kMoved) {
    CudaOpTest("Transpose").Random(type, {3, 5}, 0, 9).Output(type).Run();
    for (const std::vector<int64_t>& permutation :
         {std::vector<int64_t>{0, 2, 1, 3}, {3, 1, 0, 2}, {0, 1, 2, 3}}) {
      CudaOpTest("Transpose")
          .Attr("perm", AttributeValue(permutation))
          .Random(type, {2, 3, 4, 5}, 0, 9)
          .Output(type)
          .Run();
    }
    CudaOpTest("Expand").Random(type, {3, 1, 4}, 0, 9).Ints({2, 1, 5, 1}).Output(type).Run();
    CudaOpTest("Slice")
        .Random(type, {6, 7}, 0, 9)
        .Ints({1, -2})
        .Ints({9, -6})
        .Ints({0, 1})
        .Ints({2, -1})
        .Output(type)
        .Run();
    CudaOpTest("Slice").Random(type, {6, 7}, 0, 9).Ints({2}).Ints({2}).Output(type).Run();
  }
}

TEST(CudaLayoutTest, ConcatAndSplit) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kMoved) {
    CudaOpTest("Concat")
        .Attr("axis", 1)
        .Random(type, {2, 3, 4}, 0, 9)
        .Random(type, {2, 1, 4}, 0, 9)
        .Random(type, {2, 0, 4}, 0, 9)
        .Output(type)
        .Run();
    CudaOpTest("Split")
        .Attr("axis", -1)
        .Random(type, {3, 8}, 0, 9)
        .Ints({1, 5, 2})
        .Output(type)
        .Output(type)
        .Output(type)
        .Run();
    CudaOpTest("Split")
        .Attr("num_outputs", 2)
        .Random(type, {5, 2}, 0, 9)
        .Absent()
        .Output(type)
        .Output(type)
        .Run();
  }
}

TEST(CudaLayoutTest, ReshapesCopyWhereMemoryIsNotShared) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kMoved) {
    CudaOpTest("Reshape").Random(type, {2, 3, 4}, 0, 9).Ints({0, -1}).Output(type).Run();
    CudaOpTest("Unsqueeze").Random(type, {2, 3}, 0, 9).Ints({0, -1}).Output(type).Run();
    CudaOpTest("Squeeze").Random(type, {1, 3, 1}, 0, 9).Ints({0}).Output(type).Run();
    CudaOpTest("Squeeze").Random(type, {1, 3, 1}, 0, 9).Output(type).Run();
    CudaOpTest("Flatten").Attr("axis", 2).Random(type, {2, 3, 4}, 0, 9).Output(type).Run();
    CudaOpTest("Identity").Random(type, {5}, 0, 9).Output(type).Run();
  }
}

TEST(CudaLayoutTest, Gather) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kMoved) {
    for (const int axis : {0, 1, -1}) {
      for (const DataType index : {DataType::kInt32, DataType::kInt64}) {
        CudaOpTest("Gather")
            .Attr("axis", axis)
            .Random(type, {4, 5, 4}, 0, 9)
            .Random(index, {2, 3}, -4, 4)
            .Output(type)
            .Run();
      }
    }
  }
  CudaOpTest("Gather")
      .Random(DataType::kFloat16, {11, 96})
      .Random(DataType::kInt64, {1, 7}, 0, 11)
      .Output(DataType::kFloat16)
      .Run();
}

TEST(CudaLayoutTest, GatherBlockQuantized) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const bool zeros : {false, true}) {
      for (const int bits : {4, 8}) {
        CudaOpTest test("GatherBlockQuantized", 1, "com.microsoft");
        test.Attr("bits", bits).Attr("block_size", 32);
        test.Constant(DataType::kUint8, {10, bits == 4 ? 48 : 96}, 0, 256);
        test.Random(DataType::kInt64, {2, 3}, -10, 10);
        test.Constant(type, {10, 3}, 0.01, 0.1);
        if (zeros) test.Constant(DataType::kUint8, {10, bits == 4 ? 2 : 3}, 0, 256);
        test.Output(type).Run();
      }
    }
  }
}

TEST(CudaLayoutTest, Generators) {
  LAMINA_CUDA_OR_SKIP();
  CudaOpTest("ConstantOfShape").Ints({2, 3}).Output(DataType::kFloat).Run();
  for (const DataType type : {DataType::kInt32, DataType::kInt64, DataType::kFloat}) {
    CudaOpTest("Range")
        .Random(type, {}, 3, 4)
        .Random(type, {}, 40, 41)
        .Random(type, {}, 2, 3)
        .Output(type)
        .Run();
    CudaOpTest("Range")
        .Random(type, {}, 3, 4)
        .Random(type, {}, 1, 2)
        .Random(type, {}, 2, 3)
        .Output(type)
        .Run();
  }
  CudaOpTest("Shape").Attr("start", -2).Random(DataType::kFloat, {4, 5, 6}).Output(DataType::kInt64).Run();
  for (const DataType type : {DataType::kBool, DataType::kInt32, DataType::kInt64}) {
    for (const int window : {0, 3}) {
      CudaOpTest("CausalMask", 1, "lamina")
          .Attr("masked", -1e30f)
          .Attr("window", window)
          .Random(type, {2, 9}, 0, 2)
          .Random(DataType::kInt64, {2, 4}, 0, 9)
          .Output(DataType::kFloat)
          .Run();
    }
  }
}

}  // namespace
}  // namespace lamina::testing
