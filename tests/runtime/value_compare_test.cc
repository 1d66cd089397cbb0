#include "runtime/value_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/element_type.h"

namespace lamina {
namespace {

template <typename T>
Tensor Make(const Shape& shape, const std::vector<T>& values) {
  return *Tensor::FromValues<T>(DataTypeOf<T>, shape, values);
}

Status CompareFloats(const std::vector<float>& expected, const std::vector<float>& actual,
                     const CompareOptions& options = {}) {
  const Shape shape{static_cast<int64_t>(expected.size())};
  return CompareValues(Make(shape, expected), Make(shape, actual), options);
}

TEST(ValueCompare, Fp32IsComparedElementwise) {
  EXPECT_TRUE(CompareFloats({1000, 1e-6f}, {1000.9f, 0}).ok());
  EXPECT_FALSE(CompareFloats({1000}, {1001.1f}).ok());
  EXPECT_FALSE(CompareFloats({0}, {2e-5f}).ok());
  EXPECT_TRUE(CompareFloats({0}, {2e-5f}, {.decoder_output = true}).ok());
}

TEST(ValueCompare, LowPrecisionIsRelativeToTheLargest) {
  EXPECT_TRUE(CompareFloats({100, 0}, {100, 0.9f}, {.int8_activations = true}).ok());
  EXPECT_FALSE(CompareFloats({100, 0}, {100, 1.1f}, {.int8_activations = true}).ok());
  const Shape shape{2};
  const Tensor expected = Make<Float16>(shape, {Float16(10), Float16(0)});
  EXPECT_TRUE(CompareValues(expected, Make<Float16>(shape, {Float16(10), Float16(0.09f)})).ok());
  EXPECT_FALSE(CompareValues(expected, Make<Float16>(shape, {Float16(10), Float16(0.11f)})).ok());
}

TEST(ValueCompare, SpecialValuesAgreeOnlyWithThemselves) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(CompareFloats({inf, -inf, NAN}, {inf, -inf, NAN}).ok());
  EXPECT_FALSE(CompareFloats({inf}, {-inf}).ok());
  EXPECT_FALSE(CompareFloats({inf}, {3e38f}).ok());
  EXPECT_FALSE(CompareFloats({NAN}, {0}).ok());
  EXPECT_FALSE(CompareFloats({0}, {NAN}).ok());
}

TEST(ValueCompare, IntegersBoolAndStringsAreExact) {
  EXPECT_TRUE(CompareValues(Make<int32_t>({2}, {1, 2}), Make<int32_t>({2}, {1, 2})).ok());
  EXPECT_FALSE(
      CompareValues(Make<int64_t>({1}, {1'000'000'000'000}), Make<int64_t>({1}, {1'000'000'000'001})).ok());
  const std::vector<std::string> text = {"a", "b"};
  const std::vector<std::string> other = {"a", "c"};
  EXPECT_TRUE(CompareValues(*Tensor::FromStrings({2}, text), *Tensor::FromStrings({2}, text)).ok());
  EXPECT_FALSE(CompareValues(*Tensor::FromStrings({2}, text), *Tensor::FromStrings({2}, other)).ok());
}

TEST(ValueCompare, SubByteElementsAreComparedWithoutThePadding) {
  Tensor a = *Tensor::Allocate(DataType::kInt4, {3});
  Tensor b = *a.Clone();
  b.mutable_data<uint8_t>()[1] = 0xF0;  // the unused half of the last byte
  EXPECT_TRUE(CompareValues(a, b).ok());
  b.mutable_data<uint8_t>()[1] = 0x01;
  EXPECT_FALSE(CompareValues(a, b).ok());
}

TEST(ValueCompare, TextNamesTheWorstElement) {
  const Status status =
      CompareValues(Make<float>({2, 2}, {1, 2, 3, 4}), Make<float>({2, 2}, {1, 2.5f, 9, 4}));
  EXPECT_NE(status.message().find("2 of 4"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("[1,0]: expected 3, found 9"), std::string::npos) << status.message();
}

TEST(ValueCompare, TypesAndShapesMustAgree) {
  EXPECT_FALSE(CompareValues(Make<float>({2}, {1, 2}), Make<float>({2, 1}, {1, 2})).ok());
  EXPECT_FALSE(CompareValues(Make<float>({1}, {1}), Make<double>({1}, {1})).ok());
}

TEST(ValueCompare, SequencesAreComparedItemByItem) {
  Sequence one;
  one.element = DataType::kFloat;
  one.items = {Value(Make<float>({1}, {1})), Value(Make<float>({1}, {2}))};
  Sequence two = one;
  two.items[1] = Value(Make<float>({1}, {3}));
  EXPECT_TRUE(CompareValues(Value(one), Value(one)).ok());
  const Status status = CompareValues(Value(one), Value(two));
  EXPECT_NE(status.message().find("item 1"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace lamina
