// The state of inferring one graph: walks its nodes, keeps symbolic elements, and merges what is inferred
// with what the file declares.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "model/shape_inference/inference_context.h"
#include "model/shape_inference/shape_inference.h"

namespace lamina {

// The types and shapes that the file gives to the values of a graph, by index of ValueId.
using DeclaredTypes = std::vector<TypeAndShape>;

// Shared by the graphs of a model.
struct InferenceState {
  const InferenceOptions* options = nullptr;
  std::map<const Graph*, DeclaredTypes> declared;
  bool inputs_with_defaults_are_constant = false;
  // Symbols of the inputs of the main graph.
  std::set<std::string, std::less<>> input_symbols;
  // Symbols that turned out to be another expression.
  std::map<std::string, DimExpr, std::less<>> learned;
};

class GraphInference {
 public:
  // `parent` is null for the main graph. `certain`: whether the graph runs whenever its parent does.
  GraphInference(InferenceState& state, Graph& graph, GraphInference* parent, bool certain = true);

  // Infers all nodes. For a body, `inputs` are what is known of its inputs.
  Status Run(std::span<const InferredValue> inputs = {});

  Graph& graph() { return graph_; }
  InferenceState& state() { return state_; }
  int depth() const { return depth_; }
  const ValueInfo& value(ValueId id) const { return graph_.value(id); }
  InferredValue Known(ValueId id);
  SymbolicElements ElementsOf(ValueId id);
  // A constant of at most kMaxInferenceConstantBytes, read where it is external.
  std::optional<Tensor> ConstantOf(ValueId id);
  // Remembers that `a` is the same number as `b` where that replaces a symbol.
  void Learn(const DimExpr& a, const DimExpr& b);
  // What replaces a symbol, else the expression itself.
  DimExpr Learned(const DimExpr& dim) const;

 private:
  Status SetInputs(std::span<const InferredValue> inputs);
  void ImportCapturedValues();
  Status InferNode(NodeId id);
  // Stores what was inferred for an output, merged with the declaration.
  Status Commit(const InferenceContext& context, int output_index, InferredValue inferred);
  void NameUnknownDims(std::string_view value_name, SymbolicShape& shape) const;
  DimExpr MergeDim(std::string_view value_name, int axis, DimExpr inferred, const DimExpr& declared) const;
  bool IsMadeOfInputSymbols(const DimExpr& dim) const;
  void PublishElements() const;

  InferenceState& state_;
  Graph& graph_;
  GraphInference* parent_;
  int depth_;
  bool certain_;
  const DeclaredTypes& declared_;
  std::vector<SymbolicElements> elements_;  // by ValueId
  std::vector<bool> elements_looked_up_;    // by ValueId: of constants and captured values
};

}  // namespace lamina
