// All rewrites, in the order in which they are tried at a node: what makes graphs simpler before what looks
// for patterns.
#include "rewrite/cpu/tables.h"

#include "rewrite/level1/tables.h"
#include "rewrite/rewriter.h"

namespace lamina {
namespace {

RewriteTable MakeLevel1() {
  RewriteTable table;
  AddConstantRewrites(table);
  AddCleanupRewrites(table);
  AddShapeRewrites(table);
  AddCommonSubexpressions(table);
  AddQuantizedRewrites(table);
  AddNormRewrites(table);
  AddActivationRewrites(table);
  AddRotaryRewrites(table);
  AddAttentionRewrites(table);
  AddDerivedConstantRewrites(table);
  AddProductRewrites(table);
  AddMergedProductRewrites(table);
  AddConvolutionRewrites(table);
  return table;
}

RewriteTable MakeCpuTable() {
  RewriteTable table;
  AddCpuProductRewrites(table);
  AddGateUpRewrites(table);
  return table;
}

}  // namespace

std::span<const std::unique_ptr<const Rewrite>> Level1Rewrites() {
  static const RewriteTable table = MakeLevel1();
  return table;
}

std::span<const std::unique_ptr<const Rewrite>> Level2Rewrites() { return {}; }

std::span<const std::unique_ptr<const Rewrite>> ProviderRewrites(std::string_view provider) {
  static const RewriteTable cpu = MakeCpuTable();
  if (provider == "cpu") return cpu;
  return {};
}

}  // namespace lamina
