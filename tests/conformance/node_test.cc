// The ONNX node conformance cases. Cases of expected_failures.txt must fail, all others pass.
// LAMINA_NODE_TEST=text runs only the cases whose name contains it and prints every result.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "conformance/node_cases.h"
#include "rewrite/rewriter.h"

namespace lamina::testing {
namespace {

bool Wanted(const NodeCase& node_case) {
  const char* filter = std::getenv("LAMINA_NODE_TEST");
  return !filter || node_case.name.find(filter) != std::string::npos;
}

class NodeConformance : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cases = NodeCases::Find(); }
  static void TearDownTestSuite() { cases.reset(); }
  void SetUp() override {
    if (!cases) GTEST_SKIP() << "neither the archive of node tests nor libonnx-testdata is there";
  }

  // Every `stride`-th case passes without the given rewrites.
  static void ExpectPassWithout(const std::string& disabled_rewrites, size_t stride) {
    const std::shared_ptr<Env> env = *Env::Create({.num_threads = 2});
    const std::map<std::string, std::string> expected_failures = cases->ExpectedFailures();
    for (size_t i = 0; i < cases->cases().size(); i += stride) {
      const NodeCase& node_case = cases->cases()[i];
      if (!Wanted(node_case) || expected_failures.contains(node_case.name)) continue;
      const Status status = RunInSession(env, node_case, disabled_rewrites);
      EXPECT_TRUE(status.ok()) << node_case.name << " without '" << disabled_rewrites
                               << "': " << status.ToString();
    }
  }

  static inline std::optional<NodeCases> cases;
};

TEST_F(NodeConformance, AllCasesInSessions) {
  const std::shared_ptr<Env> env = *Env::Create({.num_threads = 2});
  const std::map<std::string, std::string> expected_failures = cases->ExpectedFailures();
  int passed = 0;
  int random = 0;
  for (const NodeCase& node_case : cases->cases()) {
    if (!Wanted(node_case)) continue;
    SCOPED_TRACE(node_case.name);
    const Status status = RunInSession(env, node_case);
    if (HasRandomOutput(node_case)) {
      ++random;
    } else {
      passed += status.ok() ? 1 : 0;
    }
    const auto expected = expected_failures.find(node_case.name);
    if (std::getenv("LAMINA_NODE_TEST")) std::cout << node_case.name << ": " << status.ToString() << "\n";
    if (expected == expected_failures.end()) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    } else if (cases->complete()) {
      EXPECT_FALSE(status.ok()) << "passes, although expected_failures.txt says: " << expected->second;
    }
  }
  std::cout << passed << " of " << cases->cases().size() << " cases pass, " << random
            << " more have random output\n";
}

// Rewrites are on above.
TEST_F(NodeConformance, SomeCasesWithoutRewrites) { ExpectPassWithout("all", /*stride=*/8); }

TEST_F(NodeConformance, AllCasesWithoutRewritesFull) { ExpectPassWithout("all", /*stride=*/1); }

TEST_F(NodeConformance, AllCasesWithEachRewriteAloneFull) {
  for (const auto& kept : Level1Rewrites()) {
    std::string disabled;
    for (const auto& rewrite : Level1Rewrites()) {
      if (rewrite != kept) disabled += std::string(rewrite->name()) + ",";
    }
    ExpectPassWithout(disabled, /*stride=*/1);
  }
}

TEST_F(NodeConformance, KernelsKeepTheirRules) {
  const std::map<std::string, std::string> expected_failures = cases->ExpectedFailures();
  for (const NodeCase& node_case : cases->cases()) {
    if (!Wanted(node_case) || expected_failures.contains(node_case.name) || !IsSingleNode(node_case))
      continue;
    SCOPED_TRACE(node_case.name);
    const Status status = RunInOpTester(node_case);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

}  // namespace
}  // namespace lamina::testing
