// The three ways to write a kernel: in the tree, the same source in a plugin, and C against lamina_ep.h. All
// ask for the same workspace and compute the same.
#include <gtest/gtest.h>

#include "providers/plugin/kernel_run.h"
#include "providers/plugin/plugin_library.h"
#include "providers/plugin/test_plugin.h"
#include "runtime/value_compare.h"
#include "support/op_tester.h"
#include "support/random_data.h"

namespace lamina {

void RegisterConvKernels(KernelRegistry& registry);
void RegisterGroupQueryAttention(KernelRegistry& registry);

namespace {

using testing::CpuRegistry;
using testing::KernelRun;
using testing::OpTester;
using testing::PluginNode;
using testing::RandomNumbers;
using testing::RunOn;
using testing::TestPlugin;

Tensor RandomTensor(DataType type, const Shape& shape, uint64_t seed) {
  return OpTester::MakeFloatTensor(type, shape, RandomNumbers<double>(shape.num_elements(), seed, -1, 1));
}

struct ConvCase {
  const char* name;
  DataType type = DataType::kFloat;
  bool constant_weights = false;
  int64_t group = 1;
  std::vector<int64_t> strides{1, 1}, pads{0, 0, 0, 0}, dilations{1, 1};

  // Without it the bytes are printed, those between the members too.
  friend void PrintTo(const ConvCase& test, std::ostream* out) { *out << test.name; }
};

class ConvAuthoringTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    const ConvCase& c = GetParam();
    inputs_ = {RandomTensor(c.type, {2, 4, 9, 7}, 1), RandomTensor(c.type, {6, 4 / c.group, 3, 3}, 2),
               RandomTensor(c.type, {6}, 3)};
    for (size_t i = 0; i < inputs_.size(); ++i) node_.AddInput(inputs_[i], i == 1 && c.constant_weights);
    node_.AddOutput(ValueType::Tensor(c.type), nullptr);
    node_.SetAttribute("group", c.group);
    node_.SetAttribute("strides", c.strides);
    node_.SetAttribute("pads", c.pads);
    node_.SetAttribute("dilations", c.dilations);
  }

  PluginNode node_{"Conv", 11};
  std::vector<Value> inputs_;
};

void ExpectSame(const KernelRun& expected, const KernelRun& actual) {
  EXPECT_EQ(actual.has_estimate, expected.has_estimate);
  EXPECT_EQ(actual.estimated_bytes, expected.estimated_bytes);
  EXPECT_EQ(actual.packed_bytes, expected.packed_bytes);
  ASSERT_EQ(actual.workspace.size(), expected.workspace.size());
  for (size_t i = 0; i < expected.workspace.size(); ++i) {
    EXPECT_EQ(actual.workspace[i].slot_id, expected.workspace[i].slot_id);
    EXPECT_EQ(actual.workspace[i].size_bytes, expected.workspace[i].size_bytes);
  }
  ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const Status same = CompareValues(expected.outputs[i], actual.outputs[i], {});
    EXPECT_TRUE(same.ok()) << "output " << i << ": " << same.ToString();
  }
}

TEST_P(ConvAuthoringTest, InTreeSharedSourceAndCAgree) {
  const auto in_tree = RunOn(CpuRegistry(), node_, inputs_);
  ASSERT_TRUE(in_tree.ok()) << in_tree.status().ToString();
  EXPECT_TRUE(in_tree->has_estimate);
  const bool converts_in_each_call = GetParam().type == DataType::kFloat16 && !GetParam().constant_weights;
  EXPECT_EQ(in_tree->workspace.empty(), !converts_in_each_call);

  TestPlugin shared_source;
  shared_source.kernels = RegisterConvKernels;
  const auto provider = shared_source.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto shared = RunOn((*provider)->kernel_registry(), node_, inputs_);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  ExpectSame(*in_tree, *shared);

  const auto factories =
      plugin::LoadProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libc_provider.so");
  ASSERT_TRUE(factories.ok()) << factories.status().ToString();
  const auto c_provider = factories->front()->Create({});
  ASSERT_TRUE(c_provider.ok()) << c_provider.status().ToString();
  const auto in_c = RunOn((*c_provider)->kernel_registry(), node_, inputs_);
  ASSERT_TRUE(in_c.ok()) << in_c.status().ToString();
  ExpectSame(*in_tree, *in_c);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ConvAuthoringTest,
    ::testing::Values(ConvCase{"plain"}, ConvCase{"strides", DataType::kFloat, false, 1, {2, 1}},
                      ConvCase{"pads", DataType::kFloat, true, 1, {1, 2}, {1, 2, 0, 1}},
                      ConvCase{"groups", DataType::kFloat, false, 2, {1, 1}, {1, 1, 1, 1}},
                      ConvCase{"dilations", DataType::kFloat, false, 1, {1, 1}, {2, 2, 2, 2}, {2, 2}},
                      ConvCase{"half", DataType::kFloat16},
                      ConvCase{"half_constant", DataType::kFloat16, true},
                      ConvCase{"half_groups", DataType::kFloat16, false, 2}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(KernelAuthoringTest, AKernelWithoutAnEstimateHasNoneInAPlugin) {
  TestPlugin test_plugin;
  test_plugin.kernels = [](KernelRegistry& registry) {
    KernelRegistry conv;
    RegisterConvKernels(conv);
    for (const KernelCreateInfo* info : conv.All()) registry.Add(info->def, info->create);
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  PluginNode node("Conv", 11);
  const std::vector<Value> inputs = {RandomTensor(DataType::kFloat16, {1, 2, 5, 5}, 1),
                                     RandomTensor(DataType::kFloat16, {3, 2, 3, 3}, 2)};
  for (const Value& input : inputs) node.AddInput(input, false);
  node.AddOutput(ValueType::Tensor(DataType::kFloat16), nullptr);
  const auto run = RunOn((*provider)->kernel_registry(), node, inputs);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_FALSE(run->has_estimate);
  EXPECT_EQ(run->workspace.size(), 1u);  // the declaration is the kernel's own
}

TEST(KernelAuthoringTest, GroupQueryAttentionAgreesInTheTreeAndInAPlugin) {
  TestPlugin shared_source;
  shared_source.kernels = RegisterGroupQueryAttention;
  const auto provider = shared_source.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  constexpr int64_t kBatch = 1, kSequence = 3, kHeads = 4, kKvHeads = 2, kHeadSize = 16, kPast = 5;
  for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
    SCOPED_TRACE(DataTypeName(type));
    PluginNode node("GroupQueryAttention", 1, kMsDomain);
    node.SetAttribute("num_heads", kHeads);
    node.SetAttribute("kv_num_heads", kKvHeads);
    node.SetAttribute("do_rotary", int64_t{1});
    const int64_t total = kPast + kSequence;
    const std::vector<Value> inputs = {
        RandomTensor(type, {kBatch, kSequence, kHeads * kHeadSize}, 1),
        RandomTensor(type, {kBatch, kSequence, kKvHeads * kHeadSize}, 2),
        RandomTensor(type, {kBatch, kSequence, kKvHeads * kHeadSize}, 3),
        RandomTensor(type, {kBatch, kKvHeads, kPast, kHeadSize}, 4),
        RandomTensor(type, {kBatch, kKvHeads, kPast, kHeadSize}, 5),
        OpTester::MakeTensor<int32_t>({kBatch}, {static_cast<int32_t>(total - 1)}),
        OpTester::MakeTensor<int32_t>({}, {static_cast<int32_t>(total)}),
        RandomTensor(type, {32, kHeadSize / 2}, 6),
        RandomTensor(type, {32, kHeadSize / 2}, 7)};
    for (size_t i = 0; i < inputs.size(); ++i) node.AddInput(inputs[i], i >= 7);
    for (int i = 0; i < 3; ++i) node.AddOutput(ValueType::Tensor(type), nullptr);
    const auto in_tree = RunOn(CpuRegistry(), node, inputs);
    ASSERT_TRUE(in_tree.ok()) << in_tree.status().ToString();
    EXPECT_GT(in_tree->estimated_bytes, 0u);
    EXPECT_GE(in_tree->workspace.size(), 2u);
    const auto shared = RunOn((*provider)->kernel_registry(), node, inputs);
    ASSERT_TRUE(shared.ok()) << shared.status().ToString();
    ExpectSame(*in_tree, *shared);
    EXPECT_EQ(shared->outputs.size(), 3u);
  }
}

}  // namespace
}  // namespace lamina
