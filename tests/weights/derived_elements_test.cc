#include "weights/derived_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half.h"

namespace lamina {
namespace {

DerivedTensorPtr Source(const Shape& shape, const std::vector<float>& values) {
  Initializer initializer;
  initializer.type = DataType::kFloat;
  initializer.shape = shape;
  initializer.source = *Tensor::FromValues<float>(DataType::kFloat, shape, std::span<const float>(values));
  return DerivedTensors().ExpressionOf(initializer);
}

Result<Tensor> Read(const Initializer& source) { return *source.InMemory(); }

std::vector<float> FloatsOf(const Result<DerivedTensorPtr>& derived) {
  EXPECT_TRUE(derived.ok()) << derived.status().message();
  const Result<Tensor> tensor = ComputeDerived(**derived, Read);
  EXPECT_TRUE(tensor.ok()) << tensor.status().message();
  const auto elements = tensor->elements<float>();
  return {elements.begin(), elements.end()};
}

std::vector<float> Ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

TEST(DerivedElements, ConcatAlongEachAxis) {
  const DerivedTensorPtr a = Source(Shape{2, 2}, {1, 2, 3, 4});
  const DerivedTensorPtr b = Source(Shape{2, 1}, {5, 6});
  EXPECT_EQ(FloatsOf(DeriveConcat({a, b}, 1)), (std::vector<float>{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(FloatsOf(DeriveConcat({a, a}, 0)), (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_FALSE(DeriveConcat({a, b}, 0).ok());
  EXPECT_FALSE(DeriveConcat({a}, 2).ok());
  EXPECT_FALSE(DeriveConcat({}, 0).ok());
}

TEST(DerivedElements, SliceAlongEachAxis) {
  const DerivedTensorPtr source = Source(Shape{2, 3, 2}, Ramp(12));
  EXPECT_EQ(FloatsOf(DeriveSlice(source, 0, 1, 1)), (std::vector<float>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(FloatsOf(DeriveSlice(source, 1, 1, 2)), (std::vector<float>{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(FloatsOf(DeriveSlice(source, 2, 1, 1)), (std::vector<float>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(*DeriveSlice(source, 1, 0, 3), source);
  EXPECT_TRUE(FloatsOf(DeriveSlice(source, 1, 3, 0)).empty());
  EXPECT_FALSE(DeriveSlice(source, 1, 2, 2).ok());
  EXPECT_FALSE(DeriveSlice(source, 1, -1, 1).ok());
  EXPECT_FALSE(DeriveSlice(source, 3, 0, 1).ok());
}

// A matrix of 4-bit or 8-bit integers, whose bytes are given.
DerivedTensorPtr Integers(DataType type, const Shape& shape, const std::vector<uint8_t>& bytes) {
  Initializer initializer;
  initializer.type = type;
  initializer.shape = shape;
  Tensor tensor = *Tensor::Allocate(type, shape);
  std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(tensor.mutable_raw_data()));
  initializer.source = std::move(tensor);
  return DerivedTensors().ExpressionOf(initializer);
}

std::vector<uint8_t> BytesOf(const Result<DerivedTensorPtr>& derived) {
  EXPECT_TRUE(derived.ok()) << derived.status().message();
  const Tensor tensor = *ComputeDerived(**derived, Read);
  const auto elements = tensor.elements<uint8_t>();
  return {elements.begin(), elements.end()};
}

TEST(DerivedElements, PackedIntegersAreRowsOfTheirColumns) {
  // [k = 3, n = 2] of uint4: 1 2 / 3 4 / 5 6
  const DerivedTensorPtr nibbles = Integers(DataType::kUint4, Shape{3, 2}, {0x21, 0x43, 0x65});
  EXPECT_EQ(BytesOf(DerivePackedIntegers(nibbles, 0)), (std::vector<uint8_t>{0x31, 0x05, 0x42, 0x06}));
  // [n = 3, k = 2]
  EXPECT_EQ(BytesOf(DerivePackedIntegers(nibbles, 1)), (std::vector<uint8_t>{0x21, 0x43, 0x65}));
  // -8 and 7 are the ends of the range; so are -128 and 127.
  EXPECT_EQ(BytesOf(DerivePackedIntegers(Integers(DataType::kInt4, Shape{2, 1}, {0x78}), 0)),
            (std::vector<uint8_t>{0xF0}));
  EXPECT_EQ(BytesOf(DerivePackedIntegers(Integers(DataType::kInt8, Shape{1, 2}, {0x80, 0x7F}), 0)),
            (std::vector<uint8_t>{0x00, 0xFF}));
  EXPECT_FALSE(DerivePackedIntegers(Source(Shape{1, 2}, {1, 2}), 0).ok());
  EXPECT_FALSE(DerivePackedIntegers(nibbles, 2).ok());
}

TEST(DerivedElements, Transpose) {
  EXPECT_EQ(FloatsOf(DeriveTranspose(Source(Shape{2, 3}, Ramp(6)), {1, 0})),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(FloatsOf(DeriveTranspose(Source(Shape{2, 1, 3}, Ramp(6)), {2, 0, 1})),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(DeriveTranspose(Source(Shape{2, 3}, Ramp(6)), {0, 0}).ok());
}

TEST(DerivedElements, ALargeTransposeIsThatOfItsElements) {
  const int64_t rows = 700, columns = 900;  // several pieces
  const std::vector<float> result =
      FloatsOf(DeriveTranspose(Source(Shape{rows, columns}, Ramp(rows * columns)), {1, 0}));
  for (int64_t i = 0; i < rows * columns; i += 977) {
    EXPECT_EQ(result[static_cast<size_t>(i)], static_cast<float>(i % rows * columns + i / rows));
  }
}

TEST(DerivedElements, CastAndMultiply) {
  const DerivedTensorPtr a = Source(Shape{2, 2}, {1, 2, 3, 4});
  const Result<DerivedTensorPtr> half = DeriveCast(a, DataType::kFloat16);
  ASSERT_TRUE(half.ok());
  const Result<Tensor> halves = ComputeDerived(**half, Read);
  EXPECT_EQ(static_cast<float>(halves->data<Float16>()[3]), 4);
  EXPECT_EQ(FloatsOf(DeriveMultiply(a, Source(Shape{}, {2}), 0)), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(FloatsOf(DeriveMultiply(a, Source(Shape{2}, {1, 10}), 0)), (std::vector<float>{1, 2, 30, 40}));
  EXPECT_EQ(FloatsOf(DeriveMultiply(a, Source(Shape{2}, {1, 10}), 1)), (std::vector<float>{1, 20, 3, 40}));
  EXPECT_FALSE(DeriveMultiply(a, Source(Shape{3}, {1, 2, 3}), 1).ok());
}

// Weights of blocks as MatMulNBits reads them.
std::vector<float> Restored(const QuantizedMatrix& matrix, int bits, int64_t block, int64_t k, int64_t n) {
  const Result<Tensor> packed = ComputeDerived(*matrix.packed, Read);
  const Result<Tensor> scales = ComputeDerived(*matrix.scales, Read);
  EXPECT_TRUE(packed.ok() && scales.ok());
  const int64_t blocks = (k + block - 1) / block;
  std::vector<float> weights(static_cast<size_t>(k * n));
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t row = 0; row < k; ++row) {
      const int64_t index = column * blocks + row / block;
      const uint8_t* bytes = packed->data<uint8_t>() + index * block * bits / 8;
      const int64_t i = row % block;
      const int code = bits == 8 ? bytes[i] : bytes[i / 2] >> (i % 2 * 4) & 15;
      weights[static_cast<size_t>(row * n + column)] =
          static_cast<float>(code - (1 << (bits - 1))) * scales->data<float>()[index];
    }
  }
  return weights;
}

TEST(DerivedElements, QuantizedWeightsLieWithinHalfAStep) {
  const int64_t k = 80, n = 37;  // the last block is not full
  std::vector<float> values;
  for (int64_t i = 0; i < k * n; ++i) values.push_back(std::sin(static_cast<float>(i) * 0.37f) * 3);
  const DerivedTensorPtr source = Source(Shape{k, n}, values);
  for (const int bits : {4, 8}) {
    const Result<QuantizedMatrix> matrix = DeriveQuantized(source, bits, 32);
    ASSERT_TRUE(matrix.ok());
    const std::vector<float> restored = Restored(*matrix, bits, 32, k, n);
    const float step = 3.0f / static_cast<float>(1 << (bits - 1));
    for (size_t i = 0; i < restored.size(); ++i) {
      // The extreme of the other sign has one number less: it may lie a whole step off.
      EXPECT_NEAR(restored[i], values[i], step * 1.001f) << bits << " " << i;
    }
    const Result<QuantizationError> error = MeasureQuantization(*matrix->packed, Read);
    ASSERT_TRUE(error.ok());
    EXPECT_LT(error->relative, bits == 4 ? 0.1 : 0.006);
    EXPECT_GT(error->relative, 0);
    EXPECT_LE(error->largest, static_cast<double>(step) * 1.001);
  }
}

TEST(DerivedElements, QuantizationSeesThroughTransposesAndConcatenations) {
  std::vector<float> values;
  for (int i = 0; i < 32 * 4; ++i) values.push_back(std::cos(static_cast<float>(i)));
  const DerivedTensorPtr rows = Source(Shape{4, 32}, values);
  const DerivedTensorPtr transposed = *DeriveTranspose(rows, {1, 0});
  const DerivedTensorPtr plain = Source(Shape{32, 4}, FloatsOf(transposed));
  const auto bytes = [](const DerivedTensorPtr& derived) {
    const Result<Tensor> tensor = ComputeDerived(*derived, Read);
    const auto elements = tensor->elements<uint8_t>();
    return std::vector<uint8_t>(elements.begin(), elements.end());
  };
  EXPECT_EQ(bytes(DeriveQuantized(transposed, 4, 16)->packed), bytes(DeriveQuantized(plain, 4, 16)->packed));
  const DerivedTensorPtr both = *DeriveConcat({transposed, plain}, 1);
  const std::vector<uint8_t> once = bytes(DeriveQuantized(plain, 4, 16)->packed);
  std::vector<uint8_t> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(bytes(DeriveQuantized(both, 4, 16)->packed), twice);
}

TEST(DerivedElements, ABlockOfZerosStaysZero) {
  const Result<QuantizedMatrix> matrix =
      DeriveQuantized(Source(Shape{16, 1}, std::vector<float>(16, 0)), 4, 16);
  for (const float weight : Restored(*matrix, 4, 16, 16, 1)) EXPECT_EQ(weight, 0);
  EXPECT_FALSE(DeriveQuantized(Source(Shape{16, 1}, Ramp(16)), 5, 16).ok());
  EXPECT_FALSE(DeriveQuantized(Source(Shape{16, 1}, Ramp(16)), 4, 24).ok());
  EXPECT_FALSE(DeriveQuantized(Source(Shape{16}, Ramp(16)), 4, 16).ok());
}

}  // namespace
}  // namespace lamina
