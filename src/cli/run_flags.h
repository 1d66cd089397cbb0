// The flags of `lamina run`.
#pragma once

#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "cli/sampling_flags.h"

namespace lamina::cli {

struct RunFlags {
  ModelFlags model;
  std::vector<std::string> prompt;
  SamplingFlags sampling;
  std::string system;
  bool raw = false;
  bool verbose = false;
  bool json = false;
  std::string profile;
};

}  // namespace lamina::cli
