// Reads GraphProto, and the nodes and attributes in graphs and functions.
//
// All of a message but its nodes is read first, then the outputs of all nodes, then the nodes: so nodes may
// stand in any order, and a name that nothing defines is found at the node that reads it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "model/graph.h"
#include "model/onnx/proto_reader.h"

namespace lamina::onnx {

// What the reader of a graph must know of the model or function around it.
struct GraphContext {
  const std::map<std::string, int>* opset_imports = nullptr;  // domain -> version
  int64_t ir_version = 0;
};

// Reads a GraphProto into `graph`, which is empty.
void ReadGraph(ProtoReader message, const GraphContext& context, Graph& graph);

// Reads the nodes of `message` and the types of what they produce. What the nodes read must be in `graph` or
// the graphs around it.
struct NodeListFields {
  uint32_t node;
  uint32_t value_info;
};
void ReadNodes(ProtoReader message, NodeListFields fields, const GraphContext& context, Graph& graph);

// Fails where the nodes of `graph` form a cycle.
void CheckAcyclic(const Graph& graph, ProtoReader& message);

}  // namespace lamina::onnx
