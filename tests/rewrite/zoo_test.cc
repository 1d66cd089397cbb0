// Recorded runs of every model of the zoo, and of real models, under rewrites.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "lamina/session.h"
#include "model/onnx/model_reader.h"
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

}  // namespace
}  // namespace lamina::testing
