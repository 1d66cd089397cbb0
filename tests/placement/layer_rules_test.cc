#include "placement/layer_rules.h"

#include <gtest/gtest.h>

#include "placement/rule_matchers.h"

namespace lamina {
namespace {

LayerRules Parse(std::string_view text, RuleMode mode = RuleMode::kAnnotation) {
  Result<LayerRules> rules = ParseLayerRules(text, mode);
  EXPECT_TRUE(rules.ok()) << text << ": " << rules.status().ToString();
  return rules.ok() ? *rules : LayerRules();
}

std::string ErrorOf(std::string_view text, RuleMode mode = RuleMode::kAnnotation) {
  const Result<LayerRules> rules = ParseLayerRules(text, mode);
  if (rules.ok()) return "OK";
  EXPECT_EQ(rules.status().code(), StatusCode::kInvalidArgument);
  return rules.status().message();
}

TEST(LayerRulesTest, TrimsSpacesAndKeepsTheOrder) {
  const LayerRules rules = Parse("  EP1  (Annotation1  ,  =Annotation2  ) ;  EP2  (Annotation3  )  ");
  ASSERT_EQ(rules.rules.size(), 3u);
  EXPECT_EQ(rules.rules[0].device, "EP1");
  EXPECT_EQ(rules.rules[0].pattern, "Annotation1");
  EXPECT_FALSE(rules.rules[0].exact);
  EXPECT_EQ(rules.rules[1].pattern, "Annotation2");
  EXPECT_TRUE(rules.rules[1].exact);
  EXPECT_EQ(rules.rules[2].device, "EP2");
}

TEST(LayerRulesTest, EmptyEntriesAndItemsAreSkipped) {
  for (const char* text : {"", "   ", ";  ;", "cpu()", "cpu(=)", "cpu(,,)"})
    EXPECT_TRUE(Parse(text).rules.empty()) << text;
  EXPECT_EQ(Parse("cpu(a);").rules.size(), 1u);
  EXPECT_EQ(Parse("cpu(a);;cpu(b)").rules.size(), 2u);
}

TEST(LayerRulesTest, KindsAndLettersTellPatternsApart) {
  EXPECT_EQ(Parse("cpu(a , =  a )").rules.size(), 2u);
  EXPECT_EQ(Parse("cpu(A,a)").rules.size(), 2u);
  EXPECT_EQ(Parse("cpu(==a)").rules[0].pattern, "=a");
  EXPECT_EQ(Parse("cpu(a=b)").rules[0].pattern, "a=b");
  EXPECT_EQ(Parse("cpu(é)").rules[0].pattern, "é");
}

TEST(LayerRulesTest, WhatIsLeftOverIsAnError) {
  for (const char* text :
       {"cpu", "Device1Annotation1", "cpu(a", "Device1Annotation1)", "Device1)Annotation1(", "(a)",
        "cpu(a)(b)", "cpu(a) trailing", "cpu(a),gpu(b)", "cpu(a(b))"}) {
    EXPECT_NE(ErrorOf(text), "OK") << text;
  }
  EXPECT_NE(ErrorOf("cpu(a),gpu(b)").find("separated by ';'"), std::string::npos);
}

TEST(LayerRulesTest, DuplicatesOfOneKindAreErrorsAcrossDevices) {
  EXPECT_NE(ErrorOf("cpu(a,a)"), "OK");
  EXPECT_NE(ErrorOf("cpu(a);gpu(a)"), "OK");
  EXPECT_NE(ErrorOf("cpu(=a,=a)"), "OK");
  EXPECT_NE(ErrorOf("gpu(layers.[0-3]); cpu(layers.2)", RuleMode::kName), "OK");
}

TEST(LayerRulesTest, LongSettingsAreTaken) {
  std::string settings = "gpu(";
  for (int i = 0; i < 3000; ++i) settings += "/model/layers." + std::to_string(i) + "/mlp,";
  EXPECT_GT(settings.size(), 8192u * 4);
  EXPECT_EQ(Parse(settings + ")", RuleMode::kName).rules.size(), 3000u);
}

TEST(LayerRulesTest, NameModeTakesNoExactPatterns) {
  EXPECT_NE(ErrorOf("cpu(=layers.1)", RuleMode::kName).find("'='"), std::string::npos);
}

TEST(LayerRulesTest, RangesExpand) {
  const LayerRules rules = Parse("gpu(l[8-11].h[0-1]x)", RuleMode::kName);
  ASSERT_EQ(rules.rules.size(), 8u);
  EXPECT_EQ(rules.rules[0].pattern, "l8.h0x");
  EXPECT_EQ(rules.rules[7].pattern, "l11.h1x");
  for (const char* text :
       {"gpu([1])", "gpu([a-b])", "gpu([01-2])", "gpu([3-2])", "gpu([0-100000])", "gpu([0-1)", "gpu([-1-2])",
        "gpu([0-999][0-999])", "gpu([0-99999999999999999999])"}) {
    EXPECT_NE(ErrorOf(text, RuleMode::kName), "OK") << text;
  }
  EXPECT_EQ(Parse("gpu([0-99999])", RuleMode::kName).rules.size(), 100'000u);
}

std::string Winner(const char* settings, std::string_view annotation) {
  const LayerRules rules = Parse(settings);
  const std::optional<size_t> rule = LayeringRuleMatcher(rules).Match(annotation);
  return rule ? rules.rules[*rule].text : "none";
}

TEST(LayeringRuleMatcherTest, PrefixesWinByOrderAndOverExact) {
  EXPECT_EQ(Winner("cpu(=layer_1)", "layer_1"), "=layer_1");
  EXPECT_EQ(Winner("cpu(=layer_1)", "layer_10"), "none");
  EXPECT_EQ(Winner("cpu(layer_1); gpu(=layer_10)", "layer_10"), "layer_1");
  EXPECT_EQ(Winner("gpu(=layer_10); cpu(layer_1)", "layer_10"), "layer_1");
  EXPECT_EQ(Winner("cpu(layer_1); gpu(layer_10)", "layer_10"), "layer_1");
  EXPECT_EQ(Winner("gpu(layer_10); cpu(layer_1)", "layer_10"), "layer_10");
  EXPECT_EQ(Winner("gpu(layer_10); cpu(layer_1)", "layer_11"), "layer_1");
  EXPECT_EQ(Winner("cpu(a)", ""), "none");
}

TEST(LayeringRuleMatcherTest, RulesThatCanNeverWinAreKnown) {
  const LayerRules rules = Parse("cpu(layer_1, =layer_1); gpu(layer_10, other)");
  const auto shadowed = LayeringRuleMatcher(rules).Shadowed(rules);
  ASSERT_EQ(shadowed.size(), 2u);
  EXPECT_EQ(shadowed[0], std::make_pair(size_t{1}, size_t{0}));
  EXPECT_EQ(shadowed[1], std::make_pair(size_t{2}, size_t{0}));
}

std::string NameWinner(const char* settings, std::string_view name) {
  const LayerRules rules = Parse(settings, RuleMode::kName);
  const std::optional<size_t> rule = SubstringMatcher(rules).Match(name);
  return rule ? rules.rules[*rule].pattern : "none";
}

TEST(SubstringMatcherTest, TheLongestPatternWins) {
  EXPECT_EQ(NameWinner("a(layers.1); b(layers.10)", "/model/layers.10/mlp/MatMul"), "layers.10");
  EXPECT_EQ(NameWinner("a(layers.1/); b(layers.2/)", "/model/layers.10/mlp/MatMul"), "none");
  EXPECT_EQ(NameWinner("a(layers.5); b(q_proj/M)", "/model/layers.5/self_attn/q_proj/MatMul"), "layers.5");
  EXPECT_EQ(NameWinner("a(Attention)", "Attention_token_3"), "Attention");
  EXPECT_EQ(NameWinner("a(x)", ""), "none");
}

TEST(SubstringMatcherTest, NumbersOfRangesAreWhole) {
  EXPECT_EQ(NameWinner("a(layers.[0-1])", "/model/layers.10/MatMul"), "none");
  EXPECT_EQ(NameWinner("a(layers.[0-1])", "/model/layers.1/MatMul"), "layers.1");
  EXPECT_EQ(NameWinner("a([0-9]x)", "10x 7x"), "7x");
  EXPECT_EQ(NameWinner("a(layers.[10-12])", "layers.11"), "layers.11");
}

TEST(SubstringMatcherTest, AgreesWithPlainSearchOnRandomText) {
  uint32_t state = 7;
  const auto next = [&](uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % bound;
  };
  const auto word = [&](uint32_t longest) {
    std::string text;
    for (uint32_t length = 1 + next(longest); length > 0; --length) text += static_cast<char>('a' + next(2));
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    LayerRules rules{RuleMode::kName, {}};
    for (int i = 0; i < 6; ++i) {
      LayerRule rule;
      rule.pattern = word(5);
      rules.rules.push_back(rule);
    }
    const SubstringMatcher matcher(rules);
    const std::string name = word(24);
    std::optional<size_t> expected;
    for (size_t i = 0; i < rules.rules.size(); ++i) {
      if (name.find(rules.rules[i].pattern) == std::string::npos) continue;
      if (!expected || rules.rules[i].pattern.size() > rules.rules[*expected].pattern.size()) expected = i;
    }
    ASSERT_EQ(matcher.Match(name), expected) << name;
  }
}

}  // namespace
}  // namespace lamina
