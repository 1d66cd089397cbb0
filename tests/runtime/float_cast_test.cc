// A provider without float16 and bfloat16 runs a model of those types in float, between casts: results are
// the CPU's, weights are cast once, and the copies are those of the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generate/engine.h"
#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/sim_env.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

class FloatCastTest : public ::testing::Test {
 protected:
  static SessionOptions WithoutHalf(const std::string& rules = "") {
    SessionOptions options;
    EXPECT_TRUE(options.AppendProvider("sim", {{"without_types", "float16,bfloat16"}}).ok());
    EXPECT_TRUE(options.Set("session.name_based_layer_assignment", rules).ok());
    return options;
  }
  uint64_t KernelsOn(int32_t device) const { return sim_.Counters(device).kernels; }

  const std::string folder_ = testing::SourcePath("tests/data/zoo/llama-fp16-cuda");
  testing::SimEnv sim_;
};

TEST_F(FloatCastTest, ResultsAreThoseOfTheModel) {
  for (const char* rules : {"", "gpu:1(layers.1/); cpu(layers.2/)", "gpu:0(mlp); gpu:1(norm)"}) {
    SCOPED_TRACE(rules);
    const auto session = Session::Load(sim_.env(), folder_ + "/model.onnx", WithoutHalf(rules));
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder_)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << set << ": " << status.message();
    }
    EXPECT_GT(KernelsOn(0), 0u);
    EXPECT_THAT((*session)->impl().plan()->warnings,
                ::testing::Contains(HasSubstr("computed in float, with casts: provider sim lacks")));
  }
}

TEST_F(FloatCastTest, WeightsAreCastWhenTheyAreLoaded) {
  const auto session = Session::Load(sim_.env(), folder_ + "/model.onnx", WithoutHalf());
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const Graph& graph = *(*session)->impl().model().graph;
  int casts = 0;
  for (const Step& step : (*session)->impl().executable().steps()) {
    if (step.node->op_type != "Cast") continue;
    ++casts;
    EXPECT_EQ(graph.ConstantOf(step.node->inputs[0]), nullptr) << step.node->name.view();
  }
  EXPECT_GT(casts, 0);
  int products = 0;
  for (const Step& step : (*session)->impl().executable().steps()) {
    if (step.node->op_type != "MatMul" || step.device == (*session)->impl().executable().host()) continue;
    ++products;
    EXPECT_EQ(graph.ConstantOf(step.node->inputs[1])->type, DataType::kFloat);
  }
  EXPECT_GT(products, 0);
}

TEST_F(FloatCastTest, AttentionStaysWhereItsCacheIsNotCast) {
  const auto model = ModelFolder::Open(folder_);
  ASSERT_TRUE(model.ok());
  EngineOptions options;
  options.session = WithoutHalf();
  options.context_length_tokens = 32;
  options.prefill_chunk_tokens = 32;
  const auto engine = Engine::Create(sim_.env(), *model, options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const SessionImpl& session = (*engine)->session().impl();
  for (const Plan::Fallback& fallback : session.plan()->fallbacks) {
    EXPECT_THAT(fallback.node, HasSubstr("GroupQueryAttention"));
    EXPECT_EQ(fallback.provider, "sim");
  }
  EXPECT_FALSE(session.plan()->fallbacks.empty());

  const SequenceId sequence = *(*engine)->AddSequence();
  const std::vector<int32_t> tokens(32, 3);
  const SequenceStep prefill{sequence, std::span(tokens).first(31), true};
  ASSERT_TRUE((*engine)->Step({&prefill, 1}).ok());
  const SimCounters before = sim_.Counters(0);
  const SequenceStep decode{sequence, std::span(tokens).last(1), true};
  ASSERT_TRUE((*engine)->Step({&decode, 1}).ok());
  const SimCounters after = sim_.Counters(0);
  uint64_t bytes = 0;
  for (const Plan::CutEdge& edge : session.plan()->cut_edges) bytes += edge.bytes_per_step;
  EXPECT_EQ(after.copies_from_host + after.copies_to_host - before.copies_from_host - before.copies_to_host,
            session.plan()->cut_edges.size());
  EXPECT_EQ(after.bytes_from_host + after.bytes_to_host - before.bytes_from_host - before.bytes_to_host,
            bytes);
}

}  // namespace
}  // namespace lamina
