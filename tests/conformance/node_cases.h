// The conformance cases of ONNX: folders with a model of one operator and test_data_set_N folders of inputs
// and expected outputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/env.h"
#include "lamina/status.h"
#include "support/test_data.h"

namespace lamina::testing {

struct NodeCase {
  std::string name;    // "test_add_bcast"
  std::string folder;  // holds model.onnx and test_data_set_*
};

// All cases, sorted by name: from the archive of the optional test data (unpacked to a temporary folder that
// lives as long as this object), else from Debian's libonnx-testdata.
class NodeCases {
 public:
  // Nothing where neither source is present.
  static std::optional<NodeCases> Find();
  const std::vector<NodeCase>& cases() const { return cases_; }
  // Whether the cases are the archive's: the complete set that expected_failures.txt speaks of.
  bool complete() const { return unpacked_ != nullptr; }
  // Cases that must fail, with the reason: the "name: reason" lines of expected_failures.txt, where `#`
  // begins a comment, and for the cases of Debian those of expected_failures_onnx_1.12.txt too.
  std::map<std::string, std::string> ExpectedFailures() const;

 private:
  std::unique_ptr<TempDir> unpacked_;
  std::vector<NodeCase> cases_;
};

// Operators that draw random numbers: their outputs are compared in type, shape and range only.
bool HasRandomOutput(const NodeCase& node_case);

// Loads the case's model as a session and runs every data set; OK where all outputs agree.
// `disabled_rewrites`: session.disabled_rewrites.
Status RunInSession(const std::shared_ptr<Env>& env, const NodeCase& node_case,
                    const std::string& disabled_rewrites = "");

// Whether the model is one node without subgraphs, which OpTester can run.
bool IsSingleNode(const NodeCase& node_case);
// Runs such a case through OpTester, which holds the kernel to its rules (scratch, allocations, threads).
Status RunInOpTester(const NodeCase& node_case);

}  // namespace lamina::testing
