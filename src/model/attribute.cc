#include "model/attribute.h"

#include "model/graph.h"

namespace lamina {

AttributeType Attribute::type() const {
  struct TypeOf {
    AttributeType ref_type;
    AttributeType operator()(std::monostate) const { return ref_type; }
    AttributeType operator()(float) const { return AttributeType::kFloat; }
    AttributeType operator()(int64_t) const { return AttributeType::kInt; }
    AttributeType operator()(const std::string&) const { return AttributeType::kString; }
    AttributeType operator()(const std::shared_ptr<const Initializer>&) const {
      return AttributeType::kTensor;
    }
    AttributeType operator()(const std::shared_ptr<Graph>&) const { return AttributeType::kGraph; }
    AttributeType operator()(const std::shared_ptr<const SparseTensor>&) const {
      return AttributeType::kSparseTensor;
    }
    AttributeType operator()(const TypeAndShape&) const { return AttributeType::kTypeProto; }
    AttributeType operator()(const std::vector<float>&) const { return AttributeType::kFloats; }
    AttributeType operator()(const std::vector<int64_t>&) const { return AttributeType::kInts; }
    AttributeType operator()(const std::vector<std::string>&) const { return AttributeType::kStrings; }
    AttributeType operator()(const std::vector<std::shared_ptr<const Initializer>>&) const {
      return AttributeType::kTensors;
    }
    AttributeType operator()(const std::vector<std::shared_ptr<Graph>>&) const {
      return AttributeType::kGraphs;
    }
    AttributeType operator()(const std::vector<std::shared_ptr<const SparseTensor>>&) const {
      return AttributeType::kSparseTensors;
    }
    AttributeType operator()(const std::vector<TypeAndShape>&) const { return AttributeType::kTypeProtos; }
  };
  return std::visit(TypeOf{ref_type}, value);
}

}  // namespace lamina
