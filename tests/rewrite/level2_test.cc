// Rewrites after placement: within one provider, and those of a provider on its nodes alone.
#include <map>

#include "rewrite/rewrite_fixture.h"
#include "rewrite/single_provider.h"

namespace lamina::testing {
namespace {

// Nodes on providers by the name of the node: "far..." or the CPU.
class ByName : public NodeAssignment {
 public:
  std::string_view ProviderOf(const Graph& graph, NodeId node) const override {
    const auto inherited = inherited_.find(node.index);
    if (inherited != inherited_.end()) return inherited->second;
    return graph.node(node).name.str().rfind("far", 0) == 0 ? "far" : "cpu";
  }
  void Inherit(const Graph& graph, NodeId made, NodeId original) override {
    inherited_[made.index] = std::string(ProviderOf(graph, original));
  }

 private:
  std::map<int32_t, std::string> inherited_;
};

class Level2Test : public RewriteTest {
 protected:
  // x w + bias, both nodes under names.
  void Build(std::string_view product, std::string_view sum, DataType type = DataType::kFloat) {
    Reset(17);
    const ValueId x = In("x", {"b", "s", "8"}, type);
    const ValueId w = Typed(type, Shape{8, 24}, 1);
    const ValueId bias = Typed(type, Shape{24}, 2);
    const ValueId xw = graph().MakeValue({}), y = graph().MakeValue({});
    graph().AddNode(product, "MatMul", "", 17, {x, w}, {xw});
    graph().AddNode(sum, "Add", "", 17, {bias, xw}, {y});
    Out(y);
    ASSERT_TRUE(InferShapes(*model_).ok());
  }

  ValueId Typed(DataType type, const Shape& shape, uint32_t seed) {
    const std::vector<float> values = RandomNumbers(shape.num_elements(), seed);
    if (type == DataType::kFloat) return Floats(shape, values);
    const std::vector<double> doubles(values.begin(), values.end());
    return Constant<double>(shape, doubles, type);
  }

  RewriteReport ApplyLevel2(NodeAssignment& assignment, const std::string& disabled = "") {
    RewriteOptions options;
    options.disabled = disabled;
    const Result<RewriteReport> report = ApplyLevel2Rewrites(*model_, assignment, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : RewriteReport();
  }
};

TEST_F(Level2Test, AProductTakesItsBiasOnTheCpu) {
  Build("product", "sum");
  const std::vector<Tensor> inputs = {FloatTensor(Shape{2, 3, 8})};
  ExpectRewritesKeepResults(inputs);
  SingleProvider cpu("cpu");
  ApplyLevel2(cpu);
  EXPECT_EQ(Only("MatMulAdd")->name.str(), "sum/MatMulAdd");
  EXPECT_EQ(graph().num_alive_nodes(), 1);
}

TEST_F(Level2Test, NodesOfOtherProvidersStay) {
  ByName assignment;
  for (const auto& [product, sum] : {std::pair("far/product", "far/sum"), std::pair("product", "far/sum"),
                                     std::pair("far/product", "sum")}) {
    Build(product, sum);
    ApplyLevel2(assignment);
    EXPECT_EQ(Count("MatMulAdd"), 0) << product << " " << sum;
  }
}

TEST_F(Level2Test, RewritesAreSwitchedOffByNameAndLevel) {
  SingleProvider cpu("cpu");
  for (const char* disabled : {"all", "level2", "matmul-bias"}) {
    Build("product", "sum");
    EXPECT_EQ(ApplyLevel2(cpu, disabled).total(), 0) << disabled;
  }
  Build("product", "sum");
  EXPECT_EQ(ApplyLevel2(cpu, "level1").total(), 1);
}

TEST_F(Level2Test, DoublesAndOtherShapesStay) {
  SingleProvider cpu("cpu");
  Build("product", "sum", DataType::kDouble);
  EXPECT_EQ(ApplyLevel2(cpu).total(), 0);
  Reset(17);
  const ValueId x = In("x", {"b", "s", "8"});
  Out(Op("Add", {Op("MatMul", {x, Floats(Shape{8, 2}, std::vector<float>(16, 1))}), Float(3)}));
  ASSERT_TRUE(InferShapes(*model_).ok());
  EXPECT_EQ(ApplyLevel2(cpu).total(), 0);
}

}  // namespace
}  // namespace lamina::testing
