// Mutated templates: whatever they do, it is over soon, and nothing crashes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/cpu_time.h"
#include "support/test_data.h"
#include "text/jinja/template.h"

namespace lamina::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> Seeds() {
  const std::string text =
      lamina::testing::ReadWholeFile(lamina::testing::SourcePath("tests/text/jinja/cases.txt"));
  const std::string separator = "\n=====\n";
  std::vector<std::string> seeds;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    seeds.push_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : seeds_(Seeds()), random_(seed) {}

  std::string Next() {
    std::string text = Pick(seeds_);
    const size_t rounds = 1 + Below(4);
    for (size_t i = 0; i < rounds; ++i) Mutate(&text);
    return text;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  const std::string& Pick(const std::vector<std::string>& from) { return from[Below(from.size())]; }

  void Mutate(std::string* text) {
    static const std::vector<std::string> kWords = {"{{",
                                                    "}}",
                                                    "{%",
                                                    "%}",
                                                    "{#",
                                                    "#}",
                                                    "-",
                                                    "+",
                                                    "|",
                                                    "(",
                                                    ")",
                                                    "[",
                                                    "]",
                                                    "{",
                                                    "}",
                                                    "'",
                                                    "\"",
                                                    "\\",
                                                    ".",
                                                    ",",
                                                    ":",
                                                    " if ",
                                                    " else ",
                                                    " for ",
                                                    " in ",
                                                    " is ",
                                                    " not ",
                                                    "loop",
                                                    "namespace(a=1)",
                                                    "range(9)",
                                                    "|map('upper')",
                                                    "|list",
                                                    "|tojson",
                                                    "|sort",
                                                    "|join",
                                                    "caller()",
                                                    "recursive",
                                                    "{% endfor %}",
                                                    "{% set x = ",
                                                    "99999999999",
                                                    "1e308",
                                                    "-1",
                                                    "none",
                                                    "missing",
                                                    "users",
                                                    "dict",
                                                    "[::-1]",
                                                    "* 99",
                                                    "**",
                                                    "%s",
                                                    "\xf0\x9f\x98\x80",
                                                    "\n"};
    const size_t at = Below(text->size() + 1);
    switch (Below(6)) {
      case 0:
        text->insert(at, Pick(kWords));
        break;
      case 1:
        text->erase(at, Below(12));
        break;
      case 2: {
        const std::string& other = Pick(seeds_);
        const size_t from = Below(other.size());
        text->insert(at, other.substr(from, Below(40)));
        break;
      }
      case 3:
        text->insert(at, text->substr(Below(text->size()), Below(30)));
        break;
      case 4:
        *text += Pick(seeds_);
        break;
      default:
        if (!text->empty()) (*text)[Below(text->size())] = static_cast<char>(Below(128));
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

void Fuzz(uint64_t seed, size_t count) {
  const Json context =
      Json::parse(R"({"text": "Hello, World", "numbers": [3, 1, 2], "dict": {"b": 1, "a": "two"},
      "users": [{"name": "Bob", "age": 30}, {"name": "alice"}], "yes": true, "no": false, "nothing": null,
      "tree": [{"name": "r", "children": [{"name": "s", "children": []}]}],
      "messages": [{"role": "user", "content": "Hi"}]})");
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, &value});
  RenderOptions options;
  options.limits.max_steps = 200'000;
  options.limits.max_memory_bytes = size_t{16} << 20;
  options.limits.max_output_bytes = size_t{1} << 20;
  Mutator mutator(seed);
  size_t rendered = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string source = mutator.Next();
    const double start = testing::CpuSeconds();
    const Result<Template> parsed = Template::Parse(source);
    if (parsed.ok() && parsed->Render(variables, options).ok()) ++rendered;
    const double seconds = testing::CpuSeconds() - start;
    EXPECT_LT(seconds, 10) << source;
  }
  EXPECT_GT(rendered, count / 20);  // mutations that leave nothing to run would test the parser only
}

TEST(JinjaFuzzTest, MutatedTemplates) { Fuzz(1, 4000); }
TEST(JinjaFuzzTest, FullMutatedTemplates) { Fuzz(2, 200'000); }

}  // namespace
}  // namespace lamina::jinja
