#include "generate/stop_matcher.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

// The text that comes out when `text` is pushed one byte at a time.
std::string ByBytes(StopMatcher& matcher, const std::string& text) {
  std::string out;
  for (const char byte : text) out += matcher.Push(std::string(1, byte));
  return out + matcher.Finish();
}

TEST(StopMatcherTest, TextWithoutStopStringPassesWhole) {
  StopMatcher none({});
  EXPECT_EQ(none.Push("abc"), "abc");
  EXPECT_EQ(none.Finish(), "");
  StopMatcher matcher({"stop", ""});
  EXPECT_EQ(ByBytes(matcher, "st st sto stoo"), "st st sto stoo");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, HoldsBackWhatMayBecomeAStopString) {
  StopMatcher matcher({"\nUser:"});
  EXPECT_EQ(matcher.Push("Hi\nUs"), "Hi");
  EXPECT_EQ(matcher.Push("a"), "\nUsa");
  EXPECT_EQ(matcher.Push("\nUser: more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Push("ignored"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, TheEarliestMatchCountsHoweverTextIsCut) {
  for (const char* text : {"one END two STOP", "xSTOP END", "aaab"}) {
    StopMatcher whole({"STOP", "END", "aab"});
    const std::string expected = whole.Push(text) + whole.Finish();
    StopMatcher bytes({"STOP", "END", "aab"});
    EXPECT_EQ(ByBytes(bytes, text), expected) << text;
    EXPECT_TRUE(bytes.matched());
  }
  StopMatcher matcher({"STOP", "END"});
  EXPECT_EQ(matcher.Push("one END two STOP"), "one ");
}

}  // namespace
}  // namespace lamina
