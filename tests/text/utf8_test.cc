#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lamina::text {
namespace {

std::string Replaced(std::string_view text) {
  return ReplaceInvalidUtf8(text, InvalidUtf8Unit::kMaximalPart);
}

TEST(Utf8, EncodesAndDecodesEveryLength) {
  for (char32_t code :
       {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    const std::string text = EncodeUtf8(code) + "x";
    const Utf8Char c = DecodeUtf8(text);
    EXPECT_EQ(c.code, code);
    EXPECT_EQ(c.length_bytes, text.size() - 1);
    EXPECT_EQ(Utf8Length(text[0]), c.length_bytes);
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
  }
}

TEST(Utf8, ValidPrefixStopsAtTheFirstInvalidByte) {
  EXPECT_EQ(ValidUtf8Prefix("0123456789abcdef\xFFz"), 16u);
  EXPECT_EQ(ValidUtf8Prefix("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(ValidUtf8Prefix("\xE0\x9F\xBF"), 0u);      // overlong
  EXPECT_EQ(ValidUtf8Prefix("\xED\xA0\x80"), 0u);      // surrogate
  EXPECT_EQ(ValidUtf8Prefix("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(ValidUtf8Prefix("a\xE4\xBD"), 1u);         // cut off
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
}

TEST(Utf8, ReplacesEachMaximalInvalidPart) {
  EXPECT_EQ(Replaced("a\xE4\xBD"
                     "b"),
            "a\uFFFDb");
  EXPECT_EQ(Replaced("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(Replaced("\xFF\xFE"), "\uFFFD\uFFFD");
  EXPECT_EQ(Replaced("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Replaced("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Replaced("valid \u00e9"), "valid \u00e9");
}

TEST(Utf8, ReplacesEachInvalidByteOnRequest) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xE4\xBD"
                               "b",
                               InvalidUtf8Unit::kByte),
            "a\uFFFD\uFFFDb");
}

TEST(Utf8, TellsIncompleteFromInvalid) {
  EXPECT_TRUE(ClassifyInvalidUtf8("\xF0\x9F\x98").incomplete);
  EXPECT_EQ(ClassifyInvalidUtf8("\xF0\x9F\x98").length_bytes, 3u);
  EXPECT_FALSE(ClassifyInvalidUtf8("\xF0\x9F"
                                   "a")
                   .incomplete);
  EXPECT_FALSE(ClassifyInvalidUtf8("\x80").incomplete);
}

}  // namespace
}  // namespace lamina::text
