#include <gtest/gtest.h>

#include <cmath>

#include "support/op_tester.h"

namespace lamina::testing {
namespace {

// Expected results by plain loops for every subset of axes.
TEST(Reduce, EverySubsetOfAxes) {
  const Shape shape{3, 4, 2, 5};
  std::vector<float> x(120);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 23) - 11;
  for (int mask = 1; mask < 16; ++mask) {
    std::vector<int64_t> axes;
    Shape out;
    for (int axis = 0; axis < 4; ++axis) {
      const bool reduced = (mask >> axis & 1) != 0;
      if (reduced) axes.push_back(axis - 4);
      out.Append(reduced ? 1 : shape[axis]);
    }
    std::vector<float> sums(static_cast<size_t>(out.num_elements()));
    std::vector<float> largest(sums.size(), -1000);
    for (int64_t i = 0; i < 120; ++i) {
      int64_t rest = i;
      int64_t place[4];
      for (int axis = 3; axis >= 0; --axis) {
        place[axis] = rest % shape[axis];
        rest /= shape[axis];
      }
      size_t target = 0;
      for (int axis = 0; axis < 4; ++axis) {
        target =
            target * static_cast<size_t>(out[axis]) + static_cast<size_t>(out[axis] == 1 ? 0 : place[axis]);
      }
      sums[target] += x[static_cast<size_t>(i)];
      largest[target] = std::max(largest[target], x[static_cast<size_t>(i)]);
    }
    const auto count = static_cast<int64_t>(axes.size());
    OpTester sum("ReduceSum", 13);
    sum.Input<float>(shape, x).Constant<int64_t>({count}, axes).Output<float>(out, sums);
    sum.Run();
    OpTester max("ReduceMax", 13);
    max.Attr("axes", AttributeValue(axes)).Input<float>(shape, x).Output<float>(out, largest);
    max.Run();
  }
}

TEST(Reduce, EmptyAxesMeanAllOrNone) {
  OpTester all("ReduceSum", 13);
  all.Attr("keepdims", 0).Input<int32_t>({2, 2}, {1, 2, 3, 4}).Output<int32_t>({}, {10});
  all.Run();
  OpTester none("ReduceSum", 13);
  none.Attr("noop_with_empty_axes", 1)
      .Input<int32_t>({2, 2}, {1, 2, 3, 4})
      .Output<int32_t>({2, 2}, {1, 2, 3, 4});
  none.Run();
}

TEST(Reduce, OfNothingGivesTheNeutralElement) {
  const auto check = [](const char* op, float expected) {
    OpTester test(op, 18);
    test.Input<float>({2, 0}, {}).Constant<int64_t>({1}, {1}).Output<float>({2, 1}, {expected, expected});
    test.Run();
  };
  check("ReduceSum", 0);
  check("ReduceProd", 1);
  check("ReduceMax", -INFINITY);
  check("ReduceLogSumExp", -INFINITY);
}

TEST(Reduce, LongSumsAreAccurateAndIndependentOfThreads) {
  std::vector<float> x(1'000'000, 0.1f);
  OpTester test("ReduceSum", 13);
  test.Attr("keepdims", 0).Input<float>({1'000'000}, x).Output<float>({}, {100'000});
  test.WithTolerance({1e-5, 0, false});
  test.Run();
}

TEST(Reduce, HalfTypesAreSummedInFloat) {
  std::vector<double> x(4096, 1);
  OpTester rows("ReduceSum", 13);  // 4096 ones added one by one in fp16 would stop at 2048
  rows.Attr("keepdims", 0).FloatInput(DataType::kFloat16, {4096, 1}, x);
  rows.FloatOutput(DataType::kFloat16, {}, {4096}).WithTolerance({});
  rows.Run();
  std::vector<double> two_columns(8192, 1);
  OpTester columns("ReduceMean", 13);
  columns.Attr("axes", AttributeValue(std::vector<int64_t>{0})).Attr("keepdims", 0);
  columns.FloatInput(DataType::kBfloat16, {4096, 2}, two_columns)
      .FloatOutput(DataType::kBfloat16, {2}, {1, 1});
  columns.Run();
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  OpTester test("ReduceLogSumExp", 13);
  test.Attr("keepdims", 0).Input<float>({3}, {1000, 1000, -INFINITY}).Output<float>({}, {1000.6931f});
  test.Run();
}

TEST(ArgMax, TiesAndNan) {
  OpTester first("ArgMax", 13);
  first.Attr("axis", 1)
      .Attr("keepdims", 0)
      .Input<float>({2, 3}, {1, 3, 3, 2, NAN, 9})
      .Output<int64_t>({2}, {1, 1});
  first.Run();
  OpTester last("ArgMax", 13);
  last.Attr("axis", 1).Attr("keepdims", 0).Attr("select_last_index", 1);
  last.Input<float>({1, 3}, {1, 3, 3}).Output<int64_t>({1}, {2});
  last.Run();
}

TEST(CumSum, ExclusiveReverseInPlace) {
  OpTester test("CumSum", 14);
  test.Attr("exclusive", 1).Attr("reverse", 1);
  test.Input<float>({2, 3}, {1, 2, 3, 4, 5, 6})
      .Constant<int64_t>({}, {1})
      .Output<float>({2, 3}, {5, 3, 0, 11, 6, 0});
  test.Run();
}

}  // namespace
}  // namespace lamina::testing
