#include "generate/sampling/prompt_lookup.h"

#include <gtest/gtest.h>

#include <vector>

#include "generate/sampling/random.h"

namespace lamina {
namespace {

using Tokens = std::vector<int32_t>;

Tokens Propose(const Tokens& history, const PromptLookupParams& params = {}) {
  const auto draft = ProposeFromPrompt(history, params);
  return {draft.begin(), draft.end()};
}

TEST(PromptLookupTest, ProposesWhatFollowedTheLongestEnding) {
  EXPECT_EQ(Propose({1, 2, 3, 4, 5, 1, 2}), (Tokens{3, 4, 5, 1, 2}));
  EXPECT_EQ(Propose({1, 2, 3, 9, 2, 4, 1, 2}, {.max_draft_tokens = 2}), (Tokens{3, 9}));  // "1 2" before "2"
  EXPECT_EQ(Propose({7, 1, 7, 2, 7}), (Tokens{2, 7}));  // the latest of equals
  EXPECT_EQ(Propose({5, 5, 5}), (Tokens{5}));
}

TEST(PromptLookupTest, ProposesNothingWithoutAMatch) {
  EXPECT_TRUE(Propose({}).empty());
  EXPECT_TRUE(Propose({1}).empty());
  EXPECT_TRUE(Propose({1, 2, 3}).empty());
  EXPECT_TRUE(Propose({1, 2, 3, 1}, {.min_ngram = 2}).empty());
  EXPECT_TRUE(Propose({1, 2, 1}, {.max_draft_tokens = 0}).empty());
}

TEST(PromptLookupTest, CountsTheAgreedPrefix) {
  EXPECT_EQ(CountAccepted(Tokens{1, 2, 3}, Tokens{1, 2, 9, 3}), 2u);
  EXPECT_EQ(CountAccepted(Tokens{1, 2}, Tokens{1, 2, 3}), 2u);
  EXPECT_EQ(CountAccepted(Tokens{}, Tokens{1}), 0u);
}

// A "model" that is a function of the history: speculation gives what it gives alone.
TEST(PromptLookupTest, OutputIsThatWithoutSpeculation) {
  const auto model = [](const Tokens& history) {
    const size_t n = history.size();
    return static_cast<int32_t>((history[n - 1] * 3 + history[n / 2] + (n % 5 == 0 ? 1 : 0)) % 6);
  };
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    Tokens plain;
    for (int i = 0; i < 5; ++i) plain.push_back(static_cast<int32_t>(random.Next() % 6));
    Tokens fast = plain;
    while (plain.size() < 100) plain.push_back(model(plain));
    while (fast.size() < 100) {
      const Tokens draft = Propose(fast);
      Tokens choices;
      Tokens context = fast;
      for (size_t i = 0; i <= draft.size(); ++i) {
        choices.push_back(model(context));
        if (i < draft.size()) context.push_back(draft[i]);
      }
      const size_t accepted = CountAccepted(draft, choices);
      fast.insert(fast.end(), choices.begin(), choices.begin() + static_cast<ptrdiff_t>(accepted + 1));
    }
    fast.resize(100);
    EXPECT_EQ(fast, plain);
  }
}

}  // namespace
}  // namespace lamina
