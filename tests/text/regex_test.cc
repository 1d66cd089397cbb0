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
  EXPECT_EQ(Matches("a(?i)B|c", "ab ac c"),
            (Strings{"ab", "ac"}));  // options take the alternatives that follow along
  EXPECT_EQ(Matches("(?:a(?i)B)C", "abC abc"), (Strings{"abC"}));  // and end with their group
  EXPECT_EQ(Matches(R"((?i)\p{Lu}b)", "AB aB"),
            (Strings{"AB"}));  // properties outside of brackets keep their case
  EXPECT_EQ(Matches("(?i)\u00DF", "SS \u1E9E \u017Fs"), (Strings{"SS", "\u1E9E", "\u017Fs"}));
  EXPECT_EQ(Matches("xa{1}?b", "xb xab"), (Strings{"xb", "xab"}));  // one or none
  EXPECT_EQ(Matches("a{2}{2}", "aaaaa"), (Strings{"aaaa"}));
  EXPECT_EQ(Matches(R"(\N\O)", "a\nb"), (Strings{"a\n"}));
  EXPECT_EQ(Matches(R"(\pL)", "apL"), (Strings{"pL"}));           // no property without braces
  EXPECT_EQ(Matches(R"(\w+)", "a\u00B2"), (Strings{"a\u00B2"}));  // superscripts,
  EXPECT_EQ(Matches(R"([\w]+)", "a\u00B2"), (Strings{"a"}));      // in brackets none
  EXPECT_EQ(Matches(R"(\p{Cs}|[\p{Cs}a])", "ab"), (Strings{"a"}));
}

TEST(Regex, KnowsYoungUnicode) {
  EXPECT_EQ(Matches(R"(\p{L})", "\U0002EBF0"), (Strings{"\U0002EBF0"}));  // Unicode 15.1
  EXPECT_EQ(Matches(R"([^\s\p{L}\p{N}])", "\U0002EBF0"), Strings{});
  EXPECT_EQ(Matches(R"(\s)", "\u180E"), Strings{});  // no white space since Unicode 6.3
  EXPECT_EQ(Matches(R"(\s)", "\u0085"), (Strings{"\u0085"}));
  EXPECT_EQ(Matches(R"(\p{Alphabetic})", "\U0002EBF0"), (Strings{"\U0002EBF0"}));
  EXPECT_EQ(Matches(R"([[:alnum:]])", "\U00011DE0"), Strings{});  // unassigned until Unicode 17
  EXPECT_EQ(Matches(R"([[:alnum:]]\p{Kirat_Rai})", "7\U00016D43"), (Strings{"7\U00016D43"}));  // Unicode 16
  EXPECT_EQ(Matches(R"(\p{garay}+)", "\U00010D50\U00010D70"), (Strings{"\U00010D50\U00010D70"}));
  EXPECT_EQ(Matches(R"(\p{Cn}+)", "\U00010D50a\U0001CCFF"), (Strings{"\U0001CCFF"}));
  EXPECT_EQ(Matches(R"(\P{Cn}+)", "\U00010D50a\U0001CCFF"), (Strings{"\U00010D50a"}));
  EXPECT_EQ(Matches(R"([\p{Cn}a]+)", "\U00010D50a\U0001CCFF"), (Strings{"a\U0001CCFF"}));
  EXPECT_EQ(Matches(R"([^\p{Cn}a]+)", "\U00010D50a\U0001CCFF"), (Strings{"\U00010D50"}));
  EXPECT_EQ(Matches(R"(\p{Emoji}+)", "\U0001FAE8\U0001FADF"),
            (Strings{"\U0001FAE8\U0001FADF"}));  // 15 and 16
}

TEST(Regex, KnowsThePropertiesOfTheReference) {
  EXPECT_EQ(Matches(R"(\p{punct}+)", "!+?"), (Strings{"!", "?"}));  // without symbols,
  EXPECT_EQ(Matches(R"([[:punct:]]+)", "!+?"), (Strings{"!+?"}));   // with them,
  EXPECT_EQ(Matches(R"(\p{Posix_Punct}+)", "!+?"), (Strings{"!+?"}));
  EXPECT_EQ(Matches(R"([[:cntrl:]])", "\u0007\u200B"), (Strings{"\u0007"}));
  EXPECT_EQ(Matches(R"([[:word:]]+)", "a\u00B2"), (Strings{"a"}));
  EXPECT_EQ(Matches(R"(\p{In_Latin-1 Supplement}+)", "a\u00E9\u0100"), (Strings{"\u00E9"}));
  EXPECT_EQ(Matches(R"(\p{^Latn}+)", "a\u0416b"), (Strings{"\u0416"}));
  EXPECT_EQ(Matches(R"(\p{LC}+)", "aB\u01C5\u4E00"), (Strings{"aB\u01C5"}));
}

TEST(Regex, NamesPatternsThatDoNotCompile) {
  for (const char* pattern :
       {"(", "[", "[a", "a\\", "\\p{", "\\p{Klingon}", "[z-a]", "(?~x)", "\\x{110000}", "\\X", "\\o{141}",
        "(?i)ss", "\\p{Script=Latin}", "[[:klingon:]]", "\\p{[:alpha:]}"}) {
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
