// Each sampler against its definition, computed here in the plainest way.
#include "generate/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "generate/sampling/portable_math.h"
#include "generate/sampling/random.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

SampledToken Sample(Sampler& sampler, const std::vector<float>& logits,
                    const std::vector<int32_t>& history = {}) {
  const Result<SampledToken> sampled = sampler.Sample(logits, history);
  EXPECT_TRUE(sampled.ok()) << sampled.status().ToString();
  return sampled.ok() ? *sampled : SampledToken();
}

Sampler MakeSampler(const SamplingParams& params, size_t vocab_size) {
  Result<Sampler> sampler = Sampler::Create(params, static_cast<int32_t>(vocab_size));
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return std::move(sampler).value();
}

// The distribution that the chain draws from: every token's probability after it, 0 for dropped tokens.
std::vector<double> Distribution(SamplingParams params, const std::vector<float>& logits,
                                 const std::vector<int32_t>& history = {}) {
  params.top_log_probabilities = static_cast<int32_t>(logits.size());
  params.log_probabilities_after_chain = true;
  Sampler sampler = MakeSampler(params, logits.size());
  const SampledToken sampled = Sample(sampler, logits, history);
  std::vector<double> probabilities(logits.size(), 0);
  for (const TokenLogProbability& entry : sampled.top) {
    probabilities[static_cast<size_t>(entry.token)] = std::exp(entry.log_probability);
  }
  return probabilities;
}

std::vector<double> Softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const double logit : logits) sum += p.emplace_back(std::exp(logit - largest));
  for (double& value : p) value /= sum;
  return p;
}

std::vector<double> Softmax(const std::vector<float>& logits) {
  return Softmax(std::vector<double>(logits.begin(), logits.end()));
}

// Softmax of the logits of the kept tokens.
std::vector<double> Kept(const std::vector<float>& logits, const std::set<size_t>& kept) {
  std::vector<double> masked(logits.begin(), logits.end());
  for (size_t i = 0; i < masked.size(); ++i) {
    if (kept.count(i) == 0) masked[i] = -std::numeric_limits<double>::infinity();
  }
  return Softmax(masked);
}

std::vector<size_t> ByLikelihood(const std::vector<float>& logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  return order;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << "token " << i;
}

std::vector<float> RandomLogits(Random& random, size_t count) {
  std::vector<float> logits;
  for (size_t i = 0; i < count; ++i) logits.push_back(static_cast<float>(8 * random.NextUnit() - 4));
  return logits;
}

// Runs `check` on random distributions, some with ties.
void ForRandomLogits(const std::function<void(const std::vector<float>&, Random&)>& check) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits = RandomLogits(random, 2 + random.Next() % 30);
    if (round % 4 == 0) {
      for (float& logit : logits) logit = std::round(logit);
    }
    check(logits, random);
  }
}

TEST(SamplerTest, DefaultsLeaveTheModelsDistribution) {
  ForRandomLogits([](const std::vector<float>& logits, Random&) {
    ExpectNear(Distribution({}, logits, {0, 1, 1}), Softmax(logits));
  });
}

TEST(SamplerTest, GreedyTakesTheLargestAndTheLowestIdOfTies) {
  SamplingParams params;
  params.temperature = 0;
  params.top_k = 1;
  params.xtc_probability = 1;  // does not touch greedy
  params.xtc_threshold = 0;
  Sampler sampler = MakeSampler(params, 5);
  EXPECT_EQ(Sample(sampler, {1, 3, 2, 3, 0}).token, 1);
  EXPECT_EQ(Sample(sampler, {0, 0, 0, 0, 0}).token, 0);
  EXPECT_EQ(Sample(sampler, {-kInf, NAN, -5, -kInf, NAN}).token, 2);
  EXPECT_EQ(Sample(sampler, {1, kInf, 2, kInf, 0}).token, 1);
}

TEST(SamplerTest, TopK) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.top_k = static_cast<int32_t>(1 + random.Next() % (logits.size() + 3));
    const auto order = ByLikelihood(logits);
    const size_t k = std::min(static_cast<size_t>(params.top_k), logits.size());
    ExpectNear(Distribution(params, logits),
               Kept(logits, {order.begin(), order.begin() + static_cast<ptrdiff_t>(k)}));
  });
}

TEST(SamplerTest, TopP) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.top_p = static_cast<float>(random.NextUnit());
    params.min_keep = static_cast<int32_t>(random.Next() % 4);
    params.top_k = random.Next() % 2 == 0 ? 0 : static_cast<int32_t>(logits.size());
    const auto p = Softmax(logits);
    std::set<size_t> kept;
    double mass = 0;
    for (const size_t token : ByLikelihood(logits)) {
      if (mass >= params.top_p && kept.size() >= static_cast<size_t>(std::max(1, params.min_keep))) break;
      kept.insert(token);
      mass += p[token];
    }
    ExpectNear(Distribution(params, logits), Kept(logits, kept));
  });
}

TEST(SamplerTest, MinP) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.min_p = static_cast<float>(0.01 + 0.9 * random.NextUnit());
    const auto p = Softmax(logits);
    const double largest = *std::max_element(p.begin(), p.end());
    std::set<size_t> kept;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] >= params.min_p * largest) kept.insert(i);
    }
    ExpectNear(Distribution(params, logits), Kept(logits, kept));
  });
  SamplingParams params;
  params.min_p = 0.99f;
  params.min_keep = 2;
  ExpectNear(Distribution(params, {5, 1, 0}), Kept({5, 1, 0}, {0, 1}));
}

TEST(SamplerTest, TypicalP) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.typical_p = static_cast<float>(random.NextUnit());
    const auto p = Softmax(logits);
    double entropy = 0;
    for (const double value : p) entropy -= value * std::log(value);
    const auto likelihood = ByLikelihood(logits);
    std::vector<size_t> order = likelihood;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::fabs(-std::log(p[a]) - entropy) < std::fabs(-std::log(p[b]) - entropy) - 1e-12;
    });
    std::set<size_t> kept;
    double mass = 0;
    for (const size_t token : order) {
      if (mass >= params.typical_p && !kept.empty()) break;
      kept.insert(token);
      mass += p[token];
    }
    ExpectNear(Distribution(params, logits), Kept(logits, kept));
  });
}

TEST(SamplerTest, TopNSigma) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.top_n_sigma = static_cast<float>(0.1 + 2 * random.NextUnit());
    const double mean =
        std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
    double variance = 0;
    for (const float logit : logits)
      variance += (logit - mean) * (logit - mean) / static_cast<double>(logits.size());
    const float largest = *std::max_element(logits.begin(), logits.end());
    std::set<size_t> kept;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] >= static_cast<float>(largest - params.top_n_sigma * std::sqrt(variance))) kept.insert(i);
    }
    ExpectNear(Distribution(params, logits), Kept(logits, kept));
  });
}

TEST(SamplerTest, Temperature) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.temperature = static_cast<float>(0.2 + 2 * random.NextUnit());
    std::vector<double> scaled;
    for (const float logit : logits) scaled.push_back(logit / params.temperature);
    ExpectNear(Distribution(params, logits), Softmax(scaled));
  });
}

TEST(SamplerTest, DynamicTemperatureFollowsTheEntropy) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.temperature = 1;
    params.dynamic_temperature = static_cast<float>(0.1 + 0.8 * random.NextUnit());
    params.dynamic_exponent = static_cast<float>(0.5 + random.NextUnit());
    const auto p = Softmax(logits);
    double entropy = 0;
    for (const double value : p) entropy -= value * std::log(value);
    const double share = std::pow(entropy / std::log(static_cast<double>(p.size())), params.dynamic_exponent);
    const double temperature = 1 - params.dynamic_temperature + 2 * params.dynamic_temperature * share;
    std::vector<double> scaled;
    for (const float logit : logits) scaled.push_back(logit / temperature);
    const auto actual = Distribution(params, logits);
    const auto expected = Softmax(scaled);
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5);
  });
}

TEST(SamplerTest, XtcDropsAllLikelyTokensButTheLeastLikely) {
  SamplingParams params;
  params.xtc_probability = 1;
  params.xtc_threshold = 0.2f;
  const std::vector<float> logits = {std::log(0.4f), std::log(0.05f), std::log(0.3f), std::log(0.25f)};
  ExpectNear(Distribution(params, logits), Kept(logits, {1, 3}));
  params.xtc_threshold = 0.35f;  // one token only: nothing to drop
  ExpectNear(Distribution(params, logits), Softmax(logits));
  params.xtc_threshold = 0.6f;
  ExpectNear(Distribution(params, logits), Softmax(logits));
  params.xtc_threshold = 0.2f;
  params.min_keep = 3;
  ExpectNear(Distribution(params, logits), Softmax(logits));

  params.min_keep = 1;
  params.xtc_probability = 0.3f;
  Sampler sampler = MakeSampler(params, 4);
  int dropped = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t token = Sample(sampler, logits).token;
    dropped += token == 1 || token == 3 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / double{kDraws}, 0.3 + 0.7 * 0.3, 0.015);  // always of {1, 3}, or by their own 0.3
}

TEST(SamplerTest, Penalties) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  const std::vector<float> logits = {2, -2, 1, 0};
  // Token 0 twice, token 1 once, token 3 outside the window, unknown ids ignored.
  params.penalty_last_n = 5;
  ExpectNear(Distribution(params, logits, {3, 0, 1, 0, 99, -1}),
             Softmax(std::vector<float>{2 / 2.0f - 0.5f - 0.5f, -2 * 2 - 0.5f - 0.25f, 1, 0}));
  params.penalty_last_n = -1;
  ExpectNear(Distribution(params, logits, {3, 0}),
             Softmax(std::vector<float>{2 / 2.0f - 0.75f, -2, 1, -0.75f}));
  params.penalty_last_n = 0;
  ExpectNear(Distribution(params, logits, {3, 0}), Softmax(logits));
}

TEST(SamplerTest, LogitBias) {
  SamplingParams params;
  params.logit_bias = {{1, 2.5f}, {2, -kInf}, {77, 1}};
  ExpectNear(Distribution(params, {0, 1, 9}), Kept({0, 3.5f, 9}, {0, 1}));
  params.temperature = 0;
  params.logit_bias = {{0, 100}};
  Sampler sampler = MakeSampler(params, 3);
  EXPECT_EQ(Sample(sampler, {0, 1, 9}).token, 0);
}

TEST(SamplerTest, NoRepeatedNgram) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.no_repeat_ngram_size = static_cast<int32_t>(1 + random.Next() % 3);
    const auto size = static_cast<size_t>(params.no_repeat_ngram_size);
    std::vector<int32_t> history;
    for (size_t i = 0; i < random.Next() % 12; ++i) {
      history.push_back(static_cast<int32_t>(random.Next() % (logits.size() - 1)));
    }
    std::set<std::vector<int32_t>> seen;
    for (size_t i = 0; i + size <= history.size(); ++i) {
      seen.insert(
          {history.begin() + static_cast<ptrdiff_t>(i), history.begin() + static_cast<ptrdiff_t>(i + size)});
    }
    std::set<size_t> kept;
    for (size_t token = 0; token < logits.size(); ++token) {
      std::vector<int32_t> ngram;
      if (history.size() + 1 >= size)
        ngram.assign(history.end() - static_cast<ptrdiff_t>(size - 1), history.end());
      ngram.push_back(static_cast<int32_t>(token));
      if (seen.count(ngram) == 0) kept.insert(token);
    }
    ExpectNear(Distribution(params, logits, history), Kept(logits, kept));
  });
}

// DRY as described: for each earlier place where the ending stands, the token behind it is penalised by the
// length of the match.
std::map<int32_t, int> DryMatches(const std::vector<int32_t>& history, int allowed,
                                  const std::set<int32_t>& breakers) {
  std::map<int32_t, int> longest;
  const auto size = static_cast<int>(history.size());
  for (int i = 0; i + 1 < size; ++i) {
    int length = 0;
    while (i - length >= 0 &&
           history[static_cast<size_t>(i - length)] == history[static_cast<size_t>(size - 1 - length)] &&
           breakers.count(history[static_cast<size_t>(i - length)]) == 0) {
      ++length;
    }
    if (length < allowed || length == 0) continue;
    int& best = longest[history[static_cast<size_t>(i + 1)]];
    best = std::max(best, length);
  }
  return longest;
}

TEST(SamplerTest, Dry) {
  ForRandomLogits([](const std::vector<float>& logits, Random& random) {
    SamplingParams params;
    params.dry_multiplier = 0.5f;
    params.dry_base = 1.5f;
    params.dry_allowed_length = static_cast<int32_t>(random.Next() % 4);
    std::vector<int32_t> history;
    for (size_t i = 0; i < random.Next() % 40; ++i) {
      history.push_back(static_cast<int32_t>(random.Next() % std::min<size_t>(logits.size(), 3)));
    }
    std::set<int32_t> breakers;
    if (random.Next() % 2 == 0) {
      breakers = {1};
      params.dry_sequence_breakers = {{1}};
    }
    std::vector<double> expected(logits.begin(), logits.end());
    for (const auto& [token, length] : DryMatches(history, params.dry_allowed_length, breakers)) {
      expected[static_cast<size_t>(token)] -= 0.5 * std::pow(1.5, length - params.dry_allowed_length);
    }
    const auto actual = Distribution(params, logits, history);
    const auto wanted = Softmax(expected);
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], wanted[i], 1e-5) << "token " << i;
  });
}

TEST(SamplerTest, DryBreakersOfSeveralTokens) {
  SamplingParams params;
  params.dry_multiplier = 1;
  params.dry_base = 2;
  params.dry_allowed_length = 1;
  const std::vector<float> logits(6, 0.0f);
  const std::vector<int32_t> history = {1, 2, 3, 4, 5, 1, 2, 3, 4};
  std::vector<float> expected = logits;
  expected[5] = -8;  // a match of four tokens
  ExpectNear(Distribution(params, logits, history), Softmax(expected));
  params.dry_sequence_breakers = {{9}, {2, 3}};
  expected[5] = -1;  // only the token behind the breaker
  ExpectNear(Distribution(params, logits, history), Softmax(expected));
  params.dry_sequence_breakers = {{3, 4}};
  ExpectNear(Distribution(params, logits, history), Softmax(logits));
  params.dry_sequence_breakers = {};
  params.dry_penalty_last_n = 4;
  ExpectNear(Distribution(params, logits, history), Softmax(logits));
}

TEST(SamplerTest, TheOrderCounts) {
  const std::vector<float> logits = {2, 1, 0, -1};
  SamplingParams params;
  params.temperature = 4;
  params.min_p = 0.5f;
  // min_p first: only tokens of half the largest probability; temperature first: flat enough for more.
  ExpectNear(Distribution(params, logits), Kept(logits, {0}));
  params.order = *ParseSamplerOrder("temperature; min_p");
  const std::vector<float> scaled = {0.5f, 0.25f, 0, -0.25f};
  ExpectNear(Distribution(params, logits), Kept(scaled, {0, 1, 2}));
  params.order = {};
  ExpectNear(Distribution(params, logits), Softmax(logits));
  // Penalties behind top_k see what it left.
  params = {};
  params.top_k = 2;
  params.presence_penalty = 3;
  params.order = *ParseSamplerOrder("top_k,penalties,top_p");
  params.top_p = 0.5f;
  ExpectNear(Distribution(params, logits, {0}), Kept({-1, 1, 0, -1}, {1}));
}

TEST(SamplerTest, MirostatHoldsTheSurprise) {
  SamplingParams params;
  params.mirostat = true;
  params.mirostat_tau = 3;
  params.mirostat_eta = 0.1f;
  std::vector<float> logits;
  for (int i = 0; i < 500; ++i) logits.push_back(-1.1f * std::log(1.0f + static_cast<float>(i)));
  Sampler sampler = MakeSampler(params, logits.size());
  // The same rule, step by step, from the same random numbers.
  Random random(params.seed);
  double mu = 2 * params.mirostat_tau;
  const auto p = Softmax(logits);
  double surprise_sum = 0;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    size_t kept = 1;
    while (kept < p.size() && -std::log2(p[kept]) <= mu) ++kept;
    const double mass = std::accumulate(p.begin(), p.begin() + static_cast<ptrdiff_t>(kept), 0.0);
    double target = random.NextUnit() * mass;
    size_t expected = 0;
    while (expected + 1 < kept && target >= p[expected]) target -= p[expected++];
    const double surprise = -std::log2(p[expected] / mass);
    mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
    surprise_sum += surprise;
    ASSERT_EQ(Sample(sampler, logits).token, static_cast<int32_t>(expected)) << "draw " << draw;
  }
  EXPECT_NEAR(surprise_sum / kDraws, params.mirostat_tau, 0.1);
}

TEST(SamplerTest, LogProbabilitiesAreTheModelsOrTheChains) {
  const std::vector<float> logits = {1, 4, 2, 3, 4};
  SamplingParams params;
  params.top_k = 2;
  params.top_log_probabilities = 3;
  Sampler sampler = MakeSampler(params, logits.size());
  const auto p = Softmax(logits);
  SampledToken sampled = Sample(sampler, logits);
  EXPECT_NEAR(sampled.log_probability, std::log(p[static_cast<size_t>(sampled.token)]), 1e-6);
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_EQ(sampled.top[1].token, 4);
  EXPECT_EQ(sampled.top[2].token, 3);
  EXPECT_NEAR(sampled.top[2].log_probability, std::log(p[3]), 1e-6);

  params.log_probabilities_after_chain = true;
  sampler = MakeSampler(params, logits.size());
  sampled = Sample(sampler, logits);
  EXPECT_NEAR(sampled.log_probability, std::log(0.5), 1e-6);
  EXPECT_EQ(sampled.top.size(), 2u);

  params.top_log_probabilities = -1;
  sampler = MakeSampler(params, logits.size());
  EXPECT_TRUE(std::isnan(Sample(sampler, logits).log_probability));
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  // Chi-square over 100,000 draws for several chains.
  std::vector<SamplingParams> chains(6);
  chains[1].temperature = 0.7f;
  chains[1].top_k = 6;
  chains[2].top_p = 0.9f;
  chains[3].min_p = 0.05f;
  chains[3].temperature = 1.5f;
  chains[4].typical_p = 0.8f;
  chains[5].presence_penalty = 1;
  chains[5].top_n_sigma = 1.5f;
  const std::vector<float> logits = {1.5f, 0.2f, -0.7f, 2.1f, 0.9f, -2.0f, 1.1f, 0.0f, -0.3f, 1.9f};
  constexpr int kDraws = 100'000;
  for (size_t chain = 0; chain < chains.size(); ++chain) {
    const std::vector<double> expected = Distribution(chains[chain], logits, {3, 9});
    chains[chain].seed = 11 + chain;
    Sampler sampler = MakeSampler(chains[chain], logits.size());
    std::vector<int> counts(logits.size(), 0);
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(Sample(sampler, logits, {3, 9}).token)];
    double chi_square = 0;
    int degrees = -1;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (expected[i] == 0) {
        EXPECT_EQ(counts[i], 0) << "chain " << chain << " drew token " << i;
        continue;
      }
      const double mean = expected[i] * kDraws;
      chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
      ++degrees;
    }
    // The 99.9th percentile, by Wilson and Hilferty's approximation.
    const double spread = 2.0 / (9.0 * std::max(degrees, 1));
    const double limit = std::max(degrees, 1) * std::pow(1 - spread + 3.09 * std::sqrt(spread), 3);
    EXPECT_LT(chi_square, limit) << "chain " << chain << ", " << degrees << " degrees of freedom";
  }
}

TEST(SamplerTest, SeedsReproduceAndDiffer) {
  const std::vector<float> logits(50, 0.0f);
  const auto draw = [&](uint64_t seed) {
    SamplingParams params;
    params.seed = seed;
    Sampler sampler = MakeSampler(params, logits.size());
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(Sample(sampler, logits).token);
    sampler.Reset();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Sample(sampler, logits).token, tokens[static_cast<size_t>(i)]);
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(SamplerTest, RandomNumbersAreTheAlgorithms) {
  // xoshiro256++ from the state that splitmix64 makes of 0: first outputs as its authors' code gives them.
  Random random(0);
  EXPECT_EQ(random.Next(), 0x53175d61490b23dfULL);
  EXPECT_EQ(random.Next(), 0x61da6f3dc380d507ULL);
  EXPECT_EQ(random.Next(), 0x5c0fdf91ec9a7bfcULL);
}

TEST(SamplerTest, PortableMathIsExactEnough) {
  Random random(3);
  for (int i = 0; i < 100'000; ++i) {
    const double x = 1400 * random.NextUnit() - 700;
    EXPECT_NEAR(portable::Exp(x) / std::exp(x), 1, 4e-16 * 2) << x;
    const double y = std::exp(x);
    EXPECT_NEAR(portable::Log(y), std::log(y), 4e-16 * std::max(1.0, std::fabs(std::log(y)))) << y;
  }
  EXPECT_EQ(portable::Exp(0), 1);
  EXPECT_EQ(portable::Log(1), 0);
  EXPECT_EQ(portable::Exp(-1e9), 0);
  EXPECT_EQ(portable::Log(0), -std::numeric_limits<double>::infinity());
}

TEST(SamplerTest, BadInputIsAnError) {
  EXPECT_EQ(Sampler::Create({}, 0).status().code(), StatusCode::kInvalidArgument);
  SamplingParams params;
  params.top_p = 1.5f;
  EXPECT_EQ(Sampler::Create(params, 3).status().message(), "top_p: expected a number from 0 to 1, found 1.5");
  params = {};
  params.temperature = NAN;
  EXPECT_FALSE(Sampler::Create(params, 3).ok());
  params = {};
  params.order = {SamplerStage::kTopK, SamplerStage::kTopK};
  EXPECT_FALSE(Sampler::Create(params, 3).ok());
  EXPECT_FALSE(ParseSamplerOrder("top_k;nope").ok());
  EXPECT_FALSE(ParseSamplerOrder("top_k;top_k").ok());
  EXPECT_THAT(*ParseSamplerOrder(" top_k ; temperature;"),
              ElementsAre(SamplerStage::kTopK, SamplerStage::kTemperature));

  Sampler sampler = MakeSampler({}, 3);
  EXPECT_FALSE(sampler.Sample(std::vector<float>{1, 2}, {}).ok());
  EXPECT_FALSE(sampler.Sample(std::vector<float>{-kInf, NAN, -kInf}, {}).ok());
  EXPECT_EQ(Sample(sampler, {-kInf, kInf, 3}).token, 1);
}

TEST(SamplerTest, ExtremeLogitsAndEveryKnobAtOnce) {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    SamplingParams params;
    params.seed = random.Next();
    params.temperature = static_cast<float>(3 * random.NextUnit());
    params.dynamic_temperature = random.Next() % 2 == 0 ? 0.0f : 0.5f;
    params.top_k = static_cast<int32_t>(random.Next() % 9);
    params.top_p = static_cast<float>(random.NextUnit());
    params.min_p = static_cast<float>(random.NextUnit());
    params.typical_p = static_cast<float>(random.NextUnit());
    params.top_n_sigma = static_cast<float>(2 * random.NextUnit());
    params.xtc_probability = 0.5f;
    params.repetition_penalty = 1.3f;
    params.dry_multiplier = 1e8f;
    params.dry_base = 1e8f;
    params.dry_allowed_length = 0;
    params.mirostat = random.Next() % 2 == 0;
    params.top_log_probabilities = 2;
    std::shuffle(params.order.begin(), params.order.end(), std::minstd_rand(static_cast<unsigned>(round)));
    std::vector<float> logits = RandomLogits(random, 12);
    logits[random.Next() % 12] = kInf;
    logits[random.Next() % 12] = -kInf;
    logits[random.Next() % 12] = NAN;
    logits[random.Next() % 12] = std::numeric_limits<float>::max();
    std::vector<int32_t> history;
    for (int i = 0; i < 30; ++i) history.push_back(static_cast<int32_t>(random.Next() % 14) - 1);
    Sampler sampler = MakeSampler(params, logits.size());
    const Result<SampledToken> sampled = sampler.Sample(logits, history);
    if (sampled.ok()) {
      EXPECT_GE(sampled->token, 0);
      EXPECT_LT(sampled->token, 12);
    }
  }
}

}  // namespace
}  // namespace lamina
