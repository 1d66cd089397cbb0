#include "lamina/status.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lamina {
namespace {

TEST(StatusTest, OkHoldsNothing) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(status.memory_shortage(), nullptr);
  EXPECT_TRUE(status.WithContext("x").ok());
}

TEST(StatusTest, ErrorsCarryCodeTextAndContext) {
  const Status status = InvalidModelError("node '{}': expected {} inputs, found {}", "n", 2, 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidModel);
  EXPECT_EQ(status.WithContext("m.onnx").ToString(),
            "INVALID_MODEL: m.onnx: node 'n': expected 2 inputs, found 1");
}

TEST(StatusTest, OutOfMemoryKeepsItsFiguresThroughContext) {
  const Status status =
      Status::OutOfMemory("weights", {"gpu:0", 100, 60, {{"lm_head", 80}}}).WithContext("load");
  ASSERT_NE(status.memory_shortage(), nullptr);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.memory_shortage()->needed_bytes, 100u);
  EXPECT_EQ(status.memory_shortage()->largest_contributors[0].name, "lm_head");
}

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("{} is odd", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  LAMINA_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

TEST(ResultTest, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
}

}  // namespace
}  // namespace lamina
