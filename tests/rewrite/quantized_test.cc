// Pairs of QuantizeLinear and DequantizeLinear, and weights that are dequantised.
#include <fmt/format.h>

#include "rewrite/rewrite_fixture.h"

namespace lamina::testing {
namespace {

class QuantizedTest : public RewriteTest {
 protected:
  QuantizedTest() { Reset(21); }

  template <typename T>
  ValueId Bytes(DataType type, const Shape& shape, const std::vector<T>& values) {
    return Constant<T>(shape, values, type);
  }
  ValueId Zero(uint8_t value) { return Bytes<uint8_t>(DataType::kUint8, Shape{}, {value}); }

  // x rounded to uint8 and back.
  ValueId Rounded(ValueId x, float scale, uint8_t zero) {
    const ValueId quantized = Op("QuantizeLinear", {x, Float(scale), Zero(zero)});
    return Op("DequantizeLinear", {quantized, Float(scale), Zero(zero)});
  }
  ValueId Quantized(ValueId x, float scale, uint8_t zero) {
    return Op("QuantizeLinear", {x, Float(scale), Zero(zero)});
  }

  std::vector<int8_t> RandomBytes(int64_t count, uint32_t seed) {
    return RandomNumbers<int8_t>(count, seed, -127, 127);
  }
};

TEST_F(QuantizedTest, MatMulBetweenPairsIsOneOnBytes) {
  for (const bool per_column : {false, true}) {
    Reset(21);
    const ValueId x = In("x", {"b", "s", "32"});
    const ValueId weights = Bytes<int8_t>(DataType::kInt8, Shape{32, 5}, RandomBytes(160, 3));
    const ValueId dequantized =
        per_column ? Op("DequantizeLinear", {weights, Floats(Shape{5}, {0.01f, 0.02f, 0.03f, 0.04f, 0.05f})},
                        {Attr("axis", int64_t{1})})
                   : Op("DequantizeLinear", {weights, Float(0.02f)});
    Out(Quantized(Op("MatMul", {Rounded(x, 1 / 64.0f, 128), dequantized}), 0.05f, 120));
    ExpectRewritesKeepResults({FloatTensor(Shape{2, 3, 32})});
    Apply();
    EXPECT_EQ(Count("QLinearMatMul"), 1);
    EXPECT_EQ(Count("MatMul"), 0);
    EXPECT_EQ(Count("DequantizeLinear"), 0);
  }
}

TEST_F(QuantizedTest, ConvWithBiasAndReluIsOneOnBytes) {
  const ValueId x = In("x", {"b", "4", "h", "w"});
  const std::vector<float> scales = {0.01f, 0.02f, 0.015f, 0.03f, 0.005f, 0.01f};
  std::vector<float> bias_scales;
  for (const float scale : scales) bias_scales.push_back(scale / 64);
  const ValueId weights =
      Op("DequantizeLinear",
         {Bytes<int8_t>(DataType::kInt8, Shape{6, 2, 3, 3}, RandomBytes(108, 5)), Floats(Shape{6}, scales)},
         {Attr("axis", int64_t{0})});
  const ValueId bias = Op(
      "DequantizeLinear",
      {Bytes<int32_t>(DataType::kInt32, Shape{6}, {1, -2, 300, 4, 50, -600}), Floats(Shape{6}, bias_scales)},
      {Attr("axis", int64_t{0})});
  const ValueId conv = Op("Conv", {Rounded(x, 1 / 64.0f, 128), weights, bias},
                          {Attr("group", int64_t{2}), Attr("pads", std::vector<int64_t>{1, 1, 1, 1}),
                           Attr("strides", std::vector<int64_t>{2, 1})});
  Out(Quantized(Op("Relu", {conv}), 0.02f, 0));
  ExpectRewritesKeepResults({FloatTensor(Shape{2, 4, 9, 300})});
  Apply();
  EXPECT_EQ(Count("QLinearConv"), 1);
  EXPECT_EQ(Count("Relu"), 0);
  EXPECT_EQ(graph().num_alive_nodes(), 2);
}

TEST_F(QuantizedTest, AReluThatIsNoLimitOfTheBytesStays) {
  const ValueId x = In("x", {"b", "2", "h"});
  const ValueId weights =
      Op("DequantizeLinear", {Bytes<int8_t>(DataType::kInt8, Shape{2, 2, 1}, {1, 2, 3, 4}), Float(0.1f)});
  Out(Quantized(Op("Relu", {Op("Conv", {Rounded(x, 0.01f, 128), weights})}), 0.02f, 7));
  Apply();
  EXPECT_EQ(Count("QLinearConv"), 0);
  EXPECT_EQ(Count("Conv") + Count("FusedConv"), 1);
}

TEST_F(QuantizedTest, ABiasOfAnotherScaleStays) {
  const ValueId x = In("x", {"b", "2", "h"});
  const ValueId weights =
      Op("DequantizeLinear", {Bytes<int8_t>(DataType::kInt8, Shape{2, 2, 1}, {1, 2, 3, 4}), Float(0.1f)});
  const ValueId bias =
      Op("DequantizeLinear", {Bytes<int32_t>(DataType::kInt32, Shape{2}, {1, 2}), Float(0.1f)});
  Out(Quantized(Op("Conv", {Rounded(x, 0.01f, 128), weights, bias}), 0.02f, 7));
  Apply();
  EXPECT_EQ(Count("QLinearConv"), 0);
}

TEST_F(QuantizedTest, SumsAndProductsOfPairs) {
  for (const auto& [op_type, quantized] : {std::pair("Add", "QLinearAdd"), std::pair("Mul", "QLinearMul")}) {
    Reset(21);
    const ValueId a = Rounded(In("a", {"b", "8"}), 1 / 100.0f, 128);
    const ValueId b = Rounded(In("c", {"1", "8"}), 1 / 50.0f, 100);
    Out(Quantized(Op(op_type, {a, b}), 0.03f, 110));
    ExpectRewritesKeepResults({FloatTensor(Shape{3, 8}), FloatTensor(Shape{1, 8}, 2)});
    Apply();
    EXPECT_EQ(Count(quantized), 1) << op_type;
  }
}

// A real value that somebody else reads has to be computed.
TEST_F(QuantizedTest, ValuesThatAreReadElsewhereStayReal) {
  const ValueId a = Rounded(In("a", {"b", "8"}), 0.01f, 128);
  const ValueId sum = Op("Add", {a, a});
  Out(Quantized(sum, 0.03f, 110));
  Out(Op("Relu", {sum}));
  Apply();
  EXPECT_EQ(Count("QLinearAdd"), 0);
}

class DequantizedMatMulTest : public QuantizedTest {
 protected:
  static constexpr int64_t kK = 64, kN = 6, kBlock = 32;

  // Packed 4-bit or plain 8-bit random integers.
  ValueId Integers(DataType type, const Shape& shape, uint32_t seed) {
    Tensor tensor = *Tensor::Allocate(type, shape);
    const std::vector<uint8_t> bytes =
        RandomNumbers<uint8_t>(static_cast<int64_t>(tensor.size_bytes()), seed, 0, 256);
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(tensor.mutable_raw_data()));
    const ValueId id = graph().MakeValue({});
    Initializer initializer;
    initializer.type = type;
    initializer.shape = shape;
    initializer.source = std::move(tensor);
    graph().AddInitializer(id, std::move(initializer));
    return id;
  }

  void Build(DataType type, bool has_zeros, bool transposed) {
    Reset(21);
    const Shape weights = transposed ? Shape{kN, kK} : Shape{kK, kN};
    const Shape blocks = transposed ? Shape{kN, kK / kBlock} : Shape{kK / kBlock, kN};
    std::vector<ValueId> inputs = {Integers(type, weights, 1),
                                   Floats(blocks, RandomNumbers(blocks.num_elements(), 2, 0.01, 0.1))};
    if (has_zeros) inputs.push_back(Integers(type, blocks, 3));
    ValueId real = Op("DequantizeLinear", std::move(inputs),
                      {Attr("axis", int64_t{transposed ? 1 : 0}), Attr("block_size", kBlock)});
    if (transposed) real = Op("Transpose", {real}, {Attr("perm", std::vector<int64_t>{1, 0})});
    Out(Op("MatMul", {In("x", {"b", "s", "64"}), real}));
  }
};

TEST_F(DequantizedMatMulTest, BlocksBecomeMatMulNBits) {
  for (const DataType type : {DataType::kInt4, DataType::kUint4, DataType::kInt8, DataType::kUint8}) {
    for (const bool has_zeros : {true, false}) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(fmt::format("{} zeros {} transposed {}", DataTypeName(type), has_zeros, transposed));
        Build(type, has_zeros, transposed);
        ExpectRewritesKeepResults({FloatTensor(Shape{2, 3, kK})});
        Apply();
        const bool is_signed = type == DataType::kInt4 || type == DataType::kInt8;
        EXPECT_EQ(Count("MatMulNBits"), has_zeros || is_signed ? 1 : 0);
      }
    }
  }
}

}  // namespace
}  // namespace lamina::testing
