// docs/operators.md is generated: LAMINA_UPDATE_DOCS=1 writes it, otherwise it must be current.
#include "docs/operators_doc.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "support/op_tester.h"
#include "support/test_data.h"

namespace lamina::testing {
namespace {

TEST(OperatorsDocument, IsCurrent) {
  const std::string path = SourcePath("docs/operators.md");
  const std::string text = OperatorsDocument();
  if (std::getenv("LAMINA_UPDATE_DOCS")) {
    WriteWholeFile(path, text);
    return;
  }
  EXPECT_EQ(ReadWholeFile(path), text) << "run this test with LAMINA_UPDATE_DOCS=1";
}

TEST(OperatorsDocument, EveryOperatorIsThereOrHasAReason) {
  std::set<std::string> implemented;
  for (const KernelCreateInfo* info : CpuRegistry().All()) {
    if (info->def.domain().empty()) implemented.insert(info->def.op_type());
  }
  for (const auto& [name, since] : OnnxOperators()) {
    const bool missing = MissingOperators().contains(name);
    EXPECT_NE(implemented.contains(name), missing) << name;
  }
  for (const std::string& name : implemented) EXPECT_TRUE(OnnxOperators().contains(name)) << name;
}

TEST(OperatorsDocument, ContribOperatorsThatAreListedAsMissingAreMissing) {
  std::set<std::string> implemented;
  for (const KernelCreateInfo* info : CpuRegistry().All()) {
    if (info->def.domain() == kMsDomain) implemented.insert(info->def.op_type());
  }
  std::set<std::string> listed;
  for (const MissingContribOperators& family : MissingContrib()) {
    for (const std::string& name : family.names) {
      EXPECT_FALSE(implemented.contains(name)) << name;
      EXPECT_TRUE(listed.insert(name).second) << name << " is listed twice";
    }
  }
}

}  // namespace
}  // namespace lamina::testing
