// One-node models of com.microsoft operators with random inputs and the outputs of ONNX Runtime 1.30
// (tests/data/contrib/README.md).
#include <gtest/gtest.h>

#include "runtime/data_set.h"
#include "support/test_data.h"

namespace lamina::testing {
namespace {

TEST(RecordedContrib, EveryDataSetPasses) {
  const std::shared_ptr<Env> env = *Env::Create({.num_threads = 2});
  const std::vector<std::string> folders = FindFoldersWithDataSets(SourcePath("tests/data/contrib"));
  EXPECT_GE(folders.size(), 10u);
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    const Result<std::unique_ptr<Session>> session = Session::Load(env, folder + "/model.onnx");
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const std::string& set : FindDataSets(folder)) {
      const Status status = CheckDataSet(**session, set);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

}  // namespace
}  // namespace lamina::testing
