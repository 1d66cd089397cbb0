#include "base/byte_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace lamina {
namespace {

TEST(ByteSizeTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("7B"), 7u);
  EXPECT_EQ(*ParseByteSize("6GiB"), 6 * kGiB);
  EXPECT_EQ(*ParseByteSize("512MiB"), 512 * kMiB);
  EXPECT_EQ(*ParseByteSize("512 mib"), 512 * kMiB);
  EXPECT_EQ(*ParseByteSize("8GB"), 8'000'000'000u);
  EXPECT_EQ(*ParseByteSize("3kb"), 3000u);
  EXPECT_EQ(*ParseByteSize("2TiB"), 2048 * kGiB);
  EXPECT_EQ(*ParseByteSize("1.5GiB"), 1536 * kMiB);
  EXPECT_EQ(*ParseByteSize("0.0000000001KiB"), 0u);
  EXPECT_EQ(*ParseByteSize("1.99999999999999999999999999B"), 1u);
  EXPECT_EQ(*ParseByteSize("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*ParseByteSize("16777215.999TiB"), 18446744072610039988u);
}

TEST(ByteSizeTest, RefusesEverythingElse) {
  for (const char* text : {"",    " ",     "GiB",    "-1",    "-6GiB", "+6GiB", "6G",  "6 G",    "6M",
                           "6k",  "6GiBs", "6 GiB ", " 6GiB", "6  x",  "1.5",   "1.",  ".5GiB",  "1.GiB",
                           "1e9", "0x10",  "6,5GiB", "nan",   "75%",   "6GiB6", "1 2", "6\tGiB", "6 "}) {
    const auto size = ParseByteSize(text);
    ASSERT_FALSE(size.ok()) << "'" << text << "' became " << *size;
    EXPECT_EQ(size.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(size.status().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(ByteSizeTest, RefusesOverflow) {
  for (const char* text : {"18446744073709551616", "99999999999999999999999999999999999999999999999999",
                           "16777216TiB", "18446744073.8GB"}) {
    const auto size = ParseByteSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.status().message().find("2^64"), std::string::npos);
  }
}

TEST(ByteSizeTest, FormatIsReadBackExactly) {
  EXPECT_EQ(FormatByteSize(0), "0");
  EXPECT_EQ(FormatByteSize(6 * kGiB), "6GiB");
  EXPECT_EQ(FormatByteSize(1536 * kMiB), "1536MiB");
  EXPECT_EQ(FormatByteSize(1000), "1000");
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    uint64_t bytes = random() >> (random() % 64);
    if (i % 2 == 0) bytes <<= random() % 45;
    ASSERT_EQ(*ParseByteSize(FormatByteSize(bytes)), bytes);
  }
}

TEST(ByteSizeTest, ApproximateHasThreeDigits) {
  EXPECT_EQ(ApproximateByteSize(512), "512 B");
  EXPECT_EQ(ApproximateByteSize(1023), "1023 B");
  EXPECT_EQ(ApproximateByteSize(1024), "1.00 KiB");
  EXPECT_EQ(ApproximateByteSize(10 * kMiB), "10.0 MiB");
  EXPECT_EQ(ApproximateByteSize(1023 * kMiB), "1.00 GiB");
  EXPECT_EQ(ApproximateByteSize(6'291'456'000), "5.86 GiB");
  EXPECT_EQ(ApproximateByteSize(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace lamina
