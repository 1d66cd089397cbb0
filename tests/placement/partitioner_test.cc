#include "placement/partitioner.h"

#include <gtest/gtest.h>

#include <set>

#include "placement/apply_placement.h"

namespace lamina {
namespace {

class FakeProvider : public ProviderHostHalf {
 public:
  FakeProvider(const char* name, DeviceKind kind) : name_(name), kind_(kind) {}
  std::string_view name() const override { return name_; }
  std::string_view vendor() const override { return "fake"; }
  DeviceKind device_kind() const override { return kind_; }
  const KernelRegistry& kernel_registry() const override { return registry; }
  Result<Capability> GetCapability(const CapabilityRequest& request) const override {
    for (const NodeId id : request.nodes) seen.insert(request.graph->node(id).name.str());
    LAMINA_ASSIGN_OR_RETURN(Capability capability, ProviderHostHalf::GetCapability(request));
    if (!fuses) return capability;
    capability.fused.push_back(std::move(capability.nodes));
    capability.nodes.clear();
    return capability;
  }

  KernelRegistry registry;
  bool fuses = false;
  mutable std::set<std::string> seen;

 private:
  const char* name_;
  DeviceKind kind_;
};

class NoConstants : public ConstantValues {
 public:
  const Value* Find(const Graph&, ValueId) const override { return nullptr; }
};

class FakeAccountant : public IResourceAccountant {
 public:
  explicit FakeAccountant(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  uint64_t GetConsumedAmount() const override { return consumed_bytes_; }
  void AddConsumedAmount(uint64_t bytes) override { consumed_bytes_ += bytes; }
  void RemoveConsumedAmount(uint64_t bytes) override { consumed_bytes_ -= bytes; }
  std::optional<uint64_t> GetThreshold() const override { return limit_bytes_; }
  Result<uint64_t> ComputeResourceCount(const Graph&, NodeId) override { return uint64_t{100}; }
  void CommitWeightsForNode(const Graph&, NodeId) override { ++committed; }
  void SetStopAssignment() override { stopped_ = true; }
  bool IsStopIssued() const override { return stopped_; }
  void ResetForNewPass() override { stopped_ = false; }
  int committed = 0;

 private:
  uint64_t limit_bytes_;
  uint64_t consumed_bytes_ = 0;
  bool stopped_ = false;
};

// x -> a (Relu) -> b (Tanh) -> c (Relu) -> d (Relu) -> y, floats [2, 3].
class PartitionerTest : public ::testing::Test {
 protected:
  PartitionerTest() {
    for (const char* op : {"Relu", "Tanh", "Reshape", "Shape", "Cast", "Gather", "Concat"}) {
      KernelDef def(op);
      if (op == std::string("Reshape")) def.HostInput(1);
      if (op == std::string("Shape")) def.HostOutput(0);
      cpu.registry.Add(def, nullptr);
      if (op != std::string("Tanh")) sim.registry.Add(def, nullptr);
    }
    x = AddValue("x");
    graph.AddInput(x);
    a = AddNode("layers.0/a", "Relu", {x});
    b = AddNode("layers.0/b", "Tanh", {Output(a)});
    c = AddNode("layers.1/c", "Relu", {Output(b)});
    d = AddNode("layers.1/d", "Relu", {Output(c)});
    graph.AddOutput(Output(d));
    AddDevice(&sim, {DeviceKind::kGpu, 0});
    AddDevice(&sim, {DeviceKind::kGpu, 1});
    AddDevice(&cpu, {});
  }

  void AddDevice(FakeProvider* provider, Device device) {
    PlacementDevice made;
    made.description.device = device;
    made.description.provider = provider->name();
    made.provider = provider;
    devices.push_back(made);
  }
  ValueId AddValue(const char* name, DataType type = DataType::kFloat,
                   SymbolicShape shape = {{DimExpr(2), DimExpr(3)}}) {
    return graph.MakeValue(name, ValueType::Tensor(type), std::move(shape));
  }
  NodeId AddNode(const std::string& name, const char* op, std::vector<ValueId> inputs,
                 DataType type = DataType::kFloat, SymbolicShape shape = {{DimExpr(2), DimExpr(3)}}) {
    const ValueId output = AddValue("", type, std::move(shape));
    return graph.AddNode(name, op, "", 21, std::move(inputs), {output});
  }
  ValueId Output(NodeId id) const { return graph.node(id).outputs[0]; }

  Result<Placement> Partition(const char* rules_text = "", PartitionRequest request = {}) {
    rules = *ParseLayerRules(rules_text, RuleMode::kName);
    request.graph = &graph;
    request.devices = devices;
    request.constants = &constants;
    request.rules = &rules;
    return PartitionGraph(request);
  }
  std::vector<int32_t> DevicesOf(const Placement& placement) const {
    return {placement.DeviceOf(a), placement.DeviceOf(b), placement.DeviceOf(c), placement.DeviceOf(d)};
  }

  FakeProvider sim{"sim", DeviceKind::kGpu};
  FakeProvider cpu{"cpu", DeviceKind::kCpu};
  NoConstants constants;
  DerivedTensors derived;
  std::vector<PlacementDevice> devices;
  LayerRules rules;
  Graph graph{std::make_shared<NamePool>(), nullptr};
  ValueId x;
  NodeId a, b, c, d;
};

TEST_F(PartitionerTest, TheFirstDeviceTakesWhatItCanAndTheRestFallsThroughWithAReason) {
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  EXPECT_EQ(DevicesOf(*placement), (std::vector<int32_t>{0, 2, 0, 0}));
  ASSERT_EQ(placement->fallbacks.size(), 1u);
  EXPECT_EQ(placement->fallbacks[0].node, b);
  EXPECT_EQ(placement->fallbacks[0].wanted, 0);
  EXPECT_NE(placement->fallbacks[0].reason.find("Tanh"), std::string::npos);
  EXPECT_EQ(placement->nodes[static_cast<size_t>(b.index)].reason, PlacementReason::kFallback);
}

TEST_F(PartitionerTest, RulesHideNodesFromOtherDevices) {
  const auto placement = Partition("gpu:1(layers.1); cpu(layers.0/a)");
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  EXPECT_EQ(DevicesOf(*placement), (std::vector<int32_t>{2, 2, 1, 1}));
  EXPECT_EQ(sim.seen, (std::set<std::string>{"layers.0/b", "layers.1/c", "layers.1/d"}));
  EXPECT_EQ(placement->nodes[static_cast<size_t>(c.index)].reason, PlacementReason::kRule);
  ASSERT_EQ(placement->rules.size(), 2u);
  EXPECT_EQ(placement->rules[0].text, "gpu:1(layers.1)");
  EXPECT_EQ(placement->rules[0].nodes, 2u);
}

TEST_F(PartitionerTest, ARuleIsAPreference) {
  const auto placement = Partition("gpu:1(layers.0)");
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(DevicesOf(*placement), (std::vector<int32_t>{1, 2, 0, 0}));
  ASSERT_EQ(placement->fallbacks.size(), 1u);
  EXPECT_EQ(placement->fallbacks[0].wanted, 1);
  PartitionRequest strict;
  strict.disable_cpu_fallback = true;
  const Status status = Partition("gpu:1(layers.0)", strict).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("layers.0/b"), std::string::npos) << status.message();
  EXPECT_TRUE(Partition("cpu(layers.0/b)", strict).ok()) << "asked for, so no fallback";
}

TEST_F(PartitionerTest, UnknownDevicesAreErrorsUnlessAllowed) {
  const Status status = Partition("npu(layers.0)").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("gpu:1 (sim)"), std::string::npos) << status.message();
  PartitionRequest lenient;
  lenient.allow_unmatched_devices = true;
  const auto placement = Partition("npu(layers.0); gpu:0(nothing)", lenient);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->rules[0].note, "no device answers to 'npu'");
  EXPECT_EQ(placement->rules[1].note, "matched nothing");
}

TEST_F(PartitionerTest, ARuleThatLongerPatternsAlwaysBeatIsNamedWithOneOfThem) {
  const auto placement = Partition("gpu:0(layers.0); gpu:1(layers.0/a, layers.0/b); cpu(nothing)");
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  ASSERT_EQ(placement->rules.size(), 4u);
  EXPECT_EQ(placement->rules[0].nodes, 0u);
  EXPECT_EQ(placement->rules[0].note, "never wins: gpu:1(layers.0/a) comes first");
  EXPECT_EQ(placement->rules[1].note, "");
  EXPECT_EQ(placement->rules[3].note, "matched nothing");
}

TEST_F(PartitionerTest, WhatTheCallerAsksForYieldsToRules) {
  std::vector<int32_t> requested(graph.nodes().size(), NodePlacement::kNone);
  for (const NodeId id : {a, c, d}) requested[static_cast<size_t>(id.index)] = 1;
  PartitionRequest request;
  request.requested = requested;
  const auto placement = Partition("gpu:0(layers.1/d)", request);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(DevicesOf(*placement), (std::vector<int32_t>{1, 2, 1, 0}));
  EXPECT_EQ(placement->nodes[static_cast<size_t>(c.index)].reason, PlacementReason::kRequested);
}

TEST_F(PartitionerTest, ABudgetStopsAtTheFirstNodeThatWouldExceedItAndEqualFits) {
  sim.registry.Add(KernelDef("Tanh"), nullptr);
  FakeAccountant accountant(300);  // two nodes of 150
  IResourceAccountant* const accountants[] = {&accountant, nullptr, nullptr};
  PartitionRequest request;
  request.accountants = accountants;
  for (int pass = 0; pass < 2; ++pass) {
    const auto placement = Partition("cpu(nothing)", request);
    ASSERT_TRUE(placement.ok());
    EXPECT_EQ(DevicesOf(*placement), (std::vector<int32_t>{0, 0, 1, 1})) << "the second device has no budget";
    EXPECT_EQ(placement->nodes[static_cast<size_t>(c.index)].reason, PlacementReason::kOverBudget);
    EXPECT_EQ(accountant.GetConsumedAmount(), 0u) << "passes charge nothing";
    if (pass == 1) ChargePlacement(graph, *placement, accountants);
  }
  EXPECT_EQ(accountant.GetConsumedAmount(), 300u);
  EXPECT_EQ(accountant.committed, 2);
}

TEST_F(PartitionerTest, ValuesCrossOncePerDestination) {
  const NodeId e = AddNode("e", "Relu", {Output(a)});
  const NodeId f = AddNode("f", "Tanh", {Output(a)});
  graph.AddOutput(Output(e));
  graph.AddOutput(Output(f));
  const auto placement = Partition("gpu:0(layers); gpu:1(e)");
  ASSERT_TRUE(placement.ok());
  // x to gpu:0; a to the CPU (once, for b and f) and to gpu:1; b back to gpu:0; outputs of d and e.
  EXPECT_EQ(placement->cut_edges.size(), 6u);
  uint64_t bytes = 0;
  for (const CutEdge& edge : placement->cut_edges) bytes += edge.bytes;
  EXPECT_EQ(bytes, 6 * 24u);

  const auto placed = ApplyPlacement(graph, derived, *placement, devices, constants, {});
  ASSERT_TRUE(placed.ok());
  int copies = 0;
  for (const Node& node : graph.nodes()) copies += node.alive && IsCopy(node);
  EXPECT_EQ(copies, 3) << "x is brought and d and e are fetched by the caller";
  EXPECT_EQ(placed->DeviceOf(x), 0);
  const auto order = ExecutionOrder(graph);
  ASSERT_TRUE(order.ok());
  for (const NodeId id : *order) {
    if (IsCopy(graph.node(id))) continue;
    for (const ValueId input : graph.node(id).inputs) {
      EXPECT_EQ(placed->DeviceOf(input), placed->DeviceOf(id)) << graph.node(id).name.view();
    }
  }
}

TEST_F(PartitionerTest, AnOutputThatIsReadOnTheHostTooCrossesOnce) {
  graph.AddOutput(Output(a));  // read by b on the CPU
  const std::string name = graph.value(Output(a)).name.str();
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok());
  const auto placed = ApplyPlacement(graph, derived, *placement, devices, constants, {});
  ASSERT_TRUE(placed.ok());
  const ValueId output = graph.outputs().back();
  EXPECT_EQ(graph.value(output).name, name);
  EXPECT_EQ(placed->DeviceOf(output), 2);
  EXPECT_EQ(graph.node(b).inputs[0], output);
}

TEST_F(PartitionerTest, CachedValuesDoNotCross) {
  const ValueId cached[] = {x, Output(d)};
  PartitionRequest request;
  request.cached_values = cached;
  const auto placement = Partition("", request);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->cut_edges.size(), 2u) << "to b and back";
  const auto placed = ApplyPlacement(graph, derived, *placement, devices, constants, cached);
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed->DeviceOf(x), 0);
  EXPECT_EQ(placed->DeviceOf(graph.outputs()[0]), 0);
}

TEST_F(PartitionerTest, ShapesAreComputedOnTheHost) {
  const SymbolicShape vector{{DimExpr(2)}};
  const NodeId shape = AddNode("shape", "Shape", {Output(d)}, DataType::kInt64, vector);
  const NodeId gather = AddNode("gather", "Gather", {Output(shape), Output(shape)}, DataType::kInt64, vector);
  const NodeId reshape = AddNode("reshape", "Reshape", {Output(d), Output(gather)});
  const NodeId data = AddNode("data", "Gather", {Output(shape), Output(shape)}, DataType::kInt64, vector);
  const NodeId reader = AddNode("reader", "Cast", {Output(data)}, DataType::kFloat, vector);
  for (const NodeId id : {reshape, reader}) graph.AddOutput(Output(id));
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->DeviceOf(shape), 0);
  EXPECT_EQ(placement->DeviceOf(gather), 2);
  EXPECT_EQ(placement->nodes[static_cast<size_t>(gather.index)].reason, PlacementReason::kHostShapes);
  EXPECT_EQ(placement->DeviceOf(reshape), 0);
  EXPECT_EQ(placement->DeviceOf(data), 0) << "a kernel on the device reads it";
  for (const CutEdge& edge : placement->cut_edges) {
    EXPECT_NE(edge.value, Output(gather));
  }
}

TEST_F(PartitionerTest, TypesThatNobodyHasAreComputedInFloatBetweenCasts) {
  const ValueId half = AddValue("half", DataType::kFloat16);
  graph.AddInput(half);
  cpu.registry.Add(KernelDef("Erf").Input(0, DataType::kFloat).Output(0, DataType::kFloat), nullptr);
  const NodeId erf = AddNode("erf", "Erf", {half}, DataType::kFloat16);
  const NodeId after = AddNode("after", "Relu", {Output(erf)}, DataType::kFloat16);
  graph.AddOutput(Output(after));
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  EXPECT_TRUE(placement->nodes[static_cast<size_t>(erf.index)].with_casts);
  EXPECT_EQ(placement->DeviceOf(erf), 2);
  const auto placed = ApplyPlacement(graph, derived, *placement, devices, constants, {});
  ASSERT_TRUE(placed.ok()) << placed.status().ToString();
  EXPECT_EQ(graph.value(graph.node(erf).inputs[0]).type.element, DataType::kFloat);
  EXPECT_EQ(graph.value(Output(erf)).type.element, DataType::kFloat);
  EXPECT_EQ(graph.value(graph.node(after).inputs[0]).type.element, DataType::kFloat16);
  EXPECT_EQ(placed->DeviceOf(graph.node(after).inputs[0]), placed->DeviceOf(after));
}

TEST_F(PartitionerTest, ConstantsAreCastWhenTheyAreLoadedAndOtherValuesOnceOnEachDevice) {
  const ValueId half = AddValue("half", DataType::kFloat16);
  graph.AddInput(half);
  const ValueId weight = AddValue("weight", DataType::kFloat16);
  Initializer initializer;
  initializer.type = DataType::kFloat16;
  initializer.shape = {2, 3};
  initializer.source = *Tensor::Allocate(DataType::kFloat16, {2, 3});
  graph.AddInitializer(weight, initializer);
  KernelDef def("Mul");
  def.Input(0, DataType::kFloat).Input(1, DataType::kFloat).Output(0, DataType::kFloat);
  cpu.registry.Add(def, nullptr);
  const NodeId first = AddNode("first", "Mul", {half, weight}, DataType::kFloat16);
  const NodeId second = AddNode("second", "Mul", {half, weight}, DataType::kFloat16);
  graph.AddOutput(Output(first));
  graph.AddOutput(Output(second));
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  ASSERT_TRUE(ApplyPlacement(graph, derived, *placement, devices, constants, {}).ok());

  const ValueId cast_weight = graph.node(first).inputs[1];
  EXPECT_EQ(graph.node(second).inputs[1], cast_weight);
  EXPECT_FALSE(graph.value(cast_weight).producer.valid());
  const Initializer* cast = graph.ConstantOf(cast_weight);
  ASSERT_NE(cast, nullptr);
  EXPECT_EQ(cast->type, DataType::kFloat);
  const DerivedTensorPtr expression = derived.ExpressionOf(*cast);
  ASSERT_NE(expression, nullptr);
  EXPECT_EQ(expression->operation, DerivedOperation::kCast);
  EXPECT_EQ(expression->operands[0]->source.name, "weight");
  EXPECT_TRUE(graph.value(weight).uses.empty());

  EXPECT_EQ(graph.node(first).inputs[0], graph.node(second).inputs[0]);
  EXPECT_EQ(graph.node(graph.value(graph.node(first).inputs[0]).producer).op_type, "Cast");
}

TEST_F(PartitionerTest, ANodeThatNobodyTakesIsNamed) {
  graph.AddOutput(Output(AddNode("odd", "NoSuchOperator", {x})));
  const Status status = Partition().status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("odd"), std::string::npos) << status.message();
}

TEST_F(PartitionerTest, FusedGroupsAreTakenWhole) {
  sim.fuses = true;
  sim.registry.Add(KernelDef("Tanh"), nullptr);
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok());
  ASSERT_EQ(placement->fused_groups.size(), 1u);
  EXPECT_EQ(placement->fused_groups[0].nodes, (std::vector<NodeId>{a, b, c, d}));
  EXPECT_EQ(placement->nodes[static_cast<size_t>(c.index)].fused_group, 0);
  const std::string output = graph.value(graph.outputs()[0]).name.str();
  const auto placed = ApplyPlacement(graph, derived, *placement, devices, constants, {});
  ASSERT_TRUE(placed.ok()) << placed.status().ToString();
  ASSERT_EQ(placed->fused.size(), 1u);
  const auto& [node, fused] = *placed->fused.begin();
  EXPECT_EQ(graph.num_alive_nodes(), 1);
  EXPECT_EQ(graph.node({node}).inputs, std::vector<ValueId>{x});
  EXPECT_EQ(graph.value(graph.node({node}).outputs[0]).name, output);
  EXPECT_EQ(placed->DeviceOf(NodeId{node}), 0);
  EXPECT_EQ(fused.body->num_alive_nodes(), 4);
  EXPECT_EQ(fused.body->inputs().size(), 1u);
  EXPECT_EQ(fused.body->outputs().size(), 1u);
}

TEST_F(PartitionerTest, AGroupThatAPathLeavesAndComesBackToIsRefused) {
  sim.fuses = true;  // all but b
  const auto placement = Partition();
  ASSERT_TRUE(placement.ok());
  const Status status = ApplyPlacement(graph, derived, *placement, devices, constants, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("provider sim"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace lamina
