#include "memory/interval_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(std::string_view text) {
  const Result<IntervalTable> table = ParseIntervalCsv(text, "f.csv");
  return table.ok() ? "no error" : table.status().message();
}

TEST(IntervalCsvTest, ReadsColumnsInAnyOrderAndKeepsOthers) {
  const Result<IntervalTable> table =
      ParseIntervalCsv("size,id,note,upper,lower,alignment\n8,a b,x,5,2,16\n0,7,,3,0,\n", "f");
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_THAT(table->ids, ElementsAre("a b", "7"));
  EXPECT_EQ(table->intervals[0].size_bytes, 8);
  EXPECT_EQ(table->intervals[0].lower, 2);
  EXPECT_EQ(table->intervals[0].upper, 5);
  EXPECT_EQ(table->intervals[0].alignment, 16);
  EXPECT_EQ(table->intervals[1].alignment, 1);
  EXPECT_EQ(FormatLayoutCsv(*table, std::vector<int64_t>{32, 0}),
            "size,id,note,upper,lower,alignment,offset\n8,a b,x,5,2,16,32\n0,7,,3,0,,0\n");
}

TEST(IntervalCsvTest, AnOffsetColumnFixesBuffersAndIsReplaced) {
  const Result<IntervalTable> table =
      ParseIntervalCsv("id,lower,offset,upper,size\n0,0,64,1,8\n1,0,,1,8\n", "f");
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(table->intervals[0].fixed_offset, 64);
  EXPECT_FALSE(table->intervals[1].fixed_offset.has_value());
  EXPECT_EQ(FormatLayoutCsv(*table, std::vector<int64_t>{64, 0}),
            "id,lower,offset,upper,size\n0,0,64,1,8\n1,0,0,1,8\n");
}

TEST(IntervalCsvTest, KeepsCarriageReturnsAndAnEndWithoutNewline) {
  const Result<IntervalTable> table = ParseIntervalCsv("\xEF\xBB\xBFid,lower,upper,size\r\nx,0,1,8", "f");
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(FormatLayoutCsv(*table, std::vector<int64_t>{0}), "id,lower,upper,size,offset\r\nx,0,1,8,0\r\n");
}

TEST(IntervalCsvTest, ErrorsNameFileAndLine) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_THAT(ErrorOf(""), StartsWith("f.csv:1: expected the header"));
  EXPECT_THAT(ErrorOf("id,lower,upper\n"), StartsWith("f.csv:1: expected a column 'size'"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size,lower\n"), StartsWith("f.csv:1: column 'lower' is there twice"));
  EXPECT_THAT(ErrorOf(header + "0,1,2,3\n1,1,2\n"), StartsWith("f.csv:3: expected 4 fields, found 3"));
  EXPECT_THAT(ErrorOf(header + "0,1,2,3\n\n"), StartsWith("f.csv:3: expected 4 fields, found 1"));
  EXPECT_THAT(ErrorOf(header + "0,2,2,3\n"), StartsWith("f.csv:2: lower 2 is not below upper 2"));
  EXPECT_THAT(ErrorOf(header + "0,1,2,-3\n"), StartsWith("f.csv:2: size -3 is negative"));
  EXPECT_THAT(ErrorOf(header + "0,-1,2,3\n"), StartsWith("f.csv:2: lower -1 is negative"));
  EXPECT_THAT(ErrorOf(header + "0,1,2,9223372036854775808\n"), HasSubstr("does not fit into 63 bits"));
  EXPECT_THAT(ErrorOf(header + "0,1,2,1e3\n"), HasSubstr("size: expected a decimal number, found '1e3'"));
  EXPECT_THAT(ErrorOf(header + "0,1,,3\n"), HasSubstr("upper: expected a decimal number, found ''"));
  EXPECT_THAT(ErrorOf(header + ",1,2,3\n"), StartsWith("f.csv:2: the id is empty"));
  EXPECT_THAT(ErrorOf(header + "a,1,2,3\nb,1,2,3\na,1,2,3\n"),
              StartsWith("f.csv:4: id 'a' was there before, in line 2"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size,alignment\n0,1,2,3,6\n"),
              HasSubstr("alignment 6 is not a power of two"));
}

}  // namespace
}  // namespace lamina
