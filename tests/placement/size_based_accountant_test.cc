#include "placement/size_based_accountant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using ::testing::HasSubstr;

// out = MatMul(x [2,4], w [4,8]); sum = Add(out, w2 [8]); both floats.
class AccountantTest : public ::testing::Test {
 protected:
  AccountantTest() : graph_(std::make_shared<NamePool>(), nullptr) {
    x_ = Value("x", {2, 4});
    graph_.AddInput(x_);
    w_ = Weight("w", {4, 8});
    w2_ = Weight("w2", {8});
    out_ = Value("out", {2, 8});
    sum_ = Value("sum", {2, 8});
    matmul_ = graph_.AddNode("matmul", "MatMul", "", 13, {x_, w_}, {out_});
    add_ = graph_.AddNode("add", "Add", "", 13, {out_, w2_}, {sum_});
  }

  ValueId Value(const char* name, std::initializer_list<int64_t> dims) {
    SymbolicShape shape;
    for (const int64_t dim : dims) shape.dims.emplace_back(dim);
    return graph_.MakeValue(name, ValueType::Tensor(DataType::kFloat), shape);
  }
  ValueId Weight(const char* name, std::initializer_list<int64_t> dims) {
    const ValueId id = Value(name, dims);
    Initializer initializer;
    initializer.name = graph_.value(id).name;
    initializer.type = DataType::kFloat;
    initializer.shape = Shape(dims);
    initializer.source = ExternalDataRef{"weights.bin", 0, 0, ""};
    graph_.AddInitializer(id, std::move(initializer));
    return id;
  }

  Graph graph_;
  ValueId x_, w_, w2_, out_, sum_;
  NodeId matmul_, add_;
};

TEST_F(AccountantTest, CountsWeightsAndOutputs) {
  SizeBasedAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, matmul_), 4U * 8 * 4 + 2 * 8 * 4);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, add_), 8U * 4 + 2 * 8 * 4);
}

TEST_F(AccountantTest, SharedWeightsCountOnce) {
  const ValueId other = Value("other", {2, 8});
  const NodeId again = graph_.AddNode("again", "MatMul", "", 13, {x_, w_}, {other});
  SizeBasedAccountant accountant(1 << 20, nullptr);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, matmul_), 192U);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, again), 64U);  // its output alone: the weight is pending
  // A pass that is made again charges it again, ...
  accountant.SetStopAssignment();
  accountant.ResetForNewPass();
  EXPECT_FALSE(accountant.IsStopIssued());
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, again), 192U);
  // ... unless the node that has it was placed.
  accountant.CommitWeightsForNode(graph_, matmul_);
  accountant.ResetForNewPass();
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, again), 64U);
}

TEST_F(AccountantTest, DynamicOutputsCountNothing) {
  SymbolicShape dynamic;
  dynamic.dims = {DimExpr::Symbol("n"), DimExpr(8)};
  graph_.mutable_value(out_).shape = dynamic;
  SizeBasedAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, matmul_), 128U);
}

TEST_F(AccountantTest, ConsumedAmountsSaturate) {
  SizeBasedAccountant accountant(100, nullptr);
  EXPECT_EQ(accountant.GetThreshold(), 100U);
  accountant.AddConsumedAmount(70);
  accountant.RemoveConsumedAmount(20);
  EXPECT_EQ(accountant.GetConsumedAmount(), 50U);
  accountant.RemoveConsumedAmount(80);
  EXPECT_EQ(accountant.GetConsumedAmount(), 0U);
  accountant.AddConsumedAmount(UINT64_MAX);
  accountant.AddConsumedAmount(5);
  EXPECT_EQ(accountant.GetConsumedAmount(), UINT64_MAX);
}

TEST_F(AccountantTest, BudgetCostsAddTheEstimateOrHalfAgain) {
  SizeBasedAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(*ComputeNodeCostForBudget(accountant, graph_, matmul_, std::nullopt), 288U);  // 192 x 1.5
  accountant.ResetForNewPass();
  EXPECT_EQ(*ComputeNodeCostForBudget(accountant, graph_, matmul_, 1000), 1192U);
  EXPECT_EQ(*ComputeNodeCostForBudget(accountant, graph_, add_, 0), 96U);  // known to need none
  EXPECT_EQ(ApplyWorkspaceHeuristic(1000), 1500U);
  EXPECT_EQ(ApplyWorkspaceHeuristic(UINT64_MAX), UINT64_MAX);
}

TEST_F(AccountantTest, StatisticsReplaceShapes) {
  const std::string name = NodeStatsName(graph_, matmul_);
  EXPECT_THAT(name, HasSubstr("matmul_"));
  auto stats = std::make_shared<NodeMemoryStatsTable>();
  stats->UpdateIfGreater(name, {8, 128, 256, 32});
  SizeBasedAccountant accountant(std::nullopt, stats);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, matmul_), 424U);
  EXPECT_EQ(*accountant.ComputeResourceCount(graph_, add_), 0U);  // not in the file
}

TEST_F(AccountantTest, NamesDependOnInputsAndOutputs) {
  const std::string before = NodeStatsName(graph_, add_);
  graph_.SetInput(add_, 1, w_);
  EXPECT_NE(NodeStatsName(graph_, add_), before);
}

TEST(NodeMemoryStatsTableTest, ReadsAndWritesTheFile) {
  const Result<NodeMemoryStatsTable> table = NodeMemoryStatsTable::Parse(
      "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n\n"
      "layers.1/relu_6214874688972982532,8,0,256,0\r\n,1,2,3,4\n");
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(table->size(), 1U);
  const NodeMemoryStats* stats = table->Find("layers.1/relu_6214874688972982532");
  ASSERT_NE(stats, nullptr);
  EXPECT_EQ(stats->input_bytes, 8U);
  EXPECT_EQ(stats->dynamic_bytes, 256U);
  EXPECT_EQ(NodeMemoryStatsTable::Parse(table->ToCsv())->ToCsv(), table->ToCsv());
  EXPECT_THAT(table->ToCsv(),
              HasSubstr("#name,input_sizes,initializers_sizes,total_dynamic_sizes,"
                        "total_temp_allocations\nlayers.1/relu_6214874688972982532,8,0,256,0\n"));
}

TEST(NodeMemoryStatsTableTest, KeepsTheLargest) {
  NodeMemoryStatsTable table;
  table.UpdateIfGreater("n_1", {1, 20, 3, 40});
  table.UpdateIfGreater("n_1", {10, 2, 30, 4});
  EXPECT_EQ(table.ToCsv().substr(table.ToCsv().find('\n') + 1), "n_1,10,20,30,40\n");
}

TEST(NodeMemoryStatsTableTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(NodeMemoryStatsTable::Parse("#\na,1,2,3\n").status().message(),
              HasSubstr("line 2: expected 5 fields, found 4"));
  EXPECT_THAT(NodeMemoryStatsTable::Parse("a,1,2,3,x\n").status().message(), HasSubstr("found 'x'"));
  EXPECT_THAT(NodeMemoryStatsTable::Parse("a,1,2,3,-4\n").status().message(), HasSubstr("found '-4'"));
  EXPECT_EQ(NodeMemoryStatsTable::Read("no/such/file.csv").status().code(), StatusCode::kNotFound);
}

TEST(PartitioningSettingsTest, LimitAndFile) {
  const auto both = ParsePartitioningSettings("4194304,stats.csv");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->limit_bytes, uint64_t{4} << 30);
  EXPECT_EQ(both->stats_file, "stats.csv");
  EXPECT_FALSE(ParsePartitioningSettings(",stats.csv")->limit_bytes.has_value());
  EXPECT_EQ(ParsePartitioningSettings("4194304,")->stats_file, "");
  EXPECT_FALSE(ParsePartitioningSettings(",")->limit_bytes.has_value());
  for (const char* text : {"abc", "1,2,3", "-5,", "x,", "99999999999999999999,", "18446744073709551615,"}) {
    EXPECT_EQ(ParsePartitioningSettings(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace lamina
