// Whole models on CUDA: recorded runs, and text.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cuda_op_test.h"
#include "generate/engine.h"
#include "generate/model_folder.h"
#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/test_data.h"

namespace lamina::testing {
namespace {

void CheckRecordedRuns(const std::vector<std::string>& folders) {
  const std::shared_ptr<Env> env = Env::Create().value();
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    SessionOptions options;
    ASSERT_TRUE(options.AppendProvider("cuda").ok());
    ASSERT_TRUE(options.Set("session.max_kv_caches", "0").ok());
    const auto session = Session::Load(env, folder + "/model.onnx", options);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << ": " << status.ToString();
    }
  }
}

// One of each kind: fp16, int4 with int8 activations, norms of heads, attention of plain operators.
TEST(CudaModelTest, RecordedRuns) {
  LAMINA_CUDA_OR_SKIP();
  std::vector<std::string> folders;
  for (const char* model : {"llama-fp16-cuda", "llama-int4-cpu", "qwen3-fp32", "llama-torch-dynamo"}) {
    folders.push_back(SourcePath(std::string("tests/data/zoo/") + model));
  }
  CheckRecordedRuns(folders);
}

TEST(CudaModelTest, FullZoo) {
  LAMINA_CUDA_OR_SKIP();
  CheckRecordedRuns(FindFoldersWithDataSets(SourcePath("tests/data/zoo")));
}

std::unique_ptr<Engine> LoadEngine(const char* provider) {
  const ModelFolder folder = ModelFolder::Open(SourcePath("models/tales")).value();
  EngineOptions options;
  EXPECT_TRUE(options.session.AppendProvider(provider).ok());
  Result<std::unique_ptr<Engine>> engine = Engine::Create(*Env::Create(), folder, options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? *std::move(engine) : nullptr;
}

std::vector<int32_t> GreedyTokens(Engine& engine, std::vector<int32_t> pending, size_t count) {
  const SequenceId sequence = engine.AddSequence().value();
  std::vector<int32_t> tokens;
  while (tokens.size() < count) {
    const SequenceStep row{sequence, pending, 1};
    const Status status = engine.Step({&row, 1});
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) break;
    const auto logits = engine.logits(0);
    pending = {static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())};
    tokens.push_back(pending[0]);
  }
  engine.RemoveSequence(sequence);
  return tokens;
}

// The logits of decode runs, by step, of `rows` sequences of different lengths that run together.
std::vector<std::vector<float>> DecodeLogits(const std::string& model, int rows, const char* records) {
  EngineOptions options;
  options.max_sequences = rows;
  options.context_length_tokens = 64;
  EXPECT_TRUE(options.session.AppendProvider("cuda").ok());
  EXPECT_TRUE(options.session.Set("session.record_decode", records).ok());
  const ModelFolder folder = ModelFolder::Open(SourcePath("tests/data/zoo/" + model)).value();
  Result<std::unique_ptr<Engine>> made = Engine::Create(*Env::Create(), folder, options);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  if (!made.ok()) return {};
  Engine& engine = **made;
  EXPECT_EQ(engine.session().impl().recordings_text().find("recorded in 1 graph") != std::string::npos,
            *records == '1')
      << engine.session().impl().recordings_text();
  std::vector<SequenceId> sequences;
  for (int row = 0; row < rows; ++row) {
    sequences.push_back(engine.AddSequence().value());
    const std::vector<int32_t> prompt(static_cast<size_t>(3 + 2 * row), 5 + row);
    const SequenceStep step{sequences.back(), prompt, 1};
    EXPECT_TRUE(engine.Step({&step, 1}).ok());
  }
  std::vector<std::vector<float>> logits;
  const std::vector<int32_t> tokens = {7, 3, 11, 2};
  for (const int32_t& token : tokens) {
    std::vector<SequenceStep> steps;
    for (const SequenceId sequence : sequences) steps.push_back({sequence, std::span(&token, 1), 1});
    const Status status = engine.Step(steps);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (size_t row = 0; row < steps.size() && status.ok(); ++row) {
      logits.emplace_back(engine.logits(row).begin(), engine.logits(row).end());
    }
  }
  return logits;
}

// What was recorded at one length is right at every other, of one sequence and of several.
TEST(CudaModelTest, RecordedDecodeRunsGiveTheSameLogits) {
  LAMINA_CUDA_OR_SKIP();
  for (const char* model : {"llama-fp16-cuda", "llama-int4-cpu"}) {
    for (const int rows : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << model << ", " << rows << " sequences");
      const auto recorded = DecodeLogits(model, rows, "1");
      EXPECT_EQ(recorded.size(), static_cast<size_t>(4 * rows));
      EXPECT_EQ(recorded, DecodeLogits(model, rows, "0"));
    }
  }
}

// With activations of 8 bits a sum that differs in its last bit can round to another number, and a text may
// part where two words have nearly equal logits: on an H200 three of the five do not within 32 tokens.
TEST(CudaModelTest, FullGreedyTextIsTheCpus) {
  LAMINA_CUDA_OR_SKIP();
  const std::unique_ptr<Engine> cuda = LoadEngine("cuda");
  const std::unique_ptr<Engine> cpu = LoadEngine("cpu");
  ASSERT_TRUE(cuda && cpu);
  const auto stories = nlohmann::json::parse(ReadWholeFile(SourcePath("models/tales/greedy.json")));
  constexpr size_t kTokens = 32;
  int same = 0;
  for (const auto& story : stories) {
    const auto prompt = story.at("prompt_ids").get<std::vector<int32_t>>();
    same += GreedyTokens(*cuda, prompt, kTokens) == GreedyTokens(*cpu, prompt, kTokens) ? 1 : 0;
  }
  EXPECT_GE(same, 3) << "of " << stories.size() << " texts";
}

}  // namespace
}  // namespace lamina::testing
