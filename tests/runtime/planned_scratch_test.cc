// Scratch in planned sessions: what a kernel declared, or a reserve where it declares nothing, and an error
// beyond that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generate/engine.h"
#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::AcceleratorLog;
using testing::AcceleratorOptions;
using ::testing::HasSubstr;

class PlannedScratchTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> Load(AcceleratorOptions::Declaration of_attention) {
    AcceleratorOptions accelerator;
    accelerator.devices = 1;
    accelerator.declaration = [=](const KernelDef& def) {
      return def.op_type() == "GroupQueryAttention" ? of_attention : AcceleratorOptions::Declaration::kAsItIs;
    };
    const std::shared_ptr<Env> env = *Env::Create({1});
    LAMINA_RETURN_IF_ERROR(env->impl().RegisterProvider(MakeTestAccelerator(&log_, accelerator)));
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder,
                            ModelFolder::Open(testing::SourcePath("tests/data/zoo/llama-int4-cpu")));
    EngineOptions options;
    options.context_length_tokens = 32;
    options.prefill_chunk_tokens = 8;
    return Engine::Create(env, folder, options);
  }

  static Result<std::vector<float>> LogitsOf(Engine& engine) {
    LAMINA_ASSIGN_OR_RETURN(const SequenceId sequence, engine.AddSequence());
    const std::vector<int32_t> prompt = {3, 7, 11, 25};
    const SequenceStep row{sequence, prompt, 1};
    LAMINA_RETURN_IF_ERROR(engine.Step({&row, 1}));
    const std::span<const float> logits = engine.logits(0);
    return std::vector<float>(logits.begin(), logits.end());
  }

  AcceleratorLog log_;
};

TEST_F(PlannedScratchTest, AReserveServesAKernelThatCannotTell) {
  const auto declared = Load(AcceleratorOptions::Declaration::kAsItIs);
  const auto unknown = Load(AcceleratorOptions::Declaration::kUnknown);
  ASSERT_TRUE(declared.ok()) << declared.status().ToString();
  ASSERT_TRUE(unknown.ok()) << unknown.status().ToString();
  const Plan& plan = *(*unknown)->session().impl().plan();
  ASSERT_TRUE(plan.planned);
  size_t heuristic = 0;
  for (const Plan::Estimate& estimate : plan.estimates) {
    if (estimate.source == EstimateSource::kHeuristic) ++heuristic;
  }
  EXPECT_EQ(heuristic, 2u);
  const auto expected = LogitsOf(**declared);
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  const auto logits = LogitsOf(**unknown);
  ASSERT_TRUE(logits.ok()) << logits.status().ToString();
  EXPECT_EQ(*logits, *expected);
}

TEST_F(PlannedScratchTest, ScratchThatWasNotDeclaredIsAnError) {
  const auto engine = Load(AcceleratorOptions::Declaration::kNothing);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const Status status = LogitsOf(**engine).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("(GroupQueryAttention)"));
  EXPECT_THAT(status.message(), HasSubstr("workspace slot"));
  EXPECT_THAT(status.message(), HasSubstr("0 bytes were planned"));
}

}  // namespace
}  // namespace lamina
