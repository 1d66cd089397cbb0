#include "base/child_process.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

TEST(ChildProcessTest, TakesOutputAndExitCode) {
  const auto outcome = RunChildProcess({"/bin/sh", "-c", "printf 'a b'; cat; exit 3"});
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->standard_output, "a b");
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_EQ(outcome->signal, 0);
}

TEST(ChildProcessTest, TakesMuchOutput) {
  const auto outcome = RunChildProcess({"/bin/sh", "-c", "head -c 1000000 /dev/zero"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->standard_output.size(), 1000000u);
}

TEST(ChildProcessTest, Signals) {
  const auto outcome = RunChildProcess({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->signal, 9);
  EXPECT_EQ(outcome->exit_code, -1);
}

TEST(ChildProcessTest, AProgramThatDoesNotExist) {
  EXPECT_EQ(RunChildProcess({"/no/such/program"}).status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace lamina
