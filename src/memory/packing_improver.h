// From a greedy layout to a better one: drives runs of the skyline search over strategies and capacities.
#pragma once

#include "memory/packing_problem.h"

namespace lamina {

// Replaces `layout` by the best layout found and stops as soon as its peak is at most `target` units (>= the
// lower bound). Visits at most `nodes` nodes (one of a problem with many sections counts as several) and
// reduces `nodes` by those it visited. Does nothing for problems with more items than nodes, nor for those
// whose pairs of items that are live together pass 4 million: the search's tables would outgrow their use.
void ImprovePacking(const PackingProblem& problem, int64_t target, int64_t& nodes, PackingLayout& layout);

}  // namespace lamina
