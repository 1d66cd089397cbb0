// Patterns of nodes that read like their picture:
//
//   // y = x * (1 / sqrt(mean(x^2) + epsilon)) * scale
//   const Pattern kRmsNorm =
//       Op("Mul", {Op("Mul", {Any("x"), Op("Reciprocal", {Op("Sqrt", {Op("Add", {
//                     Op("ReduceMean", {Op("Pow", {Any("x"), Number(2)})}).Named("mean"),
//                     Constant("epsilon")})})})}),
//                  Constant("scale")});
//   const std::optional<Match> match = FindMatch(editor, kRmsNorm, root);
//
// A pattern holds for a value: what makes it, and what makes the inputs of that. A name that stands twice
// must be the same value both times. Operands of Add, Mul and other commutative operators match in either
// order. Nodes inside of the picture must serve nothing outside of it (see Shared), so that they vanish with
// its root.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rewrite/graph_editor.h"

namespace lamina {

// Cheap to copy; immutable.
class Pattern {
 public:
  // The value made by it is called `name`, to be looked up or matched again.
  Pattern Named(std::string_view name) const;
  // Other nodes may read it too: then it stays where they do.
  Pattern Shared() const;
  // In another domain than ai.onnx.
  Pattern In(std::string_view domain) const;
  // It may have inputs behind those of the picture.
  Pattern Open() const;

  struct Rep;
  explicit Pattern(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  const Rep& rep() const { return *rep_; }

 private:
  std::shared_ptr<const Rep> rep_;
};

// Any value.
Pattern Any(std::string_view name);
// Any constant, of any size.
Pattern Constant(std::string_view name);
// A constant of one element with this value (to 1e-6 of it), or with any.
Pattern Number(double value);
Pattern Number(std::string_view name);
// The first output of such a node. An input that is not in the list must be absent (but see Open).
Pattern Op(std::string_view op_type, std::vector<Pattern> inputs);
Pattern OneOf(std::vector<Pattern> alternatives);
// op(p), or p alone: a Cast that only some exporters write.
Pattern Maybe(std::string_view op_type, const Pattern& input);

class Match {
 public:
  // REQUIRES: the name is in the pattern that matched; invalid where the alternative without it did.
  ValueId operator[](std::string_view name) const;
  // The node that makes the value of that name.
  NodeId node(const GraphEditor& editor, std::string_view name) const {
    return editor.Producer((*this)[name]);
  }
  // The nodes of the picture, root first.
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  friend class Matcher;
  std::vector<std::pair<std::string_view, ValueId>> names_;
  std::vector<NodeId> nodes_;
  std::vector<bool> shared_;  // by node
};

// Whether the picture ends at `root`. After placement: and lies within one provider.
std::optional<Match> FindMatch(const GraphEditor& editor, const Pattern& pattern, NodeId root);

}  // namespace lamina
