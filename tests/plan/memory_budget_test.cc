#include "plan/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/byte_size.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

uint64_t Resolved(std::string_view text, uint64_t total, uint64_t free) {
  const Result<MemoryAmount> amount = MemoryAmount::Parse(text);
  EXPECT_TRUE(amount.ok()) << amount.status().ToString();
  const Result<uint64_t> bytes = amount->Resolve(total, free);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? *bytes : 0;
}

TEST(MemoryAmountTest, SizesPercentAndFree) {
  EXPECT_EQ(Resolved("6GiB", 8 * kGiB, 7 * kGiB), 6 * kGiB);
  EXPECT_EQ(Resolved("1000", 0, 0), 1000U);
  EXPECT_EQ(Resolved("75%", 8 * kGiB, 7 * kGiB), 6 * kGiB);
  EXPECT_EQ(Resolved("12.5 %", 8 * kGiB, 7 * kGiB), kGiB);
  EXPECT_EQ(Resolved("100%", 3, 1), 3U);
  EXPECT_EQ(Resolved(" free - 512MiB ", 8 * kGiB, 7 * kGiB), 7 * kGiB - 512 * kMiB);
  EXPECT_EQ(Resolved("free", 8 * kGiB, 7 * kGiB), 7 * kGiB);
}

TEST(MemoryAmountTest, RefusesWhatItCannotRead) {
  for (const char* text : {"", "%", "0%", "-5%", "101%", "nan%", "x%", "free+1GiB", "free512MiB", "freedom",
                           "6G", "-1GiB", "free-75%"}) {
    const Result<MemoryAmount> amount = MemoryAmount::Parse(text);
    EXPECT_EQ(amount.status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(MemoryAmount::Parse("free-8GiB")->Resolve(9 * kGiB, 8 * kGiB).status().message(),
              HasSubstr("leaves nothing"));
  EXPECT_THAT(MemoryAmount::Parse("75%")->Resolve(0, 0).status().message(), HasSubstr("not known"));
}

TEST(DeviceBudgetsTest, ListsByDevice) {
  const Result<std::vector<DeviceBudget>> budgets = ParseDeviceBudgets(" gpu:0=6GiB; ; gpu:1 = 75% ;");
  ASSERT_TRUE(budgets.ok()) << budgets.status().ToString();
  ASSERT_EQ(budgets->size(), 2U);
  EXPECT_EQ((*budgets)[0].designator, "gpu:0");
  EXPECT_EQ((*budgets)[1].designator, "gpu:1");
  EXPECT_EQ((*budgets)[1].amount.text(), "75%");
  EXPECT_EQ(ParseDeviceBudgets("6GiB")->front().designator, "");
  EXPECT_TRUE(ParseDeviceBudgets("")->empty());
}

TEST(DeviceBudgetsTest, NamesTheEntry) {
  EXPECT_THAT(ParseDeviceBudgets("gpu:0=6GiB,gpu:1=4GiB").status().message(),
              HasSubstr("memory budget 'gpu:0=6GiB,gpu:1=4GiB'"));
  EXPECT_THAT(ParseDeviceBudgets("=6GiB").status().message(), HasSubstr("no device before '='"));
  EXPECT_THAT(ParseDeviceBudgets("gpu:0=1GiB;gpu:0=2GiB").status().message(),
              HasSubstr("two memory budgets for gpu:0"));
}

}  // namespace
}  // namespace lamina
