// Products and convolutions: merged, scaled, transposed weights are derived, never computed.
#include "rewrite/rewrite_fixture.h"
#include "rewrite/single_provider.h"
#include "weights/derived_elements.h"

namespace lamina::testing {
namespace {

class ProductTest : public RewriteTest {
 protected:
  // The elements of a constant, derived or not.
  std::vector<float> Elements(ValueId id) {
    const Initializer* initializer = graph().ConstantOf(id);
    EXPECT_NE(initializer, nullptr);
    if (initializer == nullptr) return {};
    const Result<Tensor> tensor =
        ComputeDerived(*model_->derived->ExpressionOf(*initializer),
                       [](const Initializer& source) -> Result<Tensor> { return *source.InMemory(); });
    EXPECT_TRUE(tensor.ok()) << tensor.status().message();
    if (!tensor.ok()) return {};
    const auto elements = tensor->elements<float>();
    return {elements.begin(), elements.end()};
  }

  ValueId Attention(ValueId q, ValueId k, ValueId v) {
    const ValueId past_key = In("past_key", {"b", "1", "p", "8"});
    const ValueId past_value = In("past_value", {"b", "1", "p", "8"});
    const std::vector<ValueId> outputs = {graph().MakeValue({}), graph().MakeValue({}),
                                          graph().MakeValue({})};
    graph().AddNode("attention", "GroupQueryAttention", "com.microsoft", 1, {q, k, v, past_key, past_value},
                    outputs, {Attr("num_heads", int64_t{1}), Attr("kv_num_heads", int64_t{1})});
    return outputs[0];
  }

  ValueId Matrix(int64_t rows, int64_t columns, float first) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * columns; ++i) values.push_back(first + static_cast<float>(i));
    return Floats(Shape{rows, columns}, values);
  }
};

TEST_F(ProductTest, QueryKeyAndValueAreOneProduct) {
  const ValueId x = In("x", {"b", "s", "2"});
  const ValueId q = Op("MatMul", {x, Matrix(2, 8, 0)});
  const ValueId k = Op("MatMul", {x, Matrix(2, 8, 100)});
  const ValueId v = Op("MatMul", {x, Matrix(2, 8, 200)});
  Out(Attention(q, k, v));
  Apply();
  const Node* product = Only("MatMul");
  const std::vector<float> weight = Elements(product->inputs[1]);
  ASSERT_EQ(weight.size(), 48u);
  EXPECT_EQ(weight[7], 7);
  EXPECT_EQ(weight[8], 100);
  EXPECT_EQ(weight[16], 200);
  EXPECT_EQ(weight[24], 8);
  const Node* attention = Only("GroupQueryAttention");
  EXPECT_FALSE(attention->inputs[1].valid());
  EXPECT_FALSE(attention->inputs[2].valid());
}

TEST_F(ProductTest, GateAndUpAreOneProduct) {
  const ValueId x = In("x", {"b", "s", "2"});
  const ValueId gate = Op("Add", {Op("MatMul", {x, Matrix(2, 4, 0)}), Floats(Shape{4}, {1, 2, 3, 4})});
  const ValueId up = Op("Add", {Op("MatMul", {x, Matrix(2, 4, 100)}), Floats(Shape{4}, {5, 6, 7, 8})});
  const ValueId out = Op("Mul", {Op("Mul", {gate, Op("Sigmoid", {gate})}), up});
  Out(out);
  Apply();
  SingleProvider cpu("cpu");
  const Result<RewriteReport> report = ApplyLevel2Rewrites(*model_, cpu, {"matmul-bias", {}, nullptr});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(Elements(Only("MatMul")->inputs[1]),
            (std::vector<float>{0, 1, 2, 3, 100, 101, 102, 103, 4, 5, 6, 7, 104, 105, 106, 107}));
  EXPECT_EQ(Elements(Only("Add")->inputs[1]), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  const Node* swiglu = Only("SwiGLU");
  EXPECT_EQ(swiglu->inputs.size(), 1u);
  EXPECT_TRUE(graph().value(out).shape->dims[2].Is(4));
}

TEST_F(ProductTest, GateAndUpOfOtherInputsStay) {
  const ValueId x = In("x", {"b", "s", "2"});
  const ValueId gate = Op("MatMul", {x, Matrix(2, 4, 0)});
  const ValueId up = Op("MatMul", {In("y", {"b", "s", "2"}), Matrix(2, 4, 100)});
  Out(Op("Mul", {Op("Mul", {gate, Op("Sigmoid", {gate})}), up}));
  Apply();
  SingleProvider cpu("cpu");
  ASSERT_TRUE(ApplyLevel2Rewrites(*model_, cpu).ok());
  EXPECT_EQ(Count("MatMul"), 2);
  EXPECT_EQ(Only("SwiGLU")->inputs.size(), 2u);
}

// Gates of an LSTM in another order: the weight is cut and put together once, when it is loaded.
TEST_F(ProductTest, WeightsThatAreCutAndPutTogetherAreDerived) {
  const ValueId weight = Matrix(4, 3, 0);
  const auto rows = [&](int64_t first, int64_t end) {
    return Op("Slice", {weight, Ints({first}), Ints({end}), Ints({0}), Ints({1})});
  };
  const ValueId ordered = Op("Concat", {rows(2, 4), rows(-4, -3), rows(1, 2)}, {Attr("axis", int64_t{0})});
  Out(Op("MatMul", {In("x", {"n", "4"}), ordered}));
  Apply({"derive-constants"});
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Elements(Only("MatMul")->inputs[1]), (std::vector<float>{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
}

TEST_F(ProductTest, SlicesWithStepsStay) {
  const ValueId sliced = Op("Slice", {Matrix(4, 3, 0), Ints({0}), Ints({4}), Ints({0}), Ints({2})});
  Out(Op("MatMul", {In("x", {"n", "2"}), sliced}));
  Apply({"derive-constants"});
  EXPECT_EQ(Count("Slice"), 1);
}

TEST_F(ProductTest, BiasesAreMergedToo) {
  const ValueId x = In("x", {"b", "s", "2"});
  std::vector<ValueId> parts;
  for (const float first : {0.0f, 100.0f, 200.0f}) {
    parts.push_back(
        Op("Add", {Op("MatMul", {x, Matrix(2, 8, first)}), Floats(Shape{8}, std::vector<float>(8, first))}));
  }
  Out(Attention(parts[0], parts[1], parts[2]));
  Apply();
  EXPECT_EQ(Count("MatMul"), 1);
  const std::vector<float> bias = Elements(Only("Add")->inputs[1]);
  ASSERT_EQ(bias.size(), 24u);
  EXPECT_EQ(bias[23], 200);
}

TEST_F(ProductTest, ProductsOfOtherInputsOrWithOtherUsersStay) {
  const ValueId x = In("x", {"b", "s", "2"});
  const ValueId y = In("y", {"b", "s", "2"});
  const ValueId q = Op("MatMul", {y, Matrix(2, 8, 0)});
  Out(Attention(q, Op("MatMul", {x, Matrix(2, 8, 1)}), Op("MatMul", {x, Matrix(2, 8, 2)})));
  Apply();
  EXPECT_EQ(Count("MatMul"), 3);

  Reset(17);
  const ValueId z = In("x", {"b", "s", "2"});
  const ValueId k = Op("MatMul", {z, Matrix(2, 8, 1)});
  Out(Attention(Op("MatMul", {z, Matrix(2, 8, 0)}), k, Op("MatMul", {z, Matrix(2, 8, 2)})));
  Out(k);
  Apply();
  EXPECT_EQ(Count("MatMul"), 3);
}

TEST_F(ProductTest, ATransposedWeightIsDerived) {
  const ValueId w = Floats(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  Out(Op("MatMul", {In("x", {"n", "2"}), Op("Transpose", {w}, {Attr("perm", std::vector<int64_t>{1, 0})})}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  EXPECT_EQ(Elements(Only("MatMul")->inputs[1]), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST_F(ProductTest, AScaleGoesIntoTheWeight) {
  const ValueId w = Floats(Shape{2, 2}, {1, 2, 3, 4});
  Out(Op("Mul", {Op("MatMul", {In("x", {"n", "s", "2"}), w}), Float(0.5f)}));
  Apply();
  EXPECT_EQ(Count("Mul"), 0);
  EXPECT_EQ(Elements(Only("MatMul")->inputs[1]), (std::vector<float>{0.5f, 1, 1.5f, 2}));
}

TEST_F(ProductTest, AScaleOfASharedWeightStays) {
  const ValueId w = Floats(Shape{2, 2}, {1, 2, 3, 4});
  const ValueId x = In("x", {"n", "s", "2"});
  Out(Op("Mul", {Op("MatMul", {x, w}), Float(0.5f)}));
  Out(Op("MatMul", {Op("Relu", {x}), w}));
  Apply();
  EXPECT_EQ(Count("Mul"), 1);
}

TEST_F(ProductTest, ABiasMakesAGemmOfMatricesOnly) {
  const ValueId w = Floats(Shape{2, 2}, {1, 2, 3, 4});
  const ValueId bias = Floats(Shape{2}, {1, 2});
  Out(Op("Add", {Op("MatMul", {In("x", {"n", "2"}), w}), bias}));
  Out(Op("Add", {Op("MatMul", {In("y", {"n", "s", "2"}), w}), bias}));
  Apply();
  EXPECT_EQ(Count("Gemm"), 1);
  EXPECT_EQ(Count("MatMul"), 1);
}

TEST_F(ProductTest, BatchNormalizationGoesIntoTheConvolution) {
  const ValueId x = In("x", {"n", "1", "4", "4"});
  const ValueId w = Floats(Shape{2, 1, 1, 1}, {1, 2});
  const ValueId conv = Op("Conv", {x, w});
  const ValueId norm = Op("BatchNormalization",
                          {conv, Floats(Shape{2}, {2, 4}), Floats(Shape{2}, {1, 1}), Floats(Shape{2}, {3, 0}),
                           Floats(Shape{2}, {1, 4})},
                          {Attr("epsilon", 0.0f)});
  Out(Op("Relu", {norm}));
  Apply();
  EXPECT_EQ(graph().num_alive_nodes(), 1);
  const Node* fused = Only("FusedConv");
  EXPECT_EQ(Elements(fused->inputs[1]), (std::vector<float>{2, 4}));
  EXPECT_EQ(Elements(fused->inputs[2]), (std::vector<float>{-5, 1}));
}

TEST_F(ProductTest, BatchNormalizationOfAConvolutionWithOtherUsersStays) {
  const ValueId conv = Op("Conv", {In("x", {"n", "1", "4", "4"}), Floats(Shape{1, 1, 1, 1}, {1})});
  const ValueId one = Floats(Shape{1}, {1});
  Out(Op("BatchNormalization", {conv, one, one, one, one}));
  Out(conv);
  Apply();
  EXPECT_EQ(Count("BatchNormalization"), 1);
}

}  // namespace
}  // namespace lamina::testing
