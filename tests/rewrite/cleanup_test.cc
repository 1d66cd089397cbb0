// Constants, clean-up, shape arithmetic and common subexpressions.
#include "rewrite/rewrite_fixture.h"

namespace lamina::testing {
namespace {

TEST_F(RewriteTest, ConstantNodesBecomeInitializers) {
  const ValueId x = In("x", {"n", "2"});
  const ValueId c = Op("Constant", {}, {Attr("value_floats", std::vector<float>{1, 2})});
  Out(Op("Add", {x, c}));
  Apply({"constant-nodes"});
  EXPECT_EQ(Count("Constant"), 0);
  EXPECT_NE(graph().ConstantOf(c), nullptr);
}

TEST_F(RewriteTest, AConstantThatIsAnOutputStays) {
  Out(Op("Constant", {}, {Attr("value_int", int64_t{3})}));
  Apply();
  EXPECT_EQ(Count("Constant"), 1);
}

TEST_F(RewriteTest, ShapeArithmeticThatComesToNumbersVanishes) {
  const ValueId x = In("x", {"n", "6"});
  const ValueId dim = Op("Gather", {Op("Shape", {x}), Ints({1})});
  Out(Op("Reshape", {x, Op("Concat", {Ints({-1}), Op("Div", {dim, Ints({2})}), Ints({2})},
                           {Attr("axis", int64_t{0})})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Count("Reshape"), 1);
}

TEST_F(RewriteTest, AReshapeThatCopiesDimensionsNeedsNoArithmetic) {
  const ValueId x = In("x", {"n", "s", "8"});
  const ValueId shape = Op("Shape", {x});
  const ValueId n = Op("Gather", {shape, Ints({0})});
  const ValueId s = Op("Gather", {shape, Ints({1})});
  Out(Op("Reshape", {x, Op("Concat", {n, s, Ints({2}), Ints({4})}, {Attr("axis", int64_t{0})})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
}

TEST_F(RewriteTest, AReshapeWhoseRestIsNotAskedForKeepsItsArithmetic) {
  // [n, s, 8] -> [s, n, 8]: no dimension stands where it stood.
  const ValueId x = In("x", {"n", "s", "8"});
  const ValueId shape = Op("Shape", {x});
  const ValueId n = Op("Gather", {shape, Ints({0})});
  const ValueId s = Op("Gather", {shape, Ints({1})});
  Out(Op("Reshape", {x, Op("Concat", {s, n, Ints({8})}, {Attr("axis", int64_t{0})})}));
  Apply();
  EXPECT_EQ(Count("Concat"), 1);
}

TEST_F(RewriteTest, AnExpandBeforeABroadcastVanishes) {
  const ValueId x = In("x", {"n", "1", "s"});
  const ValueId n = Op("Shape", {x});
  const ValueId target = Op("Concat", {Op("Slice", {n, Ints({0}), Ints({1}), Ints({0})}), Ints({8, 1})},
                            {Attr("axis", int64_t{0})});
  Out(Op("MatMul", {Op("Expand", {Floats(Shape{1, 8, 1}, std::vector<float>(8, 2)), target}), x}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
}

TEST_F(RewriteTest, AnExpandThatGivesTheResultItsShapeStays) {
  const ValueId x = In("x", {"n", "1", "s"});
  const ValueId target =
      Op("Concat", {Op("Slice", {Op("Shape", {x}), Ints({0}), Ints({1}), Ints({0})}), Ints({8, 1})},
         {Attr("axis", int64_t{0})});
  Out(Op("Add", {Op("Expand", {Floats(Shape{1, 1, 1}, {2}), target}), x}));
  Apply();
  EXPECT_EQ(Count("Expand"), 1);
}

TEST_F(RewriteTest, IdentitiesVanishAndOutputsKeepTheirNames) {
  const ValueId x = In("x", {"n"});
  const ValueId y = Op("Identity", {Op("Relu", {x})});
  Out(y);
  const std::string name = graph().value(y).name.str();
  Apply();
  EXPECT_EQ(Count("Identity"), 0);
  EXPECT_EQ(graph().value(graph().outputs()[0]).name.view(), name);
}

TEST_F(RewriteTest, AnIdentityBetweenInputAndOutputStays) {
  Out(Op("Identity", {In("x", {"n"})}));
  Apply();
  EXPECT_EQ(Count("Identity"), 1);
}

TEST_F(RewriteTest, CastsThatLoseNothingVanish) {
  const ValueId x = In("x", {"n"}, DataType::kFloat16);
  const ValueId wide = Op("Cast", {x}, {Attr("to", int64_t{1})});
  Out(Op("Relu", {Op("Cast", {wide}, {Attr("to", int64_t{10})})}));
  Apply({"cast-cleanup", "dead-nodes"});
  EXPECT_EQ(Count("Cast"), 0);
}

TEST_F(RewriteTest, CastsThatRoundStay) {
  const ValueId x = In("x", {"n"});
  const ValueId narrow = Op("Cast", {x}, {Attr("to", int64_t{10})});
  Out(Op("Relu", {Op("Cast", {narrow}, {Attr("to", int64_t{1})})}));
  Apply();
  EXPECT_EQ(Count("Cast"), 2);
}

TEST_F(RewriteTest, TransposesThatUndoEachOtherVanish) {
  const ValueId x = In("x", {"a", "b", "c"});
  const ValueId t = Op("Transpose", {x}, {Attr("perm", std::vector<int64_t>{1, 2, 0})});
  Out(Op("Relu", {Op("Transpose", {t}, {Attr("perm", std::vector<int64_t>{2, 0, 1})})}));
  Apply();
  EXPECT_EQ(Count("Transpose"), 0);
}

TEST_F(RewriteTest, TransposesAddUp) {
  const ValueId x = In("x", {"a", "b", "c"});
  const ValueId t = Op("Transpose", {x}, {Attr("perm", std::vector<int64_t>{1, 2, 0})});
  Out(Op("Transpose", {t}, {Attr("perm", std::vector<int64_t>{1, 2, 0})}));
  Apply();
  const Node* left = Only("Transpose");
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(std::get<std::vector<int64_t>>(left->FindAttribute("perm")->value),
            (std::vector<int64_t>{2, 0, 1}));
}

TEST_F(RewriteTest, NeutralOperandsVanishUnlessTheyBroadcast) {
  const ValueId x = In("x", {"n"});
  Out(Op("Relu", {Op("Mul", {x, Float(1)})}));
  Out(Op("Neg", {Op("Add", {x, Floats(Shape{1, 1}, {0})})}));
  Out(Op("Abs", {Op("Sub", {Float(0), x})}));
  Apply({"neutral-operands"});
  EXPECT_EQ(Count("Mul"), 0);
  EXPECT_EQ(Count("Add"), 1);
  EXPECT_EQ(Count("Sub"), 1);
}

TEST_F(RewriteTest, EqualNodesBecomeOne) {
  const ValueId x = In("x", {"n"});
  const ValueId a = Op("Unsqueeze", {x, Ints({0})});
  const ValueId b = Op("Unsqueeze", {x, Ints({0})});
  const ValueId c = Op("Unsqueeze", {x, Ints({1})});
  Out(Op("Concat", {a, b}, {Attr("axis", int64_t{0})}));
  Out(Op("Relu", {c}));
  Apply({"common-subexpressions"});
  EXPECT_EQ(Count("Unsqueeze"), 2);
}

TEST_F(RewriteTest, RandomNodesAreNotShared) {
  const ValueId x = In("x", {"n"});
  Out(Op("Add", {Op("RandomNormalLike", {x}), Op("RandomNormalLike", {x})}));
  Apply();
  EXPECT_EQ(Count("RandomNormalLike"), 2);
}

TEST_F(RewriteTest, UnknownNamesAreRefused) {
  EXPECT_TRUE(CheckDisabledRewrites("all, level2,rms-norm").ok());
  const Status status = CheckDisabledRewrites("rms_norm");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("rms-norm"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace lamina::testing
