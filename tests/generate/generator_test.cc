#include "generate/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "support/test_data.h"

namespace lamina {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<Engine> Load(const std::string& path, const EngineOptions& options) {
  const Result<ModelFolder> folder = ModelFolder::Open(testing::SourcePath(path));
  EXPECT_TRUE(folder.ok()) << folder.status().ToString();
  Result<std::unique_ptr<Engine>> engine = Engine::Create(*Env::Create({2}), *folder, options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? *std::move(engine) : nullptr;
}

const Tokenizer& TalesTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(testing::SourcePath("models/tales")).value();
  return tokenizer;
}

GenerationRequest GreedyRequest(const std::string& prompt, int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = TalesTokenizer().EncodePrompt(prompt).value();
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.stop_ids = {3};
  return request;
}

Generation Generate(Engine& engine, const GenerationRequest& request) {
  Result<Generator> generator = Generator::Create(engine, TalesTokenizer());
  EXPECT_TRUE(generator.ok()) << generator.status().ToString();
  Result<Generation> answer = generator->Generate(request);
  EXPECT_TRUE(answer.ok()) << answer.status().ToString();
  return answer.ok() ? *std::move(answer) : Generation();
}

// Log-probabilities of what may follow a text, from the model alone.
class NextTokens {
 public:
  explicit NextTokens(Engine& engine) : engine_(engine), sequence_(*engine.AddSequence()) {}
  ~NextTokens() { engine_.RemoveSequence(sequence_); }
  NextTokens(const NextTokens&) = delete;
  NextTokens& operator=(const NextTokens&) = delete;

  const std::vector<double>& After(const Tokens& tokens) {
    const auto [found, inserted] = known_.try_emplace(tokens);
    if (!inserted) return found->second;
    EXPECT_TRUE(engine_.Rewind(sequence_, 0).ok());
    const SequenceStep row{sequence_, tokens, 1};
    EXPECT_TRUE(engine_.Step({&row, 1}).ok());
    const std::span<const float> logits = engine_.logits(0);
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - largest);
    for (const float logit : logits) found->second.push_back(logit - largest - std::log(sum));
    return found->second;
  }

 private:
  Engine& engine_;
  SequenceId sequence_;
  std::map<Tokens, std::vector<double>> known_;
};

const char* const kPrompts[] = {"Once upon a time", "The old ship", "A fox and a fox and a fox and a",
                                "one two three four one two three four one two",
                                "Tell me a story. Tell me a story. Tell me"};

TEST(PromptLookupGenerationTest, GreedyAnswersAreThoseWithoutIt) {
  EngineOptions options;
  options.max_row_logits = 11;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  int64_t accepted = 0;
  for (const char* prompt : kPrompts) {
    GenerationRequest request = GreedyRequest(prompt, 120);
    const Generation plain = Generate(*engine, request);
    EXPECT_EQ(plain.drafted_tokens, 0);
    for (const int32_t draft : {1, 3, 10}) {
      request.prompt_lookup = {.max_ngram = 3, .min_ngram = 1, .max_draft_tokens = draft};
      const Generation looked_up = Generate(*engine, request);
      EXPECT_EQ(looked_up.tokens, plain.tokens) << prompt << ", drafts of " << draft;
      EXPECT_EQ(looked_up.text, plain.text);
      EXPECT_EQ(looked_up.reason, plain.reason);
      EXPECT_LE(looked_up.accepted_tokens, looked_up.drafted_tokens);
      accepted += looked_up.accepted_tokens;
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(PromptLookupGenerationTest, SampledAnswersAndReportsAreThoseWithoutIt) {
  EngineOptions options;
  options.max_row_logits = 5;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("The cat and the cat and the cat and", 60);
  request.sampling.temperature = 0.7F;
  request.sampling.seed = 11;
  request.sampling.top_log_probabilities = 2;
  const Generation plain = Generate(*engine, request);
  request.prompt_lookup.max_draft_tokens = 4;
  const Generation looked_up = Generate(*engine, request);
  EXPECT_EQ(looked_up.tokens, plain.tokens);
  EXPECT_GT(looked_up.drafted_tokens, 0);
  ASSERT_EQ(looked_up.log_probabilities.size(), looked_up.tokens.size());
  for (size_t i = 0; i < plain.log_probabilities.size(); ++i) {
    EXPECT_NEAR(looked_up.log_probabilities[i].log_probability, plain.log_probabilities[i].log_probability,
                1e-3);
    EXPECT_EQ(looked_up.log_probabilities[i].top.size(), 2u);
  }
}

TEST(PromptLookupGenerationTest, StopsWhereThePlainAnswerStops) {
  EngineOptions options;
  options.max_row_logits = 9;
  options.context_length_tokens = 40;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  for (const int64_t max_tokens : {1, 2, 5, 17, 0}) {
    GenerationRequest request = GreedyRequest("one two one two one two one", max_tokens);
    const Generation plain = Generate(*engine, request);
    request.prompt_lookup.max_draft_tokens = 8;
    const Generation looked_up = Generate(*engine, request);
    EXPECT_EQ(looked_up.tokens, plain.tokens);
    EXPECT_EQ(looked_up.reason, plain.reason);
    EXPECT_EQ(plain.reason, max_tokens == 0 ? StopReason::kContextFull : StopReason::kMaxTokens);
  }
}

TEST(PromptLookupGenerationTest, AConversationGoesOnAfterDrafts) {
  EngineOptions options;
  options.max_row_logits = 9;
  options.max_sequences = 2;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("one two one two one two one", 20);
  request.prompt_lookup.max_draft_tokens = 8;
  Generator generator = *Generator::Create(*engine, TalesTokenizer());
  const Generation first = *generator.Generate(request);
  request.prompt.insert(request.prompt.end(), first.tokens.begin(), first.tokens.end());
  const Generation second = *generator.Generate(request);
  EXPECT_EQ(second.prompt_tokens_run, 1);
  EXPECT_EQ(second.tokens, Generate(*engine, request).tokens);
}

TEST(PromptLookupGenerationTest, NeedsAnEngineThatGivesEnoughLogits) {
  const std::unique_ptr<Engine> engine = Load("models/tales", {});
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("Hello", 4);
  request.prompt_lookup.max_draft_tokens = 4;
  const Status status = Generator::Create(*engine, TalesTokenizer())->Generate(request).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("needs logits for 5"));
}

// Beam search written plainly: every beam is run from its first token on, no cache is copied. Without ends of
// text the best of each step are kept; scores are divided by the length.
std::vector<std::pair<double, Tokens>> PlainBeams(NextTokens& model, const Tokens& prompt, size_t num_beams,
                                                  size_t num_tokens) {
  std::vector<std::pair<double, Tokens>> beams{{0.0, prompt}};
  for (size_t step = 0; step < num_tokens; ++step) {
    std::vector<std::pair<double, Tokens>> next;
    for (const auto& [score, tokens] : beams) {
      const std::vector<double>& log_p = model.After(tokens);
      for (size_t token = 0; token < log_p.size(); ++token) {
        next.emplace_back(score + log_p[token], tokens);
        next.back().second.push_back(static_cast<int32_t>(token));
      }
    }
    std::partial_sort(next.begin(), next.begin() + static_cast<ptrdiff_t>(num_beams), next.end(),
                      [](const auto& a, const auto& b) { return a.first > b.first; });
    next.resize(num_beams);
    beams = std::move(next);
  }
  for (auto& [score, tokens] : beams) score /= static_cast<double>(tokens.size());
  return beams;
}

TEST(BeamGenerationTest, FindsWhatAPlainSearchFinds) {
  constexpr size_t kBeams = 3;
  EngineOptions options;
  options.max_sequences = kBeams + 1;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  NextTokens model(*engine);
  for (const char* prompt : {"Once upon a time", "The old ship"}) {
    GenerationRequest request = GreedyRequest(prompt, 8);
    request.stop_ids.clear();
    request.beams = BeamSearchParams{.num_beams = kBeams, .num_return_sequences = kBeams};
    const Generation answer = Generate(*engine, request);
    const auto expected = PlainBeams(model, request.prompt, kBeams, 8);
    ASSERT_EQ(answer.sequences.size(), kBeams);
    EXPECT_EQ(answer.reason, StopReason::kMaxTokens);
    EXPECT_EQ(answer.tokens, answer.sequences[0].tokens);
    for (size_t i = 0; i < kBeams; ++i) {
      const Tokens& tokens = expected[i].second;
      EXPECT_EQ(answer.sequences[i].tokens,
                Tokens(tokens.begin() + static_cast<ptrdiff_t>(request.prompt.size()), tokens.end()));
      EXPECT_NEAR(answer.sequences[i].score, expected[i].first, 1e-3);
    }
  }
}

// Attention of plain operators: past and present are tensors of their own.
TEST(BeamGenerationTest, CopiesPastsThatAreOrdinaryTensors) {
  constexpr size_t kBeams = 4;
  EngineOptions options;
  options.max_sequences = kBeams + 1;
  for (const char* path : {"tests/data/zoo/llama-torch-script", "tests/data/zoo/llama-fp32"}) {
    const std::unique_ptr<Engine> engine = Load(path, options);
    ASSERT_NE(engine, nullptr);
    NextTokens model(*engine);
    GenerationRequest request;
    request.prompt = {3, 7, 11, 250, 40};
    request.max_tokens = 5;
    request.beams = BeamSearchParams{.num_beams = kBeams};
    const Generation answer = Generate(*engine, request);
    const auto expected = PlainBeams(model, request.prompt, kBeams, 5);
    EXPECT_EQ(answer.tokens, Tokens(expected[0].second.begin() + 5, expected[0].second.end())) << path;
  }
}

TEST(BeamGenerationTest, EndsOfTextEndAHypothesis) {
  EngineOptions options;
  options.max_sequences = 4;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("Once upon a time", 30);
  request.stop_ids = {17};  // a full stop
  request.beams = BeamSearchParams{.num_beams = 4, .num_return_sequences = 2};
  std::string heard;
  request.on_text = [&](std::string_view text) {
    heard += text;
    return Status();
  };
  const Generation answer = Generate(*engine, request);
  EXPECT_EQ(answer.reason, StopReason::kStopToken);
  EXPECT_EQ(answer.tokens.back(), 17);
  EXPECT_EQ(heard, answer.text);
  ASSERT_EQ(answer.sequences.size(), 2u);
  EXPECT_GE(answer.sequences[0].score, answer.sequences[1].score);
  // The engine's sequences are free again, and the conversation's is at the prompt.
  std::vector<SequenceId> sequences;
  for (int i = 0; i < 4; ++i) {
    const Result<SequenceId> sequence = engine->AddSequence();
    ASSERT_TRUE(sequence.ok());
  }
}

TEST(BeamGenerationTest, NeedsAsManySequencesAsBeams) {
  const std::unique_ptr<Engine> engine = Load("models/tales", {});
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("Hello", 4);
  request.beams = BeamSearchParams{.num_beams = 2};
  const Status status = Generator::Create(*engine, TalesTokenizer())->Generate(request).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("2 beams"));
}

TEST(GeneratorTest, LengthsAreBounds) {
  const std::unique_ptr<Engine> engine = Load("models/tales", {});
  ASSERT_NE(engine, nullptr);
  GenerationRequest request = GreedyRequest("Once upon a time", 0);
  request.max_length_tokens = static_cast<int64_t>(request.prompt.size()) + 6;
  EXPECT_EQ(Generate(*engine, request).tokens.size(), 6u);
  request.max_length_tokens = static_cast<int64_t>(request.prompt.size());
  EXPECT_EQ(Generator::Create(*engine, TalesTokenizer())->Generate(request).status().code(),
            StatusCode::kInvalidArgument);

  GenerationRequest short_answer = GreedyRequest("Once upon a time", 40);
  short_answer.stop_ids = {15};  // a comma, the fourth token of the story
  EXPECT_EQ(Generate(*engine, short_answer).tokens.size(), 4u);
  short_answer.min_length_tokens = static_cast<int64_t>(short_answer.prompt.size()) + 12;
  EXPECT_GE(Generate(*engine, short_answer).tokens.size(), 13u);
}

TEST(GeneratorTest, LogProbabilitiesAreThoseOfTheModel) {
  EngineOptions options;
  options.max_sequences = 2;
  const std::unique_ptr<Engine> engine = Load("models/tales", options);
  ASSERT_NE(engine, nullptr);
  NextTokens model(*engine);
  GenerationRequest request = GreedyRequest("The old ship", 5);
  request.sampling.top_log_probabilities = 3;
  const Generation answer = Generate(*engine, request);
  ASSERT_EQ(answer.log_probabilities.size(), answer.tokens.size());
  Tokens text = request.prompt;
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    const std::vector<double>& expected = model.After(text);
    const TokenReport& report = answer.log_probabilities[i];
    EXPECT_NEAR(report.log_probability, expected[static_cast<size_t>(answer.tokens[i])], 1e-3);
    ASSERT_EQ(report.top.size(), 3u);
    EXPECT_EQ(report.top[0].token, answer.tokens[i]);
    text.push_back(answer.tokens[i]);
  }
}

}  // namespace
}  // namespace lamina
