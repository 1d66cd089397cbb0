#include "conformance/node_cases.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

std::vector<NodeCase> CasesBelow(const std::string& folder) {
  std::vector<NodeCase> cases;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "model.onnx")) {
      cases.push_back({entry.path().filename().string(), entry.path().string()});
    }
  }
  std::sort(cases.begin(), cases.end(), [](const NodeCase& a, const NodeCase& b) { return a.name < b.name; });
  return cases;
}

void AddExpectedFailures(const std::string& file, std::map<std::string, std::string>& failures) {
  std::istringstream lines(ReadWholeFile(SourcePath("tests/conformance/" + file)));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    failures[line.substr(0, colon)] = line.substr(colon + 2);
  }
}

}  // namespace

std::optional<NodeCases> NodeCases::Find() {
  NodeCases found;
  if (const auto archive = SharedPath("conformance/onnx-node-tests.tar.xz")) {
    found.unpacked_ = std::make_unique<TempDir>();
    const std::string command = "tar -xf '" + *archive + "' -C '" + found.unpacked_->path() + "'";
    if (std::system(command.c_str()) == 0) {
      found.cases_ = CasesBelow(found.unpacked_->path() + "/onnx/backend/test/data/node");
    }
  } else {
    found.cases_ = CasesBelow("/usr/include/onnx/backend/test/data/node");
  }
  if (found.cases_.empty()) return std::nullopt;
  return found;
}

std::map<std::string, std::string> NodeCases::ExpectedFailures() const {
  std::map<std::string, std::string> failures;
  AddExpectedFailures("expected_failures.txt", failures);
  if (!complete()) AddExpectedFailures("expected_failures_onnx_1.12.txt", failures);
  return failures;
}

bool HasRandomOutput(const NodeCase& node_case) {
  return node_case.name.find("bernoulli") != std::string::npos ||
         node_case.name.find("training_dropout") != std::string::npos;
}

}  // namespace lamina::testing
