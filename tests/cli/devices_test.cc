// `lamina devices` with providers from libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunLamina;

std::string Library(const std::string& name) {
  return std::string(LAMINA_BINARY_DIR) + "/lib" + name + ".so";
}

TEST(DevicesCommandTest, ListsTheDevicesOfLibraries) {
  const CommandOutcome outcome = RunLamina({"devices", "--provider-library", Library("simulated_accelerator"),
                                            "--provider-library", "mine=" + Library("c_provider")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.standard_output,
              AllOf(HasSubstr("gpu:0    sim"), HasSubstr("gpu:1    sim"),
                    HasSubstr("Simulated accelerator 1"), HasSubstr("npu:0    mine"), HasSubstr("cpu"),
                    Not(HasSubstr("not available: sim")), Not(HasSubstr("not available: mine"))));
}

TEST(DevicesCommandTest, SaysWhyALibraryWasNotLoaded) {
  const std::vector<std::string> arguments = {"devices", "--provider-library",
                                              "none=" + Library("empty_plugin"), "--provider-library",
                                              "/nowhere/libx.so"};
  const CommandOutcome outcome = RunLamina(arguments);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.standard_output,
      AllOf(HasSubstr("not available: none: provider library"),
            HasSubstr("does not export CreateEpFactories"),
            HasSubstr("not available: /nowhere/libx.so: library '/nowhere/libx.so': there is no such")));
  std::vector<std::string> json = arguments;
  json.push_back("--json");
  EXPECT_THAT(RunLamina(json).standard_output,
              AllOf(HasSubstr("\"not_available\""), HasSubstr("\"provider\": \"none\"")));
}

TEST(DevicesCommandTest, ALibraryThatCannotBeLoadedFailsACommandThatNeedsIt) {
  const CommandOutcome outcome =
      RunLamina({"run", testing::SourcePath("models/tales"), "a", "--provider-library", "/nowhere/libx.so"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.standard_error, HasSubstr("--provider-library: library '/nowhere/libx.so'"));
}

}  // namespace
}  // namespace lamina
