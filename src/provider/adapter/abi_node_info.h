// NodeInfo over the C interface: what the host's Node_* functions tell, as kernels written in C++ ask for it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/lamina_ep.h"
#include "provider/adapter/abi_status.h"
#include "provider/node_info.h"

namespace lamina::adapter {

inline Tensor ViewOf(const LaminaTensor& tensor) {
  return Tensor::View(static_cast<DataType>(tensor.type), Shape({tensor.shape, tensor.rank}), tensor.data,
                      tensor.capacity_bytes);
}

// Valid as long as the node: until the callback returns. Used by one thread.
class AbiNodeInfo : public NodeInfo {
 public:
  // `devices`: those of the provider, by index. Attributes that are graphs do not exist here.
  static Result<std::unique_ptr<AbiNodeInfo>> Make(const LaminaEpApi& api, const LaminaNode& node,
                                                   std::span<const DeviceDescription> devices) {
    std::unique_ptr<AbiNodeInfo> info(new AbiNodeInfo(api, node));
    LAMINA_RETURN_IF_ERROR(info->Read(devices));
    return info;
  }

  std::string_view name() const override { return name_; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return domain_; }
  int opset_version() const override { return opset_version_; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  ValueType input_type(int index) const override { return TypeOf(inputs_, index); }
  ValueType output_type(int index) const override { return TypeOf(outputs_, index); }
  const ShapeBounds* input_bounds(int index) const override { return BoundsOf(inputs_, index); }
  const ShapeBounds* output_bounds(int index) const override { return BoundsOf(outputs_, index); }
  const Tensor* constant_input(int index) const override {
    const Edge* edge = Find(inputs_, index);
    return edge && edge->constant ? &*edge->constant : nullptr;
  }
  bool is_constant_input(int index) const override {
    const Edge* edge = Find(inputs_, index);
    return edge && edge->is_constant;
  }
  const Attribute* FindAttribute(std::string_view attribute) const override {
    const auto known = attributes_.find(attribute);
    if (known != attributes_.end()) return known->second.get();
    std::unique_ptr<Attribute> read = ReadAttribute(std::string(attribute));
    return attributes_.emplace(std::string(attribute), std::move(read)).first->second.get();
  }
  const DeviceDescription& device() const override { return device_; }

 private:
  struct Edge {
    LaminaDataType type = LAMINA_TYPE_UNDEFINED;
    std::optional<ShapeBounds> bounds;
    bool is_constant = false;
    std::optional<Tensor> constant;
  };

  AbiNodeInfo(const LaminaEpApi& api, const LaminaNode& node) : api_(api), node_(node) {}

  static const Edge* Find(const std::vector<Edge>& edges, int index) {
    return index >= 0 && index < static_cast<int>(edges.size()) ? &edges[static_cast<size_t>(index)]
                                                                : nullptr;
  }
  static ValueType TypeOf(const std::vector<Edge>& edges, int index) {
    const Edge* edge = Find(edges, index);
    if (!edge || edge->type == LAMINA_TYPE_UNDEFINED) return {};
    return ValueType::Tensor(static_cast<DataType>(edge->type));
  }
  static const ShapeBounds* BoundsOf(const std::vector<Edge>& edges, int index) {
    const Edge* edge = Find(edges, index);
    return edge && edge->bounds ? &*edge->bounds : nullptr;
  }

  Status Check(LaminaStatus* status) const { return FromAbi(api_, status); }

  static Result<std::optional<ShapeBounds>> MakeBounds(const int64_t* min, const int64_t* max, size_t rank) {
    if (!min) return std::optional<ShapeBounds>();
    ShapeBounds bounds;
    if (rank > static_cast<size_t>(Shape::kMaxRank)) return InternalError("a shape of {} dimensions", rank);
    for (size_t axis = 0; axis < rank; ++axis) bounds.Append({min[axis], max[axis]});
    return std::optional<ShapeBounds>(bounds);
  }

  Status Read(std::span<const DeviceDescription> devices) {
    const char* text = nullptr;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetName(&node_, &text)));
    name_ = text;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetOperatorType(&node_, &text)));
    op_type_ = text;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetDomain(&node_, &text)));
    domain_ = text;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetOpsetVersion(&node_, &opset_version_)));
    int32_t device = 0;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetDevice(&node_, &device)));
    if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
      return InternalError("node '{}' is planned for device {}, the provider has {}", name_, device,
                           devices.size());
    }
    device_ = devices[static_cast<size_t>(device)];
    size_t count = 0;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetNumInputs(&node_, &count)));
    inputs_.resize(count);
    for (size_t i = 0; i < count; ++i) LAMINA_RETURN_IF_ERROR(ReadInput(i, inputs_[i]));
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetNumOutputs(&node_, &count)));
    outputs_.resize(count);
    for (size_t i = 0; i < count; ++i) LAMINA_RETURN_IF_ERROR(ReadOutput(i, outputs_[i]));
    return Status();
  }

  Status ReadInput(size_t index, Edge& edge) {
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetInputType(&node_, index, &edge.type)));
    const int64_t* min = nullptr;
    const int64_t* max = nullptr;
    size_t rank = 0;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetInputShapeBounds(&node_, index, &min, &max, &rank)));
    LAMINA_ASSIGN_OR_RETURN(edge.bounds, MakeBounds(min, max, rank));
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_IsConstantInput(&node_, index, &edge.is_constant)));
    const LaminaTensor* constant = nullptr;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetConstantInput(&node_, index, &constant)));
    if (constant) edge.constant = ViewOf(*constant);
    return Status();
  }

  Status ReadOutput(size_t index, Edge& edge) {
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetOutputType(&node_, index, &edge.type)));
    const int64_t* min = nullptr;
    const int64_t* max = nullptr;
    size_t rank = 0;
    LAMINA_RETURN_IF_ERROR(Check(api_.Node_GetOutputShapeBounds(&node_, index, &min, &max, &rank)));
    LAMINA_ASSIGN_OR_RETURN(edge.bounds, MakeBounds(min, max, rank));
    return Status();
  }

  // Null where the attribute is absent or of a type that does not cross the interface. The type is asked for
  // first, so that the queries of values cannot fail.
  std::unique_ptr<Attribute> ReadAttribute(const std::string& attribute) const {
    LaminaAttributeType type = LAMINA_ATTRIBUTE_UNDEFINED;
    const char* key = attribute.c_str();
    if (!Check(api_.Node_GetAttributeType(&node_, key, &type)).ok()) return nullptr;
    AttributeValue value;
    size_t count = 0;
    switch (type) {
      case LAMINA_ATTRIBUTE_INT: {
        const int64_t* number = nullptr;
        if (!Check(api_.Node_GetAttributeInt(&node_, key, &number)).ok() || !number) return nullptr;
        value = *number;
        break;
      }
      case LAMINA_ATTRIBUTE_FLOAT: {
        const float* number = nullptr;
        if (!Check(api_.Node_GetAttributeFloat(&node_, key, &number)).ok() || !number) return nullptr;
        value = *number;
        break;
      }
      case LAMINA_ATTRIBUTE_STRING: {
        const char* text = nullptr;
        if (!Check(api_.Node_GetAttributeString(&node_, key, &text, &count)).ok() || !text) return nullptr;
        value = std::string(text, count);
        break;
      }
      case LAMINA_ATTRIBUTE_INTS: {
        const int64_t* numbers = nullptr;
        if (!Check(api_.Node_GetAttributeInts(&node_, key, &numbers, &count)).ok()) return nullptr;
        value = std::vector<int64_t>(numbers, numbers + count);
        break;
      }
      case LAMINA_ATTRIBUTE_FLOATS: {
        const float* numbers = nullptr;
        if (!Check(api_.Node_GetAttributeFloats(&node_, key, &numbers, &count)).ok()) return nullptr;
        value = std::vector<float>(numbers, numbers + count);
        break;
      }
      case LAMINA_ATTRIBUTE_STRINGS: {
        const char* const* texts = nullptr;
        if (!Check(api_.Node_GetAttributeStrings(&node_, key, &texts, &count)).ok()) return nullptr;
        value = std::vector<std::string>(texts, texts + count);
        break;
      }
      case LAMINA_ATTRIBUTE_TENSOR: {
        const LaminaTensor* tensor = nullptr;
        if (!Check(api_.Node_GetAttributeTensor(&node_, key, &tensor)).ok() || !tensor) return nullptr;
        auto initializer = std::make_shared<Initializer>();
        initializer->type = static_cast<DataType>(tensor->type);
        initializer->shape = Shape({tensor->shape, tensor->rank});
        // A kernel may keep the attribute beyond the callback: it gets a copy.
        Result<Tensor> copy = ViewOf(*tensor).Clone();
        if (!copy.ok()) return nullptr;
        initializer->source = *std::move(copy);
        value = std::shared_ptr<const Initializer>(std::move(initializer));
        break;
      }
      default:
        return nullptr;
    }
    auto read = std::make_unique<Attribute>();
    read->name = names_.Intern(attribute);
    read->value = std::move(value);
    return read;
  }

  const LaminaEpApi& api_;
  const LaminaNode& node_;
  std::string name_;
  std::string op_type_;
  std::string domain_;
  int32_t opset_version_ = 0;
  DeviceDescription device_;
  std::vector<Edge> inputs_;
  std::vector<Edge> outputs_;
  mutable NamePool names_;
  mutable std::map<std::string, std::unique_ptr<Attribute>, std::less<>> attributes_;  // as asked for
};

}  // namespace lamina::adapter
