#include "runtime/data_set.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/test_data.h"

namespace lamina {
namespace {

// Every recorded run of a model folder.
void ExpectAllSetsPass(const std::string& folder, const SessionOptions& options = {}) {
  SCOPED_TRACE(folder);
  const auto session = Session::Load(*Env::Create({2}), folder + "/model.onnx", options);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const std::vector<std::string> sets = FindDataSets(folder);
  ASSERT_FALSE(sets.empty());
  for (const std::string& set : sets) {
    const Status status = CheckDataSet(**session, set);
    EXPECT_TRUE(status.ok()) << set << ": " << status.message();
  }
}

TEST(DataSetTest, EveryModelOfTheZooPasses) {
  const std::vector<std::string> folders = FindFoldersWithDataSets(testing::SourcePath("tests/data/zoo"));
  EXPECT_EQ(folders.size(), 14u);
  for (const std::string& folder : folders) ExpectAllSetsPass(folder);
}

TEST(DataSetTest, TheZooPassesWithoutPrepacking) {
  SessionOptions options;
  ASSERT_TRUE(options.Set("session.disable_prepacking", "1").ok());
  for (const char* name : {"llama-int4-cpu", "llama-fp32", "gptoss-fp32"}) {
    ExpectAllSetsPass(testing::SourcePath(std::string("tests/data/zoo/") + name), options);
  }
}

TEST(DataSetTest, AWrongOutputIsReportedWithItsNameAndPlace) {
  const testing::TempDir dir;
  const std::string source = testing::SourcePath("tests/data/zoo/llama-fp32");
  std::filesystem::copy(source + "/test_data_set_1", dir.File("test_data_set_0"),
                        std::filesystem::copy_options::recursive);
  std::string bytes = testing::ReadWholeFile(dir.File("test_data_set_0/output_0.pb"));
  bytes[bytes.size() - 1] ^= 0x3f;
  testing::WriteWholeFile(dir.File("test_data_set_0/output_0.pb"), bytes);
  const auto session = Session::Load(*Env::Create({1}), source + "/model.onnx");
  ASSERT_TRUE(session.ok());
  const Status status = CheckDataSet(**session, dir.File("test_data_set_0"));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("output 0 'logits'"), std::string::npos) << status.message();
}

TEST(DataSetTest, SetsComeInTheOrderOfTheirNumbers) {
  const testing::TempDir dir;
  for (const char* name : {"test_data_set_10", "test_data_set_9", "test_data_set_x", "other"}) {
    std::filesystem::create_directory(dir.File(name));
  }
  EXPECT_EQ(FindDataSets(dir.path()),
            (std::vector<std::string>{dir.File("test_data_set_9"), dir.File("test_data_set_10"),
                                      dir.File("test_data_set_x")}));
}

}  // namespace
}  // namespace lamina
