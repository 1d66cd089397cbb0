// Every rule of the language, by small templates that Jinja2 on Python renders as well.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include "reference.h"
#include "support/test_data.h"

namespace lamina::jinja::testing {
namespace {

using lamina::testing::ReadWholeFile;
using lamina::testing::SourcePath;

// Values of every kind, for the templates to work on.
Json SharedContext() {
  return Json::parse(R"json({
    "text": "Hello, World", "empty": "", "spaces": "  \t two  words \n", "umlaut": "Straße ÄÖ ǆ ﬁ Σας",
    "emoji": "a😀b", "lines": "one\r\ntwo\n\nthree", "html": "<a href=\"x\">&'</a>", "quote": "it's \"x\"",
    "zero": 0, "one": 1, "seven": 7, "negative": -7, "big": 18446744073709551615, "half": 0.5, "tiny": 1e-7,
    "huge": 1e22, "third": 0.3333333333333333, "yes": true, "no": false, "nothing": null,
    "numbers": [3, 1, 2], "mixed": [1, "a", null, true, 1.5, [2], {"k": "v"}], "words": ["b", "A", "c", "B", "a"],
    "nested": [[1, 2], [3, 4]], "pairs": [["x", 1], ["y", 2]], "nobody": [],
    "dict": {"b": 1, "a": "two", "C": null, "items": 5, "ä": [1]}, "void": {},
    "users": [{"name": "Bob", "age": 30, "tags": ["x"]}, {"name": "alice", "age": 25, "city": "Rom"},
              {"name": "Carl", "age": 30, "city": "Bern"}],
    "tree": [{"name": "r", "children": [{"name": "s", "children": [{"name": "t", "children": []}]},
                                        {"name": "u", "children": []}]}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}]
  })json");
}

// The cases of a file: templates separated by lines of "=====".
std::vector<ReferenceCase> ReadCases(const std::string& path) {
  const std::string text = ReadWholeFile(path);
  const std::string separator = "\n=====\n";
  std::vector<ReferenceCase> cases;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    cases.push_back({text.substr(at, end - at), SharedContext()});
    at = end + separator.size();
  }
  return cases;
}

// What differs on purpose: the reference can do more than a chat template needs.
bool IsDeclaredUnsupported(const ReferenceResult& engine) {
  return engine.error.rfind("UNSUPPORTED", 0) == 0;
}

void CompareAll(const std::vector<ReferenceCase>& cases, size_t expected_unsupported = 0) {
  const std::vector<ReferenceResult> expected = RunReference(cases);
  size_t unsupported = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const ReferenceResult actual = RunEngine(cases[i]);
    if (std::getenv("LAMINA_SHOW_ERRORS") != nullptr && !expected[i].text) {
      std::cout << "--- " << cases[i].source << "\n  reference: " << expected[i].error
                << "\n  engine:    " << actual.error << "\n";
    }
    if (IsDeclaredUnsupported(actual)) {
      ++unsupported;
      continue;
    }
    if (expected[i].text) {
      EXPECT_TRUE(actual.text.has_value()) << cases[i].source << "\nengine: " << actual.error;
      if (actual.text) {
        EXPECT_EQ(*actual.text, *expected[i].text) << cases[i].source;
      }
    } else {
      EXPECT_FALSE(actual.text.has_value()) << cases[i].source << "\nreference: " << expected[i].error
                                            << "\nengine: " << actual.text.value_or("");
    }
  }
  EXPECT_EQ(unsupported, expected_unsupported);
}

TEST(JinjaDifferentialTest, Cases) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<ReferenceCase> cases = ReadCases(SourcePath("tests/text/jinja/cases.txt"));
  ASSERT_GT(cases.size(), 500u);
  CompareAll(cases, 1);  // an integer of more than 128 bits
}

// White space around tags in every combination of signs and surroundings.
TEST(JinjaDifferentialTest, WhiteSpaceControl) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<std::string> before = {"",      "a",        "a ",   " ",      "\n",      "a\n",
                                           "a\n  ", "a  \n\t ", "\n\n", "\u00a0", "a \u2003"};
  const std::vector<std::string> after = {"", "b", " b", " ", "\n", "\nb", " \nb", "\n\n b", "\r\nb"};
  const std::vector<std::string> tags = {"{{ 1 }}", "{% if yes %}", "{# c #}",
                                         "{% raw %} {{ r }} {% endraw %}", "{% set x = 1 %}"};
  const std::vector<std::string> signs = {"", "-", "+"};
  std::vector<ReferenceCase> cases;
  for (const std::string& tag : tags) {
    for (const std::string& left : signs) {
      for (const std::string& right : signs) {
        if (tag.substr(0, 2) == "{{" && right == "+") continue;  // no such end
        const std::string signed_tag =
            tag.substr(0, 2) + left + tag.substr(2, tag.size() - 4) + right + tag.substr(tag.size() - 2);
        for (const std::string& a : before) {
          for (const std::string& b : after) {
            const std::string end = tag == "{% if yes %}" ? "{% endif %}\n" : "";
            cases.push_back({a + signed_tag + b + end, {{"yes", true}}});
          }
        }
      }
    }
  }
  CompareAll(cases);
}

// Every filter and test on every kind of value.
TEST(JinjaDifferentialTest, FiltersAndTestsOnEveryKindOfValue) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<std::string> values = {
      "missing",   "none",         "true",     "0",          "-3",
      "2.5",       "''",           "'ab C'",   "'<b>'|safe", "[]",
      "[3, 1, 2]", "['b', 'A']",   "(1, 'x')", "{}",         "{'b': 1, 'a': 2}",
      "range(3)",  "dict.items()", "users",    "'7'",        "namespace(a=1)",
      "text.upper"};
  const std::vector<std::string> filters = {"abs",
                                            "attr('a')",
                                            "batch(2)|list",
                                            "capitalize",
                                            "center(9)",
                                            "count",
                                            "default('d')",
                                            "d('e', true)",
                                            "dictsort",
                                            "e",
                                            "escape",
                                            "filesizeformat",
                                            "first",
                                            "float",
                                            "forceescape",
                                            "format(1)",
                                            "groupby('age')|list",
                                            "indent",
                                            "int",
                                            "items|list",
                                            "join('-')",
                                            "last",
                                            "length",
                                            "list",
                                            "lower",
                                            "map('string')|list",
                                            "map(attribute='name')|list",
                                            "max",
                                            "min",
                                            "reject('none')|list",
                                            "rejectattr('city')|list",
                                            "replace('a', 'b')",
                                            "reverse|list",
                                            "round",
                                            "safe",
                                            "select('string')|list",
                                            "selectattr('city', 'defined')|list",
                                            "slice(2)|list",
                                            "sort",
                                            "string",
                                            "sum",
                                            "title",
                                            "tojson",
                                            "tojson(indent=2)",
                                            "trim",
                                            "truncate(3)",
                                            "unique|list",
                                            "upper",
                                            "urlencode",
                                            "wordcount",
                                            "wordwrap(2)",
                                            "striptags",
                                            "pprint",
                                            "xmlattr"};
  const std::vector<std::string> tests = {
      "boolean", "callable", "defined", "divisibleby(2)", "eq(1)",           "escaped", "even",
      "false",   "float",    "ge(1)",   "gt(1)",          "in([1, 'ab C'])", "integer", "iterable",
      "le(1)",   "lower",    "lt(1)",   "mapping",        "ne(1)",           "none",    "number",
      "odd",     "sequence", "string",  "true",           "undefined",       "upper",   "filter",
      "test"};
  std::vector<ReferenceCase> cases;
  const Json context = SharedContext();
  for (const std::string& value : values) {
    // Addresses in memory are printed by nobody.
    const bool printable = value != "text.upper";
    for (const std::string& filter : filters) {
      if (!printable && filter != "tojson" && filter != "length") continue;
      cases.push_back({"{{ (" + value + ")|" + filter + " }}", context});
    }
    for (const std::string& test : tests) cases.push_back({"{{ (" + value + ") is " + test + " }}", context});
  }
  CompareAll(cases);
}

// Text of words, spaces, hyphens and tags at random: wrapped at every width, without tags, pretty-printed.
TEST(JinjaDifferentialTest, LayoutOfRandomText) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<std::string> parts = {"a",
                                          "to",
                                          "well-known",
                                          "x-y-z",
                                          "--",
                                          "---",
                                          "-",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\t",
                                          "state-of-the-art",
                                          "\u00e9t\u00e9-la",
                                          "don't",
                                          "1-2",
                                          "a1-b2",
                                          ",",
                                          ".",
                                          "\u00a0",
                                          "\u2003",
                                          "\U0001F600",
                                          "<b>",
                                          "</i >",
                                          "<!--",
                                          "-->",
                                          "<",
                                          ">",
                                          "&amp;",
                                          "&lt;",
                                          "&#65;",
                                          "&#x1F600;",
                                          "& ",
                                          "'",
                                          "\"",
                                          "\\",
                                          "supercalifragilistic"};
  std::mt19937 random(5);
  std::vector<ReferenceCase> cases;
  for (int i = 0; i < 400; ++i) {
    std::string text;
    const int count = 1 + static_cast<int>(random() % 40);
    for (int k = 0; k < count; ++k) text += parts[random() % parts.size()];
    const Json context = {{"t", text}, {"long", text + " " + text + " " + text}};
    const std::string width = std::to_string(1 + random() % 20);
    for (const std::string& call :
         {"t|wordwrap(" + width + ")", "t|wordwrap(" + width + ", false)",
          "t|wordwrap(" + width + ", wrapstring='|')", "t|wordwrap(" + width + ", break_on_hyphens=false)",
          std::string("long|wordwrap"), std::string("t|striptags"), std::string("long|pprint"),
          std::string("[long, [t, 1]]|pprint"),
          std::string("{'k': t, 'a': {'b': (t,), 'c': [1, long]}}|pprint")}) {
      cases.push_back({"{{ " + call + " }}", context});
    }
  }
  CompareAll(cases);
}

// Binary operators on every pair of kinds.
TEST(JinjaDifferentialTest, OperatorsOnEveryPairOfKinds) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<std::string> values = {"missing", "none",     "true",     "0",          "3",  "-2",
                                           "2.5",     "''",       "'ab'",     "'<b>'|safe", "[]", "[1, 2]",
                                           "(1,)",    "{'a': 1}", "range(2)", "dict.keys()"};
  const std::vector<std::string> operators = {"+",  "-", "*",  "/", "//", "%",  "**",     "~",   "==",
                                              "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"};
  std::vector<ReferenceCase> cases;
  const Json context = SharedContext();
  for (const std::string& left : values) {
    for (const std::string& op : operators) {
      for (const std::string& right : values) {
        cases.push_back({"{{ (" + left + ") " + op + " (" + right + ") }}", context});
      }
    }
  }
  CompareAll(cases, 24);  // sets, which `-` and `<` make of views of a dict
}

// Slices with every combination of small bounds.
TEST(JinjaDifferentialTest, Slices) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const std::vector<std::string> bounds = {"", "0", "1", "-1", "3", "-9", "9", "none"};
  const std::vector<std::string> steps = {"", ":1", ":2", ":-1", ":-2", ":9"};
  std::vector<ReferenceCase> cases;
  for (const std::string& start : bounds) {
    for (const std::string& stop : bounds) {
      for (const std::string& step : steps) {
        const std::string slice = "[" + start + ":" + stop + step + "]";
        cases.push_back({"{{ 'abcde'" + slice + " }}{{ emoji" + slice + " }}{{ [1, 2, 3, 4]" + slice +
                             " }}{{ (1, 2, 3)" + slice + " }}{{ range(5)" + slice + " }}",
                         SharedContext()});
      }
    }
  }
  CompareAll(cases);
}

}  // namespace
}  // namespace lamina::jinja::testing
