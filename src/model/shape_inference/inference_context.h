// What the inference function of an operator sees of a node, and where it puts what it finds.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/dim_expr.h"
#include "model/graph.h"
#include "model/shape_inference/shape_inference.h"
#include "model/shape_inference/signature.h"

namespace lamina {

class GraphInference;

// What is known of a value.
struct InferredValue {
  ValueType type;
  std::optional<SymbolicShape> shape;  // of a tensor of known rank; of the tensors in a container
  SymbolicElements elements;           // null: unknown
};

// Functions read inputs and attributes and set outputs. A dimension that cannot be told is
// DimExpr::Unknown(); it becomes a fresh symbol. An attribute of the wrong type gives its default and makes
// the inference of the node fail.
class InferenceContext {
 public:
  InferenceContext(GraphInference& graph, NodeId id, const Signature& signature);

  const Node& node() const { return node_; }
  // The version of the node's domain that the model imports.
  int opset() const { return node_.since_version; }
  // INVALID_MODEL that names node and operator.
  template <typename... Args>
  Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(fmt::format(format, std::forward<Args>(args)...));
  }

  // --- Inputs. Absent inputs, also past the end, have no type, shape or value. ---
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool HasInput(int index) const;
  const ValueType& InputType(int index) const;
  DataType InputElement(int index) const { return InputType(index).element; }
  // Null where the rank is not known.
  const SymbolicShape* InputShape(int index) const;
  // Symbolic elements of an integer or bool tensor of at most kMaxSymbolicElements elements; null: unknown.
  const std::vector<DimExpr>* InputElements(int index) const;
  SymbolicElements SharedInputElements(int index) const;
  // All elements, where all are constants.
  std::optional<std::vector<int64_t>> InputInts(int index) const;
  // A small constant; nothing where the input is not constant or is too large.
  std::optional<Tensor> InputConstant(int index) const;
  // A small tensor of an attribute, read through the options where it is external.
  std::optional<Tensor> ReadConstant(const Initializer& initializer) const;
  // Elements of a small float constant (of any float type but fp8).
  std::optional<std::vector<double>> InputDoubles(int index) const;
  // The input as an InferredValue.
  InferredValue Input(int index) const;

  // --- Attributes ---
  bool HasAttribute(std::string_view name) const { return node_.FindAttribute(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t default_value);
  float Float(std::string_view name, float default_value);
  std::string_view String(std::string_view name, std::string_view default_value);
  // Null where absent.
  const std::vector<int64_t>* Ints(std::string_view name);
  const std::vector<float>* Floats(std::string_view name);
  const std::vector<std::string>* Strings(std::string_view name);
  const Initializer* TensorAttribute(std::string_view name);
  const TypeAndShape* TypeAttribute(std::string_view name);
  Graph* Subgraph(std::string_view name);
  // Fails the inference of the node where the attribute is absent.
  void Require(std::string_view name);
  int64_t RequiredInt(std::string_view name);
  // The first error of reading attributes.
  const Status& attribute_status() const { return attribute_status_; }

  // --- Outputs ---
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool HasOutput(int index) const;
  // Setting an absent output does nothing.
  void SetOutputType(int index, ValueType type);
  void SetOutputElement(int index, DataType element) { SetOutputType(index, ValueType::Tensor(element)); }
  void SetOutputShape(int index, SymbolicShape shape);
  void SetOutputElements(int index, std::vector<DimExpr> elements);
  void SetOutputElements(int index, SymbolicElements elements);
  void SetOutput(int index, InferredValue value);
  // The symbol of a dimension of an output that only a run can tell, for use in more than one place.
  DimExpr FreshDim(int output, int axis) const;
  std::vector<InferredValue>& outputs() { return outputs_; }
  const InferredValue& output(int index) const { return outputs_[static_cast<size_t>(index)]; }

  // --- Relations ---
  // Two dimensions that must be the same number; `what` names them for the error where they are different
  // constants. Gives the better known of both.
  Result<DimExpr> Unify(const DimExpr& a, const DimExpr& b, std::string_view what);
  // `axis` in [0, rank), counted from the end where negative. `rank` itself only with `allow_end`.
  Result<int> Axis(int64_t axis, int rank, bool allow_end = false) const;
  // INVALID_MODEL where the input's rank is known and outside [min_rank, max_rank].
  Status CheckRank(int index, int min_rank, int max_rank) const;
  Status CheckRank(int index, int rank) const { return CheckRank(index, rank, rank); }

  // Infers the body of an If, Loop or Scan with these inputs: what its outputs are. The body may be inferred
  // several times; the last one counts. A body that may not run (`certain` false) may be written for other
  // shapes than those that come: a node in it whose shapes do not fit is passed over.
  Result<std::vector<InferredValue>> InferBody(Graph& body, std::span<const InferredValue> inputs,
                                               bool certain = true);
  // Whether bodies at this depth may be inferred again: nested repetition would multiply.
  bool MayRepeatBodies() const;

  // Checks numbers and types of inputs and outputs; sets the output types that follow from them.
  Status CheckSignature();

 private:
  Status MakeError(std::string text) const;
  const ValueInfo* InputInfo(int index) const;
  template <typename T>
  const T* AttributeAs(std::string_view name, std::string_view expected);

  GraphInference& graph_;
  const Node& node_;
  const Signature& signature_;
  std::vector<InferredValue> outputs_;
  Status attribute_status_;
};

}  // namespace lamina
