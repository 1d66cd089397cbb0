// One graph rewrite: a pattern, and what stands in its place.
//
// A rewrite is exact to rounding for every input that the pattern admits, and one that is unsure does
// nothing: types, shapes and other users of what would vanish are part of the pattern. It reads constants of
// at most 64 KiB only; what must become of a weight it says with a derived initializer
// (model/derived_tensor.h).
//
//   class DropIdentity : public Rewrite {
//    public:
//     std::string_view name() const override { return "drop-identity"; }
//     std::vector<std::string_view> roots() const override { return {"Identity"}; }
//     bool Apply(GraphEditor& editor, NodeId root) const override {
//       return editor.Bypass(root, editor.node(root).inputs[0]);
//     }
//   };
#pragma once

#include <string_view>
#include <vector>

#include "rewrite/graph_editor.h"

namespace lamina {

class Rewrite {
 public:
  virtual ~Rewrite() = default;
  // As session.disabled_rewrites names it: lower case with hyphens.
  virtual std::string_view name() const = 0;
  // The operators of the node at which the pattern ends, in any domain; empty: every operator.
  virtual std::vector<std::string_view> roots() const = 0;
  // Replaces the pattern that ends at `root`, which is alive. Returns whether there was one; where not,
  // nothing has changed.
  virtual bool Apply(GraphEditor& editor, NodeId root) const = 0;
  // Rewrites of a stage are tried when those of earlier stages find nothing more (and then together with
  // them): what would hide a larger pattern comes after it.
  virtual int stage() const { return 0; }
};

}  // namespace lamina
