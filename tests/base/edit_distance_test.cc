#include "base/edit_distance.h"

#include <gtest/gtest.h>

#include <random>

namespace lamina {
namespace {

TEST(EditDistanceTest, KnownPairs) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("form", "from"), 1);
  EXPECT_EQ(EditDistance("temprature", "temperature"), 1);
}

TEST(EditDistanceTest, IsSymmetricAndAtMostTheEditsMade) {
  std::mt19937 random(5);
  const auto letter = [&] { return static_cast<char>('a' + random() % 4); };
  for (int round = 0; round < 500; ++round) {
    std::string a;
    for (uint32_t i = random() % 12; i > 0; --i) a += letter();
    std::string b = a;
    const int edits = static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % (b.size() + 1);
      if (random() % 2 == 0 || at == b.size()) {
        b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), letter());
      } else {
        b.erase(at, 1);
      }
    }
    EXPECT_EQ(EditDistance(a, b), EditDistance(b, a));
    EXPECT_LE(EditDistance(a, b), edits);
    EXPECT_EQ(EditDistance(a, b) == 0, a == b);
  }
}

TEST(NearestWordTest, SuggestsOnlyWhatIsClose) {
  const std::vector<std::string> words = {"run", "check", "tokenize", "--temperature"};
  EXPECT_EQ(NearestWord("rnu", words), "run");
  EXPECT_EQ(NearestWord("--temprature", words), "--temperature");
  EXPECT_EQ(NearestWord("banana", words), "");
  EXPECT_EQ(NearestWord("x", {}), "");
  EXPECT_EQ(NearestWord(std::string(100'000, 'x'), words), "");
}

}  // namespace
}  // namespace lamina
