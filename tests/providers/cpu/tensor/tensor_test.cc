#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "support/op_tester.h"

namespace lamina::testing {
namespace {

std::vector<int32_t> Iota(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Transpose, EveryPermutation) {
  const Shape shape{3, 17, 2, 20};
  const std::vector<int32_t> x = Iota(shape.num_elements());
  std::vector<int64_t> permutation = {0, 1, 2, 3};
  do {
    Shape out;
    for (const int64_t axis : permutation) out.Append(shape[static_cast<int>(axis)]);
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      int64_t place[4];
      int64_t rest = i;
      for (int axis = 3; axis >= 0; --axis) {
        place[permutation[static_cast<size_t>(axis)]] = rest % out[axis];
        rest /= out[axis];
      }
      int64_t source = 0;
      for (int axis = 0; axis < 4; ++axis) source = source * shape[axis] + place[axis];
      expected.push_back(x[static_cast<size_t>(source)]);
    }
    OpTester test("Transpose", 13);
    test.Attr("perm", AttributeValue(permutation)).Input<int32_t>(shape, x).Output<int32_t>(out, expected);
    test.Run();
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST(Transpose, Int4ElementsShareBytes) {
  Tensor input = *Tensor::Allocate(DataType::kInt4, {2, 3});  // 0 1 2 / 3 4 5
  input.mutable_data<uint8_t>()[0] = 0x10;
  input.mutable_data<uint8_t>()[1] = 0x32;
  input.mutable_data<uint8_t>()[2] = 0x54;
  Tensor expected = *Tensor::Allocate(DataType::kInt4, {3, 2});  // 0 3 / 1 4 / 2 5
  expected.mutable_data<uint8_t>()[0] = 0x30;
  expected.mutable_data<uint8_t>()[1] = 0x41;
  expected.mutable_data<uint8_t>()[2] = 0x52;
  OpTester test("Transpose", 21);
  test.InputValue(input).OutputValue(expected);
  test.Run();
}

TEST(Reshape, FillsInZeroAndMinusOne) {
  OpTester test("Reshape", 14);
  test.Input<int32_t>({2, 3, 4}, Iota(24))
      .Constant<int64_t>({3}, {0, -1, 2})
      .Output<int32_t>({2, 6, 2}, Iota(24));
  test.Run();
  OpTester wrong("Reshape", 14);
  wrong.Input<int32_t>({2, 3}, Iota(6))
      .Constant<int64_t>({2}, {4, -1})
      .UncheckedOutput(ValueType::Tensor(DataType::kInt32));
  wrong.ExpectError(StatusCode::kInvalidArgument, "[2,3] cannot be reshaped to [4,-1]");
  OpTester zero("Reshape", 14);
  zero.Attr("allowzero", 1)
      .Input<int32_t>({0, 3}, {})
      .Constant<int64_t>({2}, {3, 0})
      .Output<int32_t>({3, 0}, {});
  zero.Run();
}

TEST(Squeeze, AxesMoveFromAttributeToInput) {
  OpTester attribute("Squeeze", 11);
  attribute.Attr("axes", AttributeValue(std::vector<int64_t>{-1}))
      .Input<int32_t>({1, 2, 1}, {1, 2})
      .Output<int32_t>({1, 2}, {1, 2});
  attribute.Run();
  OpTester input("Unsqueeze", 13);
  input.Input<int32_t>({2}, {1, 2}).Constant<int64_t>({2}, {0, -1}).Output<int32_t>({1, 2, 1}, {1, 2});
  input.Run();
  OpTester wrong("Squeeze", 13);
  wrong.Input<int32_t>({2}, {1, 2})
      .Constant<int64_t>({1}, {0})
      .UncheckedOutput(ValueType::Tensor(DataType::kInt32));
  wrong.ExpectError(StatusCode::kInvalidArgument, "is not 1");
}

TEST(Slice, ExtremesOfStartsEndsAndSteps) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto check = [](int64_t start, int64_t end, int64_t step, const std::vector<int32_t>& expected) {
    OpTester test("Slice", 13);
    test.Input<int32_t>({5}, Iota(5)).Constant<int64_t>({1}, {start}).Constant<int64_t>({1}, {end});
    test.Constant<int64_t>({1}, {0}).Constant<int64_t>({1}, {step});
    test.Output<int32_t>({static_cast<int64_t>(expected.size())}, expected);
    test.Run();
  };
  check(1, kMax, 2, {1, 3});
  check(-1, kMin, -2, {4, 2, 0});
  check(kMax, kMin, kMin, {4});
  check(0, kMax, kMax, {0});
  check(3, 1, 1, {});
  check(-100, 2, 1, {0, 1});
}

TEST(Concat, AlongTheMiddleAxisAndOfEmptyParts) {
  OpTester test("Concat", 13);
  test.Attr("axis", -2);
  test.Input<int32_t>({2, 1, 2}, {1, 2, 5, 6})
      .Input<int32_t>({2, 0, 2}, {})
      .Input<int32_t>({2, 1, 2}, {3, 4, 7, 8});
  test.Output<int32_t>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  test.Run();
}

TEST(Split, UnevenPartsOfNumOutputs) {
  OpTester test("Split", 18);
  test.Attr("axis", 1).Attr("num_outputs", 2).Input<int32_t>({2, 3}, Iota(6));
  test.Output<int32_t>({2, 2}, {0, 1, 3, 4}).Output<int32_t>({2, 1}, {2, 5});
  test.Run();
}

TEST(Expand, AndTile) {
  OpTester expand("Expand", 13);
  expand.Input<int32_t>({2, 1}, {1, 2}).Constant<int64_t>({3}, {2, 1, 3});
  expand.Output<int32_t>({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  expand.Run();
  OpTester tile("Tile", 13);
  tile.Input<int32_t>({2, 2}, {1, 2, 3, 4})
      .Constant<int64_t>({2}, {1, 2})
      .Output<int32_t>({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  tile.Run();
}

TEST(Gather, ChecksIndicesBeforeReading) {
  OpTester test("Gather", 13);
  test.Attr("axis", 1)
      .Input<int32_t>({2, 3}, Iota(6))
      .Input<int32_t>({2}, {-1, 0})
      .Output<int32_t>({2, 2}, {2, 0, 5, 3});
  test.Run();
  OpTester wrong("Gather", 13);
  wrong.Input<int32_t>({2, 3}, Iota(6))
      .Input<int64_t>({1}, {2})
      .UncheckedOutput(ValueType::Tensor(DataType::kInt32));
  wrong.ExpectError(StatusCode::kInvalidArgument, "index 2 (element 0) is out of range [-2, 2)");
}

TEST(Scatter, LaterUpdatesWinAndReductionsAccumulate) {
  OpTester assign("ScatterElements", 16);
  assign.Input<float>({3}, {0, 0, 0})
      .Input<int64_t>({2}, {1, 1})
      .Input<float>({2}, {5, 6})
      .Output<float>({3}, {0, 6, 0});
  assign.Run();
  OpTester add("ScatterND", 16);
  add.Attr("reduction", "add");
  add.Input<float>({2, 2}, {1, 1, 1, 1}).Input<int64_t>({2, 1}, {-1, 1}).Input<float>({2, 2}, {1, 2, 3, 4});
  add.Output<float>({2, 2}, {1, 1, 5, 7});
  add.Run();
}

TEST(Cast, EveryPairOfNumericTypesRoundTripsSmallIntegers) {
  const DataType types[] = {
      DataType::kFloat,          DataType::kDouble,         DataType::kFloat16,      DataType::kBfloat16,
      DataType::kInt8,           DataType::kInt16,          DataType::kInt32,        DataType::kInt64,
      DataType::kUint8,          DataType::kUint16,         DataType::kUint32,       DataType::kUint64,
      DataType::kUint4,          DataType::kInt4,           DataType::kFloat8E4M3Fn, DataType::kFloat8E5M2,
      DataType::kFloat8E4M3Fnuz, DataType::kFloat8E5M2Fnuz, DataType::kString};
  const Tensor numbers = OpTester::MakeTensor<int32_t>({5}, {0, 1, 2, 4, 6});
  for (const DataType from : types) {
    OpTester first("Cast", 21);
    first.InputValue(numbers).UncheckedOutput(ValueType::Tensor(from)).AllowAllocations();
    const auto converted = first.Compute({});
    ASSERT_TRUE(converted.ok()) << converted.status().ToString();
    for (const DataType to : types) {
      OpTester second("Cast", 21);
      second.InputValue((*converted)[0]).UncheckedOutput(ValueType::Tensor(to)).AllowAllocations();
      const auto there = second.Compute({});
      ASSERT_TRUE(there.ok()) << there.status().ToString();
      OpTester back("Cast", 21);
      back.InputValue((*there)[0]).OutputValue(numbers).AllowAllocations();
      SCOPED_TRACE(std::string(DataTypeName(from)) + " to " + std::string(DataTypeName(to)));
      back.Run();
    }
  }
}

TEST(Cast, OutOfRangeIsDefined) {
  OpTester test("Cast", 13);
  test.Input<float>({4}, {1e10f, -1e10f, NAN, 2.9f});
  test.Output<int32_t>({4}, {std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(), 0, 2});
  test.Run();
}

TEST(Cast, TextThatIsNoNumberIsAnError) {
  OpTester test("Cast", 13);
  test.Input<std::string>({2}, {"1.5", "one"}).UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  test.AllowAllocations();
  test.ExpectError(StatusCode::kInvalidArgument, "'one' (element 1) is no float");
}

TEST(TopK, OrderTiesAndNan) {
  OpTester largest("TopK", 11);
  largest.Attr("axis", 0).Input<float>({5}, {1, 3, NAN, 3, 2}).Constant<int64_t>({1}, {4});
  largest.Output<float>({4}, {NAN, 3, 3, 2}).Output<int64_t>({4}, {2, 1, 3, 4});
  largest.Run();
  OpTester smallest("TopK", 11);
  smallest.Attr("axis", 0)
      .Attr("largest", 0)
      .Input<int32_t>({3, 2}, {5, 1, 4, 2, 3, 3})
      .Constant<int64_t>({1}, {2});
  smallest.Output<int32_t>({2, 2}, {3, 1, 4, 2}).Output<int64_t>({2, 2}, {2, 0, 1, 1});
  smallest.Run();
}

TEST(Pad, ModesAndNegativePads) {
  const auto check = [](const char* mode, const std::vector<int64_t>& pads,
                        const std::vector<int32_t>& expected) {
    OpTester test("Pad", 19);
    test.Attr("mode", mode).Input<int32_t>({3}, {1, 2, 3}).Constant<int64_t>({2}, pads);
    test.Output<int32_t>({static_cast<int64_t>(expected.size())}, expected);
    test.Run();
  };
  check("constant", {1, 2}, {0, 1, 2, 3, 0, 0});
  check("constant", {-1, 1}, {2, 3, 0});
  check("reflect", {2, 2}, {3, 2, 1, 2, 3, 2, 1});
  check("edge", {2, 1}, {1, 1, 1, 2, 3, 3});
  check("wrap", {2, 4}, {2, 3, 1, 2, 3, 1, 2, 3, 1});
  check("edge", {-1, 2}, {2, 3, 3, 3});
}

TEST(Trilu, KeepsTriangles) {
  OpTester upper("Trilu", 14);
  upper.Input<int32_t>({2, 3}, Iota(6))
      .Constant<int64_t>({}, {1})
      .Output<int32_t>({2, 3}, {0, 1, 2, 0, 0, 5});
  upper.Run();
  OpTester lower("Trilu", 14);
  lower.Attr("upper", 0).Input<int32_t>({2, 3}, Iota(6)).Output<int32_t>({2, 3}, {0, 0, 0, 3, 4, 0});
  lower.Run();
}

TEST(Range, CountsDownAndRefusesAStandstill) {
  OpTester down("Range", 11);
  down.Constant<int64_t>({}, {10}).Constant<int64_t>({}, {3}).Constant<int64_t>({}, {-3}).Output<int64_t>(
      {3}, {10, 7, 4});
  down.Run();
  OpTester still("Range", 11);
  still.Constant<float>({}, {0}).Constant<float>({}, {3}).Constant<float>({}, {0}).UncheckedOutput(
      ValueType::Tensor(DataType::kFloat));
  still.ExpectError(StatusCode::kInvalidArgument, "delta");
}

}  // namespace
}  // namespace lamina::testing
