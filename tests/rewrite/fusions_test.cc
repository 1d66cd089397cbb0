// Norms and activations: that they fire, what they become, and when they must not.
#include <cmath>

#include "base/half.h"
#include "rewrite/rewrite_fixture.h"

namespace lamina::testing {
namespace {

class FusionTest : public RewriteTest {
 protected:
  // x / sqrt(mean(x^2) + epsilon) * scale
  ValueId RmsNorm(ValueId x, ValueId scale, std::vector<int64_t> axes = {-1}) {
    const ValueId square = Op("Pow", {x, Float(2)});
    mean_square_ = Op("ReduceMean", {square}, {Attr("axes", axes), Attr("keepdims", int64_t{1})});
    const ValueId inverse = Op("Div", {Float(1), Op("Sqrt", {Op("Add", {mean_square_, Float(1e-6f)})})});
    return Op("Mul", {scale, Op("Mul", {x, inverse})});
  }

  ValueId mean_square_;
};

TEST_F(FusionTest, RmsNorm) {
  const ValueId x = In("x", {"b", "s", "4"});
  const ValueId y = RmsNorm(x, Floats(Shape{4}, {1, 2, 3, 4}));
  Out(y);
  const std::string name = graph().node(last_node_).name.str();
  graph().mutable_node(last_node_).metadata_props = {{"layer_ann", "first"}};
  const RewriteReport report = Apply({"rms-norm"});
  EXPECT_EQ(report.total(), 1);
  ASSERT_EQ(graph().num_alive_nodes(), 1);
  const Node* norm = Only("SimplifiedLayerNormalization");
  EXPECT_EQ(norm->name.view(), name + "/RMSNorm");
  EXPECT_EQ(norm->LayerAnnotation(), "first");
  EXPECT_FLOAT_EQ(std::get<float>(norm->FindAttribute("epsilon")->value), 1e-6f);
}

TEST_F(FusionTest, RmsNormOfHalfPrecisionIsComputedInFloat) {
  const ValueId x = In("x", {"b", "s", "2"}, DataType::kFloat16);
  const ValueId wide = Op("Cast", {x}, {Attr("to", int64_t{1})});
  const ValueId square = Op("Mul", {wide, wide});
  const ValueId mean = Op("ReduceMean", {square}, {Attr("axes", std::vector<int64_t>{-1})});
  const ValueId inverse = Op("Reciprocal", {Op("Sqrt", {Op("Add", {mean, Float(1e-6f)})})});
  const ValueId narrow = Op("Cast", {Op("Mul", {wide, inverse})}, {Attr("to", int64_t{10})});
  Out(Op("Mul", {narrow, Constant<Float16>(Shape{2}, {Float16(1), Float16(2)}, DataType::kFloat16)}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 1);
}

TEST_F(FusionTest, NoRmsNormWhereTheMeanIsReadElsewhere) {
  Out(RmsNorm(In("x", {"b", "s", "4"}), Floats(Shape{4}, {1, 2, 3, 4})));
  Out(Op("Relu", {mean_square_}));
  Apply({"rms-norm"});
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 0);
}

TEST_F(FusionTest, NoRmsNormWhereTheMeanIsAnOutput) {
  Out(RmsNorm(In("x", {"b", "s", "4"}), Floats(Shape{4}, {1, 2, 3, 4})));
  Out(mean_square_);
  Apply({"rms-norm"});
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 0);
}

TEST_F(FusionTest, NoRmsNormOverAnotherAxis) {
  Out(RmsNorm(In("x", {"b", "4", "4"}), Floats(Shape{4}, {1, 2, 3, 4}), {1}));
  Apply({"rms-norm"});
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 0);
}

TEST_F(FusionTest, NoRmsNormWithAScaleOfAnotherShape) {
  Out(RmsNorm(In("x", {"b", "2", "4"}), Floats(Shape{2, 1}, {1, 2})));
  Apply({"rms-norm"});
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 0);
}

TEST_F(FusionTest, NoRmsNormOfDoubles) {
  const ValueId x = In("x", {"b", "2"}, DataType::kDouble);
  const auto number = [&](double value) { return Constant<double>(Shape{}, {value}, DataType::kDouble); };
  const ValueId mean =
      Op("ReduceMean", {Op("Pow", {x, number(2)})}, {Attr("axes", std::vector<int64_t>{-1})});
  const ValueId inverse = Op("Div", {number(1), Op("Sqrt", {Op("Add", {mean, number(1e-6)})})});
  Out(Op("Mul", {Constant<double>(Shape{2}, {1, 2}, DataType::kDouble), Op("Mul", {x, inverse})}));
  Apply({"rms-norm"});
  EXPECT_EQ(Count("SimplifiedLayerNormalization"), 0);
}

TEST_F(FusionTest, LayerNormWithBias) {
  const ValueId x = In("x", {"b", "s", "2"});
  const auto mean = [&](ValueId v) {
    return Op("ReduceMean", {v}, {Attr("axes", std::vector<int64_t>{-1})});
  };
  const ValueId centred = Op("Sub", {x, mean(x)});
  const ValueId variance = mean(Op("Pow", {centred, Float(2)}));
  const ValueId normed = Op("Div", {centred, Op("Sqrt", {Op("Add", {variance, Float(1e-5f)})})});
  Out(Op("Add", {Op("Mul", {normed, Floats(Shape{2}, {1, 2})}), Floats(Shape{2}, {3, 4})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Only("LayerNormalization")->inputs.size(), 3u);
}

TEST_F(FusionTest, SkipNormKeepsTheSumForOthers) {
  const ValueId a = In("a", {"b", "s", "4"});
  const ValueId sum = Op("Add", {a, In("c", {"b", "s", "4"})});
  Out(RmsNorm(sum, Floats(Shape{4}, {1, 2, 3, 4})));
  Out(Op("Relu", {sum}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 2);
  const Node* norm = Only("SkipSimplifiedLayerNormalization");
  ASSERT_EQ(norm->outputs.size(), 4u);
  EXPECT_EQ(norm->outputs[3], sum);
}

TEST_F(FusionTest, NoSkipNormOfASumThatBroadcasts) {
  const ValueId sum = Op("Add", {In("a", {"b", "s", "4"}), In("c", {"1", "s", "4"})});
  Out(RmsNorm(sum, Floats(Shape{4}, {1, 2, 3, 4})));
  Apply();
  EXPECT_EQ(Count("Add"), 1);
}

TEST_F(FusionTest, SiluAndSwiGlu) {
  const ValueId gate = In("gate", {"b", "4"});
  const ValueId silu = Op("Mul", {gate, Op("Sigmoid", {gate})});
  Out(Op("Mul", {silu, In("up", {"b", "4"})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Count("SwiGLU"), 1);
}

TEST_F(FusionTest, NoSwiGluWhereSiluIsReadElsewhere) {
  const ValueId gate = In("gate", {"b", "4"});
  const ValueId silu = Op("Mul", {gate, Op("Sigmoid", {gate})});
  Out(Op("Mul", {silu, In("up", {"b", "4"})}));
  Out(silu);
  Apply();
  EXPECT_EQ(Count("SwiGLU"), 0);
  EXPECT_EQ(Count("QuickGelu"), 1);
}

TEST_F(FusionTest, NoSiluOfTwoValues) {
  Out(Op("Mul", {In("x", {"b", "4"}), Op("Sigmoid", {In("y", {"b", "4"})})}));
  Apply();
  EXPECT_EQ(Count("Sigmoid"), 1);
}

TEST_F(FusionTest, GeluOfErf) {
  const ValueId x = In("x", {"b", "4"});
  const ValueId erf = Op("Erf", {Op("Div", {x, Float(std::sqrt(2.0f))})});
  Out(Op("Mul", {Op("Mul", {x, Op("Add", {erf, Float(1)})}), Float(0.5f)}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Count("Gelu"), 1);
}

TEST_F(FusionTest, NoGeluWithAnotherConstant) {
  const ValueId x = In("x", {"b", "4"});
  const ValueId erf = Op("Erf", {Op("Div", {x, Float(1.5f)})});
  Out(Op("Mul", {Op("Mul", {x, Op("Add", {erf, Float(1)})}), Float(0.5f)}));
  Apply();
  EXPECT_EQ(Count("Gelu"), 0);
}

TEST_F(FusionTest, GeluOfTanh) {
  const ValueId x = In("x", {"b", "4"});
  const ValueId inner = Op("Add", {x, Op("Mul", {Float(0.044715f), Op("Pow", {x, Float(3)})})});
  const ValueId tanh = Op("Tanh", {Op("Mul", {Float(0.7978845608f), inner})});
  Out(Op("Mul", {Op("Mul", {Float(0.5f), x}), Op("Add", {Float(1), tanh})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Count("FastGelu"), 1);
}

}  // namespace
}  // namespace lamina::testing
