// What became of the layer rules of a model.
#pragma once

#include <vector>

#include "placement/layer_rules.h"
#include "placement/layering_index.h"
#include "placement/placement.h"

namespace lamina {

// One entry for every item as the user wrote it: the rules that its ranges gave count together. `index`: of
// the graph; `usable`: by rule, whether a device answers.
std::vector<RuleOutcome> SummarizeRules(const Graph& graph, const LayerRules& rules,
                                        const LayeringIndex& index, const std::vector<bool>& usable);

}  // namespace lamina
