#include "generate/sampling/dry_breakers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_data.h"

namespace lamina {
namespace {

TEST(DryBreakersTest, EveryTokenWithTheTextIsABreaker) {
  const Tokenizer tokenizer = Tokenizer::Load(testing::SourcePath("models/tales")).value();
  const std::vector<std::string> breakers{"\n", ""};
  const auto sequences = DrySequenceBreakers(tokenizer, breakers);
  ASSERT_TRUE(sequences.ok()) << sequences.status().ToString();
  EXPECT_FALSE(sequences->empty());
  for (const std::vector<int32_t>& sequence : *sequences) {
    EXPECT_EQ(sequence.size(), 1u);
    EXPECT_THAT(tokenizer.Decode(sequence).value(), ::testing::HasSubstr("\n"));
  }
  EXPECT_THAT(*sequences, ::testing::Contains(tokenizer.Encode("\n").value()));
}

TEST(DryBreakersTest, ALongTextMayBeginInsideAToken) {
  const Tokenizer tokenizer = Tokenizer::Load(testing::SourcePath("models/tales")).value();
  const std::vector<std::string> breakers{" time there"};
  const auto sequences = DrySequenceBreakers(tokenizer, breakers);
  ASSERT_TRUE(sequences.ok()) << sequences.status().ToString();
  EXPECT_THAT(*sequences, ::testing::Contains(tokenizer.Encode(" time there").value()));
  for (const std::vector<int32_t>& sequence : *sequences) {
    EXPECT_THAT(tokenizer.Decode(sequence).value(), ::testing::EndsWith(" time there"));
  }
}

}  // namespace
}  // namespace lamina
