// Templates from anywhere cannot run forever, fill the memory or leave the sandbox, and say what is wrong.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/jinja/template.h"

namespace lamina::jinja {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> Render(const std::string& source, const RenderOptions& options = {}) {
  LAMINA_ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  const Json numbers = {1, 2, 3};
  const std::vector<Variable> variables = {{"numbers", &numbers}, {"nothing", nullptr}};
  return parsed.Render(variables, options);
}

std::string Repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(JinjaLimitsTest, ErrorsNameLineAndReason) {
  EXPECT_EQ(Render("a\n{{ 1 +\n }}").status().ToString(),
            "INVALID_MODEL: line 3: unexpected 'end of print statement'");
  EXPECT_EQ(Render("a\n\n{% nope %}").status().ToString(),
            "INVALID_MODEL: line 3: Encountered unknown tag 'nope'.");
  EXPECT_EQ(
      Render("{% if 1 %}\n{% for x in y %}\n{% endif %}").status().ToString(),
      "INVALID_MODEL: line 3: Encountered unknown tag 'endif'. Jinja was looking for the following tags: "
      "'endfor' or 'else'. The innermost block that needs to be closed is 'for'.");
  EXPECT_EQ(Render("{% for x in numbers %}\n{{ x }}\n{{ x.y.z }}{% endfor %}").status().ToString(),
            "INVALID_ARGUMENT: line 3: 'int object' has no attribute 'y'");
  EXPECT_EQ(Render("\n{{ raise_exception('roles must alternate') }}").status().ToString(),
            "INVALID_ARGUMENT: line 2: roles must alternate");
  EXPECT_EQ(Render("{{ x|nope }}").status().ToString(), "INVALID_MODEL: line 1: No filter named 'nope'.");
  EXPECT_EQ(Render("a\n{{ x|f }}{{ nope }}").status().ToString(),
            "INVALID_MODEL: line 2: No filter named 'f'.");
}

TEST(JinjaLimitsTest, WhatIsNotSupportedIsNamedWithItsLine) {
  const auto unsupported = [](const std::string& source, const std::string& text) {
    EXPECT_EQ(Render("\n" + source).status().ToString(), "UNSUPPORTED: line 2: " + text) << source;
  };
  unsupported("{{ 'a'|urlize }}", "the filter 'urlize' is not supported");
  unsupported("{{ numbers|random }}", "the filter 'random' is not supported");
  unsupported("{{ lipsum() }}", "lipsum() is not supported");
  unsupported("{% block a %}{% endblock %}{{ self.a() }}", "'self' is not supported");
  unsupported("{% block a %}{{ super() }}{% endblock %}", "'super' is not supported");
  unsupported("{% autoescape true %}{{ 1 }}{% endautoescape %}", "autoescaping is not supported");
  unsupported("{{ '<b>A&copy;</b>'|striptags }}", "striptags() does not know the entity '&copy'");
  EXPECT_EQ(*Render("{% set self = 3 %}{{ self }}"), "3");
}

TEST(JinjaLimitsTest, StepsAreBounded) {
  const std::string loop = "{% for a in range(90000) %}";
  const Status status = Render(Repeat(loop, 4) + Repeat("{% endfor %}", 4)).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  RenderOptions options;
  options.limits.max_steps = 1000;
  EXPECT_FALSE(Render(loop + "{% endfor %}", options).ok());
  EXPECT_TRUE(Render("{% for a in range(90) %}{% endfor %}", options).ok());
}

TEST(JinjaLimitsTest, MemoryIsBounded) {
  RenderOptions options;
  options.limits.max_memory_bytes = size_t{16} << 20;
  options.limits.max_output_bytes = size_t{16} << 20;
  options.limits.max_steps = 5'000'000;
  for (const char* source : {
           "{{ 'a' * 10**12 }}",
           "{{ [1] * 10**12 }}",
           "{{ 10**12 * (1,) }}",
           "{{ 'a'.center(10**12) }}",
           "{{ 'a'.ljust(10**30) }}",
           "{{ 'a'.zfill(10**12) }}",
           "{{ '\\t'.expandtabs(10**12) }}",
           "{{ '%*d' % (10**12, 1) }}",
           "{{ '%.999999999999d' % 1 }}",
           "{{ '{:999999999999}'.format(1) }}",
           "{{ '{:.999999999999}'.format(1.5) }}",
           "{{ [1]|batch(10**12, 0)|list }}",
           "{{ [1]|slice(10**12)|list }}",
           "{{ [[1]]|tojson(indent=10**12) }}",
           "{{ 'a\\nb'|indent(10**12) }}",
           "{{ 'a'|center(10**12) }}",
           "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s.replace('a', 'ab' * "
           "9) %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(199) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
           "%}{{ ns.l }}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(199) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
           "%}{{ ns.l|tojson }}",
           "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(199) %}{% set ns.l = [ns.l, ns.l] %}"
           "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
           "{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}",
       }) {
    const Result<std::string> result = Render(source, options);
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_TRUE(result.status().code() == StatusCode::kResourceExhausted ||
                result.status().code() == StatusCode::kUnsupported)
        << source << ": " << result.status().ToString();
  }
}

TEST(JinjaLimitsTest, RecursionAndNestingAreBounded) {
  for (const std::string& source : {
           std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
           std::string("{% macro m(c) %}{{ caller() }}{% endmacro %}"
                       "{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}"),
           std::string(
               "{% set t = namespace(c=[]) %}{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
           std::string(
               "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}"),
           std::string("{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = {1: ns.l} %}{% "
                       "endfor %}"),
           std::string("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}"
                       "{% set ns.l = ns.l|map('upper') %}{% endfor %}"),
           std::string("{% set ns = namespace(l='') %}{% for i in range(9999) %}{% set ns.l = joiner(ns.l) "
                       "%}{% endfor %}"),
           std::string("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}"),
           "{{ " + Repeat("(", 5000) + "1" + Repeat(")", 5000) + " }}",
           "{{ " + Repeat("[", 5000) + Repeat("]", 5000) + " }}",
           "{{ " + Repeat("-", 5000) + "1 }}",
           "{{ " + Repeat("not ", 5000) + "1 }}",
           "{{ 1" + Repeat("+1", 5000) + " }}",
           "{{ x" + Repeat(".a", 5000) + " }}",
           "{{ x" + Repeat("|list", 5000) + " }}",
           "{{ 1" + Repeat(" if 1 else 1", 5000) + " }}",
           "{{ 1" + Repeat(" if 1", 5000) + " }}",
           Repeat("{% if 1 %}", 5000) + Repeat("{% endif %}", 5000),
       }) {
    const Result<std::string> result = Render(source);
    EXPECT_FALSE(result.ok()) << source.substr(0, 100);
  }
  // What templates really do is far below the bounds.
  EXPECT_TRUE(
      Render("{% macro m(n) %}{% if n %}{% for i in [1] %}{{ m(n - 1) }}{% endfor %}{% endif %}{% endmacro %}"
             "{{ m(60) }}")
          .ok());
  EXPECT_TRUE(Render("{{ 'a'" + Repeat(" + 'a'", 200) + " }}").ok());
}

TEST(JinjaLimitsTest, CyclesAreFreed) {
  // Leaks are what the address sanitizer looks for when the test ends.
  EXPECT_TRUE(
      Render("{% set ns = namespace() %}{% set ns.self = ns %}{% macro m() %}{{ m }}{% endmacro %}"
             "{% set ns.m = m %}{% for i in [1] %}{% set ns.l = loop %}{% set x = loop.changed(ns, loop) %}"
             "{% endfor %}")
          .ok());
  EXPECT_TRUE(
      Render(
          "{% macro f(previous) %}{% macro g() %}{{ previous }}{% endmacro %}{% set ns.m = g %}{% endmacro %}"
          "{% set ns = namespace(m=none) %}{% for i in range(20000) %}{{ f(ns.m) }}{% endfor %}")
          .ok());
}

TEST(JinjaLimitsTest, SandboxHidesWhatChangesOrEscapes) {
  for (const char* source :
       {"{{ numbers.append(4) }}", "{{ {}.update({}) }}", "{{ {}.pop('a') }}", "{{ ''.__class__.__mro__ }}",
        "{{ numbers.__class__() }}", "{{ cycler.__init__.__globals__ }}", "{{ range.__self__() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}", "{{ (1).__add__(2) }}"}) {
    EXPECT_FALSE(Render(source).ok()) << source;
  }
  EXPECT_EQ(*Render("{{ numbers.append is defined }}"), "False");
}

TEST(JinjaLimitsTest, InputIsMadeValid) {
  EXPECT_FALSE(Template::Parse("a\xff").ok());
  const Result<Template> parsed = Template::Parse("{{ x }}");
  ASSERT_TRUE(parsed.ok());
  const Json broken = "a\xff\xc3";
  const std::vector<Variable> variables = {{"x", &broken}};
  EXPECT_EQ(*parsed->Render(variables), "a\uFFFD\uFFFD");
}

TEST(JinjaLimitsTest, ClockCanBeSet) {
  RenderOptions options;
  options.now = std::chrono::system_clock::from_time_t(1'700'000'000);
  EXPECT_EQ(*Render("{{ strftime_now('%Y-%m') }}", options), "2023-11");
}

}  // namespace
}  // namespace lamina::jinja
