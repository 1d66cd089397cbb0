// The graph of a model: nodes and values in vectors, addressed by index. Subgraphs (bodies of If, Loop, Scan)
// are graphs of their own, held by the attributes of their node.
//
// Ids stay valid while the graph lives: removal leaves a hole (a node with alive == false). Not thread-safe
// for mutation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "model/attribute.h"
#include "model/dim_expr.h"
#include "model/initializer.h"
#include "model/name.h"

namespace lamina {

// An index of one kind of thing; negative: none.
template <typename Tag>
struct Id {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};
using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using InitializerId = Id<struct InitializerTag>;

// A place where a value is read: input `input_index` of `node`, or kCapture: inside the subgraphs of `node`
// (one use, however many subgraphs and places).
struct Use {
  static constexpr int32_t kCapture = -1;
  NodeId node;
  int32_t input_index = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

using MetadataProps = std::vector<std::pair<std::string, std::string>>;

// An edge of the graph: produced once (by a node, the caller, an initializer or an outer graph), read by
// uses.
struct ValueInfo {
  Name name;
  ValueType type;                      // kUndefined until declared or inferred
  std::optional<SymbolicShape> shape;  // of a tensor; nothing until declared or inferred
  NodeId producer;                     // invalid for inputs, initializers and captured values
  int32_t output_index = 0;            // which output of the producer
  InitializerId initializer;  // valid for constants (also those that are graph inputs with a default)
  ValueId outer;              // in a subgraph: the captured value of the parent graph
  bool is_graph_input = false;
  bool is_graph_output = false;
  std::vector<Use> uses;
  MetadataProps metadata_props;
};

struct Node {
  Name name;  // unique in its graph; given one where the file has none
  Name op_type;
  Name domain;                   // "" is ai.onnx
  Name overload;                 // tells local functions of one domain and name apart
  int since_version = 0;         // the opset version the model imports for the domain
  std::vector<ValueId> inputs;   // invalid: an optional input that is absent
  std::vector<ValueId> outputs;  // invalid: an optional output that is not wanted
  std::vector<Attribute> attributes;
  MetadataProps metadata_props;
  std::string doc_string;
  bool alive = true;

  const Attribute* FindAttribute(std::string_view attribute) const;
  // The metadata entry, or empty.
  std::string_view Metadata(std::string_view key) const;
  // The annotation for layer assignment (`layer_ann`), or empty.
  std::string_view LayerAnnotation() const { return Metadata("layer_ann"); }
  // Subgraphs held by attributes, in attribute order.
  std::vector<Graph*> Subgraphs() const;
};

class Graph {
 public:
  // `names` is shared by all graphs of a model. `parent` is null for the main graph.
  Graph(std::shared_ptr<NamePool> names, Graph* parent) : names_(std::move(names)), parent_(parent) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Graph* parent() const { return parent_; }
  // In a subgraph: the node of the parent that holds it; invalid until that node is added.
  NodeId owner() const { return owner_; }
  const std::string& doc_string() const { return doc_string_; }
  void set_doc_string(std::string text) { doc_string_ = std::move(text); }
  NamePool& names() const { return *names_; }
  const std::shared_ptr<NamePool>& shared_names() const { return names_; }

  // Every node ever added, in the order of the file; skip those that are not alive.
  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  std::span<const ValueInfo> values() const { return values_; }
  const ValueInfo& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  std::span<const Initializer> initializers() const { return initializers_; }
  const Initializer& initializer(InitializerId id) const {
    return initializers_[static_cast<size_t>(id.index)];
  }
  // Inputs and outputs in the order of the file. Since IR 4 initializers need not be inputs; an input that
  // has one is optional for the caller.
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  MetadataProps& metadata_props() { return metadata_props_; }
  const MetadataProps& metadata_props() const { return metadata_props_; }
  int num_alive_nodes() const { return num_alive_nodes_; }

  // Of this graph alone (captured values included); invalid where there is none.
  ValueId FindValue(std::string_view value_name) const;
  NodeId FindNode(std::string_view node_name) const;
  // The initializer where the value is a constant (of this graph or captured from a parent), else null.
  const Initializer* ConstantOf(ValueId id) const;

  // Building and rewriting. Names must be fresh; MakeValue with an empty name makes one up.
  ValueId MakeValue(std::string_view value_name, ValueType type = {},
                    std::optional<SymbolicShape> shape = {});
  // Adds an input, or marks a value as output.
  void AddInput(ValueId id);
  void AddOutput(ValueId id);
  // The value `id` becomes the constant.
  InitializerId AddInitializer(ValueId id, Initializer initializer);
  // The value of this subgraph that stands for `outer_value` of the parent graph; made on first use. The
  // parent counts it as a use by the owner while something here uses it.
  ValueId CaptureOuter(ValueId outer_value);
  // The value called `value_name` as seen from this graph: its own, else captured from the nearest graph
  // around it that has one; invalid where there is none.
  ValueId ResolveName(std::string_view value_name);
  // Adds a node, and itself as producer of `outputs` and user of `inputs` and of what its subgraphs capture.
  // The name is made unique. REQUIRES: `outputs` have no producer.
  NodeId AddNode(std::string_view node_name, std::string_view op_type, std::string_view domain,
                 int since_version, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                 std::vector<Attribute> attributes = {}, MetadataProps metadata_props = {});
  // Removes the node and its uses; its outputs lose their producer. REQUIRES: alive.
  void RemoveNode(NodeId id);
  // Every use of `from` (also in subgraphs and as graph output) becomes a use of `to`. A graph output keeps
  // its name: `to` swaps names with `from`. REQUIRES then: `to` has a producer and is not a graph output.
  void ReplaceUses(ValueId from, ValueId to);
  void SetInput(NodeId node, int input_index, ValueId value);
  Node& mutable_node(NodeId id) { return nodes_[static_cast<size_t>(id.index)]; }
  ValueInfo& mutable_value(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  Initializer& mutable_initializer(InitializerId id) { return initializers_[static_cast<size_t>(id.index)]; }

  // A name that is free: `base`, or `base` + "_token_N" where it is taken. Names of values are free in the
  // whole model, so that subgraphs can capture them.
  Name GenerateNodeName(std::string_view base);
  Name GenerateValueName(std::string_view base);

  // Alive nodes so that every node comes after the producers of its inputs and captures, else in the order of
  // the file (stable). INVALID_MODEL naming a node of the cycle.
  Result<std::vector<NodeId>> TopologicalOrder() const;

 private:
  void AddUse(ValueId id, Use use);
  void RemoveUse(ValueId id, Use use);
  bool IsUsed(const ValueInfo& info) const { return !info.uses.empty() || info.is_graph_output; }
  // A captured value became used, or unused: the parent's use by the owner follows.
  void RegisterCapture(const ValueInfo& captured);
  void ReleaseCapture(const ValueInfo& captured);
  // Whether any subgraph of `node` uses the value `id` of this graph.
  bool SubgraphsUse(const Node& node, ValueId id) const;
  Name WithToken(std::string_view base, const std::function<bool(std::string_view)>& is_taken);
  NodeId NextId() const { return NodeId{static_cast<int32_t>(nodes_.size())}; }

  std::shared_ptr<NamePool> names_;
  Graph* parent_;
  NodeId owner_;
  std::string name_;
  std::string doc_string_;
  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<Initializer> initializers_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  MetadataProps metadata_props_;
  int num_alive_nodes_ = 0;
  std::unordered_map<Name, ValueId> value_by_name_;
  std::unordered_map<Name, NodeId> node_by_name_;
  std::unordered_map<int32_t, ValueId> capture_by_outer_;  // index of the parent's value -> value here
  std::unordered_map<Name, int> last_token_;               // the last N of "_token_N" tried for a base
};

}  // namespace lamina
