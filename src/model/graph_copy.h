// Copies the content of one graph into another: how function bodies and subgraphs are inlined.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "lamina/status.h"
#include "model/graph.h"

namespace lamina {

// Index of a value of the source -> the value of the target that stands for it (invalid: absent).
using ValueMap = std::unordered_map<int32_t, ValueId>;

struct GraphCopyOptions {
  // Before the names of nodes and values, made free in the target.
  std::string prefix;
  // Metadata that copied nodes get where they have no entry of that key.
  MetadataProps inherited_metadata;
  // Turns each attribute into the one of the copy, or drops it; empty: attributes are copied as they are.
  std::function<std::optional<Attribute>(const Attribute&)> map_attribute;
};

// Adds copies of the nodes of `source` and of its initializers to `target`, with copies of their subgraphs.
// `values` says what the inputs of `source` are in `target`, and may say it of other values, for instance of
// outputs; it is extended by what is made. A captured value of `source` stands for the outer value itself:
// `target` is the graph it was captured from, or one inside of that. Types are copied, shapes only where they
// are constant, because symbols may mean something else in the target. Returns the error of
// source.TopologicalOrder().
Status CopyGraphInto(const Graph& source, Graph& target, ValueMap& values, const GraphCopyOptions& options);

}  // namespace lamina
