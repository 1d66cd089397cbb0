// Kernels of plugins that do not keep the rules, and the queries that they make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "providers/plugin/kernel_run.h"
#include "providers/plugin/test_plugin.h"
#include "support/op_tester.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using testing::KernelRun;
using testing::OpTester;
using testing::PluginNode;
using testing::RunOn;
using testing::TestPlugin;

// A kernel by hand, of which each test replaces a part.
struct HandMade {
  LaminaKernelImpl impl{};
  const LaminaEpApi* api = nullptr;
  static HandMade& From(LaminaKernelImpl* kernel) { return *reinterpret_cast<HandMade*>(kernel); }
};

// Copies input 0 to output 0.
LaminaStatus* CopyCompute(LaminaKernelImpl* kernel, LaminaKernelContext* context) noexcept {
  const LaminaEpApi& api = *HandMade::From(kernel).api;
  const LaminaTensor* x = nullptr;
  if (LaminaStatus* status = api.KernelContext_GetInput(context, 0, &x)) return status;
  const LaminaTensor* y = nullptr;
  if (LaminaStatus* status = api.KernelContext_GetOutput(context, 0, x->shape, x->rank, &y)) return status;
  std::copy_n(static_cast<const float*>(x->data), x->size_bytes / sizeof(float),
              static_cast<float*>(y->data));
  return nullptr;
}

// What a test wants its kernel to be.
struct HandMadeState {
  const LaminaEpApi* api = nullptr;
  std::function<void(LaminaKernelImpl&)> edit;
  bool returns_null = false;
  int live_kernels = 0;
};
HandMadeState* state_of_test = nullptr;

LaminaStatus* CreateHandMade(void* state, const LaminaKernelInfo*, LaminaKernelImpl** kernel) noexcept {
  auto& test = *static_cast<HandMadeState*>(state);
  *kernel = nullptr;
  if (test.returns_null) return nullptr;
  auto* made = new HandMade();
  ++test.live_kernels;
  state_of_test = &test;
  made->api = test.api;
  made->impl.lamina_version = LAMINA_EP_API_VERSION;
  made->impl.Compute = &CopyCompute;
  made->impl.Release = [](LaminaKernelImpl* released) noexcept {
    --state_of_test->live_kernels;
    delete &HandMade::From(released);
  };
  if (test.edit) test.edit(made->impl);
  *kernel = &made->impl;
  return nullptr;
}

class PluginKernelTest : public ::testing::Test {
 protected:
  PluginKernelTest() {
    node_.AddInput(x_, false);
    node_.AddOutput(ValueType::Tensor(DataType::kFloat), nullptr);
    plugin_.abi_kernels = [this](const LaminaEpApi& api, LaminaKernelRegistry* registry) -> LaminaStatus* {
      state_.api = &api;
      LaminaKernelDefBuilder* builder = nullptr;
      LaminaKernelDef* def = nullptr;
      LaminaStatus* status = api.CreateKernelDefBuilder("Copy", "", &builder);
      if (!status) status = api.KernelDefBuilder_Build(builder, &def);
      if (!status) {
        status = api.KernelRegistry_AddKernelV2(registry, def, &CreateHandMade, &state_, estimate_);
      }
      api.ReleaseKernelDef(def);
      api.ReleaseKernelDefBuilder(builder);
      return status;
    };
  }
  ~PluginKernelTest() override { EXPECT_EQ(state_.live_kernels, 0); }

  Result<KernelRun> Run() {
    const auto provider = plugin_.Provider();
    if (!provider.ok()) return provider.status();
    return RunOn((*provider)->kernel_registry(), node_, {x_});
  }
  void ExpectFailure(StatusCode code, const std::string& text) {
    const Status status = Run().status();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(text));
  }

  TestPlugin plugin_;
  HandMadeState state_;
  LaminaKernelWorkspaceEstimateFunc estimate_ = nullptr;
  Tensor x_ = OpTester::MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  PluginNode node_{"Copy", 1};
};

TEST_F(PluginKernelTest, AKernelByHandComputes) {
  const auto run = Run();
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->outputs[0].tensor().data<float>()[5], 6.0f);
  EXPECT_FALSE(run->has_estimate);
}

TEST_F(PluginKernelTest, KernelsWithMissingPartsAreRefused) {
  state_.returns_null = true;
  ExpectFailure(StatusCode::kInternal, "its kernel is null");
  state_.returns_null = false;
  state_.edit = [](LaminaKernelImpl& kernel) { kernel.Compute = nullptr; };
  ExpectFailure(StatusCode::kInternal, "the required entry Compute is null");
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.DeclarePrepack = [](LaminaKernelImpl*, const LaminaNode*, size_t,
                               LaminaPrepackDeclaration*) noexcept -> LaminaStatus* { return nullptr; };
  };
  ExpectFailure(StatusCode::kInternal, "PrePackWeight is null");
}

TEST_F(PluginKernelTest, WorkspaceOfAKernelOfVersion1IsNotAskedFor) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.lamina_version = 1;
    kernel.DeclareWorkspaceRequirements =
        reinterpret_cast<decltype(kernel.DeclareWorkspaceRequirements)>(uintptr_t{0x5a5a5a5a});
  };
  const auto run = Run();
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_TRUE(run->workspace.empty());
}

// Slots that a test wants declared.
std::vector<LaminaWorkspaceSlot> declared_slots;
size_t declared_count = 0;
LaminaStatus* DeclareSlots(LaminaKernelImpl*, const LaminaNode*, const int64_t* const*, const size_t*, size_t,
                           LaminaWorkspaceSlot* slots, size_t max_slots, size_t* num_slots) noexcept {
  for (size_t i = 0; i < declared_slots.size() && i < max_slots; ++i) slots[i] = declared_slots[i];
  *num_slots = declared_count;
  return nullptr;
}

TEST_F(PluginKernelTest, SlotsThatAreDoubledOutOfRangeOrTooManyFailTheLoad) {
  state_.edit = [](LaminaKernelImpl& kernel) { kernel.DeclareWorkspaceRequirements = &DeclareSlots; };
  declared_slots = {{2, 0, 100}, {7, 0, 300}};
  declared_count = 2;
  const auto run = Run();
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  ASSERT_EQ(run->workspace.size(), 2u);
  EXPECT_EQ(run->workspace[1].slot_id, 7);
  EXPECT_EQ(run->workspace[1].size_bytes, 300u);

  declared_slots = {{1, 0, 100}, {1, 0, 100}};
  ExpectFailure(StatusCode::kInternal, "workspace slot 1 is declared twice");
  declared_slots = {{8, 0, 100}};
  declared_count = 1;
  ExpectFailure(StatusCode::kInternal, "workspace slot 8 is out of range [0, 8)");
  declared_slots = {{-1, 0, 100}};
  ExpectFailure(StatusCode::kInternal, "workspace slot -1 is out of range");
  declared_count = 9;
  ExpectFailure(StatusCode::kInternal, "declared 9 workspace slots, at most 8");
}

TEST_F(PluginKernelTest, AFailedComputeArrivesWithItsCodeAndText) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext*) noexcept {
      return HandMade::From(self).api->CreateStatus(LAMINA_CANCELLED, "no more");
    };
  };
  ExpectFailure(StatusCode::kCancelled, "no more");
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext*) noexcept {
      return HandMade::From(self).api->CreateMemoryShortage("too little", 100, 7);
    };
  };
  const Status shortage = Run().status();
  ASSERT_NE(shortage.memory_shortage(), nullptr) << shortage.ToString();
  EXPECT_EQ(shortage.memory_shortage()->needed_bytes, 100u);
  EXPECT_EQ(shortage.memory_shortage()->available_bytes, 7u);
  EXPECT_EQ(shortage.memory_shortage()->device, "npu:0");
}

TEST_F(PluginKernelTest, AKernelThatForgetsAnOutputIsFound) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl*, LaminaKernelContext*) noexcept -> LaminaStatus* {
      return nullptr;
    };
  };
  ExpectFailure(StatusCode::kInternal, "without making output 0");
}

TEST_F(PluginKernelTest, ShapesThatCannotBeAreRefusedAlsoWhereTheKernelIgnoresIt) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext* context) noexcept -> LaminaStatus* {
      const LaminaEpApi& api = *HandMade::From(self).api;
      const int64_t shape[] = {2, -3};
      const LaminaTensor* y = nullptr;
      api.ReleaseStatus(api.KernelContext_GetOutput(context, 0, shape, 2, &y));
      EXPECT_EQ(y, nullptr);
      return nullptr;
    };
  };
  ExpectFailure(StatusCode::kInvalidArgument, "dimension 1 is -3");
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext* context) noexcept {
      const std::vector<int64_t> shape(40, 1);
      const LaminaTensor* y = nullptr;
      return HandMade::From(self).api->KernelContext_GetOutput(context, 0, shape.data(), shape.size(), &y);
    };
  };
  ExpectFailure(StatusCode::kInvalidArgument, "40 dimensions");
}

TEST_F(PluginKernelTest, ScratchOutsideTheSlotsIsRefused) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext* context) noexcept {
      void* buffer = nullptr;
      return HandMade::From(self).api->KernelContext_GetScratchBuffer(context, 8, 16, &buffer);
    };
  };
  ExpectFailure(StatusCode::kInvalidArgument, "workspace slot 8 is out of range");
}

TEST_F(PluginKernelTest, ThePlannedSlotIsFoundAndOneThatWasNotPlannedIsNull) {
  declared_slots = {{2, 0, 100}};
  declared_count = 1;
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.DeclareWorkspaceRequirements = &DeclareSlots;
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext* context) noexcept -> LaminaStatus* {
      const LaminaEpApi& api = *HandMade::From(self).api;
      void* planned = nullptr;
      void* scratch = nullptr;
      void* not_planned = &scratch;
      EXPECT_EQ(api.KernelContext_GetPreallocatedWorkspace(context, 2, &planned), nullptr);
      EXPECT_EQ(api.KernelContext_GetScratchBuffer(context, 2, 100, &scratch), nullptr);
      EXPECT_EQ(api.KernelContext_GetPreallocatedWorkspace(context, 3, &not_planned), nullptr);
      EXPECT_NE(planned, nullptr);
      EXPECT_EQ(planned, scratch);
      EXPECT_EQ(not_planned, nullptr);
      return CopyCompute(self, context);
    };
  };
  const auto run = Run();
  ASSERT_TRUE(run.ok()) << run.status().ToString();
}

TEST_F(PluginKernelTest, WrongCallsOfTheInterfaceAreStatuses) {
  state_.edit = [](LaminaKernelImpl& kernel) {
    kernel.Compute = [](LaminaKernelImpl* self, LaminaKernelContext* context) noexcept {
      const LaminaEpApi& api = *HandMade::From(self).api;
      const LaminaTensor* tensor = nullptr;
      LaminaStatus* status = api.KernelContext_GetInput(context, 3, &tensor);
      EXPECT_EQ(api.GetStatusCode(status), LAMINA_INVALID_ARGUMENT);
      EXPECT_THAT(api.GetStatusMessage(status), HasSubstr("input 3 was asked for"));
      api.ReleaseStatus(status);
      return api.KernelContext_GetInput(context, 0, nullptr);
    };
  };
  ExpectFailure(StatusCode::kInvalidArgument, "KernelContext_GetInput was called with a null pointer");
}

TEST_F(PluginKernelTest, AFailingEstimateIsAnErrorThatTheCallerCountsAsNone) {
  estimate_ = [](const LaminaEpApi* api, const LaminaNode*, const LaminaEp*, size_t*) noexcept {
    return api->CreateStatus(LAMINA_INTERNAL, "cannot tell");
  };
  const auto provider = plugin_.Provider();
  ASSERT_TRUE(provider.ok());
  const auto info = (*provider)->kernel_registry().Lookup(node_);
  ASSERT_TRUE(info.ok());
  size_t bytes = 17;
  const Status status = (*info)->workspace_estimate_func(node_, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("cannot tell"));
}

// What node queries answer, asked when the kernel is made.
TEST_F(PluginKernelTest, NodesAnswerTheQueriesOfLaminaEp) {
  node_.SetAttribute("number", int64_t{7});
  node_.SetAttribute("ratio", 0.5f);
  node_.SetAttribute("text", std::string("abc"));
  node_.SetAttribute("list", std::vector<int64_t>{1, 2, 3});
  node_.SetAttribute("empty", std::vector<int64_t>{});
  node_.SetAttribute("floats", std::vector<float>{1.5f});
  node_.SetAttribute("texts", std::vector<std::string>{"a", "bc"});
  estimate_ = [](const LaminaEpApi* api_pointer, const LaminaNode* node, const LaminaEp*,
                 size_t* bytes) noexcept -> LaminaStatus* {
    const LaminaEpApi& api = *api_pointer;
    const char* text = nullptr;
    EXPECT_EQ(api.Node_GetName(node, &text), nullptr);
    EXPECT_STREQ(text, "Copy_under_test");
    EXPECT_EQ(api.Node_GetDomain(node, &text), nullptr);
    EXPECT_STREQ(text, "");
    int32_t number = 0;
    EXPECT_EQ(api.Node_GetOpsetVersion(node, &number), nullptr);
    EXPECT_EQ(number, 1);
    EXPECT_EQ(api.Node_GetDevice(node, &number), nullptr);
    EXPECT_EQ(number, 0);
    size_t count = 0;
    EXPECT_EQ(api.Node_GetNumInputs(node, &count), nullptr);
    EXPECT_EQ(count, 1u);
    LaminaDataType type = LAMINA_TYPE_UNDEFINED;
    EXPECT_EQ(api.Node_GetInputType(node, 0, &type), nullptr);
    EXPECT_EQ(type, LAMINA_TYPE_FLOAT);
    const int64_t* shape = nullptr;
    EXPECT_EQ(api.Node_GetInputShape(node, 0, &shape, &count), nullptr);
    EXPECT_EQ(std::vector<int64_t>(shape, shape + count), (std::vector<int64_t>{2, 3}));
    const int64_t* max = nullptr;
    EXPECT_EQ(api.Node_GetInputShapeBounds(node, 0, &shape, &max, &count), nullptr);
    EXPECT_EQ(std::vector<int64_t>(shape, shape + count), std::vector<int64_t>(max, max + count));
    // An output without a known shape.
    EXPECT_EQ(api.Node_GetOutputShape(node, 0, &shape, &count), nullptr);
    EXPECT_EQ(shape, nullptr);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(api.Node_GetInputName(node, 0, &text), nullptr);
    EXPECT_EQ(text, nullptr);

    const int64_t* integer = nullptr;
    EXPECT_EQ(api.Node_GetAttributeInt(node, "number", &integer), nullptr);
    EXPECT_EQ(*integer, 7);
    EXPECT_EQ(api.Node_GetAttributeInt(node, "absent", &integer), nullptr);
    EXPECT_EQ(integer, nullptr);
    LaminaStatus* wrong = api.Node_GetAttributeInt(node, "text", &integer);
    EXPECT_EQ(api.GetStatusCode(wrong), LAMINA_INVALID_ARGUMENT);
    api.ReleaseStatus(wrong);
    const float* ratio = nullptr;
    EXPECT_EQ(api.Node_GetAttributeFloat(node, "ratio", &ratio), nullptr);
    EXPECT_EQ(*ratio, 0.5f);
    EXPECT_EQ(api.Node_GetAttributeString(node, "text", &text, &count), nullptr);
    EXPECT_EQ(std::string(text, count), "abc");
    EXPECT_EQ(api.Node_GetAttributeInts(node, "list", &integer, &count), nullptr);
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(integer[2], 3);
    EXPECT_EQ(api.Node_GetAttributeInts(node, "empty", &integer, &count), nullptr);
    EXPECT_NE(integer, nullptr);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(api.Node_GetAttributeInts(node, "absent", &integer, &count), nullptr);
    EXPECT_EQ(integer, nullptr);
    const float* floats = nullptr;
    EXPECT_EQ(api.Node_GetAttributeFloats(node, "floats", &floats, &count), nullptr);
    EXPECT_EQ(floats[0], 1.5f);
    const char* const* texts = nullptr;
    EXPECT_EQ(api.Node_GetAttributeStrings(node, "texts", &texts, &count), nullptr);
    EXPECT_EQ(count, 2u);
    EXPECT_STREQ(texts[1], "bc");
    const LaminaTensor* tensor = nullptr;
    EXPECT_EQ(api.Node_GetAttributeTensor(node, "absent", &tensor), nullptr);
    EXPECT_EQ(tensor, nullptr);
    LaminaAttributeType attribute_type = LAMINA_ATTRIBUTE_UNDEFINED;
    EXPECT_EQ(api.Node_GetAttributeType(node, "floats", &attribute_type), nullptr);
    EXPECT_EQ(attribute_type, LAMINA_ATTRIBUTE_FLOATS);
    bool constant = true;
    EXPECT_EQ(api.Node_IsConstantInput(node, 0, &constant), nullptr);
    EXPECT_FALSE(constant);
    LaminaStatus* outside = api.Node_GetInputType(node, 9, &type);
    EXPECT_EQ(api.GetStatusCode(outside), LAMINA_INVALID_ARGUMENT);
    api.ReleaseStatus(outside);
    *bytes = 1;
    return nullptr;
  };
  const auto run = Run();
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->estimated_bytes, 1u);
}

// Kernels in C++ that throw where they may not.
class Thrower : public Kernel {
 public:
  explicit Thrower(const NodeInfo& node) {
    if (node.Int("throw_early", 0) != 0) throw std::runtime_error("thrown by the constructor");
  }
  Status Compute(KernelContext&) const override { throw std::runtime_error("thrown by Compute"); }
  Status DeclareWorkspaceRequirements(const NodeInfo& node, WorkspaceRequirements&) const override {
    if (node.Int("throw_bad_alloc", 0) != 0) throw std::bad_alloc();
    return {};
  }
};

TEST(AdapterTest, WhatKernelsThrowBecomesAStatus) {
  TestPlugin test_plugin;
  test_plugin.kernels = [](KernelRegistry& registry) {
    registry.Add(KernelDef("Thrower"), CreateKernel<Thrower>);
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto run = [&](const char* attribute) {
    PluginNode node("Thrower", 1);
    if (attribute) node.SetAttribute(attribute, int64_t{1});
    return RunOn((*provider)->kernel_registry(), node, {}).status();
  };
  EXPECT_EQ(run(nullptr).code(), StatusCode::kInternal);
  EXPECT_THAT(run(nullptr).message(), HasSubstr("thrown by Compute"));
  EXPECT_THAT(run("throw_early").message(), HasSubstr("thrown by the constructor"));
  EXPECT_EQ(run("throw_bad_alloc").code(), StatusCode::kResourceExhausted);
}

TEST(AdapterTest, DefinitionsArriveAsTheyWereMade) {
  TestPlugin test_plugin;
  test_plugin.kernels = [](KernelRegistry& registry) {
    registry.Add(KernelDef("Op", "my.domain")
                     .Since(3, 7)
                     .Input(0, kFloatTypes)
                     .Input(1, DataType::kInt64)
                     .Output(0, kFloatTypes)
                     .VariadicInputs()
                     .Alias(1, 2)
                     .MayInplace(0, 0)
                     .HostInput(1)
                     .HostOutput(2)
                     .KvCache(3, 4, 1, 2),
                 CreateKernel<Thrower>);
    registry.Add(KernelDef("Op", "my.domain").Since(8), CreateKernel<Thrower>);
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  const auto all = (*provider)->kernel_registry().All();
  ASSERT_EQ(all.size(), 2u);
  const KernelDef& def = all[0]->def;
  EXPECT_EQ(def.domain(), "my.domain");
  EXPECT_EQ(def.first_version(), 3);
  EXPECT_EQ(def.last_version(), 7);
  EXPECT_EQ(def.input_types(0), kFloatTypes);
  EXPECT_EQ(def.input_types(5), TypeSet(DataType::kInt64));
  EXPECT_EQ(def.output_types(0), kFloatTypes);
  EXPECT_EQ(def.alias_of(2), 1);
  EXPECT_TRUE(def.may_overwrite(0, 0));
  EXPECT_TRUE(def.is_host_input(1));
  EXPECT_FALSE(def.is_host_input(0));
  EXPECT_TRUE(def.is_host_output(2));
  EXPECT_EQ(def.kv_cache().past_value, 4);
  EXPECT_EQ(def.kv_cache().present_value, 2);
  EXPECT_EQ(all[1]->def.last_version(), std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace lamina
