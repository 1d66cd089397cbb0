// What an attention mask that is computed in the graph means.
//
// Exporters write masks as index arithmetic: ranges of query and key positions, compared; the padding mask
// gathered with indices made of ranges. Followed back from the mask, every element is a condition on its own
// indices; the conjunction of a few kinds of them is what attention masks are made of.
#pragma once

#include <optional>
#include <vector>

#include "rewrite/graph_editor.h"

namespace lamina {

// An integer tensor whose elements are a linear function of their indices.
struct LinearIndex {
  DimExpr constant;
  std::vector<DimExpr> coefficients;  // per axis; 0 on axes of size 1
};
std::optional<LinearIndex> LinearIndexOf(const GraphEditor& editor, ValueId value);

// A conjunction of conditions on the indices of a bool tensor.
struct MaskTerms {
  // `value` >= 0
  std::vector<LinearIndex> not_negative;
  // mask[index of batch_axis, index of key_axis] is not zero
  struct Padding {
    ValueId mask;  // [batch, keys], of integers or bools
    int batch_axis = 0;
    int key_axis = 0;
  };
  std::vector<Padding> padding;
};
std::optional<MaskTerms> MaskTermsOf(const GraphEditor& editor, ValueId value);

// A causal mask over a padding mask: query i of `sequence` stands at key position keys - sequence + i.
struct CausalMaskForm {
  ValueId padding;     // [batch, keys]
  int64_t window = 0;  // keys a query sees, its own included; 0: all before it
};
// Whether the bool tensor [batch, 1, sequence, keys] is one.
std::optional<CausalMaskForm> CausalMaskOf(const GraphEditor& editor, ValueId value);

}  // namespace lamina
