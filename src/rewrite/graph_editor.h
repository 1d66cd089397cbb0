// A graph as rewrites see it: questions about nodes and values, and edits that keep names, metadata and
// providers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/value.h"
#include "model/model.h"
#include "model/shape_inference/shape_inference.h"
#include "rewrite/node_assignment.h"

namespace lamina {

inline constexpr std::string_view kOnnxDomain;
inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";
// Operators that only rewrites write (model/shape_inference/lamina_ops.cc).
inline constexpr std::string_view kLaminaDomain = "lamina";

// Computes nodes on constants (constant folding): who has kernels implements it.
class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  // The outputs of the node for these inputs (null: absent). UNSUPPORTED where there is no kernel.
  virtual Result<std::vector<Tensor>> Evaluate(const Graph& graph, const Node& node,
                                               std::span<const Tensor* const> inputs) = 0;
};

// Reads a constant from external data; asked only for small ones.
using ConstantReader = std::function<Result<Tensor>(const Initializer&)>;

// A node to be added.
struct NodeSpec {
  std::string_view op_type;
  std::string_view domain;
  std::vector<ValueId> inputs;
  std::vector<Attribute> attributes = {};
};

// What all editors of a run share.
struct RewriteEnvironment {
  Model* model = nullptr;
  ConstantReader read_external;  // empty: such constants are unknown
  const KnownElements* known_elements = nullptr;
  ConstantEvaluator* evaluator = nullptr;  // null: nothing is folded
  NodeAssignment* assignment = nullptr;    // null before placement
};

class GraphEditor {
 public:
  GraphEditor(Graph& graph, const RewriteEnvironment& environment)
      : graph_(graph), environment_(environment) {}

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  const Node& node(NodeId id) const { return graph_.node(id); }
  const ValueInfo& value(ValueId id) const { return graph_.value(id); }
  ConstantEvaluator* evaluator() const { return environment_.evaluator; }
  // The version the model imports, 0 where it does not import the domain.
  int Opset(std::string_view domain) const;

  // --- Questions ---

  bool Is(NodeId id, std::string_view op_type, std::string_view domain = kOnnxDomain) const;
  // The input, invalid where it is absent.
  ValueId Input(NodeId id, size_t index) const;
  ValueId Output(NodeId id, size_t index = 0) const;
  // The node of this graph that makes the value; invalid for inputs, constants and captured values.
  NodeId Producer(ValueId id) const { return id.valid() ? value(id).producer : NodeId(); }
  DataType Type(ValueId id) const;
  // Null where the rank is not known.
  const SymbolicShape* ShapeOf(ValueId id) const;
  bool SameShape(ValueId a, ValueId b) const;
  // The shape's dimension counted from the back for negative axes; unknown where rank or axis are.
  DimExpr Dim(ValueId id, int axis) const;
  bool IsConstant(ValueId id) const { return id.valid() && graph_.ConstantOf(id) != nullptr; }
  // Of a constant; null where the value is none.
  DerivedTensorPtr ExpressionOf(ValueId id) const;
  // The constant where it is one of at most kMaxInferenceConstantBytes that can be read.
  std::optional<Tensor> SmallConstant(ValueId id) const;
  // The only element of a small constant of numbers.
  std::optional<double> Scalar(ValueId id) const;
  std::optional<std::vector<int64_t>> Integers(ValueId id) const;
  // What shape arithmetic knows of the elements; null where it is nothing.
  SymbolicElements Elements(ValueId id) const;
  // Whether `user` is the only reader (however often), and the value no output of the graph.
  bool OnlyUsedBy(ValueId id, NodeId user) const;
  bool IsUnused(ValueId id) const;
  int64_t Int(NodeId id, std::string_view attribute, int64_t default_value) const;
  float Float(NodeId id, std::string_view attribute, float default_value) const;
  std::optional<std::vector<int64_t>> Ints(NodeId id, std::string_view attribute) const;
  std::string_view String(NodeId id, std::string_view attribute, std::string_view default_value) const;
  // Whether the nodes belong to one provider; true before placement.
  bool OnOneProvider(std::span<const NodeId> nodes) const;

  Attribute MakeAttribute(std::string_view name, AttributeValue value) const;

  // --- Edits ---

  // `spec` takes the place of `root` and makes its outputs, those of `outputs` (by default all that root
  // has). Its name is root's with "/" and `suffix`, its metadata root's. Nodes that only served root vanish.
  NodeId Replace(NodeId root, std::string_view suffix, NodeSpec spec);
  NodeId Replace(NodeId root, std::string_view suffix, NodeSpec spec, std::vector<ValueId> outputs);
  // Adds a node with one output that serves the replacement of `root`.
  ValueId AddNode(NodeId root, std::string_view suffix, NodeSpec spec, ValueType type,
                  std::optional<SymbolicShape> shape);
  // Constants; `base` is what their name derives from.
  ValueId AddConstant(std::string_view base, Tensor tensor);
  ValueId AddConstant(std::string_view base, Initializer initializer);
  ValueId AddDerived(std::string_view base, DerivedTensorPtr expression);
  ValueId AddIntegers(std::string_view base, std::span<const int64_t> values);
  // The operand of `root` at `index` becomes `value`; what only served the old one vanishes.
  void SetInput(NodeId root, int index, ValueId value);
  // Users of the root's first output read `value` instead, and root vanishes. False, without a change, where
  // that cannot be: root has other outputs that are used, or an output of the graph would lose its producer.
  bool Bypass(NodeId root, ValueId value);
  // The root's only output becomes a constant. False where it is an output of the graph.
  bool MakeConstant(NodeId root, Initializer initializer);
  bool MakeDerived(NodeId root, DerivedTensorPtr expression);
  // Removes the node where none of its outputs is used, and then the nodes that only served it.
  void RemoveIfUnused(NodeId id);

 private:
  void ImportDomain(std::string_view domain);
  int VersionOf(const NodeSpec& spec) const;
  NodeId Add(NodeId root, std::string_view suffix, NodeSpec spec, std::vector<ValueId> outputs);
  void RemoveWithServants(NodeId id);

  Graph& graph_;
  const RewriteEnvironment& environment_;
};

}  // namespace lamina
