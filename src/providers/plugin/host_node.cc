#include "providers/plugin/host_node.h"

#include "base/error.h"

namespace lamina::plugin {
namespace {

using Edge = LaminaNode::Edge;

const int64_t kNothing = 0;  // what empty lists point to

Edge MakeEdge(const ValueType& type, const ShapeBounds* bounds) {
  Edge edge;
  if (type.is_tensor()) edge.type = type.element;
  if (!bounds) return edge;
  edge.has_rank = true;
  edge.bounded = bounds->bounded();
  for (int axis = 0; axis < bounds->rank(); ++axis) {
    edge.min.push_back((*bounds)[axis].min);
    edge.max.push_back((*bounds)[axis].max);
  }
  edge.min.push_back(0);
  edge.max.push_back(0);
  return edge;
}

Result<const Edge*> Find(const LaminaNode& node, const std::vector<Edge>& edges, const char* what,
                         size_t index) {
  if (index < edges.size()) return &edges[index];
  return InvalidArgumentError("node '{}' has {} {}s, {} {} was asked for", node.name, edges.size(), what,
                              what, index);
}

Status GiveShape(const Edge& edge, const int64_t** shape, size_t* rank) {
  *shape = edge.bounded ? edge.max.data() : nullptr;
  *rank = edge.bounded ? edge.max.size() - 1 : 0;
  return Status();
}

Status GiveBounds(const Edge& edge, const int64_t** min, const int64_t** max, size_t* rank) {
  *min = edge.has_rank ? edge.min.data() : nullptr;
  *max = edge.has_rank ? edge.max.data() : nullptr;
  *rank = edge.has_rank ? edge.max.size() - 1 : 0;
  return Status();
}

// The attribute's value as T, null where it is absent; INVALID_ARGUMENT where it is of another type.
template <typename T>
Result<const T*> ValueOf(const LaminaNode& node, const char* attribute, const char* type_name) {
  const Attribute* found = node.info.FindAttribute(attribute);
  if (!found) return static_cast<const T*>(nullptr);
  if (const T* value = std::get_if<T>(&found->value)) return value;
  return InvalidArgumentError("node '{}': attribute '{}' is no {}", node.name, attribute, type_name);
}

LaminaStatus* GetName(const LaminaNode* node, const char** name) noexcept {
  return Answer(
      "Node_GetName",
      [&] {
        *name = node->name.c_str();
        return Status();
      },
      node, name);
}

LaminaStatus* GetOperatorType(const LaminaNode* node, const char** op_type) noexcept {
  return Answer(
      "Node_GetOperatorType",
      [&] {
        *op_type = node->op_type.c_str();
        return Status();
      },
      node, op_type);
}

LaminaStatus* GetDomain(const LaminaNode* node, const char** domain) noexcept {
  return Answer(
      "Node_GetDomain",
      [&] {
        *domain = node->domain.c_str();
        return Status();
      },
      node, domain);
}

LaminaStatus* GetOpsetVersion(const LaminaNode* node, int32_t* version) noexcept {
  return Answer(
      "Node_GetOpsetVersion",
      [&] {
        *version = node->info.opset_version();
        return Status();
      },
      node, version);
}

LaminaStatus* GetNumInputs(const LaminaNode* node, size_t* count) noexcept {
  return Answer(
      "Node_GetNumInputs",
      [&] {
        *count = node->inputs.size();
        return Status();
      },
      node, count);
}

LaminaStatus* GetNumOutputs(const LaminaNode* node, size_t* count) noexcept {
  return Answer(
      "Node_GetNumOutputs",
      [&] {
        *count = node->outputs.size();
        return Status();
      },
      node, count);
}

LaminaStatus* GetInputType(const LaminaNode* node, size_t index, LaminaDataType* type) noexcept {
  return Answer(
      "Node_GetInputType",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->inputs, "input", index));
        *type = static_cast<LaminaDataType>(edge->type);
        return Status();
      },
      node, type);
}

LaminaStatus* GetOutputType(const LaminaNode* node, size_t index, LaminaDataType* type) noexcept {
  return Answer(
      "Node_GetOutputType",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->outputs, "output", index));
        *type = static_cast<LaminaDataType>(edge->type);
        return Status();
      },
      node, type);
}

LaminaStatus* GetInputName(const LaminaNode* node, size_t index, const char** name) noexcept {
  return Answer(
      "Node_GetInputName",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->inputs, "input", index));
        *name = edge->name ? edge->name->c_str() : nullptr;
        return Status();
      },
      node, name);
}

LaminaStatus* GetOutputName(const LaminaNode* node, size_t index, const char** name) noexcept {
  return Answer(
      "Node_GetOutputName",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->outputs, "output", index));
        *name = edge->name ? edge->name->c_str() : nullptr;
        return Status();
      },
      node, name);
}

LaminaStatus* GetInputShape(const LaminaNode* node, size_t index, const int64_t** shape,
                            size_t* rank) noexcept {
  return Answer(
      "Node_GetInputShape",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->inputs, "input", index));
        return GiveShape(*edge, shape, rank);
      },
      node, shape, rank);
}

LaminaStatus* GetOutputShape(const LaminaNode* node, size_t index, const int64_t** shape,
                             size_t* rank) noexcept {
  return Answer(
      "Node_GetOutputShape",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->outputs, "output", index));
        return GiveShape(*edge, shape, rank);
      },
      node, shape, rank);
}

LaminaStatus* GetInputShapeBounds(const LaminaNode* node, size_t index, const int64_t** min,
                                  const int64_t** max, size_t* rank) noexcept {
  return Answer(
      "Node_GetInputShapeBounds",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->inputs, "input", index));
        return GiveBounds(*edge, min, max, rank);
      },
      node, min, max, rank);
}

LaminaStatus* GetOutputShapeBounds(const LaminaNode* node, size_t index, const int64_t** min,
                                   const int64_t** max, size_t* rank) noexcept {
  return Answer(
      "Node_GetOutputShapeBounds",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const Edge* edge, Find(*node, node->outputs, "output", index));
        return GiveBounds(*edge, min, max, rank);
      },
      node, min, max, rank);
}

LaminaStatus* GetAttributeType(const LaminaNode* node, const char* attribute,
                               LaminaAttributeType* type) noexcept {
  return Answer(
      "Node_GetAttributeType",
      [&] {
        const Attribute* found = node->info.FindAttribute(attribute);
        *type = found ? static_cast<LaminaAttributeType>(found->type()) : LAMINA_ATTRIBUTE_UNDEFINED;
        return Status();
      },
      node, attribute, type);
}

LaminaStatus* GetAttributeInt(const LaminaNode* node, const char* attribute, const int64_t** value) noexcept {
  return Answer(
      "Node_GetAttributeInt",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(*value, ValueOf<int64_t>(*node, attribute, "integer"));
        return Status();
      },
      node, attribute, value);
}

LaminaStatus* GetAttributeFloat(const LaminaNode* node, const char* attribute, const float** value) noexcept {
  return Answer(
      "Node_GetAttributeFloat",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(*value, ValueOf<float>(*node, attribute, "float"));
        return Status();
      },
      node, attribute, value);
}

LaminaStatus* GetAttributeString(const LaminaNode* node, const char* attribute, const char** value,
                                 size_t* length_bytes) noexcept {
  return Answer(
      "Node_GetAttributeString",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const auto* text, ValueOf<std::string>(*node, attribute, "string"));
        *value = text ? text->c_str() : nullptr;
        *length_bytes = text ? text->size() : 0;
        return Status();
      },
      node, attribute, value, length_bytes);
}

LaminaStatus* GetAttributeInts(const LaminaNode* node, const char* attribute, const int64_t** values,
                               size_t* count) noexcept {
  return Answer(
      "Node_GetAttributeInts",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const auto* list,
                                ValueOf<std::vector<int64_t>>(*node, attribute, "list of integers"));
        *values = !list ? nullptr : list->empty() ? &kNothing : list->data();
        *count = list ? list->size() : 0;
        return Status();
      },
      node, attribute, values, count);
}

LaminaStatus* GetAttributeFloats(const LaminaNode* node, const char* attribute, const float** values,
                                 size_t* count) noexcept {
  static constexpr float kNoFloat = 0;
  return Answer(
      "Node_GetAttributeFloats",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const auto* list,
                                ValueOf<std::vector<float>>(*node, attribute, "list of floats"));
        *values = !list ? nullptr : list->empty() ? &kNoFloat : list->data();
        *count = list ? list->size() : 0;
        return Status();
      },
      node, attribute, values, count);
}

LaminaStatus* GetAttributeStrings(const LaminaNode* node, const char* attribute, const char* const** values,
                                  size_t* count) noexcept {
  return Answer(
      "Node_GetAttributeStrings",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const auto* list,
                                ValueOf<std::vector<std::string>>(*node, attribute, "list of strings"));
        *values = nullptr;
        *count = 0;
        if (!list) return Status();
        const std::lock_guard lock(node->mutex);
        std::vector<const char*>& texts = node->text_lists.emplace_back();
        for (const std::string& text : *list) texts.push_back(text.c_str());
        texts.push_back(nullptr);
        *values = texts.data();
        *count = list->size();
        return Status();
      },
      node, attribute, values, count);
}

// Keeps `tensor` with the node.
Result<const LaminaTensor*> Keep(const LaminaNode& node, Tensor tensor) {
  const std::lock_guard lock(node.mutex);
  const Tensor& kept = node.tensors.emplace_back(std::move(tensor));
  LAMINA_ASSIGN_OR_RETURN(const LaminaTensor view, DescribeTensor(kept, node.devices));
  return &node.tensor_views.emplace_back(view);
}

LaminaStatus* GetAttributeTensor(const LaminaNode* node, const char* attribute,
                                 const LaminaTensor** tensor) noexcept {
  return Answer(
      "Node_GetAttributeTensor",
      [&]() -> Status {
        *tensor = nullptr;
        LAMINA_ASSIGN_OR_RETURN(const auto* initializer,
                                ValueOf<std::shared_ptr<const Initializer>>(*node, attribute, "tensor"));
        if (!initializer || !*initializer) return Status();
        std::optional<Tensor> value = (*initializer)->InMemory();
        if (!value) return Status();
        if (value->type() == DataType::kString) {
          return UnsupportedError("node '{}': attribute '{}' is a tensor of strings", node->name, attribute);
        }
        LAMINA_ASSIGN_OR_RETURN(*tensor, Keep(*node, *std::move(value)));
        return Status();
      },
      node, attribute, tensor);
}

LaminaStatus* IsConstantInput(const LaminaNode* node, size_t index, bool* is_constant) noexcept {
  return Answer(
      "Node_IsConstantInput",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(Find(*node, node->inputs, "input", index).status());
        *is_constant = node->info.is_constant_input(static_cast<int>(index));
        return Status();
      },
      node, is_constant);
}

LaminaStatus* GetConstantInput(const LaminaNode* node, size_t index, const LaminaTensor** tensor) noexcept {
  return Answer(
      "Node_GetConstantInput",
      [&]() -> Status {
        *tensor = nullptr;
        LAMINA_RETURN_IF_ERROR(Find(*node, node->inputs, "input", index).status());
        const Tensor* constant = node->info.constant_input(static_cast<int>(index));
        if (!constant || constant->type() == DataType::kString) return Status();
        LAMINA_ASSIGN_OR_RETURN(*tensor, Keep(*node, *constant));
        return Status();
      },
      node, tensor);
}

LaminaStatus* GetDevice(const LaminaNode* node, int32_t* device) noexcept {
  return Answer(
      "Node_GetDevice",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(*device, node->devices.IndexOf(node->info.device().device));
        return Status();
      },
      node, device);
}

}  // namespace

Result<LaminaTensor> DescribeTensor(const Tensor& tensor, const DeviceMap& devices) {
  LaminaTensor view{};
  view.lamina_version = LAMINA_EP_API_VERSION;
  view.type = static_cast<LaminaDataType>(tensor.type());
  LAMINA_ASSIGN_OR_RETURN(view.device, devices.IndexOf(tensor.device()));
  view.data = const_cast<void*>(tensor.raw_data());
  view.size_bytes = tensor.size_bytes();
  view.capacity_bytes = tensor.capacity_bytes();
  view.shape = tensor.shape().begin();
  view.rank = static_cast<size_t>(tensor.shape().rank());
  return view;
}

void FillNodeApi(LaminaEpApi& api) {
  api.Node_GetName = &GetName;
  api.Node_GetOperatorType = &GetOperatorType;
  api.Node_GetDomain = &GetDomain;
  api.Node_GetOpsetVersion = &GetOpsetVersion;
  api.Node_GetNumInputs = &GetNumInputs;
  api.Node_GetNumOutputs = &GetNumOutputs;
  api.Node_GetInputType = &GetInputType;
  api.Node_GetOutputType = &GetOutputType;
  api.Node_GetInputName = &GetInputName;
  api.Node_GetOutputName = &GetOutputName;
  api.Node_GetInputShape = &GetInputShape;
  api.Node_GetOutputShape = &GetOutputShape;
  api.Node_GetInputShapeBounds = &GetInputShapeBounds;
  api.Node_GetOutputShapeBounds = &GetOutputShapeBounds;
  api.Node_GetAttributeType = &GetAttributeType;
  api.Node_GetAttributeInt = &GetAttributeInt;
  api.Node_GetAttributeFloat = &GetAttributeFloat;
  api.Node_GetAttributeString = &GetAttributeString;
  api.Node_GetAttributeInts = &GetAttributeInts;
  api.Node_GetAttributeFloats = &GetAttributeFloats;
  api.Node_GetAttributeStrings = &GetAttributeStrings;
  api.Node_GetAttributeTensor = &GetAttributeTensor;
  api.Node_IsConstantInput = &IsConstantInput;
  api.Node_GetConstantInput = &GetConstantInput;
  api.Node_GetDevice = &GetDevice;
}

}  // namespace lamina::plugin

namespace {

void ReadEdges(LaminaNode& node) {
  using lamina::plugin::MakeEdge;
  for (int i = 0; i < node.info.num_inputs(); ++i) {
    node.inputs.push_back(MakeEdge(node.info.input_type(i), node.info.input_bounds(i)));
  }
  for (int i = 0; i < node.info.num_outputs(); ++i) {
    node.outputs.push_back(MakeEdge(node.info.output_type(i), node.info.output_bounds(i)));
  }
}

void ReadNames(std::vector<LaminaNode::Edge>& edges, const lamina::Graph& graph,
               const std::vector<lamina::ValueId>& values) {
  for (size_t i = 0; i < edges.size() && i < values.size(); ++i) {
    if (values[i].valid()) edges[i].name = graph.value(values[i]).name.str();
  }
}

}  // namespace

LaminaNode::LaminaNode(const lamina::NodeInfo& node_info, const lamina::plugin::DeviceMap& device_map,
                       const lamina::Graph* graph, lamina::NodeId node_id)
    : info(node_info),
      devices(device_map),
      id(node_id),
      name(node_info.name()),
      op_type(node_info.op_type()),
      domain(node_info.domain()) {
  ReadEdges(*this);
  if (!graph) return;
  ReadNames(inputs, *graph, graph->node(id).inputs);
  ReadNames(outputs, *graph, graph->node(id).outputs);
}
