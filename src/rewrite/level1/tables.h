// The rewrites of level 1, by topic; ../tables.cc puts them in order.
#pragma once

#include <memory>
#include <vector>

#include "rewrite/rewrite.h"

namespace lamina {

using RewriteTable = std::vector<std::unique_ptr<const Rewrite>>;

void AddConstantRewrites(RewriteTable& table);
void AddCleanupRewrites(RewriteTable& table);
void AddShapeRewrites(RewriteTable& table);
void AddQuantizedRewrites(RewriteTable& table);
void AddCommonSubexpressions(RewriteTable& table);
void AddNormRewrites(RewriteTable& table);
void AddActivationRewrites(RewriteTable& table);
void AddRotaryRewrites(RewriteTable& table);
void AddAttentionRewrites(RewriteTable& table);
void AddDerivedConstantRewrites(RewriteTable& table);
void AddProductRewrites(RewriteTable& table);
void AddMergedProductRewrites(RewriteTable& table);
void AddConvolutionRewrites(RewriteTable& table);

}  // namespace lamina
