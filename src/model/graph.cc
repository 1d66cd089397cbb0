#include "model/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace lamina {

const Attribute* Node::FindAttribute(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

std::string_view Node::Metadata(std::string_view key) const {
  for (const auto& [name_of_entry, value] : metadata_props) {
    if (name_of_entry == key) return value;
  }
  return {};
}

std::vector<Graph*> Node::Subgraphs() const {
  std::vector<Graph*> subgraphs;
  for (const Attribute& attribute : attributes) {
    if (const auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
      subgraphs.push_back(one->get());
    } else if (const auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.value)) {
      for (const auto& subgraph : *many) subgraphs.push_back(subgraph.get());
    }
  }
  return subgraphs;
}

// --- Values ---

ValueId Graph::FindValue(std::string_view value_name) const {
  const Name interned = names_->Find(value_name);
  if (interned.empty()) return {};
  const auto found = value_by_name_.find(interned);
  return found != value_by_name_.end() ? found->second : ValueId();
}

const Initializer* Graph::ConstantOf(ValueId id) const {
  if (!id.valid()) return nullptr;
  const ValueInfo& info = value(id);
  if (info.initializer.valid()) {
    // A graph input with a default may get another value from the caller.
    return info.is_graph_input ? nullptr : &initializer(info.initializer);
  }
  return info.outer.valid() && parent_ ? parent_->ConstantOf(info.outer) : nullptr;
}

ValueId Graph::MakeValue(std::string_view value_name, ValueType type, std::optional<SymbolicShape> shape) {
  const ValueId id{static_cast<int32_t>(values_.size())};
  const Name interned = value_name.empty() ? GenerateValueName("value") : names_->Intern(value_name);
  const bool fresh = value_by_name_.emplace(interned, id).second;
  assert(fresh && "names of values must be fresh");
  (void)fresh;
  ValueInfo& info = values_.emplace_back();
  info.name = interned;
  info.type = type;
  info.shape = std::move(shape);
  return id;
}

void Graph::AddInput(ValueId id) {
  inputs_.push_back(id);
  mutable_value(id).is_graph_input = true;
}

void Graph::AddOutput(ValueId id) {
  outputs_.push_back(id);
  ValueInfo& info = mutable_value(id);
  const bool was_used = IsUsed(info);
  info.is_graph_output = true;
  if (!was_used) RegisterCapture(info);
}

InitializerId Graph::AddInitializer(ValueId id, Initializer initializer) {
  const InitializerId initializer_id{static_cast<int32_t>(initializers_.size())};
  ValueInfo& info = mutable_value(id);
  initializer.name = info.name;
  info.initializer = initializer_id;
  info.type = ValueType::Tensor(initializer.type);
  if (!info.shape || !info.is_graph_input) {
    info.shape.emplace();
    for (const int64_t dim : initializer.shape) info.shape->dims.emplace_back(dim);
  }
  initializers_.push_back(std::move(initializer));
  return initializer_id;
}

// --- Captures ---

ValueId Graph::CaptureOuter(ValueId outer_value) {
  assert(parent_ && outer_value.valid());
  if (const auto found = capture_by_outer_.find(outer_value.index); found != capture_by_outer_.end()) {
    return found->second;
  }
  const ValueInfo& outer = parent_->value(outer_value);
  const bool shadowed = FindValue(outer.name).valid();
  const ValueId id =
      MakeValue(shadowed ? GenerateValueName(outer.name) : outer.name, outer.type, outer.shape);
  mutable_value(id).outer = outer_value;
  capture_by_outer_.emplace(outer_value.index, id);
  return id;
}

ValueId Graph::ResolveName(std::string_view value_name) {
  if (const ValueId own = FindValue(value_name); own.valid() || !parent_) return own;
  const ValueId outer = parent_->ResolveName(value_name);
  return outer.valid() ? CaptureOuter(outer) : ValueId();
}

void Graph::RegisterCapture(const ValueInfo& captured) {
  if (!captured.outer.valid() || !owner_.valid()) return;
  const Use use{owner_, Use::kCapture};
  const std::vector<Use>& uses = parent_->value(captured.outer).uses;
  if (std::find(uses.begin(), uses.end(), use) == uses.end()) parent_->AddUse(captured.outer, use);
}

void Graph::ReleaseCapture(const ValueInfo& captured) {
  if (!captured.outer.valid() || !owner_.valid()) return;
  if (parent_->SubgraphsUse(parent_->node(owner_), captured.outer)) return;
  parent_->RemoveUse(captured.outer, Use{owner_, Use::kCapture});
}

bool Graph::SubgraphsUse(const Node& node, ValueId id) const {
  for (const Graph* subgraph : node.Subgraphs()) {
    const auto found = subgraph->capture_by_outer_.find(id.index);
    if (found != subgraph->capture_by_outer_.end() && subgraph->IsUsed(subgraph->value(found->second))) {
      return true;
    }
  }
  return false;
}

void Graph::AddUse(ValueId id, Use use) {
  if (!id.valid()) return;
  ValueInfo& info = mutable_value(id);
  const bool was_used = IsUsed(info);
  info.uses.push_back(use);
  if (!was_used) RegisterCapture(info);
}

void Graph::RemoveUse(ValueId id, Use use) {
  if (!id.valid()) return;
  ValueInfo& info = mutable_value(id);
  const auto found = std::find(info.uses.begin(), info.uses.end(), use);
  if (found == info.uses.end()) return;
  info.uses.erase(found);
  if (!IsUsed(info)) ReleaseCapture(info);
}

// --- Nodes ---

NodeId Graph::FindNode(std::string_view node_name) const {
  const Name interned = names_->Find(node_name);
  if (interned.empty()) return {};
  const auto found = node_by_name_.find(interned);
  return found != node_by_name_.end() ? found->second : NodeId();
}

NodeId Graph::AddNode(std::string_view node_name, std::string_view op_type, std::string_view domain,
                      int since_version, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                      std::vector<Attribute> attributes, MetadataProps metadata_props) {
  const NodeId id = NextId();
  Node& added = nodes_.emplace_back();
  added.name = GenerateNodeName(node_name.empty() ? op_type : node_name);
  node_by_name_.emplace(added.name, id);
  ++num_alive_nodes_;
  added.op_type = names_->Intern(op_type);
  added.domain = names_->Intern(domain);
  added.since_version = since_version;
  added.inputs = std::move(inputs);
  added.outputs = std::move(outputs);
  added.attributes = std::move(attributes);
  added.metadata_props = std::move(metadata_props);

  for (size_t i = 0; i < added.inputs.size(); ++i) AddUse(added.inputs[i], {id, static_cast<int32_t>(i)});
  for (size_t i = 0; i < added.outputs.size(); ++i) {
    if (!added.outputs[i].valid()) continue;
    ValueInfo& output = mutable_value(added.outputs[i]);
    assert(!output.producer.valid());
    output.producer = id;
    output.output_index = static_cast<int32_t>(i);
  }
  for (Graph* subgraph : added.Subgraphs()) {
    subgraph->parent_ = this;
    subgraph->owner_ = id;
    for (const ValueInfo& captured : subgraph->values_) {
      if (captured.outer.valid() && subgraph->IsUsed(captured)) subgraph->RegisterCapture(captured);
    }
  }
  return id;
}

void Graph::RemoveNode(NodeId id) {
  Node& removed = mutable_node(id);
  assert(removed.alive);
  for (size_t i = 0; i < removed.inputs.size(); ++i) {
    RemoveUse(removed.inputs[i], {id, static_cast<int32_t>(i)});
  }
  for (Graph* subgraph : removed.Subgraphs()) {
    for (const ValueInfo& captured : subgraph->values_) {
      if (captured.outer.valid()) RemoveUse(captured.outer, {id, Use::kCapture});
    }
    if (subgraph->owner_ == id) subgraph->owner_ = NodeId();  // unless another node has taken it over
  }
  for (const ValueId output : removed.outputs) {
    if (output.valid()) mutable_value(output).producer = NodeId();
  }
  node_by_name_.erase(removed.name);
  removed.alive = false;
  --num_alive_nodes_;
}

void Graph::SetInput(NodeId node, int input_index, ValueId value) {
  ValueId& input = mutable_node(node).inputs[static_cast<size_t>(input_index)];
  if (input == value) return;
  const ValueId previous = input;
  input = value;
  AddUse(value, {node, input_index});
  RemoveUse(previous, {node, input_index});
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<Use> uses = value(from).uses;  // a copy: the loop changes the original
  for (const Use& use : uses) {
    if (use.input_index != Use::kCapture) {
      SetInput(use.node, use.input_index, to);
      continue;
    }
    for (Graph* subgraph : node(use.node).Subgraphs()) {
      const auto captured = subgraph->capture_by_outer_.find(from.index);
      if (captured == subgraph->capture_by_outer_.end()) continue;
      const ValueId inner_from = captured->second;
      subgraph->ReplaceUses(inner_from, subgraph->CaptureOuter(to));
    }
  }
  ValueInfo& old_value = mutable_value(from);
  if (!old_value.is_graph_output) return;
  ValueInfo& new_value = mutable_value(to);
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  const bool was_used = IsUsed(new_value);
  old_value.is_graph_output = false;
  new_value.is_graph_output = true;
  if (!was_used) RegisterCapture(new_value);
  if (!IsUsed(old_value)) ReleaseCapture(old_value);
  // The outputs of a subgraph go by position: only the names of the main graph's outputs are an interface.
  if (parent_) return;
  assert(new_value.producer.valid());
  std::swap(old_value.name, new_value.name);
  value_by_name_[old_value.name] = from;
  value_by_name_[new_value.name] = to;
}

// --- Names ---

Name Graph::WithToken(std::string_view base, const std::function<bool(std::string_view)>& is_taken) {
  if (!is_taken(base)) return names_->Intern(base);
  int& token = last_token_[names_->Intern(base)];
  std::string candidate;
  do {
    candidate = fmt::format("{}_token_{}", base, ++token);
  } while (is_taken(candidate));
  return names_->Intern(candidate);
}

Name Graph::GenerateNodeName(std::string_view base) {
  return WithToken(base, [this](std::string_view name) { return FindNode(name).valid(); });
}

Name Graph::GenerateValueName(std::string_view base) {
  return WithToken(base, [this](std::string_view name) { return !names_->Find(name).empty(); });
}

// --- Order ---

Result<std::vector<NodeId>> Graph::TopologicalOrder() const {
  // Depth-first in the order of the file: a node comes just after the last of its producers that the file
  // has behind it, so that a sorted file keeps its order and a node added by a rewrite stands before its
  // first user.
  enum class State : uint8_t { kUnseen, kOpen, kDone };
  std::vector<State> states(nodes_.size(), State::kUnseen);
  std::vector<NodeId> order;
  order.reserve(static_cast<size_t>(num_alive_nodes_));

  struct Frame {
    NodeId node;
    size_t next = 0;               // of its inputs, then of its captures
    std::vector<NodeId> captures;  // producers of what its subgraphs capture
  };
  const auto producer_of = [this](ValueId id) { return id.valid() ? value(id).producer : NodeId(); };
  const auto open = [&](NodeId id) {
    Frame frame{id, 0, {}};
    for (const Graph* subgraph : node(id).Subgraphs()) {
      for (const ValueInfo& captured : subgraph->values()) {
        if (captured.outer.valid() && IsUsed(captured)) frame.captures.push_back(producer_of(captured.outer));
      }
    }
    states[static_cast<size_t>(id.index)] = State::kOpen;
    return frame;
  };

  std::vector<Frame> stack;
  for (int32_t i = 0; i < NextId().index; ++i) {
    if (!nodes_[static_cast<size_t>(i)].alive || states[static_cast<size_t>(i)] != State::kUnseen) continue;
    stack.push_back(open(NodeId{i}));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<ValueId>& inputs = node(frame.node).inputs;
      if (frame.next == inputs.size() + frame.captures.size()) {
        states[static_cast<size_t>(frame.node.index)] = State::kDone;
        order.push_back(frame.node);
        stack.pop_back();
        continue;
      }
      const size_t next = frame.next++;
      const NodeId producer =
          next < inputs.size() ? producer_of(inputs[next]) : frame.captures[next - inputs.size()];
      if (!producer.valid()) continue;
      State& state = states[static_cast<size_t>(producer.index)];
      if (state == State::kDone) continue;
      if (state == State::kOpen) {
        return InvalidModelError(
            "graph '{}': node '{}' ({}) depends on its own output: the graph has a cycle", name_,
            node(producer).name.view(), node(producer).op_type.view());
      }
      stack.push_back(open(producer));
    }
  }
  return order;
}

}  // namespace lamina
