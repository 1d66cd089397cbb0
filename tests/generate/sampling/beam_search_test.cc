#include "generate/sampling/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "generate/sampling/random.h"

namespace lamina {
namespace {

using Tokens = std::vector<int32_t>;
using Model = std::function<std::vector<float>(const Tokens&)>;

// Logits that depend on the whole sequence.
Model RandomModel(uint64_t seed, size_t vocab_size) {
  return [=](const Tokens& sequence) {
    uint64_t hash = seed;
    for (const int32_t token : sequence) hash = hash * 1'000'003 + static_cast<uint64_t>(token) + 1;
    Random random(hash);
    std::vector<float> logits;
    for (size_t i = 0; i < vocab_size; ++i) logits.push_back(static_cast<float>(4 * random.NextUnit()));
    return logits;
  };
}

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - std::log(sum));
  return result;
}

std::vector<BeamHypothesis> Search(const BeamSearchParams& params, const Model& model, int32_t vocab_size,
                                   const Tokens& prompt) {
  Result<BeamSearch> search = BeamSearch::Create(params, vocab_size, prompt);
  EXPECT_TRUE(search.ok()) << search.status().ToString();
  while (!search->done()) {
    std::vector<float> logits;
    for (size_t beam = 0; beam < search->beams().size(); ++beam) {
      const auto sequence = search->sequence(beam);
      EXPECT_EQ(sequence.back(), search->beams()[beam].token);
      const std::vector<float> row = model({sequence.begin(), sequence.end()});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const Status status = search->Step(logits);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) break;
  }
  return search->Finish();
}

TEST(BeamSearchTest, OneBeamIsGreedy) {
  const Model model = RandomModel(1, 6);
  BeamSearchParams params;
  params.num_beams = 1;
  params.max_length = 12;
  Tokens greedy = {0};
  while (greedy.size() < 12) {
    const auto logits = model(greedy);
    greedy.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  const auto hypotheses = Search(params, model, 6, {0});
  ASSERT_EQ(hypotheses.size(), 1u);
  EXPECT_EQ(hypotheses[0].tokens, greedy);
}

TEST(BeamSearchTest, ManyBeamsFindTheBestSequence) {
  // With as many beams as there are sequences nothing is lost: the best of all is found.
  constexpr int32_t kVocab = 3;
  constexpr int32_t kLength = 5;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Model model = RandomModel(seed, kVocab);
    BeamSearchParams params;
    params.num_beams = 81;
    params.num_return_sequences = 3;
    params.max_length = kLength;
    std::vector<std::pair<double, Tokens>> all;
    const std::function<void(Tokens, double)> enumerate = [&](const Tokens& sequence, double score) {
      if (sequence.size() == kLength) {
        all.emplace_back(score / kLength, sequence);
        return;
      }
      const auto log_p = LogSoftmax(model(sequence));
      for (int32_t token = 0; token < kVocab; ++token) {
        Tokens next = sequence;
        next.push_back(token);
        enumerate(next, score + log_p[static_cast<size_t>(token)]);
      }
    };
    enumerate({0}, 0);
    std::sort(all.rbegin(), all.rend());
    const auto hypotheses = Search(params, model, kVocab, {0});
    ASSERT_EQ(hypotheses.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(hypotheses[i].tokens, all[i].second) << "seed " << seed;
      EXPECT_NEAR(hypotheses[i].score, all[i].first, 1e-5);
    }
  }
}

// The rules of Hugging Face transformers and ONNX Runtime GenAI, written plainly.
std::vector<std::pair<double, Tokens>> PlainBeamSearch(const BeamSearchParams& params, const Model& model,
                                                       const Tokens& prompt) {
  struct Open {
    Tokens tokens;
    double score;
  };
  const auto beams = static_cast<size_t>(params.num_beams);
  std::vector<Open> open = {{prompt, 0}};
  std::vector<std::pair<double, Tokens>> finished;
  const auto add = [&](const Tokens& tokens, double score) {
    finished.emplace_back(score / std::pow(static_cast<double>(tokens.size()), params.length_penalty),
                          tokens);
    std::stable_sort(finished.begin(), finished.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (finished.size() > beams) finished.pop_back();
  };
  bool settled = false;
  while (!settled && open[0].tokens.size() < static_cast<size_t>(params.max_length)) {
    struct Next {
      double score;
      size_t beam;
      int32_t token;
    };
    std::vector<Next> all;
    for (size_t beam = 0; beam < open.size(); ++beam) {
      const auto log_p = LogSoftmax(model(open[beam].tokens));
      for (size_t token = 0; token < log_p.size(); ++token) {
        all.push_back({open[beam].score + log_p[token], beam, static_cast<int32_t>(token)});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Next& a, const Next& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), 2 * beams));
    std::vector<Open> next;
    for (size_t i = 0; i < all.size() && next.size() < beams; ++i) {
      const Open& parent = open[all[i].beam];
      if (all[i].token == params.end_tokens[0]) {
        if (i < beams) add(parent.tokens, all[i].score);
      } else {
        next.push_back({parent.tokens, all[i].score});
        next.back().tokens.push_back(all[i].token);
      }
    }
    const auto length = static_cast<double>(open[0].tokens.size());
    const double best_possible = all[0].score / std::pow(length, params.length_penalty);
    settled = finished.size() == beams && (params.early_stopping || finished.back().first >= best_possible);
    open = std::move(next);
  }
  if (!settled) {
    for (const Open& beam : open) add(beam.tokens, beam.score);
  }
  finished.resize(std::min(finished.size(), static_cast<size_t>(params.num_return_sequences)));
  return finished;
}

TEST(BeamSearchTest, FollowsTheRulesOfTheReference) {
  Random random(9);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto vocab_size = static_cast<int32_t>(4 + random.Next() % 5);
    const Model model = RandomModel(seed, static_cast<size_t>(vocab_size));
    BeamSearchParams params;
    params.num_beams = static_cast<int32_t>(2 + random.Next() % 3);
    params.num_return_sequences = static_cast<int32_t>(1 + random.Next() % 2);
    params.length_penalty = static_cast<float>(2 * random.NextUnit());
    params.early_stopping = random.Next() % 2 == 0;
    params.max_length = 10;
    params.end_tokens = {1};
    const auto expected = PlainBeamSearch(params, model, {0, 2});
    const auto actual = Search(params, model, vocab_size, {0, 2});
    ASSERT_EQ(actual.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].tokens, expected[i].second) << "seed " << seed;
      EXPECT_NEAR(actual[i].score, expected[i].first, 1e-4);
    }
  }
}

TEST(BeamSearchTest, MinimumLengthAndNoRepeatedNgram) {
  const Model model = RandomModel(4, 5);
  BeamSearchParams params;
  params.num_beams = 3;
  params.max_length = 14;
  params.min_length = 8;
  params.no_repeat_ngram_size = 2;
  params.end_tokens = {1};
  for (const BeamHypothesis& hypothesis : Search(params, model, 5, {0})) {
    EXPECT_GE(hypothesis.tokens.size(), 8u);
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (size_t i = 0; i + 1 < hypothesis.tokens.size(); ++i) {
      pairs.emplace_back(hypothesis.tokens[i], hypothesis.tokens[i + 1]);
    }
    std::sort(pairs.begin(), pairs.end());
    EXPECT_EQ(std::adjacent_find(pairs.begin(), pairs.end()), pairs.end());
  }
}

TEST(BeamSearchTest, BadInputIsAnError) {
  BeamSearchParams params;
  EXPECT_FALSE(BeamSearch::Create(params, 5, {}).ok());
  EXPECT_FALSE(BeamSearch::Create(params, 0, Tokens{1}).ok());
  params.num_return_sequences = 5;
  EXPECT_FALSE(BeamSearch::Create(params, 5, Tokens{1}).ok());
  params = {};
  Result<BeamSearch> search = BeamSearch::Create(params, 5, Tokens{1});
  EXPECT_FALSE(search->Step(std::vector<float>(5)).ok());
  EXPECT_FALSE(search->Step(std::vector<float>(20, -INFINITY)).ok());
}

}  // namespace
}  // namespace lamina
