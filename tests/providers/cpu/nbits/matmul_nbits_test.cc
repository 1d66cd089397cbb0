// MatMulNBits as an operator.
#include <gtest/gtest.h>

#include <vector>

#include "support/nbits_data.h"
#include "support/op_tester.h"

namespace lamina {
namespace {

using testing::NBitsData;
using testing::OpTester;
using testing::RandomNumbers;
using Zeros = NBitsData::Zeros;

struct Options {
  DataType type = DataType::kFloat;
  int accuracy_level = 0;
  bool constant = true;
  Zeros zeros = Zeros::kDefault;
  bool bias = false;
};

void RunCase(const NBitsData& data, const Options& options) {
  OpTester test("MatMulNBits", 1, "com.microsoft");
  test.Attr("K", static_cast<int>(data.k)).Attr("N", static_cast<int>(data.n)).Attr("bits", data.bits);
  test.Attr("block_size", static_cast<int>(data.block_size)).Attr("accuracy_level", options.accuracy_level);
  constexpr int64_t kRows = 6;
  std::vector<double> a, scales(data.scales.begin(), data.scales.end()),
      bias(static_cast<size_t>(data.n), 0.0);
  for (const float value : RandomNumbers(kRows * data.k, 1))
    a.push_back(static_cast<double>(Bfloat16(value)));
  if (options.bias) bias = RandomNumbers<double>(data.n, 2);
  std::vector<double> y;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t n = 0; n < data.n; ++n) {
      double sum = bias[static_cast<size_t>(n)];
      for (int64_t k = 0; k < data.k; ++k)
        sum += a[static_cast<size_t>(row * data.k + k)] * data.Weight(options.zeros, n, k);
      y.push_back(sum);
    }
  }
  test.FloatInput(options.type, {2, 3, data.k}, a);
  const Shape b_shape{data.n, data.blocks, data.block_size * data.bits / 8};
  const Tensor scale_tensor = [&] {
    OpTester maker("Identity", 1);
    Tensor tensor = *Tensor::Allocate(options.type, {data.n * data.blocks});
    for (size_t i = 0; i < scales.size(); ++i) {
      DispatchType<float, Float16, Bfloat16>(options.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        tensor.mutable_data<T>()[i] = static_cast<T>(static_cast<float>(scales[i]));
      });
    }
    return tensor;
  }();
  if (options.constant) {
    test.Constant<uint8_t>(b_shape, data.packed).ConstantValue(scale_tensor);
  } else {
    test.Input<uint8_t>(b_shape, data.packed).InputValue(scale_tensor);
  }
  if (options.zeros == Zeros::kPacked) {
    const Shape shape{data.n, (data.blocks * data.bits + 7) / 8};
    options.constant ? test.Constant<uint8_t>(shape, data.zeros) : test.Input<uint8_t>(shape, data.zeros);
  } else if (options.zeros == Zeros::kFloat) {
    const Shape shape{data.n, data.blocks};
    options.constant ? test.Constant<float>(shape, data.float_zeros)
                     : test.Input<float>(shape, data.float_zeros);
  } else {
    test.AbsentInput();
  }
  if (options.bias) test.AbsentInput().FloatInput(options.type, {data.n}, bias);
  test.FloatOutput(options.type, {2, 3, data.n}, y);
  Tolerance tolerance;
  tolerance.rtol = options.accuracy_level == 4 || options.type != DataType::kFloat ? 2e-2 : 1e-4;
  tolerance.of_largest = true;
  test.WithTolerance(tolerance);
  test.Run();
}

TEST(MatMulNBitsTest, ConstantAndComputedWeights) {
  const NBitsData data(4, 21, 70, 32, 3);
  for (const bool constant : {true, false}) {
    for (const Zeros zeros : {Zeros::kDefault, Zeros::kPacked, Zeros::kFloat}) {
      for (const int level : {0, 1, 4}) {
        RunCase(data, {DataType::kFloat, level, constant, zeros, constant});
      }
    }
  }
}

TEST(MatMulNBitsTest, EveryElementType) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    for (const int bits : {2, 4, 8}) {
      for (const int level : {0, 4})
        RunCase(NBitsData(bits, 33, 128, 64, 4), {type, level, true, Zeros::kPacked, true});
    }
  }
}

OpTester Attributes(int bits, int block_size) {
  OpTester test("MatMulNBits", 1, "com.microsoft");
  test.Attr("K", 16).Attr("N", 1).Attr("bits", bits).Attr("block_size", block_size);
  test.Input<float>({1, 16}, std::vector<float>(16)).Input<uint8_t>({1, 1, 8}, std::vector<uint8_t>(8));
  test.Input<float>({1}, {1});
  return test;
}

TEST(MatMulNBitsTest, WhatIsNotSupportedIsSaid) {
  OpTester bits = Attributes(3, 16);
  bits.Output<float>({1, 1}, {0})
      .ExpectError(StatusCode::kUnsupported, "Only 2b, 4b and 8b quantization is supported");
  OpTester block = Attributes(4, 8);
  block.Output<float>({1, 1}, {0})
      .ExpectError(StatusCode::kUnsupported, "Only block sizes 16, 32, 64, 128, and 256 are supported");
  OpTester group = Attributes(4, 16);
  group.AbsentInput().Input<int32_t>({16}, std::vector<int32_t>(16));
  group.Output<float>({1, 1}, {0}).ExpectError(StatusCode::kUnsupported, "g_idx");
  OpTester shape("MatMulNBits", 1, "com.microsoft");
  shape.Attr("K", 16).Attr("N", 2).Attr("bits", 4).Attr("block_size", 16);
  shape.Input<float>({1, 16}, std::vector<float>(16))
      .Input<uint8_t>({1, 1, 8}, std::vector<uint8_t>(8))
      .Input<float>({2}, {1, 1});
  shape.Output<float>({1, 2}, {0, 0})
      .ExpectError(StatusCode::kInvalidArgument, "B must have 16 elements for N = 2, K = 16");
}

}  // namespace
}  // namespace lamina
