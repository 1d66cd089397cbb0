#include "text/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/regex_translate.h"

namespace lamina::text {
namespace {

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  const Result<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().ToString();
  std::vector<std::string> found;
  if (!regex.ok()) return found;
  Regex::Matcher matcher(*regex);
  matcher.Start(text);
  size_t begin = 0;
  size_t end = 0;
  while (*matcher.Next(begin, end)) found.push_back(text.substr(begin, end - begin));
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, FindsMatchesOneAfterAnother) {
  EXPECT_EQ(Matches("[a-c]+", "abc xx cab"), (Strings{"abc", "cab"}));
  EXPECT_EQ(Matches(R"(\s+(?!\S)|\s+)", "a   b "), (Strings{"  ", " ", " "}));
}

TEST(Regex, SkipsEmptyMatchesAfterAMatch) { EXPECT_EQ(Matches("x*", "axxb"), (Strings{"", "xx", ""})); }

TEST(Regex, ReadsOnigurumaSyntax) {
  EXPECT_EQ(Matches("[0-9]{1,3}+", "12345"), (Strings{"12345"}));  // a repeated repetition, not possessive
  EXPECT_EQ(Matches("a{,2}b", "aaab"), (Strings{"aab"}));          // {,n}
  EXPECT_EQ(Matches("^a$", "a\na"), (Strings{"a", "a"}));          // lines
  EXPECT_EQ(Matches(R"(\h+)", "x1Fg"), (Strings{"1F"}));           // hexadecimal
  EXPECT_EQ(Matches("(?m:a.)", "a\n"), (Strings{"a\n"}));          // dot and line ends
  EXPECT_EQ(Matches("[a-z&&[^aeiou]]+", "hello"), (Strings{"h", "ll"}));  // intersection
  EXPECT_EQ(Matches("[a[0-9]b]+", "x1ab"), (Strings{"1ab"}));             // nested
  EXPECT_EQ(Matches("[^a-z&&[^x]]+", "axB1"), (Strings{"xB1"}));          // negated intersection
  EXPECT_EQ(Matches("a{x", "a{x"), (Strings{"a{x"}));                     // a brace that is no interval
  EXPECT_EQ(Matches(R"([\S\n]+)", "a\n b"), (Strings{"a\n", "b"}));       // negated set inside a class
  EXPECT_EQ(Matches("(?i:'S)", "it's"), (Strings{"'s"}));
}

TEST(Regex, KnowsYoungUnicode) {
  EXPECT_EQ(Matches(R"(\p{L})", "\U0002EBF0"), (Strings{"\U0002EBF0"}));  // Unicode 15.1
  EXPECT_EQ(Matches(R"([^\s\p{L}\p{N}])", "\U0002EBF0"), Strings{});
  EXPECT_EQ(Matches(R"(\s)", "\u180E"), Strings{});  // no white space since Unicode 6.3
  EXPECT_EQ(Matches(R"(\s)", "\u0085"), (Strings{"\u0085"}));
}

TEST(Regex, NamesPatternsThatDoNotCompile) {
  for (const char* pattern :
       {"(", "[", "[a", "a\\", "\\p{", "\\p{Klingon}", "[z-a]", "(?~x)", "\\x{110000}"}) {
    const Result<Regex> regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.status().message().find(pattern), std::string::npos) << regex.status().ToString();
  }
  EXPECT_FALSE(Regex::Compile("\xFF").ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '[')).ok());
}

TEST(Regex, StopsRunawayPatterns) {
  const Result<Regex> regex = Regex::Compile("(a+)+$b");
  ASSERT_TRUE(regex.ok());
  Regex::Matcher matcher(*regex);
  const std::string text(40, 'a');
  matcher.Start(text);
  size_t begin = 0;
  size_t end = 0;
  const Result<bool> found = matcher.Next(begin, end);
  if (found.ok()) {
    EXPECT_FALSE(*found);
  } else {
    EXPECT_EQ(found.status().code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace lamina::text
