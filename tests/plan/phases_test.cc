#include "plan/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using ::testing::HasSubstr;

TEST(ShapeOverridesTest, NamesAndShapes) {
  const auto overrides = ParseShapeOverrides(" x : [ 1, 2 ] ; a:b:[3];s:[]");
  ASSERT_TRUE(overrides.ok()) << overrides.status().ToString();
  ASSERT_EQ(overrides->size(), 3U);
  EXPECT_EQ((*overrides)[0].first, "x");
  EXPECT_EQ((*overrides)[0].second, (Shape{1, 2}));
  EXPECT_EQ((*overrides)[1].first, "a:b");
  EXPECT_EQ((*overrides)[2].second.rank(), 0);
  EXPECT_TRUE(ParseShapeOverrides("")->empty());
}

TEST(ShapeOverridesTest, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) { return ParseShapeOverrides(text).status().message(); };
  EXPECT_THAT(error("x:[1];"), HasSubstr("empty entry at position 6"));
  EXPECT_THAT(error("x[1]"), HasSubstr("missing ':'"));
  EXPECT_THAT(error("x:1"), HasSubstr("must be enclosed in [] for 'x'"));
  EXPECT_THAT(error("x:[0]"), HasSubstr("dimensions must be positive, got 0"));
  EXPECT_THAT(error("x:[-3]"), HasSubstr("got -3"));
  EXPECT_THAT(error("x:[a]"), HasSubstr("invalid dimension 'a'"));
  EXPECT_THAT(error("x:[1,]"), HasSubstr("empty dimension"));
  EXPECT_THAT(error(":[1]"), HasSubstr("empty name"));
  EXPECT_THAT(error("x:[1];x:[2]"), HasSubstr("duplicate entry 'x'"));
}

TEST(ShapeOverridesTest, BoundTheSymbolsOfInputs) {
  Graph graph(std::make_shared<NamePool>(), nullptr);
  const auto add_input = [&](const char* name, std::vector<DimExpr> dims) {
    const ValueId id =
        graph.MakeValue(name, ValueType::Tensor(DataType::kFloat), SymbolicShape{std::move(dims)});
    graph.AddInput(id);
  };
  add_input("x", {DimExpr::Symbol("n"), DimExpr(2)});
  add_input("y", {DimExpr::Symbol("n")});
  const auto bounds = [&](std::string_view text) {
    return BoundsOfOverrides(graph, *ParseShapeOverrides(text));
  };
  EXPECT_EQ(bounds("x:[8,2]")->at("n"), (DimBounds{0, 8}));
  EXPECT_TRUE(bounds("x:[8,2];y:[8]").ok());
  EXPECT_THAT(bounds("q:[1]").status().message(), HasSubstr("'q' is not a graph input"));
  EXPECT_THAT(bounds("y:[1,2]").status().message(), HasSubstr("model rank 1, override rank 2"));
  EXPECT_THAT(bounds("x:[8,3]").status().message(),
              HasSubstr("dimension 1 of 'x' is static (2) but the override specifies 3"));
  EXPECT_THAT(bounds("x:[8,2];y:[9]").status().message(), HasSubstr("'n' is 8"));
}

TEST(DecoderPhasesTest, PrefillAndDecode) {
  DecoderBounds bounds;
  bounds.batch_symbol = "batch";
  bounds.sequence_symbol = "sequence";
  bounds.past_symbol = "past";
  bounds.max_batch = 4;
  bounds.prefill_chunk_tokens = 512;
  bounds.context_length_tokens = 100;
  const std::vector<Phase> phases = DecoderPhases(bounds);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].bounds.at("batch"), (DimBounds{1, 1}));
  EXPECT_EQ(phases[0].bounds.at("sequence"), (DimBounds{1, 100}));  // no chunk is longer than the context
  EXPECT_EQ(phases[1].bounds.at("batch"), (DimBounds{1, 4}));
  EXPECT_EQ(phases[1].bounds.at("sequence"), (DimBounds{1, 1}));
  EXPECT_EQ(phases[1].bounds.at("past"), (DimBounds{0, 99}));
}

}  // namespace
}  // namespace lamina
