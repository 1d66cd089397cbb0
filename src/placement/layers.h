// Which layer of a model each node belongs to.
//
// Decoders are stacks of alike layers between an embedding and a head. Where one layer ends is written in the
// model in one way or another, and one function decides by the first of these that gives at least two layers:
//   annotations   `layer_ann` metadata of nodes; each text is a layer
//   node names    the number after a common prefix: /model/layers.3/attn/o_proj/MatMul
//   module paths  the same in the paths that PyTorch's dynamo exporter keeps in metadata (its node names say
//                 nothing)
//   attention     the span between consecutive attention nodes (or Softmax nodes), cut where the residual
//   stream
//                 is the only way from one to the next
//   equal bytes   chunks of nodes in topological order whose weights take about the same bytes
// A final norm that is numbered like a layer (GenAI exports call it layers.N, with N layers 0 to N - 1) is
// part of the head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"

namespace lamina {

enum class LayerSource { kAnnotations, kNodeNames, kModulePaths, kAttention, kEqualBytes };

// "annotations", "node names", "module paths", "attention", "equal bytes": what show and plan print.
std::string_view LayerSourceName(LayerSource source);

struct LayerAssignment {
  // What comes before the first layer. What comes after the last is head().
  static constexpr int kEmbedding = -1;

  LayerSource source = LayerSource::kEqualBytes;
  std::vector<std::string> names;  // of the layers: "layers.0", "layers.1", ... or the annotations
  // By NodeId::index of the main graph: kEmbedding, a layer, or head(). Nodes of subgraphs belong to the
  // layer of the node that holds them. Dead nodes have kEmbedding.
  std::vector<int> of_node;

  int count() const { return static_cast<int>(names.size()); }
  int head() const { return count(); }
  int OfNode(NodeId id) const { return of_node[static_cast<size_t>(id.index)]; }
  // "embedding", the layer's name, or "head".
  std::string_view NameOf(int layer) const;
};

// Layers rise along every path through the graph where the names allow it. INVALID_MODEL where the graph has
// a cycle.
Result<LayerAssignment> AssignLayers(const Graph& graph);

// The layer of every initializer of the main graph, by InitializerId::index: the first layer that uses it (a
// matrix that embedding and head share is the embedding's), kEmbedding where nothing does.
std::vector<int> LayersOfInitializers(const Graph& graph, const LayerAssignment& layers);

// Bytes of the weights of the embedding, of each layer, and of the head, in this order; each initializer
// counts once. Those of subgraphs count where their node is.
std::vector<uint64_t> LayerWeightBytes(const Graph& graph, const LayerAssignment& layers);

}  // namespace lamina
