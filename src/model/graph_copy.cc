#include "model/graph_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lamina {
namespace {

// The value of `graph` that stands for value `id` of `ancestor`, which is `graph` or around it.
ValueId CaptureFrom(const Graph& ancestor, ValueId id, Graph& graph) {
  if (&graph == &ancestor) return id;
  return graph.CaptureOuter(CaptureFrom(ancestor, id, *graph.parent()));
}

class Copier {
 public:
  // `outer_values` maps values of source.parent(); null where captures are of graphs around the target.
  Copier(const Graph& source, Graph& target, ValueMap& values, const ValueMap* outer_values,
         const GraphCopyOptions& options)
      : source_(source), target_(target), values_(values), outer_values_(outer_values), options_(options) {}

  Status CopyContent() {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, source_.TopologicalOrder());
    for (const NodeId id : order) LAMINA_RETURN_IF_ERROR(CopyNode(source_.node(id)));
    return {};
  }

  ValueId Mapped(ValueId id) {
    if (!id.valid()) return {};
    if (const auto found = values_.find(id.index); found != values_.end()) return found->second;
    const ValueId made = MakeTarget(source_.value(id));
    values_.emplace(id.index, made);
    return made;
  }

 private:
  ValueId MakeTarget(const ValueInfo& value) {
    if (value.outer.valid()) {
      if (!outer_values_) return CaptureFrom(*source_.parent(), value.outer, target_);
      const ValueId outer = outer_values_->at(value.outer.index);
      return outer.valid() ? target_.CaptureOuter(outer) : ValueId();
    }
    const bool is_constant = value.shape && value.shape->is_constant();
    const ValueId made = target_.MakeValue(target_.GenerateValueName(options_.prefix + value.name.str()),
                                           value.type, is_constant ? value.shape : std::nullopt);
    target_.mutable_value(made).metadata_props = value.metadata_props;
    if (value.initializer.valid()) target_.AddInitializer(made, source_.initializer(value.initializer));
    return made;
  }

  Status CopyNode(const Node& node) {
    // Captures first, so that the copies of the subgraphs find what stands for them.
    for (const Graph* subgraph : node.Subgraphs()) {
      for (const ValueInfo& value : subgraph->values()) Mapped(value.outer);
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(Mapped(input));
    std::vector<ValueId> outputs;
    for (const ValueId output : node.outputs) outputs.push_back(Mapped(output));
    std::vector<Attribute> attributes;
    for (const Attribute& attribute : node.attributes) {
      LAMINA_RETURN_IF_ERROR(CopyAttribute(attribute, attributes));
    }
    MetadataProps metadata = node.metadata_props;
    for (const auto& entry : options_.inherited_metadata) {
      if (node.Metadata(entry.first).empty()) metadata.push_back(entry);
    }
    const NodeId added =
        target_.AddNode(options_.prefix + node.name.str(), node.op_type, node.domain, node.since_version,
                        std::move(inputs), std::move(outputs), std::move(attributes), std::move(metadata));
    target_.mutable_node(added).overload = node.overload;
    target_.mutable_node(added).doc_string = node.doc_string;
    return {};
  }

  Status CopyAttribute(const Attribute& attribute, std::vector<Attribute>& attributes) {
    std::optional<Attribute> copy =
        options_.map_attribute ? options_.map_attribute(attribute) : std::optional<Attribute>(attribute);
    if (!copy) return {};
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&copy->value)) {
      LAMINA_ASSIGN_OR_RETURN(*one, CopySubgraph(**one));
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&copy->value)) {
      for (std::shared_ptr<Graph>& subgraph : *many) {
        LAMINA_ASSIGN_OR_RETURN(subgraph, CopySubgraph(*subgraph));
      }
    }
    attributes.push_back(*std::move(copy));
    return {};
  }

  Result<std::shared_ptr<Graph>> CopySubgraph(const Graph& subgraph) {
    auto copy = std::make_shared<Graph>(target_.shared_names(), &target_);
    copy->set_name(subgraph.name());
    copy->set_doc_string(subgraph.doc_string());
    copy->metadata_props() = subgraph.metadata_props();
    ValueMap values;
    // A subgraph that map_attribute brought along captures from a graph around the target.
    const ValueMap* outer_values = subgraph.parent() == &source_ ? &values_ : nullptr;
    Copier copier(subgraph, *copy, values, outer_values, options_);
    for (const ValueId input : subgraph.inputs()) copy->AddInput(copier.Mapped(input));
    LAMINA_RETURN_IF_ERROR(copier.CopyContent());
    for (const ValueId output : subgraph.outputs()) {
      const ValueId mapped = copier.Mapped(output);
      if (mapped.valid()) copy->AddOutput(mapped);
    }
    return copy;
  }

  const Graph& source_;
  Graph& target_;
  ValueMap& values_;
  const ValueMap* outer_values_;
  const GraphCopyOptions& options_;
};

}  // namespace

Status CopyGraphInto(const Graph& source, Graph& target, ValueMap& values, const GraphCopyOptions& options) {
  return Copier(source, target, values, nullptr, options).CopyContent();
}

}  // namespace lamina
