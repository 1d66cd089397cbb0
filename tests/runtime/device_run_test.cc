// Sessions over several devices give the results of the CPU, make the copies that the placement lists, and
// survive failures.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "generate/engine.h"
#include "model/onnx/model_reader.h"
#include "placement/layers.h"
#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::AcceleratorLog;
using testing::AcceleratorOptions;
using testing::MakeTestAccelerator;

std::vector<std::string> ZooFolders() {
  return FindFoldersWithDataSets(testing::SourcePath("tests/data/zoo"));
}

// Rules that send every node of the main graph to the device `device_of` names.
std::string RulesFor(const Graph& graph, const std::function<std::string(NodeId)>& device_of) {
  std::map<std::string, std::string> lists;  // by device
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (!graph.node(id).alive) continue;
    std::string& list = lists[device_of(id)];
    if (!list.empty()) list += ",";
    const std::string name = graph.node(id).name.str();
    if (name.find_first_of("[]();,=") == std::string::npos) list += name;
  }
  std::string rules;
  for (const auto& [device, list] : lists) rules += device + "(" + list + ");";
  return rules;
}

SessionOptions WithRules(const std::string& rules) {
  SessionOptions options;
  EXPECT_TRUE(options.Set("session.name_based_layer_assignment", rules).ok());
  return options;
}

class DeviceRunTest : public ::testing::Test {
 protected:
  DeviceRunTest() : env_(*Env::Create({2})) { Register({}); }
  ~DeviceRunTest() override {
    EXPECT_EQ(log_.memory_in_use_bytes, 0);
    EXPECT_EQ(log_.streams, 0);
    EXPECT_EQ(log_.runs, 0);
  }
  void Register(AcceleratorOptions options) {
    EXPECT_TRUE(env_->impl().RegisterProvider(MakeTestAccelerator(&log_, std::move(options))).ok());
  }

  // Every recorded run of a model folder, with the past as ordinary tensors.
  void ExpectAllSetsPass(const std::string& folder, const SessionOptions& options) {
    SCOPED_TRACE(folder);
    const auto session = Session::Load(env_, folder + "/model.onnx", options);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << ": " << status.message();
    }
  }

  Result<std::unique_ptr<Engine>> MakeEngine(const std::string& folder, const SessionOptions& session) {
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder model, ModelFolder::Open(folder));
    EngineOptions options;
    options.session = session;
    options.context_length_tokens = 64;
    options.prefill_chunk_tokens = 8;
    return Engine::Create(env_, model, options);
  }

  AcceleratorLog log_;
  std::shared_ptr<Env> env_;
};

TEST_F(DeviceRunTest, EveryModelRunsOnOneDevice) {
  for (const std::string& folder : ZooFolders()) ExpectAllSetsPass(folder, {});
  EXPECT_GT(log_.kernels, 0);
}

TEST_F(DeviceRunTest, ProvidersAreChosenByName) {
  SessionOptions cpu_only;
  ASSERT_TRUE(cpu_only.AppendProvider("cpu").ok());
  const std::string folder = testing::SourcePath("tests/data/zoo/llama-fp32");
  ExpectAllSetsPass(folder, cpu_only);
  EXPECT_EQ(log_.kernels, 0);
  SessionOptions unknown;
  ASSERT_TRUE(unknown.AppendProvider("tpu").ok());
  const Status status = Session::Load(env_, folder + "/model.onnx", unknown).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("present are: test, cpu"), std::string::npos) << status.message();
  SessionOptions option;
  ASSERT_TRUE(option.AppendProvider("test", {{"speed", "9"}}).ok());
  EXPECT_EQ(Session::Load(env_, folder + "/model.onnx", option).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(option.AppendProvider("test").code(), StatusCode::kInvalidArgument);
  SessionOptions stray;
  ASSERT_TRUE(stray.Set("ep.other.speed", "9").ok());
  EXPECT_EQ(Session::Load(env_, folder + "/model.onnx", stray).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DeviceRunTest, EveryModelRunsSplitAfterEachLayer) {
  for (const std::string& folder : ZooFolders()) {
    const auto model = ReadModel(folder + "/model.onnx");
    ASSERT_TRUE(model.ok());
    const Graph& graph = *(*model)->graph;
    const LayerAssignment layers = *AssignLayers(graph);
    for (int split = LayerAssignment::kEmbedding; split < layers.head(); ++split) {
      SCOPED_TRACE(split);
      ExpectAllSetsPass(folder, WithRules(RulesFor(graph, [&](NodeId id) {
                          return layers.OfNode(id) <= split ? "gpu:0" : "cpu";
                        })));
    }
  }
}

TEST_F(DeviceRunTest, EveryModelRunsWithLayersThatAlternate) {
  const char* const devices[] = {"gpu:0", "gpu:1", "cpu"};
  for (const std::string& folder : ZooFolders()) {
    const auto model = ReadModel(folder + "/model.onnx");
    ASSERT_TRUE(model.ok());
    const LayerAssignment layers = *AssignLayers(*(*model)->graph);
    ExpectAllSetsPass(folder, WithRules(RulesFor(*(*model)->graph, [&](NodeId id) {
                        return devices[static_cast<size_t>(layers.OfNode(id) + 1) % 3];
                      })));
  }
}

class RandomPlacementTest : public DeviceRunTest {
 protected:
  void RunPlacements(int first_seed, int count) {
    const char* const devices[] = {"gpu:0", "gpu:1", "cpu"};
    const std::vector<std::string> folders = ZooFolders();
    for (int seed = first_seed; seed < first_seed + count; ++seed) {
      SCOPED_TRACE(seed);
      const std::string& folder = folders[static_cast<size_t>(seed) % folders.size()];
      const auto model = ReadModel(folder + "/model.onnx");
      ASSERT_TRUE(model.ok());
      std::mt19937 random(static_cast<uint32_t>(seed));
      ExpectAllSetsPass(folder,
                        WithRules(RulesFor(*(*model)->graph, [&](NodeId) { return devices[random() % 3]; })));
    }
  }
};

TEST_F(RandomPlacementTest, TwentyGiveTheSameResults) { RunPlacements(1, 20); }
TEST_F(RandomPlacementTest, FullTwoHundredGiveTheSameResults) { RunPlacements(100, 200); }

// Bytes of a cut edge in a run of one sequence of `tokens` after `past` tokens.
int64_t BytesOf(const Graph& graph, const DecoderSignature& decoder, const CutEdge& edge, int64_t tokens,
                int64_t past) {
  if (!edge.value.valid()) return static_cast<int64_t>(edge.bytes);
  SymbolValues values;
  values[std::string(decoder.batch.symbol())] = 1;
  values[std::string(decoder.sequence.symbol())] = tokens;
  values[std::string(decoder.past.symbol())] = past;
  const ValueInfo& value = graph.value(edge.value);
  const Result<Shape> shape = value.shape->Evaluate(values);
  EXPECT_TRUE(shape.ok()) << edge.name << ": " << shape.status().ToString();
  return shape.ok() ? static_cast<int64_t>(*TensorBytes(value.type.element, *shape)) : 0;
}

// Generation in an engine, planned and with a KV cache, gives the logits of the CPU, and each step makes the
// copies of the placement.
class DecodeTest : public DeviceRunTest {
 protected:
  void ExpectSameAsCpu(const std::string& folder, const SessionOptions& placed) {
    SCOPED_TRACE(folder);
    SessionOptions cpu_only;
    ASSERT_TRUE(cpu_only.AppendProvider("cpu").ok());
    auto expected = MakeEngine(folder, cpu_only);
    auto actual = MakeEngine(folder, placed);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    ASSERT_TRUE(actual.ok()) << actual.status().ToString();
    const SequenceId reference = *(*expected)->AddSequence();
    const SequenceId sequence = *(*actual)->AddSequence();
    const std::vector<int32_t> prompt{3, 7, 11, 25, 40, 9, 10, 23, 7, 5, 6};
    const std::span<const int32_t> tokens(prompt);
    int64_t past = 0;
    for (const size_t count : {size_t{7}, size_t{1}, size_t{1}, size_t{2}}) {
      const std::span<const int32_t> step = tokens.subspan(static_cast<size_t>(past), count);
      const SequenceStep expected_row{reference, step, true};
      const SequenceStep row{sequence, step, true};
      ASSERT_TRUE((*expected)->Step({&expected_row, 1}).ok());
      log_.ClearCounts();
      const Status status = (*actual)->Step({&row, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
      ExpectCopies((*actual)->session().impl(), static_cast<int64_t>(count), past);
      EXPECT_EQ(log_.allocations, 0) << "a planned run allocates nothing";
      const std::span<const float> logits = (*actual)->logits(0);
      const std::span<const float> wanted = (*expected)->logits(0);
      ASSERT_EQ(logits.size(), wanted.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], wanted[i], 1e-4f + 1e-3f * std::abs(wanted[i]))
            << "token " << past << " " << i;
      }
      past += static_cast<int64_t>(count);
    }
  }

  void ExpectCopies(const SessionImpl& session, int64_t tokens, int64_t past) {
    const Placement& placement = *session.placement();
    int64_t bytes = 0;
    int64_t copies = 0;
    for (const CutEdge& edge : placement.cut_edges) {
      const int64_t edge_bytes = BytesOf(*session.model().graph, *session.decoder(), edge, tokens, past);
      bytes += edge_bytes;
      copies += edge_bytes > 0;  // nothing is copied of an empty past
    }
    EXPECT_EQ(log_.copies, copies);
    EXPECT_EQ(log_.copy_bytes, bytes);
  }
};

TEST_F(DecodeTest, OnOneDevice) {
  for (const std::string& folder : ZooFolders()) ExpectSameAsCpu(folder, {});
}

TEST_F(DecodeTest, WithLayersThatAlternate) {
  const char* const devices[] = {"gpu:1", "cpu", "gpu:0"};
  for (const std::string& folder : ZooFolders()) {
    const auto model = ReadModel(folder + "/model.onnx");
    ASSERT_TRUE(model.ok());
    const LayerAssignment layers = *AssignLayers(*(*model)->graph);
    ExpectSameAsCpu(folder, WithRules(RulesFor(*(*model)->graph, [&](NodeId id) {
                      return devices[static_cast<size_t>(layers.OfNode(id) + 1) % 3];
                    })));
  }
}

class FailureTest : public DeviceRunTest {
 protected:
  FailureTest() : folder_(testing::SourcePath("tests/data/zoo/llama-fp32")) {}
  Status CheckFirstSet(Session& session) { return CheckDataSet(session, FindDataSets(folder_).front()); }
  std::string folder_;
};

TEST_F(FailureTest, AFailedKernelOrCopyNamesDeviceAndNodeAndTheSessionGoesOn) {
  const auto session = Session::Load(env_, folder_ + "/model.onnx",
                                     WithRules("gpu:0(layers.0); cpu(layers.1); gpu:1(lm_head)"));
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  ASSERT_TRUE(CheckFirstSet(**session).ok());
  log_.ClearCounts();
  log_.failing_kernel = 5;
  const Status kernel = CheckFirstSet(**session);
  log_.failing_kernel = 0;
  EXPECT_NE(kernel.message().find("gpu:0: the kernel failed"), std::string::npos) << kernel.ToString();
  EXPECT_NE(kernel.message().find("node '/model"), std::string::npos) << kernel.ToString();
  log_.ClearCounts();
  ASSERT_TRUE(CheckFirstSet(**session).ok());
  const int64_t copies = log_.copies;
  for (int64_t nth = 1; nth <= copies; nth += 3) {
    log_.ClearCounts();
    log_.failing_copy = nth;
    const Status status = CheckFirstSet(**session);
    log_.failing_copy = 0;
    EXPECT_NE(status.message().find("copy"), std::string::npos) << nth << ": " << status.ToString();
    EXPECT_NE(status.message().find("gpu:"), std::string::npos) << nth << ": " << status.ToString();
    ASSERT_TRUE(CheckFirstSet(**session).ok()) << nth;
  }
}

TEST_F(FailureTest, EveryFailedAllocationOfALoadIsTypedAndLeaksNothing) {
  log_.ClearCounts();
  ASSERT_TRUE(MakeEngine(folder_, {}).ok());
  const int64_t allocations = log_.allocations;
  EXPECT_GT(allocations, 2);
  for (int64_t nth = 1; nth <= allocations; ++nth) {
    log_.ClearCounts();
    log_.failing_allocation = nth;
    const Status status = MakeEngine(folder_, {}).status();
    log_.failing_allocation = 0;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << nth << ": " << status.ToString();
    EXPECT_TRUE(status.memory_shortage()) << nth;
    EXPECT_EQ(log_.memory_in_use_bytes, 0) << nth;
  }
  ASSERT_TRUE(MakeEngine(folder_, {}).ok());
}

TEST_F(FailureTest, ALostDeviceClosesTheSession) {
  const auto session = Session::Load(env_, folder_ + "/model.onnx", {});
  ASSERT_TRUE(session.ok());
  log_.device_lost = true;
  EXPECT_EQ(CheckFirstSet(**session).code(), StatusCode::kDeviceLost);
  log_.device_lost = false;
  const Status later = CheckFirstSet(**session);
  EXPECT_EQ(later.code(), StatusCode::kDeviceLost);
  EXPECT_NE(later.message().find("closed"), std::string::npos) << later.ToString();
}

class PartialProviderTest : public ::testing::Test {
 protected:
  void ExpectRuns(AcceleratorOptions options, const char* model,
                  const std::function<void(const SessionImpl&)>& check) {
    const std::shared_ptr<Env> env = *Env::Create({2});
    ASSERT_TRUE(env->impl().RegisterProvider(MakeTestAccelerator(&log_, std::move(options))).ok());
    const std::string folder = testing::SourcePath(std::string("tests/data/zoo/") + model);
    const auto session = Session::Load(env, folder + "/model.onnx");
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << ": " << status.message();
    }
    check((*session)->impl());
  }
  AcceleratorLog log_;
};

TEST_F(PartialProviderTest, NodesThatItLacksFallBackWithAReason) {
  AcceleratorOptions options;
  options.lacks = [](const KernelDef& def) { return def.op_type() == "GroupQueryAttention"; };
  ExpectRuns(options, "llama-fp32", [](const SessionImpl& session) {
    ASSERT_FALSE(session.placement()->fallbacks.empty());
    for (const PlacementFallback& fallback : session.placement()->fallbacks) {
      EXPECT_EQ(session.model().graph->node(fallback.node).op_type, "GroupQueryAttention");
      EXPECT_EQ(fallback.wanted, 0);
      EXPECT_NE(fallback.reason.find("GroupQueryAttention"), std::string::npos) << fallback.reason;
    }
  });
}

TEST_F(PartialProviderTest, TwoProvidersShareAModel) {
  const std::shared_ptr<Env> env = *Env::Create({2});
  AcceleratorOptions first;
  first.devices = 1;
  AcceleratorOptions second;
  second.devices = 1;
  second.name = "other";
  ASSERT_TRUE(env->impl().RegisterProvider(MakeTestAccelerator(&log_, first)).ok());
  ASSERT_TRUE(env->impl().RegisterProvider(MakeTestAccelerator(&log_, second)).ok());
  const std::string folder = testing::SourcePath("tests/data/zoo/qwen3-fp32");
  const auto session = Session::Load(env, folder + "/model.onnx",
                                     WithRules("test(layers.0/); other(layers.1/); gpu:1(lm_head)"));
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  for (const std::string& set : FindDataSets(folder)) {
    const Status status = CheckDataSet(**session, set);
    EXPECT_TRUE(status.ok()) << set << ": " << status.message();
  }
}

}  // namespace
}  // namespace lamina
