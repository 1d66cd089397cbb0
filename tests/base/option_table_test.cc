#include "base/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lamina {
namespace {

using ::testing::HasSubstr;

const OptionTable& Table() {
  static const OptionTable table(
      {
          {.key = "session.max_batch",
           .type = OptionType::kInt,
           .default_text = "1",
           .unit = "sequences",
           .range = {1, 4096},
           .meaning = "Most sequences in one step"},
          {.key = "session.enable_profiling",
           .type = OptionType::kBool,
           .default_text = "0",
           .meaning = "Write a trace"},
          {.key = "session.margin",
           .type = OptionType::kFloat,
           .default_text = "0.5",
           .range = {0, 1},
           .meaning = "Share a|b"},
          {.key = "session.arena_bytes",
           .type = OptionType::kBytes,
           .range = {1024},
           .meaning = "Size of the arena",
           .when_unset = "what the model needs"},
          {.key = "session.rules", .type = OptionType::kString, .meaning = "Rules", .when_unset = "none"},
          {.key = "session.load",
           .type = OptionType::kEnum,
           .default_text = "mmap",
           .choices = {"mmap", "read"},
           .meaning = "How weights are read"},
      },
      {"session.use_env_allocators"});
  return table;
}

TEST(OptionTableTest, IsConsistentAndSaysWhereNot) {
  EXPECT_TRUE(Table().CheckConsistent().ok()) << Table().CheckConsistent().ToString();
  const auto message = [](std::vector<OptionSpec> specs, std::vector<std::string> ignored = {}) {
    return OptionTable(std::move(specs), std::move(ignored)).CheckConsistent().message();
  };
  EXPECT_THAT(message({{.key = "a", .meaning = "x"}, {.key = "a", .meaning = "x"}}), HasSubstr("twice"));
  EXPECT_THAT(message({{.key = "a", .meaning = "x"}}, {"a"}), HasSubstr("ignored"));
  EXPECT_THAT(message({{.key = "a"}}), HasSubstr("no meaning"));
  EXPECT_THAT(message({{.key = "a", .type = OptionType::kEnum, .meaning = "x"}}), HasSubstr("choices"));
  EXPECT_THAT(
      message({{.key = "a", .type = OptionType::kInt, .default_text = "9", .range = {0, 5}, .meaning = "x"}}),
      HasSubstr("expected a whole number, 0 to 5, found '9'"));
}

TEST(OptionValuesTest, DefaultsAndGivenValues) {
  OptionValues values(Table());
  EXPECT_EQ(values.Int("session.max_batch"), 1);
  EXPECT_FALSE(values.Bool("session.enable_profiling"));
  EXPECT_EQ(values.Float("session.margin"), 0.5);
  EXPECT_EQ(values.Text("session.load"), "mmap");
  EXPECT_FALSE(values.HasValue("session.arena_bytes"));
  EXPECT_FALSE(values.IsGiven("session.max_batch"));

  EXPECT_TRUE(values.Set("session.max_batch", "4").ok());
  EXPECT_TRUE(values.SetFromFlag("session.enable_profiling=true").ok());
  EXPECT_TRUE(values.SetFromFlag("session.arena_bytes=6GiB").ok());
  EXPECT_TRUE(values.SetFromFlag("session.rules=gpu(a=b); cpu(c)").ok());
  EXPECT_EQ(values.Int("session.max_batch"), 4);
  EXPECT_TRUE(values.Bool("session.enable_profiling"));
  EXPECT_EQ(values.Bytes("session.arena_bytes"), uint64_t{6} << 30);
  EXPECT_EQ(values.Text("session.rules"), "gpu(a=b); cpu(c)");
  EXPECT_EQ(values.Given().size(), 4u);
  EXPECT_EQ(values.Given()[0].second, "6GiB");
}

TEST(OptionValuesTest, ErrorsNameKeyExpectedAndFound) {
  OptionValues values(Table());
  EXPECT_EQ(values.Set("session.max_batch", "0").ToString(),
            "INVALID_ARGUMENT: option 'session.max_batch': expected a whole number of sequences, 1 to 4096, "
            "found '0'");
  EXPECT_EQ(values.Set("session.load", "slow").message(),
            "option 'session.load': expected one of mmap, read, found 'slow'");
  EXPECT_EQ(values.Set("session.arena_bytes", "10").message(),
            "option 'session.arena_bytes': expected a size such as 6GiB, at least 1KiB, found '10'");
  EXPECT_EQ(values.Set("session.max_bacth", "1").message(),
            "unknown option 'session.max_bacth'; did you mean 'session.max_batch'?");
  EXPECT_EQ(values.Set("banana", "1").message(), "unknown option 'banana'");
  EXPECT_FALSE(values.SetFromFlag("session.load").ok());
  EXPECT_FALSE(values.SetFromFlag("=1").ok());
  for (const char* text : {"", "4x", " 4", "4.0", "1e3", "99999999999999999999", "+4", "0x4"}) {
    EXPECT_FALSE(values.Set("session.max_batch", text).ok()) << text;
  }
  for (const char* text : {"", "nan", "inf", "1.5", "-0.1", "0,5"}) {
    EXPECT_FALSE(values.Set("session.margin", text).ok()) << text;
  }
  for (const char* text : {"", "yes", "2", "TRUE"}) {
    EXPECT_FALSE(values.Set("session.enable_profiling", text).ok()) << text;
  }
  EXPECT_TRUE(values.Given().empty()) << "a refused value changes nothing";
}

TEST(OptionValuesTest, KeysOfModelFiles) {
  OptionValues values(Table());
  const auto give = [&](const char* key, const char* value) {
    return values.Give(key, value, OptionSource::kModelFile);
  };
  EXPECT_EQ(*give("session.use_env_allocators", "1"), OptionOutcome::kIgnoredWithNotice);
  EXPECT_EQ(*give("some.other.key", "1"), OptionOutcome::kUnknownWithWarning);
  EXPECT_EQ(*give("session.max_batch", "2"), OptionOutcome::kSet);
  EXPECT_FALSE(give("session.max_batch", "x").ok());
  EXPECT_EQ(values.Int("session.max_batch"), 2);
  EXPECT_TRUE(values.Set("session.max_batch", "8").ok());
  EXPECT_EQ(*give("session.max_batch", "3"), OptionOutcome::kSet);
  EXPECT_EQ(values.Int("session.max_batch"), 8) << "the user's value wins";
  EXPECT_FALSE(values.Set("session.use_env_allocators", "1").ok()) << "from the user it is unknown";
}

TEST(OptionValuesTest, AnyTextIsAValueOrAnError) {
  OptionValues values(Table());
  std::mt19937 random(8);
  const std::string letters = "0123456789.-+eEgGiIbBkK xn";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint32_t i = random() % 8; i > 0; --i) text += letters[random() % letters.size()];
    for (const OptionSpec& spec : Table().specs()) {
      const Status status = values.Set(spec.key, text);
      if (!status.ok()) continue;
      ASSERT_TRUE(values.IsGiven(spec.key));
      if (spec.key != "session.max_batch") continue;
      ASSERT_TRUE(values.Int(spec.key) >= 1 && values.Int(spec.key) <= 4096);
    }
  }
}

TEST(OptionTableTest, Markdown) {
  const std::string text = Table().ToMarkdown();
  EXPECT_THAT(
      text,
      HasSubstr("| `session.max_batch` | a whole number of sequences, 1 to 4096 | `1` | Most sequences in "
                "one step |\n"));
  EXPECT_THAT(
      text,
      HasSubstr("| `session.arena_bytes` | a size such as 6GiB, at least 1KiB | what the model needs |"));
  EXPECT_THAT(text, HasSubstr("Share a\\|b"));
}

}  // namespace
}  // namespace lamina
