// Which nodes a plugin takes, fused groups, memory, run hooks, loaders: what the bridge makes of a plugin's
// answers.
#include "providers/plugin/plugin_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "base/thread_pool.h"
#include "model/graph.h"
#include "provider/graph_node_info.h"
#include "providers/plugin/plugin_library.h"
#include "providers/plugin/test_plugin.h"
#include "support/op_tester.h"
#include "support/test_data.h"
#include "support/test_kernel_context.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OpTester;
using testing::TestPlugin;

constexpr Device kNpu0{DeviceKind::kNpu, 0};

class NoConstants : public ConstantValues {
 public:
  const Value* Find(const Graph&, ValueId) const override { return nullptr; }
};

// A graph of nodes with one output each, and what a provider says of it.
class CapabilityTest : public ::testing::Test {
 protected:
  CapabilityTest() {
    description_.device = kNpu0;
    description_.provider = "test";
  }
  ValueId Input(const char* name, ValueType type, std::vector<DimExpr> dims) {
    const ValueId id = graph_.MakeValue(name, type, SymbolicShape{std::move(dims)});
    graph_.AddInput(id);
    return id;
  }
  ValueId Node(const char* op_type, std::vector<ValueId> inputs) {
    const ValueInfo& first = graph_.value(inputs[0]);
    const ValueId output = graph_.MakeValue("", first.type, first.shape);
    nodes_.push_back(graph_.AddNode(op_type, op_type, "", 14, std::move(inputs), {output}));
    return output;
  }
  Result<Capability> Ask(const ExecutionProvider& provider) {
    infos_.clear();
    for (const NodeId id : nodes_) infos_.emplace_back(graph_, id, constants_, description_, SymbolBounds());
    CapabilityRequest request;
    request.graph = &graph_;
    request.nodes = nodes_;
    request.device = &description_;
    request.info = [this](NodeId id) -> const NodeInfo& {
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i] == id) return infos_[i];
      }
      return infos_.front();
    };
    return provider.GetCapability(request);
  }
  Result<std::shared_ptr<ExecutionProvider>> CProvider() {
    LAMINA_ASSIGN_OR_RETURN(
        factories_, plugin::LoadProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libc_provider.so"));
    return factories_.front()->Create({});
  }
  static std::string ReasonOf(const Capability& capability, NodeId id) {
    for (const auto& [node, status] : capability.refused) {
      if (node == id) return status.message();
    }
    return "";
  }

  Graph graph_{std::make_shared<NamePool>(), nullptr};
  std::vector<NodeId> nodes_;
  NoConstants constants_;
  std::deque<GraphNodeInfo> infos_;
  DeviceDescription description_;
  std::vector<std::unique_ptr<ProviderFactory>> factories_;
};

constexpr ValueType kFloatTensor{ValueKind::kTensor, DataType::kFloat};

TEST_F(CapabilityTest, WithoutGetCapabilityTheRegistryDecides) {
  TestPlugin test_plugin;
  test_plugin.kernels = [](KernelRegistry& registry) {
    registry.Add(KernelDef("Known").Input(0, DataType::kFloat), nullptr);
  };
  const ValueId x = Input("x", kFloatTensor, {2});
  const ValueId strings = Input("s", ValueType::Tensor(DataType::kString), {2});
  const ValueId sequence = Input("q", ValueType::SequenceOf(DataType::kFloat), {});
  Node("Known", {x});
  Node("Knowm", {x});
  Node("Known", {strings});
  Node("Known", {sequence});
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto capability = Ask(**provider);
  ASSERT_TRUE(capability.ok()) << capability.status().ToString();
  EXPECT_THAT(capability->nodes, ElementsAre(nodes_[0]));
  EXPECT_THAT(ReasonOf(*capability, nodes_[1]), HasSubstr("there is no kernel for operator Knowm"));
  EXPECT_THAT(ReasonOf(*capability, nodes_[2]), HasSubstr("input 0 is tensor(string)"));
  EXPECT_THAT(ReasonOf(*capability, nodes_[3]), HasSubstr("input 0 is seq(tensor(float))"));
}

TEST_F(CapabilityTest, APluginSaysWhyItLeavesANode) {
  const ValueId x = Input("x", kFloatTensor, {1, 1, 5, 5, 5});
  const ValueId w = Input("w", kFloatTensor, {1, 1, 3, 3, 3});
  Node("Conv", {x, w});
  Node("Relu", {x});
  Node("Softmax", {x});
  const auto provider = CProvider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto capability = Ask(**provider);
  ASSERT_TRUE(capability.ok()) << capability.status().ToString();
  EXPECT_THAT(capability->nodes, ElementsAre(nodes_[1]));
  EXPECT_THAT(ReasonOf(*capability, nodes_[0]), HasSubstr("node 'Conv': Conv is done on two spatial axes"));
  EXPECT_THAT(ReasonOf(*capability, nodes_[2]), HasSubstr("there is no kernel for operator Softmax"));
}

TEST_F(CapabilityTest, SumAndReluAreFusedWhereNothingElseNeedsTheSum) {
  const ValueId x = Input("x", kFloatTensor, {2, 3});
  const ValueId y = Input("y", kFloatTensor, {2, 3});
  const ValueId sum = Node("Add", {x, y});
  graph_.AddOutput(Node("Relu", {sum}));
  const auto provider = CProvider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto fused = Ask(**provider);
  ASSERT_TRUE(fused.ok()) << fused.status().ToString();
  EXPECT_TRUE(fused->nodes.empty());
  EXPECT_THAT(fused->fused, ElementsAre(ElementsAre(nodes_[0], nodes_[1])));
  graph_.AddOutput(sum);
  const auto apart = Ask(**provider);
  ASSERT_TRUE(apart.ok()) << apart.status().ToString();
  EXPECT_TRUE(apart->fused.empty());
  EXPECT_THAT(apart->nodes, ElementsAre(nodes_[1]));
}

TEST_F(CapabilityTest, AFusedGroupIsCompiledAndComputes) {
  const ValueId x = Input("x", kFloatTensor, {2, 2});
  const ValueId y = Input("y", kFloatTensor, {2, 2});
  graph_.AddOutput(Node("Relu", {Node("Add", {x, y})}));
  const auto provider = CProvider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  testing::PluginNode node("Fused", 1);
  const std::vector<Value> inputs = {OpTester::MakeTensor<float>({2, 2}, {1, -5, 2, 0.5}),
                                     OpTester::MakeTensor<float>({2, 2}, {1, 1, 1, 1})};
  for (const Value& input : inputs) node.AddInput(input, false);
  node.AddOutput(kFloatTensor, nullptr);
  const auto kernel = (*provider)->Compile(node, graph_);
  ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
  ThreadPool threads(2);
  testing::TestKernelContext context(node, KernelDef("Fused"), inputs, false, threads, nullptr);
  ASSERT_TRUE((*kernel)->Compute(context).ok());
  const Value output = context.TakeOutputs()[0];
  EXPECT_THAT(output.tensor().elements<float>(), ElementsAre(2, 0, 3, 1.5));
}

TEST_F(CapabilityTest, AnswersThatCannotBeAreRefused) {
  TestPlugin test_plugin;
  test_plugin.kernels = [](KernelRegistry& registry) { registry.Add(KernelDef("Known"), nullptr); };
  Node("Known", {Input("x", kFloatTensor, {2})});
  static const LaminaEpApi* api = nullptr;
  test_plugin.edit_factories = [](LaminaEpFactory**, size_t*) {};
  const auto ask = [&](auto get_capability) {
    test_plugin.edit_ep = [=](LaminaEp& ep) { ep.GetCapability = get_capability; };
    const auto provider = test_plugin.Provider();
    EXPECT_TRUE(provider.ok());
    return Ask(**provider).status();
  };
  api = &plugin::EpApi();
  const Status twice =
      ask([](LaminaEp*, const LaminaGraph* graph, LaminaEpGraphSupportInfo* info) noexcept -> LaminaStatus* {
        const LaminaNode* const* nodes = nullptr;
        size_t count = 0;
        api->ReleaseStatus(api->Graph_GetNodes(graph, &nodes, &count));
        api->ReleaseStatus(api->EpGraphSupportInfo_AddSingleNode(info, nodes[0]));
        return api->EpGraphSupportInfo_AddSingleNode(info, nodes[0]);
      });
  EXPECT_EQ(twice.code(), StatusCode::kInternal);
  EXPECT_THAT(twice.message(), HasSubstr("provider testing: it takes node 'Known' twice"));
  const Status fuses =
      ask([](LaminaEp*, const LaminaGraph* graph, LaminaEpGraphSupportInfo* info) noexcept -> LaminaStatus* {
        const LaminaNode* const* nodes = nullptr;
        size_t count = 0;
        api->ReleaseStatus(api->Graph_GetNodes(graph, &nodes, &count));
        return api->EpGraphSupportInfo_AddNodesToFuse(info, nodes, count, nullptr);
      });
  EXPECT_THAT(fuses.message(), HasSubstr("it fuses nodes and has no Compile"));
  const Status foreign =
      ask([](LaminaEp*, const LaminaGraph*, LaminaEpGraphSupportInfo* info) noexcept -> LaminaStatus* {
        return api->EpGraphSupportInfo_AddSingleNode(info, reinterpret_cast<const LaminaNode*>(info));
      });
  EXPECT_EQ(foreign.code(), StatusCode::kInvalidArgument);
  const Status fails = ask([](LaminaEp*, const LaminaGraph*, LaminaEpGraphSupportInfo*) noexcept {
    return api->CreateStatus(LAMINA_INTERNAL, "cannot look");
  });
  EXPECT_THAT(fails.message(), HasSubstr("provider testing: cannot look"));
}

// Memory of a plugin whose allocator a test spoils.
struct SpoiledMemory {
  LaminaAllocator allocator{};
  LaminaDataTransferImpl transfer{};
  LaminaSyncStreamImpl stream{};
  int released = 0;
} spoiled;

class SpoiledMemoryTest : public ::testing::Test {
 protected:
  SpoiledMemoryTest() {
    spoiled = {};
    spoiled.allocator.lamina_version = LAMINA_EP_API_VERSION;
    spoiled.allocator.Alloc = [](LaminaAllocator*, uint64_t, void** memory) noexcept -> LaminaStatus* {
      *memory = nullptr;
      return nullptr;
    };
    spoiled.allocator.Free = [](LaminaAllocator*, void*) noexcept {};
    spoiled.transfer.lamina_version = LAMINA_EP_API_VERSION;
    spoiled.transfer.CanCopy = [](const LaminaDataTransferImpl*, int32_t, int32_t) noexcept { return true; };
    spoiled.transfer.Copy = [](LaminaDataTransferImpl*, const LaminaMemoryCopy* const*, size_t,
                               LaminaSyncStreamImpl*) noexcept {
      return plugin::EpApi().CreateStatus(LAMINA_IO, "the cable is cut");
    };
    plugin_.edit_ep = [](LaminaEp& ep) {
      ep.CreateAllocator = [](LaminaEp*, int32_t, LaminaMemoryType type,
                              LaminaAllocator** allocator) noexcept -> LaminaStatus* {
        *allocator = type == LAMINA_MEMORY_DEVICE ? &spoiled.allocator : nullptr;
        return nullptr;
      };
      ep.ReleaseAllocator = [](LaminaEp*, LaminaAllocator*) noexcept { ++spoiled.released; };
      ep.GetDataTransfer = [](LaminaEp*, LaminaDataTransferImpl** transfer) noexcept -> LaminaStatus* {
        *transfer = &spoiled.transfer;
        return nullptr;
      };
      ep.CreateSyncStream = [](LaminaEp*, int32_t, LaminaStreamPurpose,
                               LaminaSyncStreamImpl** stream) noexcept -> LaminaStatus* {
        *stream = &spoiled.stream;
        return nullptr;
      };
    };
  }
  TestPlugin plugin_;
};

TEST_F(SpoiledMemoryTest, AllocationsAreChecked) {
  const auto provider = plugin_.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  {
    const auto allocator = (*provider)->CreateAllocator(kNpu0, MemoryKind::kDevice);
    ASSERT_TRUE(allocator.ok());
    const Status null = (*allocator)->Alloc(8).status();
    EXPECT_EQ(null.code(), StatusCode::kInternal);
    EXPECT_THAT(null.message(), HasSubstr("npu:0: the allocator returned null"));
    spoiled.allocator.Alloc = [](LaminaAllocator*, uint64_t, void** memory) noexcept -> LaminaStatus* {
      *memory = reinterpret_cast<void*>(uintptr_t{0x1008});
      return nullptr;
    };
    EXPECT_THAT((*allocator)->Alloc(8).status().message(), HasSubstr("not aligned to 256 bytes"));
  }
  EXPECT_EQ(spoiled.released, 1);
  EXPECT_EQ((*provider)->CreateAllocator(kNpu0, MemoryKind::kPinned).status().code(),
            StatusCode::kUnsupported);
  spoiled.allocator.Free = nullptr;
  EXPECT_THAT((*provider)->CreateAllocator(kNpu0, MemoryKind::kDevice).status().message(),
              HasSubstr("required entry Free is null"));
  EXPECT_EQ(spoiled.released, 2) << "what was made is given back";
}

TEST_F(SpoiledMemoryTest, AFailedCopyNamesItsEnds) {
  const auto provider = plugin_.Provider();
  ASSERT_TRUE(provider.ok());
  const Status status = (*provider)->data_transfer()->CopyAsync({nullptr, {}, nullptr, kNpu0, 12}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("copy of 12 bytes from cpu to npu:0: the cable is cut"));
}

TEST_F(SpoiledMemoryTest, StreamsWithoutRequiredEntriesAreRefused) {
  const auto provider = plugin_.Provider();
  ASSERT_TRUE(provider.ok());
  const auto refused = [&] {
    return (*provider)->CreateStream(kNpu0, StreamPurpose::kCopy).status().message();
  };
  EXPECT_THAT(refused(), HasSubstr("version 0"));
  spoiled.stream.lamina_version = LAMINA_EP_API_VERSION;
  EXPECT_THAT(refused(), HasSubstr("required entry Release is null"));
}

TEST(PluginProviderTest, RunHooksAreCalledAndTheirErrorsArrive) {
  static std::vector<std::string> calls;
  calls.clear();
  TestPlugin test_plugin;
  test_plugin.edit_ep = [](LaminaEp& ep) {
    ep.OnRunStart = [](LaminaEp*, const LaminaRunInfo* run, LaminaSyncStreamImpl* const*,
                       size_t count) noexcept -> LaminaStatus* {
      calls.push_back(fmt::format("start {} {} {}", run->id, run->tag, count));
      return nullptr;
    };
    ep.OnRunEnd = [](LaminaEp*, const LaminaRunInfo*, LaminaSyncStreamImpl* const*, size_t) noexcept {
      return plugin::EpApi().CreateStatus(LAMINA_DEVICE_LOST, "gone");
    };
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok());
  EXPECT_TRUE((*provider)->OnRunStart({7, "a tag"}, {}).ok());
  EXPECT_THAT(calls, ElementsAre("start 7 a tag 0"));
  EXPECT_EQ((*provider)->OnRunEnd({7, "a tag"}, {}).code(), StatusCode::kDeviceLost);
}

TEST(PluginProviderTest, ADeviceWithoutAllocatorUsesHostMemory) {
  TestPlugin test_plugin;
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok());
  const auto allocator = (*provider)->CreateAllocator(kNpu0, MemoryKind::kDevice);
  ASSERT_TRUE(allocator.ok());
  EXPECT_EQ((*allocator)->device(), kNpu0);
  const auto memory = (*allocator)->Alloc(4);
  ASSERT_TRUE(memory.ok());
  const int32_t sent = 9;
  int32_t received = 0;
  DataTransfer& transfer = *(*provider)->data_transfer();
  ASSERT_TRUE(transfer.CanCopy({}, kNpu0));
  ASSERT_TRUE(transfer.CopyAsync({&sent, {}, *memory, kNpu0, 4}, nullptr).ok());
  ASSERT_TRUE(transfer.CopyAsync({*memory, kNpu0, &received, {}, 4}, nullptr).ok());
  EXPECT_EQ(received, 9);
  EXPECT_FALSE(transfer.CanCopy({}, {DeviceKind::kGpu, 0}));
  (*allocator)->Free(*memory);
  const auto stream = (*provider)->CreateStream(kNpu0, StreamPurpose::kCompute);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ((*stream)->handle(), nullptr);
  EXPECT_TRUE((*stream)->Synchronize().ok());
  EXPECT_TRUE(transfer.CopyAsync({&sent, {}, &received, kNpu0, 4}, stream->get()).ok());
}

// A loader that reads through the host's file.
LaminaExternalDataLoader test_loader{};

TEST(PluginProviderTest, ALoaderReadsThroughTheHostsFileAndReportsProgress) {
  test_loader.lamina_version = LAMINA_EP_API_VERSION;
  test_loader.CanLoad = [](const LaminaExternalDataLoader*, int32_t device) noexcept { return device == 0; };
  test_loader.LoadTensors = [](LaminaExternalDataLoader*, const LaminaExternalDataItem* const* items,
                               size_t count, LaminaLoadProgress* progress) noexcept -> LaminaStatus* {
    const LaminaEpApi& api = plugin::EpApi();
    for (size_t i = 0; i < count; ++i) {
      const LaminaExternalDataItem& item = *items[i];
      if (LaminaStatus* status =
              api.ExternalFile_Read(item.file, item.offset_bytes, item.size_bytes, item.destination)) {
        return status;
      }
      if (LaminaStatus* status = api.LoadProgress_Report(progress, item.size_bytes)) return status;
    }
    return nullptr;
  };
  TestPlugin test_plugin;
  test_plugin.edit_ep = [](LaminaEp& ep) {
    ep.GetExternalDataLoader = [](LaminaEp*, LaminaExternalDataLoader** loader) noexcept -> LaminaStatus* {
      *loader = &test_loader;
      return nullptr;
    };
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  IExternalDataLoader* loader = (*provider)->external_data_loader();
  ASSERT_NE(loader, nullptr);
  EXPECT_TRUE(loader->CanLoad(kNpu0));
  EXPECT_FALSE(loader->CanLoad({}));
  const testing::TempDir dir;
  testing::WriteWholeFile(dir.File("w.bin"), "0123456789");
  const auto file = SystemFiles().Open(dir.File("w.bin"));
  ASSERT_TRUE(file.ok());
  std::string into(4, ' ');
  ExternalDataItem item{"w", *file, 3, 4, DataType::kUint8, into.data(), kNpu0};
  uint64_t loaded = 0;
  const ExternalDataProgress progress{[&](uint64_t bytes) {
    loaded += bytes;
    return Status();
  }};
  ASSERT_TRUE(loader->LoadTensor(item, progress).ok());
  EXPECT_EQ(into, "3456");
  EXPECT_EQ(loaded, 4u);
  item.offset_bytes = 8;
  EXPECT_EQ(loader->LoadTensor(item, progress).code(), StatusCode::kIo);
  item.offset_bytes = 0;
  const ExternalDataProgress cancel{[](uint64_t) { return CancelledError("enough"); }};
  EXPECT_EQ(loader->LoadTensor(item, cancel).code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace lamina
