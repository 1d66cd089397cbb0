#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::RunLamina;
using testing::TempDir;

constexpr char kTwoBuffers[] = "id,lower,upper,size\na,0,4,100\nb,2,6,60\nc,4,8,70\n";

TEST(BenchOffsetsTest, PrintsALineForEachFileAndWritesLayouts) {
  const TempDir dir;
  testing::WriteWholeFile(dir.File("one.csv"), kTwoBuffers);
  testing::WriteWholeFile(dir.File("two.csv"), "id,lower,upper,size\r\nx,0,1,8\r\n");
  const CommandOutcome outcome = RunLamina(
      {"bench", "offsets", dir.File("one.csv"), dir.File("two.csv"), "--output", dir.File("deep/layouts")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_THAT(outcome.standard_output,
              MatchesRegex("one.csv 160 160 1.0000 [0-9.]+\ntwo.csv 8 8 1.0000 [0-9.]+\n"));
  EXPECT_EQ(testing::ReadWholeFile(dir.File("deep/layouts/one.csv")),
            "id,lower,upper,size,offset\na,0,4,100,60\nb,2,6,60,0\nc,4,8,70,60\n");
  EXPECT_EQ(testing::ReadWholeFile(dir.File("deep/layouts/two.csv")),
            "id,lower,upper,size,offset\r\nx,0,1,8,0\r\n");
}

TEST(BenchOffsetsTest, ACapacityThatIsMissedIsAFailureWithAFullReport) {
  const TempDir dir;
  testing::WriteWholeFile(dir.File("one.csv"), kTwoBuffers);
  const CommandOutcome missed = RunLamina({"bench", "offsets", dir.File("one.csv"), "--capacity", "159"});
  EXPECT_EQ(missed.exit_code, 1);
  EXPECT_THAT(missed.standard_output, HasSubstr("one.csv 160 160 1.0000"));
  EXPECT_EQ(RunLamina({"bench", "offsets", dir.File("one.csv"), "--capacity", "1KiB"}).exit_code, 0);
  const CommandOutcome bad = RunLamina({"bench", "offsets", dir.File("one.csv"), "--capacity", "1Q"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.standard_error, HasSubstr("--capacity"));
}

TEST(BenchOffsetsTest, ErrorsNameFileAndLine) {
  const TempDir dir;
  testing::WriteWholeFile(dir.File("bad.csv"), "id,lower,upper,size\n0,5,5,1\n");
  const CommandOutcome bad = RunLamina({"bench", "offsets", dir.File("bad.csv")});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.standard_error, HasSubstr("bad.csv:2: lower 5 is not below upper 5"));
  const CommandOutcome missing = RunLamina({"bench", "offsets", dir.File("none.csv")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.standard_error, HasSubstr("none.csv"));
  EXPECT_EQ(RunLamina({"bench", "offsets"}).exit_code, 2);
  EXPECT_EQ(RunLamina({"bench", "offsets", dir.File("bad.csv"), "--plan-effort", "-1"}).exit_code, 2);
  const CommandOutcome twice =
      RunLamina({"bench", "offsets", dir.File("a/x.csv"), dir.File("b/x.csv"), "--output", dir.File("out")});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.standard_error, HasSubstr("two of the files are named 'x.csv'"));
}

}  // namespace
}  // namespace lamina
