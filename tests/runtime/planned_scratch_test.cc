// Scratch in planned sessions: what a kernel declared, or a reserve where it declares nothing, and an error
// beyond that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
  // Kernels of `op_type` declare so.
  Result<std::unique_ptr<Engine>> Load(const std::string& op_type,
                                       AcceleratorOptions::Declaration declaration) {
    AcceleratorOptions accelerator;
    accelerator.devices = 1;
    accelerator.declaration = [op_type, declaration](const KernelDef& def) {
      return def.op_type() == op_type ? declaration : AcceleratorOptions::Declaration::kAsItIs;
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
  const auto declared = Load("MatMulNBits", AcceleratorOptions::Declaration::kAsItIs);
  const auto unknown = Load("MatMulNBits", AcceleratorOptions::Declaration::kUnknown);
  ASSERT_TRUE(declared.ok()) << declared.status().ToString();
  ASSERT_TRUE(unknown.ok()) << unknown.status().ToString();
  const Plan& plan = *(*unknown)->session().impl().plan();
  ASSERT_TRUE(plan.planned);
  EXPECT_TRUE(std::any_of(plan.estimates.begin(), plan.estimates.end(), [](const Plan::Estimate& estimate) {
    return estimate.source == EstimateSource::kHeuristic;
  }));
  const auto expected = LogitsOf(**declared);
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  const auto logits = LogitsOf(**unknown);
  ASSERT_TRUE(logits.ok()) << logits.status().ToString();
  EXPECT_EQ(*logits, *expected);
}

TEST_F(PlannedScratchTest, ScratchThatWasNotDeclaredIsAnError) {
  const auto engine = Load("GroupQueryAttention", AcceleratorOptions::Declaration::kNothing);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const Status status = LogitsOf(**engine).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("(GroupQueryAttention)"));
  EXPECT_THAT(status.message(), HasSubstr("workspace slot"));
  EXPECT_THAT(status.message(), HasSubstr("0 bytes were planned"));
}

TEST_F(PlannedScratchTest, AReserveThatIsTooSmallIsAnError) {
  const auto engine = Load("GroupQueryAttention", AcceleratorOptions::Declaration::kUnknown);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const Status status = LogitsOf(**engine).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("are asked for"));
}

}  // namespace
}  // namespace lamina
