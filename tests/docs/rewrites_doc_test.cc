// docs/rewrites.md names every rewrite.
#include <gtest/gtest.h>

#include <string>

#include "rewrite/rewriter.h"
#include "support/test_data.h"

namespace lamina {
namespace {

TEST(RewritesDoc, NamesEveryRewrite) {
  const std::string text = testing::ReadWholeFile(testing::SourcePath("docs/rewrites.md"));
  for (const auto table : {Level1Rewrites(), Level2Rewrites(), ProviderRewrites("cpu")}) {
    for (const auto& rewrite : table) {
      EXPECT_NE(text.find("`" + std::string(rewrite->name()) + "`"), std::string::npos) << rewrite->name();
    }
  }
}

}  // namespace
}  // namespace lamina
