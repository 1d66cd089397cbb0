#include "model/shape_inference/graph_inference.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "model/shape_inference/constant_elements.h"
#include "model/shape_inference/operator_registry.h"

namespace lamina {
namespace {

// What two descriptions of a type agree on; nothing where they contradict. Undefined parts are open.
std::optional<ValueType> MergeTypes(const ValueType& a, const ValueType& b) {
  if (a.kind == ValueKind::kUndefined) return b;
  if (b.kind == ValueKind::kUndefined) return a;
  ValueType merged = a;
  const auto merge = [](auto& into, auto from) {
    using Field = std::remove_reference_t<decltype(into)>;
    if (into == Field{}) into = from;
    return from == Field{} || into == from;
  };
  if (a.kind != b.kind || !merge(merged.element, b.element) || !merge(merged.inner, b.inner) ||
      !merge(merged.map_key, b.map_key)) {
    return std::nullopt;
  }
  return merged;
}

// Whether no tensor can have both shapes.
bool Contradict(const SymbolicShape& a, const SymbolicShape& b) {
  if (a.rank() != b.rank()) return true;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i].is_constant() && b.dims[i].is_constant() && a.dims[i] != b.dims[i]) return true;
  }
  return false;
}

// Whether `dim` is Max or Min of `part` and something else, as broadcasting of two expressions gives.
bool IsBroadcastOf(const DimExpr& dim, const DimExpr& part) {
  return DimExpr::Max(dim, part) == dim && !dim.is_constant() && dim != part;
}

}  // namespace

GraphInference::GraphInference(InferenceState& state, Graph& graph, GraphInference* parent, bool certain)
    : state_(state),
      graph_(graph),
      parent_(parent),
      depth_(parent ? parent->depth_ + 1 : 0),
      certain_(certain && (parent == nullptr || parent->certain_)),
      declared_([&state, &graph]() -> const DeclaredTypes& {
        const auto [entry, is_new] = state.declared.try_emplace(&graph);
        if (is_new) {
          for (const ValueInfo& info : graph.values()) entry->second.push_back({info.type, info.shape});
        }
        return entry->second;
      }()),
      elements_(graph.values().size()),
      elements_looked_up_(graph.values().size()) {}

Status GraphInference::Run(std::span<const InferredValue> inputs) {
  // A body that is inferred again starts from what the file says.
  for (size_t i = 0; i < declared_.size(); ++i) {
    ValueInfo& info = graph_.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (!info.producer.valid()) continue;
    info.type = declared_[i].type;
    info.shape = declared_[i].shape;
  }
  ImportCapturedValues();
  LAMINA_RETURN_IF_ERROR(SetInputs(inputs));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.TopologicalOrder());
  for (const NodeId id : order) LAMINA_RETURN_IF_ERROR(InferNode(id));
  PublishElements();
  return {};
}

void GraphInference::ImportCapturedValues() {
  if (parent_ == nullptr) return;
  for (size_t i = 0; i < declared_.size(); ++i) {
    ValueInfo& info = graph_.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (!info.outer.valid()) continue;
    const ValueInfo& outer = parent_->value(info.outer);
    info.type = outer.type;
    info.shape = outer.shape;
  }
}

Status GraphInference::SetInputs(std::span<const InferredValue> inputs) {
  const std::span<const ValueId> ids = graph_.inputs();
  for (size_t i = 0; i < ids.size(); ++i) {
    ValueInfo& info = graph_.mutable_value(ids[i]);
    const TypeAndShape& declared = declared_[static_cast<size_t>(ids[i].index)];
    if (parent_ == nullptr) {
      info.shape = declared.shape;
      if (!info.shape || state_.learned.empty()) continue;
      for (DimExpr& dim : info.shape->dims) dim = dim.Substitute(state_.learned);
      continue;
    }
    if (i >= inputs.size()) continue;
    const std::optional<ValueType> type = MergeTypes(inputs[i].type, declared.type);
    if (!type) {
      return InvalidModelError("input '{}' of graph '{}': declared as {}, but the node passes {}",
                               info.name.view(), graph_.name(), declared.type.ToString(),
                               inputs[i].type.ToString());
    }
    info.type = *type;
    info.shape = inputs[i].shape ? inputs[i].shape : declared.shape;
    if (info.shape && info.type.is_tensor()) NameUnknownDims(info.name, *info.shape);
    elements_[static_cast<size_t>(ids[i].index)] = inputs[i].elements;
    elements_looked_up_[static_cast<size_t>(ids[i].index)] = true;
  }
  return {};
}

Status GraphInference::InferNode(NodeId id) {
  const Node& node = graph_.node(id);
  const OperatorDef* def = FindOperator(node.domain, node.op_type, node.since_version);
  if (def == nullptr) return {};
  InferenceContext context(*this, id, def->signature);
  LAMINA_RETURN_IF_ERROR(context.CheckSignature());
  const Status inferred = def->infer(context);
  LAMINA_RETURN_IF_ERROR(context.attribute_status());
  if (!inferred.ok()) {
    if (certain_) return inferred;
    LogInfo("in a branch that may not run: {}", inferred.message());
    for (InferredValue& output : context.outputs()) output.shape.reset();
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (!context.HasOutput(i)) continue;
    const Status committed = Commit(context, i, std::move(context.outputs()[static_cast<size_t>(i)]));
    if (!committed.ok() && certain_) return committed;
  }
  return {};
}

void GraphInference::NameUnknownDims(std::string_view value_name, SymbolicShape& shape) const {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    DimExpr& dim = shape.dims[static_cast<size_t>(axis)];
    if (!dim.known()) dim = Learned(DataDependentDim(value_name, axis));
  }
}

bool GraphInference::IsMadeOfInputSymbols(const DimExpr& dim) const {
  if (dim.is_constant()) return true;
  if (const std::string_view symbol = dim.symbol(); !symbol.empty()) {
    return state_.input_symbols.find(symbol) != state_.input_symbols.end();
  }
  const std::vector<std::string> symbols = dim.Symbols();
  return dim.known() && std::all_of(symbols.begin(), symbols.end(), [this](const std::string& symbol) {
           return state_.input_symbols.count(symbol) > 0;
         });
}

DimExpr GraphInference::MergeDim(std::string_view value_name, int axis, DimExpr inferred,
                                 const DimExpr& declared) const {
  if (inferred == declared || inferred.is_constant()) return inferred;
  if (declared == DataDependentDim(value_name, axis)) return inferred;
  if (!IsMadeOfInputSymbols(inferred)) {
    return declared;  // the file knows what inference cannot tell
  }
  if (!declared.is_constant() && IsMadeOfInputSymbols(declared) && IsBroadcastOf(inferred, declared)) {
    return declared;
  }
  return inferred;
}

Status GraphInference::Commit(const InferenceContext& context, int output_index, InferredValue inferred) {
  const ValueId id = context.node().outputs[static_cast<size_t>(output_index)];
  const TypeAndShape& declared = declared_[static_cast<size_t>(id.index)];
  ValueInfo& info = graph_.mutable_value(id);
  const std::optional<ValueType> type = MergeTypes(inferred.type, declared.type);
  if (!type) {
    return context.Error("output '{}' is {} where the model declares {}", info.name.view(),
                         inferred.type.ToString(), declared.type.ToString());
  }
  info.type = *type;
  const SymbolicShape* declared_shape = declared.shape ? &*declared.shape : nullptr;
  if (inferred.shape) {
    if (inferred.shape->rank() > Shape::kMaxRank) {
      return context.Error("output '{}' has {} dimensions, at most {} are supported", info.name.view(),
                           inferred.shape->rank(), Shape::kMaxRank);
    }
    if (!info.type.is_tensor()) declared_shape = nullptr;
    if (declared_shape != nullptr && Contradict(*inferred.shape, *declared_shape)) {
      if (info.is_graph_output && parent_ == nullptr) {
        return context.Error("output '{}' has shape {} where the model declares {}", info.name.view(),
                             inferred.shape->ToString(), declared_shape->ToString());
      }
      LogInfo("value '{}' has shape {}, not {} as the model declares", info.name.view(),
              inferred.shape->ToString(), declared_shape->ToString());
      declared_shape = nullptr;
    }
    for (int axis = 0; axis < inferred.shape->rank(); ++axis) {
      const DimExpr& dim = inferred.shape->dims[static_cast<size_t>(axis)];
      if (dim.is_constant() && *dim.constant() < 0) {
        return context.Error("output '{}' would have dimension {} = {}", info.name.view(), axis,
                             dim.ToString());
      }
    }
    if (info.type.is_tensor()) {
      NameUnknownDims(info.name, *inferred.shape);
      for (size_t i = 0; declared_shape != nullptr && i < inferred.shape->dims.size(); ++i) {
        DimExpr& dim = inferred.shape->dims[i];
        dim = MergeDim(info.name, static_cast<int>(i), std::move(dim), declared_shape->dims[i]);
      }
    }
    info.shape = std::move(inferred.shape);
  }
  elements_[static_cast<size_t>(id.index)] = std::move(inferred.elements);
  elements_looked_up_[static_cast<size_t>(id.index)] = true;
  return {};
}

InferredValue GraphInference::Known(ValueId id) {
  const ValueInfo& info = graph_.value(id);
  return {info.type, info.shape, ElementsOf(id)};
}

SymbolicElements GraphInference::ElementsOf(ValueId id) {
  const auto index = static_cast<size_t>(id.index);
  if (elements_[index] || elements_looked_up_[index]) return elements_[index];
  elements_looked_up_[index] = true;
  const ValueInfo& info = graph_.value(id);
  if (info.outer.valid() && parent_ != nullptr) {
    elements_[index] = parent_->ElementsOf(info.outer);
  } else if (info.initializer.valid()) {
    const Shape& shape = graph_.initializer(info.initializer).shape;
    if (shape.num_elements() <= kMaxSymbolicElements) {
      if (const std::optional<Tensor> tensor = ConstantOf(id)) elements_[index] = ElementsOfTensor(*tensor);
    }
  }
  return elements_[index];
}

std::optional<Tensor> GraphInference::ConstantOf(ValueId id) {
  const ValueInfo& info = graph_.value(id);
  if (info.outer.valid() && parent_ != nullptr) return parent_->ConstantOf(info.outer);
  if (info.initializer.valid()) {
    // Before IR version 4 every initializer is an input too.
    if (info.is_graph_input && !state_.inputs_with_defaults_are_constant) return std::nullopt;
    return ReadSmallConstant(graph_.initializer(info.initializer), *state_.options);
  }
  if (!info.producer.valid()) return std::nullopt;
  const Node& node = graph_.node(info.producer);
  if (node.op_type == "Constant" && node.domain.empty()) return TensorOfConstantNode(node, *state_.options);
  return std::nullopt;
}

DimExpr GraphInference::Learned(const DimExpr& dim) const {
  const auto found = state_.learned.find(dim.symbol());
  return found == state_.learned.end() ? dim : found->second;
}

void GraphInference::Learn(const DimExpr& a, const DimExpr& b) {
  // The bodies of an If may be written for other shapes than those that come.
  if (depth_ > 0) return;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const std::string_view symbol = from.symbol();
    if (symbol.empty() || state_.learned.count(symbol) > 0) continue;
    const bool is_input_symbol = state_.input_symbols.count(symbol) > 0;
    if (!to.is_constant() && (is_input_symbol || !IsMadeOfInputSymbols(to))) continue;
    state_.learned.emplace(symbol, to);
    return;
  }
}

void GraphInference::PublishElements() const {
  KnownElements* known = state_.options->known_elements;
  if (known == nullptr) return;
  std::map<int32_t, SymbolicElements>& of_graph = (*known)[&graph_];
  of_graph.clear();
  for (size_t i = 0; i < elements_.size(); ++i) {
    if (elements_[i]) of_graph.emplace(static_cast<int32_t>(i), elements_[i]);
  }
}

}  // namespace lamina
