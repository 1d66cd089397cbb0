// Level-2 rewrites of nodes that run on the CPU: towards operators that its kernels have.
#pragma once

#include "rewrite/level1/tables.h"

namespace lamina {

void AddCpuProductRewrites(RewriteTable& table);
// level1/merged_products.cc
void AddGateUpRewrites(RewriteTable& table);

}  // namespace lamina
