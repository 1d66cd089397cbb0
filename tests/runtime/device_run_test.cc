// Sessions over several devices give the results of the CPU, make the copies that the placement lists, and
// survive failures.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "../examples/simulated_accelerator/simulated_accelerator.h"
#include "generate/engine.h"
#include "model/onnx/model_reader.h"
#include "placement/layers.h"
#include "providers/plugin/plugin_provider.h"
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

// What devices did.
struct Activity {
  int64_t copies = 0;
  int64_t copy_bytes = 0;
  int64_t allocations = 0;
  friend Activity operator-(const Activity& a, const Activity& b) {
    return {a.copies - b.copies, a.copy_bytes - b.copy_bytes, a.allocations - b.allocations};
  }
};

enum class Accelerator {
  kInTree,     // tests/support/test_accelerator.h
  kSimulated,  // the plugin of examples/simulated_accelerator
};

// An environment with two devices of the accelerator.
class DeviceRunTest : public ::testing::Test {
 protected:
  explicit DeviceRunTest(Accelerator accelerator = Accelerator::kInTree)
      : accelerator_(accelerator), env_(*Env::Create({2})) {
    if (accelerator == Accelerator::kInTree) {
      EXPECT_TRUE(env_->impl().RegisterProvider(MakeTestAccelerator(&log_)).ok());
    } else {
      const Status status =
          env_->RegisterProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libsimulated_accelerator.so");
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  ~DeviceRunTest() override {
    EXPECT_EQ(log_.memory_in_use_bytes, 0);
    EXPECT_EQ(log_.streams, 0);
    EXPECT_EQ(log_.runs, 0);
  }

  static void ForEachDevice(ExecutionProvider& provider,
                            const std::function<void(const SimCounters&)>& visit) {
    const auto* control = static_cast<const SimControl*>(
        static_cast<plugin::PluginProvider&>(provider).Extension(SIM_CONTROL_EXTENSION));
    for (int32_t device = 0; device < control->GetNumDevices(control->self); ++device) {
      SimCounters counters;
      control->GetCounters(control->self, device, &counters);
      visit(counters);
    }
  }

  // Since the session was loaded, or before.
  Activity ActivityOf(const Session& session) const {
    if (accelerator_ == Accelerator::kInTree) return {log_.copies, log_.copy_bytes, log_.allocations};
    Activity activity;
    ForEachDevice(*session.impl().devices().front().provider, [&](const SimCounters& counters) {
      activity.copies += static_cast<int64_t>(counters.copies_from_host + counters.copies_to_host +
                                              counters.copies_between_devices);
      activity.copy_bytes += static_cast<int64_t>(counters.bytes_from_host + counters.bytes_to_host +
                                                  counters.bytes_between_devices);
      activity.allocations += static_cast<int64_t>(counters.allocations);
    });
    return activity;
  }

  // Nothing of a session that is gone is left on its devices.
  void ExpectEmpty(const std::shared_ptr<ExecutionProvider>& provider) const {
    if (accelerator_ == Accelerator::kInTree) return;
    ForEachDevice(*provider, [&](const SimCounters& counters) {
      EXPECT_EQ(counters.resident_bytes, 0u);
      EXPECT_EQ(counters.live_streams, 0u);
      EXPECT_EQ(counters.in_flight, 0u);
      EXPECT_EQ(counters.runs, 0u);
    });
  }

  // Every recorded run of a model folder, with the past as ordinary tensors.
  void ExpectAllSetsPass(const std::string& folder, const SessionOptions& options) {
    SCOPED_TRACE(folder);
    auto session = Session::Load(env_, folder + "/model.onnx", options);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << ": " << status.message();
    }
    const std::shared_ptr<ExecutionProvider> provider = (*session)->impl().devices().front().provider;
    const bool on_devices = (*session)->impl().placement() != nullptr;
    session->reset();
    if (on_devices) ExpectEmpty(provider);
  }

  Result<std::unique_ptr<Engine>> MakeEngine(const std::string& folder, const SessionOptions& session) {
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder model, ModelFolder::Open(folder));
    EngineOptions options;
    options.session = session;
    options.context_length_tokens = 64;
    options.prefill_chunk_tokens = 8;
    return Engine::Create(env_, model, options);
  }

  Accelerator accelerator_;
  AcceleratorLog log_;
  std::shared_ptr<Env> env_;
};

class EachAcceleratorTest : public DeviceRunTest, public ::testing::WithParamInterface<Accelerator> {
 protected:
  EachAcceleratorTest() : DeviceRunTest(GetParam()) {}

  void RunRandomPlacements(int first_seed, int count) {
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

INSTANTIATE_TEST_SUITE_P(, EachAcceleratorTest,
                         ::testing::Values(Accelerator::kInTree, Accelerator::kSimulated),
                         [](const auto& test) {
                           return test.param == Accelerator::kInTree ? "InTree" : "Simulated";
                         });

TEST_P(EachAcceleratorTest, EveryModelRunsOnOneDevice) {
  for (const std::string& folder : ZooFolders()) ExpectAllSetsPass(folder, {});
}

TEST_P(EachAcceleratorTest, EveryModelRunsSplitAfterEachLayer) {
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

TEST_P(EachAcceleratorTest, EveryModelRunsWithLayersThatAlternate) {
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

TEST_P(EachAcceleratorTest, TwentyRandomPlacementsGiveTheSameResults) { RunRandomPlacements(1, 20); }
TEST_P(EachAcceleratorTest, FullTwoHundredRandomPlacementsGiveTheSameResults) {
  RunRandomPlacements(100, 200);
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
  EXPECT_NE(status.message().find("present are: cuda, test, cpu"), std::string::npos) << status.message();
  SessionOptions option;
  ASSERT_TRUE(option.AppendProvider("test", {{"speed", "9"}}).ok());
  EXPECT_EQ(Session::Load(env_, folder + "/model.onnx", option).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(option.AppendProvider("test").code(), StatusCode::kInvalidArgument);
  SessionOptions stray;
  ASSERT_TRUE(stray.Set("ep.other.speed", "9").ok());
  EXPECT_EQ(Session::Load(env_, folder + "/model.onnx", stray).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DeviceRunTest, TwoKindsOfRulesExcludeEachOther) {
  SessionOptions options = WithRules("gpu:0(layers.0)");
  ASSERT_TRUE(options.Set("session.layer_assignment_settings", "cpu(a)").ok());
  const std::string model = testing::SourcePath("tests/data/zoo/llama-fp32/model.onnx");
  EXPECT_EQ(Session::Load(env_, model, options).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(options.Set("session.layer_assignment_settings", "").ok());
  EXPECT_TRUE(Session::Load(env_, model, options).ok());
}

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
class DecodeTest : public EachAcceleratorTest {
 protected:
  void ExpectSameAsCpu(const std::string& folder, const SessionOptions& placed) {
    SCOPED_TRACE(folder);
    SessionOptions cpu_only;
    ASSERT_TRUE(cpu_only.AppendProvider("cpu").ok());
    auto expected = MakeEngine(folder, cpu_only);
    auto actual = MakeEngine(folder, placed);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    ASSERT_TRUE(actual.ok()) << actual.status().ToString();
    const Session& session = (*actual)->session();
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
      const Activity before = ActivityOf(session);
      const Status status = (*actual)->Step({&row, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
      const Activity activity = ActivityOf(session) - before;
      ExpectCopies(session.impl(), activity, static_cast<int64_t>(count), past);
      EXPECT_EQ(activity.allocations, 0) << "a planned run allocates nothing";
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

  static void ExpectCopies(const SessionImpl& session, const Activity& activity, int64_t tokens,
                           int64_t past) {
    int64_t bytes = 0;
    int64_t copies = 0;
    for (const CutEdge& edge : session.placement()->cut_edges) {
      const int64_t edge_bytes = BytesOf(*session.model().graph, *session.decoder(), edge, tokens, past);
      bytes += edge_bytes;
      copies += edge_bytes > 0;  // nothing is copied of an empty past
    }
    EXPECT_EQ(activity.copies, copies);
    EXPECT_EQ(activity.copy_bytes, bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(, DecodeTest, ::testing::Values(Accelerator::kInTree, Accelerator::kSimulated),
                         [](const auto& test) {
                           return test.param == Accelerator::kInTree ? "InTree" : "Simulated";
                         });

TEST_P(DecodeTest, OnOneDevice) {
  for (const std::string& folder : ZooFolders()) ExpectSameAsCpu(folder, {});
}

TEST_P(DecodeTest, WithLayersThatAlternate) {
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
