// The ways to find layers, for layers.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/graph.h"

namespace lamina {

// Layers as far as one way tells them: nodes that it says nothing about have no value.
struct FoundLayers {
  std::vector<std::string> names;
  std::vector<std::optional<int>> of_node;  // by NodeId::index; LayerAssignment::kEmbedding ... head()
};

// All take the nodes in topological order and return nothing where they find fewer than two layers.

std::optional<FoundLayers> FindAnnotatedLayers(const Graph& graph, std::span<const NodeId> order);

// `text_of` a node is its name or its module path; empty texts tell nothing.
std::optional<FoundLayers> FindNumberedLayers(const Graph& graph, std::span<const NodeId> order,
                                              const std::vector<std::string>& text_of);

std::optional<FoundLayers> FindAttentionLayers(const Graph& graph, std::span<const NodeId> order);

// Never fails: with fewer than two nodes that have weights there is one layer or none.
FoundLayers CutIntoEqualChunks(const Graph& graph, std::span<const NodeId> order);

// Bytes of the initializers that a node reads, with its subgraphs; shared ones count at every reader.
uint64_t WeightBytesOf(const Graph& graph, const Node& node);

}  // namespace lamina
