#include <gtest/gtest.h>

#include "support/op_tester.h"

namespace lamina::testing {
namespace {

TEST(QuantizeLinear, BlocksAxesAndSaturation) {
  OpTester blocks("QuantizeLinear", 21);
  blocks.Attr("axis", 1).Attr("block_size", 2);
  blocks.Input<float>({1, 4}, {1, 2, 30, 4000})
      .Input<float>({1, 2}, {0.5f, 10})
      .Input<uint8_t>({1, 2}, {1, 0});
  blocks.Output<uint8_t>({1, 4}, {3, 5, 3, 255});
  blocks.Run();
  OpTester axis("QuantizeLinear", 13);
  axis.Attr("axis", 0)
      .Input<float>({2, 2}, {1, -1.5f, 2.5f, 3.5f})
      .Input<float>({2}, {1, 1})
      .Input<int8_t>({2}, {0, 1});
  axis.Output<int8_t>({2, 2}, {1, -2, 3, 5});
  axis.Run();
  OpTester wrong("QuantizeLinear", 13);
  wrong.Attr("axis", 0).Input<float>({2, 2}, {1, 2, 3, 4}).Input<float>({3}, {1, 1, 1});
  wrong.UncheckedOutput(ValueType::Tensor(DataType::kUint8));
  wrong.ExpectError(StatusCode::kInvalidArgument, "a scale [3] does not fit [2,2]");
}

TEST(DequantizeLinear, Int32KeepsItsDifferences) {
  OpTester test("DequantizeLinear", 21);
  test.Input<int32_t>({2}, {2'000'000'001, -5}).Input<float>({}, {0.5f}).Input<int32_t>({}, {2'000'000'000});
  test.Output<float>({2}, {0.5f, -1'000'000'002.5f});
  test.Run();
}

TEST(MatMulInteger, ZeroPointsOfRowsAndColumns) {
  OpTester test("MatMulInteger", 10);
  test.Input<uint8_t>({2, 2}, {1, 2, 3, 4}).Input<int8_t>({2, 2}, {5, -6, 7, 8});
  test.Input<uint8_t>({2}, {1, 0}).Input<int8_t>({2}, {0, 2});
  test.Output<int32_t>({2, 2}, {7, 6, 43, 0});
  test.Run();
}

TEST(QLinearAdd, BroadcastsAndRequantises) {
  OpTester test("QLinearAdd", 1, kMsDomain);
  test.Input<uint8_t>({2}, {10, 20}).Input<float>({}, {0.5f}).Input<uint8_t>({}, {10});
  test.Input<uint8_t>({}, {4}).Input<float>({}, {1}).Input<uint8_t>({}, {0});
  test.Input<float>({}, {0.5f}).Input<uint8_t>({}, {100});
  test.Output<uint8_t>({2}, {108, 118});
  test.Run();
}

TEST(MatMulBnb4, DecodesNf4Blocks) {
  OpTester test("MatMulBnb4", 1, kMsDomain);
  test.Attr("K", 2).Attr("N", 2).Attr("block_size", 2).Attr("quant_type", 1);
  test.Input<float>({1, 2}, {1, 10}).Input<uint8_t>({2}, {0xF0, 0x7F}).Input<float>({2}, {2, 3});
  test.Output<float>({1, 2}, {2 - 20, 30});  // rows of B: (1, -1) * 2 and (0, 1) * 3
  test.Run();
}

}  // namespace
}  // namespace lamina::testing
