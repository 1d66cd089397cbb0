#include "plan/layout_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lamina {
namespace {

using ::testing::HasSubstr;

PlacedBuffer Make(const char* name, int64_t size, int64_t lower, int64_t upper, int64_t offset) {
  PlacedBuffer buffer;
  buffer.name = name;
  buffer.size_bytes = size;
  buffer.lower = lower;
  buffer.upper = upper;
  buffer.offset = offset;
  return buffer;
}

std::string ErrorOf(const std::vector<PlacedBuffer>& buffers) {
  const Result<LayoutReport> report = ValidateLayout(buffers);
  return report.ok() ? "accepted" : report.status().ToString();
}

TEST(LayoutValidatorTest, CountsPeakAndBound) {
  const Result<LayoutReport> report = ValidateLayout(std::vector{
      Make("a", 100, 0, 4, 0), Make("b", 50, 2, 6, 100), Make("c", 70, 4, 6, 0), Make("d", 10, 9, 10, 500)});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->peak_bytes, 510);
  EXPECT_EQ(report->lower_bound_bytes, 150);
  EXPECT_EQ(ValidateLayout({})->peak_bytes, 0);
}

TEST(LayoutValidatorTest, OverlapsAreNamed) {
  EXPECT_THAT(ErrorOf({Make("a", 100, 0, 4, 0), Make("b", 50, 3, 6, 99)}),
              HasSubstr("buffers 'a' at [0, 100) and 'b' at [99, 149) overlap"));
  EXPECT_THAT(ErrorOf({Make("a", 100, 0, 4, 50), Make("b", 60, 3, 6, 0)}), HasSubstr("overlap"));
  EXPECT_THAT(ErrorOf({Make("a", 100, 0, 4, 0), Make("b", 10, 3, 6, 0)}), HasSubstr("overlap"));
  EXPECT_THAT(ErrorOf({Make("a", 10, 0, 4, 40), Make("b", 100, 1, 3, 0)}), HasSubstr("overlap"));
  EXPECT_EQ(ErrorOf({Make("a", 100, 0, 4, 0), Make("b", 50, 4, 6, 0)}), "accepted");
  EXPECT_EQ(ErrorOf({Make("a", 100, 0, 4, 0), Make("b", 0, 0, 6, 50)}), "accepted");
}

TEST(LayoutValidatorTest, FootprintsCountNotSizes) {
  std::vector<PlacedBuffer> buffers = {Make("a", 100, 0, 4, 0), Make("b", 8, 0, 4, 104)};
  EXPECT_EQ(ErrorOf(buffers), "accepted");
  buffers[0].alignment = 64;
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("'a' at [0, 128)"));
}

TEST(LayoutValidatorTest, GapsFreeTheBytes) {
  std::vector<PlacedBuffer> buffers = {Make("a", 100, 0, 10, 0), Make("b", 100, 4, 6, 0)};
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("overlap"));
  buffers[0].gaps = {{4, 6}};
  EXPECT_EQ(ValidateLayout(buffers)->lower_bound_bytes, 100);
  buffers[0].gaps = {{4, 5}};
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("overlap"));
  buffers[0].gaps = {{4, 11}};
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("gap [4, 11) does not lie in its lifetime"));
}

TEST(LayoutValidatorTest, GroupsShareTheirOffsetOnly) {
  std::vector<PlacedBuffer> buffers = {Make("a", 100, 0, 4, 0), Make("b", 60, 2, 8, 0),
                                       Make("c", 40, 4, 6, 60)};
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("overlap"));
  buffers[0].alias_group = buffers[1].alias_group = 1;
  const Result<LayoutReport> report = ValidateLayout(buffers);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->lower_bound_bytes, 100);
  buffers[2].lower = 3;  // while the large member still lives
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("overlap"));
  buffers[2].lower = 4;
  buffers[1].offset = 100;
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("'a' and 'b' of alias group 1 lie at 0 and 100"));
}

TEST(LayoutValidatorTest, DescriptionsThatMakeNoSense) {
  EXPECT_THAT(ErrorOf({Make("a", -1, 0, 4, 0)}), HasSubstr("buffer 'a': size -1"));
  EXPECT_THAT(ErrorOf({Make("a", 1, 4, 4, 0)}), HasSubstr("lifetime [4, 4) is empty"));
  EXPECT_THAT(ErrorOf({Make("a", 1, 0, 4, -256)}), HasSubstr("offset -256"));
  EXPECT_THAT(ErrorOf({Make("a", INT64_MAX, 0, 4, 0)}), HasSubstr("out of range"));
  std::vector<PlacedBuffer> buffers = {Make("a", 1, 0, 4, 8)};
  buffers[0].alignment = 16;
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("offset 8 is not a multiple of 16"));
  buffers[0].alignment = 12;
  EXPECT_THAT(ErrorOf(buffers), HasSubstr("alignment 12"));
}

TEST(LayoutValidatorTest, CapacityIsATypedError) {
  const std::vector<PlacedBuffer> buffers = {Make("a", 100, 0, 4, 0), Make("b", 100, 5, 6, 28)};
  EXPECT_TRUE(ValidateLayout(buffers, 128).ok());
  const Result<LayoutReport> report = ValidateLayout(buffers, 127);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kResourceExhausted);
  ASSERT_NE(report.status().memory_shortage(), nullptr);
  EXPECT_EQ(report.status().memory_shortage()->needed_bytes, 128u);
  EXPECT_THAT(report.status().message(), HasSubstr("buffer 'b' ends at 128, capacity is 127"));
}

// Against the definition, pair by pair and step by step.
TEST(LayoutValidatorTest, AgreesWithTheDefinition) {
  std::mt19937_64 random(2);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<PlacedBuffer> buffers;
    const int count = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < count; ++i) {
      const auto lower = static_cast<int64_t>(random() % 6);
      buffers.push_back(Make("x", static_cast<int64_t>(random() % 6), lower,
                             lower + 1 + static_cast<int64_t>(random() % 4),
                             static_cast<int64_t>(random() % 16)));
    }
    bool valid = true;
    int64_t bound = 0;
    for (int64_t step = 0; step < 12; ++step) {
      int64_t live = 0;
      for (size_t i = 0; i < buffers.size(); ++i) {
        const PlacedBuffer& a = buffers[i];
        if (step < a.lower || step >= a.upper) continue;
        live += a.size_bytes;
        for (size_t j = 0; j < i; ++j) {
          const PlacedBuffer& b = buffers[j];
          if (step < b.lower || step >= b.upper || a.size_bytes == 0 || b.size_bytes == 0) continue;
          if (a.offset < b.offset + b.size_bytes && b.offset < a.offset + a.size_bytes) valid = false;
        }
      }
      bound = std::max(bound, live);
    }
    const Result<LayoutReport> report = ValidateLayout(buffers);
    ASSERT_EQ(report.ok(), valid);
    if (!valid) continue;
    ++accepted;
    EXPECT_EQ(report->lower_bound_bytes, bound);
  }
  EXPECT_GT(accepted, 300);
  EXPECT_LT(accepted, 2700);
}

}  // namespace
}  // namespace lamina
