#include <gtest/gtest.h>

#include <vector>

#include "support/nbits_data.h"
#include "support/op_tester.h"

namespace lamina {
namespace {

using testing::NBitsData;
using testing::OpTester;
using Zeros = NBitsData::Zeros;

// Rows of a [rows, columns] matrix as an embedding shared with a quantised head reads them.
TEST(GatherBlockQuantizedTest, RowsOfBytes) {
  for (const int bits : {4, 8}) {
    const NBitsData data(bits, 6, 96, 32, 1);
    for (const bool with_zeros : {false, true}) {
      for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
        const Zeros zeros = with_zeros ? Zeros::kPacked : Zeros::kDefault;
        OpTester test("GatherBlockQuantized", 1, "com.microsoft");
        test.Attr("bits", bits).Attr("block_size", 32);
        test.Input<uint8_t>({6, 96 * bits / 8}, data.packed).Input<int64_t>({2, 2}, {5, 0, -1, 3});
        test.FloatInput(type, {6, 3}, std::vector<double>(data.scales.begin(), data.scales.end()));
        if (with_zeros) test.Input<uint8_t>({6, (3 * bits + 7) / 8}, data.zeros);
        std::vector<double> expected;
        for (const int64_t row : {5, 0, 5, 3}) {
          for (int64_t k = 0; k < 96; ++k) expected.push_back(data.Weight(zeros, row, k));
        }
        test.FloatOutput(type, {2, 2, 96}, expected);
        test.Run();
      }
    }
  }
}

Tensor Nibbles(DataType type, const Shape& shape, const std::vector<int>& values) {
  Tensor tensor = *Tensor::Allocate(type, shape);
  auto* bytes = static_cast<uint8_t*>(tensor.mutable_raw_data());
  for (size_t i = 0; i < values.size(); ++i) {
    bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | (values[i] & 15) << (i % 2 * 4));
  }
  return tensor;
}

TEST(GatherBlockQuantizedTest, FourBitTensorsAndOtherAxes) {
  // [2, 17] of int4, quantised along axis 1 in blocks of 16; gathered along axis 0.
  std::vector<int> values;
  for (int i = 0; i < 34; ++i) values.push_back(i % 16 - 8);
  OpTester rows("GatherBlockQuantized", 1, "com.microsoft");
  rows.Attr("block_size", 16);
  rows.InputValue(Nibbles(DataType::kInt4, {2, 17}, values)).Input<int32_t>({1}, {1});
  rows.Input<float>({2, 2}, {1, 2, 3, 4}).InputValue(Nibbles(DataType::kInt4, {2, 2}, {0, 0, -1, 2}));
  std::vector<float> expected;
  for (int i = 0; i < 17; ++i) {
    const int value = (17 + i) % 16 - 8;
    expected.push_back(i < 16 ? static_cast<float>(3 * (value + 1)) : static_cast<float>(4 * (value - 2)));
  }
  rows.Output<float>({1, 17}, expected);
  rows.Run();
  // Quantised along axis 0, gathered along axis 1.
  OpTester columns("GatherBlockQuantized", 1, "com.microsoft");
  columns.Attr("block_size", 16).Attr("gather_axis", 1).Attr("quantize_axis", 0);
  columns.InputValue(Nibbles(DataType::kUint4, {2, 3}, {1, 2, 3, 4, 5, 15})).Input<int32_t>({2}, {2, 0});
  columns.Input<float>({1, 3}, {1, 1, 10});
  columns.Output<float>({2, 2}, {30, 1, 150, 4});
  columns.Run();
}

TEST(GatherBlockQuantizedTest, Errors) {
  OpTester index("GatherBlockQuantized", 1, "com.microsoft");
  index.Attr("block_size", 16).Input<uint8_t>({2, 8}, std::vector<uint8_t>(16)).Input<int64_t>({1}, {2});
  index.Input<float>({2, 1}, {1, 1}).Output<float>({1, 16}, std::vector<float>(16));
  index.ExpectError(StatusCode::kInvalidArgument, "index 2 is out of range [-2, 2)");
  OpTester scales("GatherBlockQuantized", 1, "com.microsoft");
  scales.Attr("block_size", 16).Input<uint8_t>({2, 8}, std::vector<uint8_t>(16)).Input<int64_t>({1}, {1});
  scales.Input<float>({2, 2}, {1, 1, 1, 1}).Output<float>({1, 16}, std::vector<float>(16));
  scales.ExpectError(StatusCode::kInvalidArgument, "scales must have shape [2,1], found [2,2]");
  OpTester axis("GatherBlockQuantized", 1, "com.microsoft");
  axis.Attr("block_size", 16).Attr("gather_axis", 1).Attr("quantize_axis", 0);
  axis.Input<uint8_t>({2, 8}, std::vector<uint8_t>(16))
      .Input<int64_t>({1}, {1})
      .Input<float>({1, 16}, std::vector<float>(16));
  axis.Output<float>({2, 1}, {0, 0});
  axis.ExpectError(StatusCode::kInvalidModel, "gather_axis must be 0 for uint8 data");
}

}  // namespace
}  // namespace lamina
