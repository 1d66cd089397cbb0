// What placement decided, as far as level-2 rewrites need it.
#pragma once

#include <string_view>

#include "model/graph.h"

namespace lamina {

// Level-2 rewrites run after placement: a pattern lies within one provider, and what replaces it stays there.
class NodeAssignment {
 public:
  virtual ~NodeAssignment() = default;
  // The provider of the node, empty where it has none.
  virtual std::string_view ProviderOf(const Graph& graph, NodeId node) const = 0;
  // `made` was added in place of `original`, or to serve its replacement: it goes where the original was.
  // Called before the original is removed.
  virtual void Inherit(const Graph& graph, NodeId made, NodeId original) = 0;
};

}  // namespace lamina
