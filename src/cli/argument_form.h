// The form of arguments: what these checks refuse is a mistake in the command line itself (exit code 2).
// Whether a well-formed value is one that Lamina accepts is for the command to say (exit code 1).
#pragma once

namespace CLI {
class Option;
}

namespace lamina::cli {

enum class ArgumentForm {
  kText,              // anything
  kNumber,            // 0.8, -1, 1e-5
  kWholeNumber,       // 40, -1
  kWholeNumberOrMax,  // 4096, max
  kWholeNumberOrAll,  // 12, all
  kAssignment,        // KEY=VALUE
};

void RequireForm(CLI::Option& option, ArgumentForm form);

}  // namespace lamina::cli
