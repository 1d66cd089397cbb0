#include "runtime/session_config.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/test_data.h"

namespace lamina {
namespace {

TEST(SessionConfigTest, TheTableIsConsistent) {
  const Status status = SessionOptionTable().CheckConsistent();
  EXPECT_TRUE(status.ok()) << status.message();
}

// With LAMINA_UPDATE_DOCS set the document is written anew.
TEST(SessionConfigTest, TheDocumentSaysWhatTheTableSays) {
  const std::string path = testing::SourcePath("docs/options.md");
  const std::string expected = SessionOptionTable().ToMarkdown();
  if (std::getenv("LAMINA_UPDATE_DOCS")) testing::WriteWholeFile(path, expected);
  EXPECT_EQ(testing::ReadWholeFile(path), expected) << "run the test with LAMINA_UPDATE_DOCS=1";
}

TEST(SessionConfigTest, OptionsAreCheckedWhenTheyAreSet) {
  SessionOptions options;
  EXPECT_TRUE(options.Set("session.max_batch", "4").ok());
  EXPECT_EQ(options.Set("session.max_batch", "0").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(options.Set("session.nothing", "1").code(), StatusCode::kInvalidArgument);
  ASSERT_NE(options.Find("session.max_batch"), nullptr);
  EXPECT_EQ(*options.Find("session.max_batch"), "4");
  EXPECT_EQ(options.Find("session.nothing"), nullptr);
  EXPECT_EQ(SessionConfig::FromOptions(options)->max_batch, 4);
}

TEST(SessionConfigTest, KeysOfAModelsFilesAreTakenOrPassedOver) {
  SessionOptions options;
  EXPECT_TRUE(SetFromModelFile(options, "log_id", "genai").ok());
  EXPECT_TRUE(SetFromModelFile(options, "session.some_day", "1").ok());
  EXPECT_TRUE(options.entries().empty());
  EXPECT_TRUE(SetFromModelFile(options, "session.intra_op_num_threads", "3").ok());
  EXPECT_EQ(SessionConfig::FromOptions(options)->num_threads, 3);
  EXPECT_FALSE(SetFromModelFile(options, "session.intra_op_num_threads", "many").ok());
}

}  // namespace
}  // namespace lamina
