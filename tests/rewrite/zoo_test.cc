// Recorded runs of every model of the zoo, and of real models, under rewrites.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lamina/session.h"
#include "model/onnx/value_file.h"
#include "rewrite/rewrite_fixture.h"
#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/test_data.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class ZooTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Env>& env() {
    static std::shared_ptr<Env> shared = *Env::Create({});
    return shared;
  }

  static Result<std::unique_ptr<Session>> Load(const std::string& folder, const std::string& disabled,
                                               const char* kv_caches = "0") {
    SessionOptions options;
    if (!disabled.empty()) LAMINA_RETURN_IF_ERROR(options.Set("session.disabled_rewrites", disabled));
    LAMINA_RETURN_IF_ERROR(options.Set("session.max_kv_caches", kv_caches));
    return Session::Load(env(), folder + "/model.onnx", options);
  }

  static void ExpectPasses(const std::string& folder, const std::string& disabled) {
    const Result<std::unique_ptr<Session>> session = Load(folder, disabled);
    ASSERT_TRUE(session.ok()) << folder << " without '" << disabled << "': " << session.status().message();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << " without '" << disabled << "': " << status.message();
    }
  }

  static std::string Zoo(const std::string& name) { return SourcePath("tests/data/zoo/" + name); }
};

std::vector<std::string> ZooModels() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(SourcePath("tests/data/zoo"))) {
    if (fs::exists(entry.path() / "model.onnx")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(ZooTest, AllRewritesAndNone) {
  for (const std::string& name : ZooModels()) {
    ExpectPasses(Zoo(name), "");
    ExpectPasses(Zoo(name), "all");
  }
}

TEST_F(ZooTest, EachRewriteAloneOnTorchExports) {
  for (const std::string& rewrite : Level1Names()) {
    for (const char* name : {"llama-torch-script", "llama-torch-dynamo"})
      ExpectPasses(Zoo(name), AllBut({rewrite}));
  }
}

TEST_F(ZooTest, EachRewriteAloneFull) {
  for (const std::string& rewrite : Level1Names()) {
    for (const std::string& name : ZooModels()) ExpectPasses(Zoo(name), AllBut({rewrite}));
  }
}

TEST_F(ZooTest, EachRewriteOffFull) {
  for (const std::string& rewrite : Level1Names()) {
    for (const std::string& name : ZooModels()) ExpectPasses(Zoo(name), rewrite);
  }
}

TEST_F(ZooTest, RealModels) {
  LAMINA_SHARED_PATH_OR_SKIP(real, "models/real");
  for (const std::string& folder : FindFoldersWithDataSets(real)) {
    ExpectPasses(folder, "");
    ExpectPasses(folder, "all");
  }
}

TEST_F(ZooTest, RealModelsWithEachRewriteAloneFull) {
  LAMINA_SHARED_PATH_OR_SKIP(real, "models/real");
  for (const std::string& folder : FindFoldersWithDataSets(real)) {
    for (const std::string& rewrite : Level1Names()) ExpectPasses(folder, AllBut({rewrite}));
  }
}

int CountNodes(const Session& session, std::string_view op_type) {
  int count = 0;
  for (const Node& node : session.impl().model().graph->nodes()) {
    count += node.alive && node.op_type == op_type ? 1 : 0;
  }
  return count;
}

// The torch exports end with one attention node per layer, caches in place, no shape arithmetic, and hardly
// more kernels than what the GenAI builder makes of the architecture.
TEST_F(ZooTest, TorchExportsBecomeAsSmallAsGenAiExports) {
  const std::pair<const char*, const char*> pairs[] = {{"llama-torch-script", "llama-fp32"},
                                                       {"llama-torch-dynamo", "llama-fp32"},
                                                       {"qwen2-torch-script", "qwen2-fp32"}};
  for (const auto& [torch, genai] : pairs) {
    const Result<std::unique_ptr<Session>> session = Load(Zoo(torch), "", "1");
    const Result<std::unique_ptr<Session>> reference = Load(Zoo(genai), "", "1");
    ASSERT_TRUE(session.ok()) << torch << session.status().message();
    ASSERT_TRUE(reference.ok()) << genai << reference.status().message();
    const int attention = CountNodes(**reference, "GroupQueryAttention");
    EXPECT_EQ(CountNodes(**session, "GroupQueryAttention"), attention) << torch;
    EXPECT_EQ(CountNodes(**session, "Softmax"), 0) << torch;
    EXPECT_TRUE((*session)->CreateKvCache()->supports_batches()) << torch;
    for (const char* op_type : {"Shape", "Concat", "Expand", "Range", "Where", "Size"}) {
      EXPECT_EQ(CountNodes(**session, op_type), 0) << torch << " " << op_type;
    }
    EXPECT_LE(static_cast<double>((*session)->stats().num_steps),
              1.1 * static_cast<double>((*reference)->stats().num_steps))
        << torch;
  }
}

// Three recorded steps of a decoder in a row, keys and values in the session's cache.
void ExpectCachedStepsFollowTheRecord(Session& session, const std::string& folder) {
  Result<KvCache> cache = session.CreateKvCache();
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  KvRow row;
  for (const std::string& set : FindDataSets(folder)) {
    RunBinding binding;
    int64_t tokens = 0;
    for (size_t i = 0; i < session.inputs().size(); ++i) {
      if (session.inputs()[i].name.rfind("past", 0) == 0) continue;
      Result<Value> input =
          ReadValueFile(set + "/input_" + std::to_string(i) + ".pb", session.inputs()[i].type);
      ASSERT_TRUE(input.ok()) << input.status().message();
      if (session.inputs()[i].name == "input_ids") tokens = input->tensor().shape()[1];
      binding.BindInput(i, *std::move(input));
    }
    binding.BindKvCache(&*cache, {&row, 1});
    const Status status = session.Run({}, binding);
    ASSERT_TRUE(status.ok()) << set << ": " << status.message();
    const Result<Value> logits = ReadValueFile(set + "/output_0.pb", session.outputs()[0].type);
    ASSERT_TRUE(logits.ok());
    const auto expected = logits->tensor().elements<float>();
    const auto found = binding.outputs()[0].tensor().elements<float>();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-4f + 1e-3f * std::abs(expected[i])) << set << " " << i;
    }
    row.past_tokens += static_cast<int32_t>(tokens);
  }
}

TEST_F(ZooTest, CachesOfTorchExportsGrowInPlace) {
  for (const char* name : {"llama-torch-script", "llama-torch-dynamo", "qwen2-torch-script"}) {
    SCOPED_TRACE(name);
    const Result<std::unique_ptr<Session>> session = Load(Zoo(name), "", "1");
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE((*session)->CreateKvCache()->supports_batches());
    ExpectCachedStepsFollowTheRecord(**session, Zoo(name));
  }
}

// A padded row, and rows of two lengths at once: all that a mask can say survives the rewrite.
TEST_F(ZooTest, PaddedBatchesGiveTheSameWithAndWithoutRewrites) {
  const std::string folder = Zoo("llama-torch-script");
  const Result<std::unique_ptr<Session>> rewritten = Load(folder, "");
  const Result<std::unique_ptr<Session>> plain = Load(folder, "all");
  ASSERT_TRUE(rewritten.ok() && plain.ok());
  const auto integers = [](const Shape& shape, const std::vector<int64_t>& values) {
    return Value(*Tensor::FromValues<int64_t>(DataType::kInt64, shape, std::span<const int64_t>(values)));
  };
  constexpr int64_t kBatch = 2, kPast = 3, kTokens = 4;
  std::vector<Value> inputs;
  for (const ValueSpec& spec : (*plain)->inputs()) {
    if (spec.name == "input_ids") {
      inputs.push_back(integers(Shape{kBatch, kTokens}, {5, 6, 7, 8, 9, 10, 11, 12}));
    } else if (spec.name == "attention_mask") {
      // Row 0 has everything; row 1 is padded on the left beyond its past, so that its first query sees
      // nothing.
      inputs.push_back(integers(Shape{kBatch, kPast + kTokens}, {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0}));
    } else if (spec.name == "position_ids") {
      inputs.push_back(integers(Shape{kBatch, kTokens}, {3, 4, 5, 6, 0, 0, 1, 2}));
    } else {
      Result<Tensor> past =
          Tensor::Allocate(DataType::kFloat, Shape{kBatch, spec.dims[1], kPast, spec.dims[3]});
      ASSERT_TRUE(past.ok());
      int i = 0;
      for (float& element : past->mutable_elements<float>()) element = std::sin(static_cast<float>(++i));
      inputs.emplace_back(*std::move(past));
    }
  }
  std::vector<Value> found, expected;
  const Status status = (*rewritten)->Run({}, inputs, &found);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE((*plain)->Run({}, inputs, &expected).ok());
  for (size_t output = 0; output < expected.size(); ++output) {
    const auto a = found[output].tensor().elements<float>();
    const auto b = expected[output].tensor().elements<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-4f + 1e-3f * std::abs(b[i])) << (*plain)->outputs()[output].name << " " << i;
    }
  }
}

}  // namespace
}  // namespace lamina::testing
