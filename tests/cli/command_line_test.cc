#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lamina/version.h"
#include "support/subprocess.h"

namespace lamina {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunLamina;
using testing::RunShell;
using ::testing::StartsWith;

TEST(CommandLineTest, HelpAndVersionGoToStandardOutput) {
  const CommandOutcome help = RunLamina({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.standard_output, HasSubstr("Usage: lamina"));
  EXPECT_THAT(help.standard_error, IsEmpty());
  const CommandOutcome version = RunLamina({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.standard_output, std::string("lamina ") + Version() + "\n");
}

TEST(CommandLineTest, NoArgumentsIsAUsageError) {
  const CommandOutcome outcome = RunLamina({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.standard_output, IsEmpty());
  EXPECT_THAT(outcome.standard_error, HasSubstr("Usage: lamina"));
}

TEST(CommandLineTest, UnknownWordsAreNamed) {
  const CommandOutcome flag = RunLamina({"--versoin"});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.standard_error,
              StartsWith("lamina: unknown flag '--versoin'; did you mean '--version'?\n"));
  const CommandOutcome command = RunLamina({"banana"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.standard_error, StartsWith("lamina: unknown command 'banana'\n"));
  EXPECT_THAT(command.standard_output, IsEmpty());
}

TEST(CommandLineTest, LogLevelIsChecked) {
  const CommandOutcome outcome = RunLamina({"--log-level", "loud"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.standard_error, HasSubstr("loud"));
}

TEST(CommandLineTest, AClosedPipeIsQuiet) {
  // The reader is gone before the first byte is written.
  const CommandOutcome outcome = RunShell("set -o pipefail; { sleep 0.1; $LAMINA --help; } | true");
  EXPECT_THAT(outcome.standard_error, IsEmpty());
  const CommandOutcome ignoring = RunShell("trap '' PIPE; { sleep 0.1; $LAMINA --help; } | true");
  EXPECT_THAT(ignoring.standard_error, IsEmpty());
}

TEST(CommandLineTest, OutputThatCannotBeWrittenIsAnError) {
  const CommandOutcome full = RunShell("$LAMINA --help > /dev/full");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.standard_error, HasSubstr("cannot write standard output: No space left on device"));
  const CommandOutcome closed = RunShell("$LAMINA --version >&-");
  EXPECT_EQ(closed.exit_code, 1);
  EXPECT_THAT(closed.standard_error, HasSubstr("cannot write standard output"));
}

}  // namespace
}  // namespace lamina
