// Attributes of nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/dim_expr.h"
#include "model/initializer.h"
#include "model/name.h"

namespace lamina {

class Graph;

// A declared type with a shape, as graph inputs, outputs and TypeProto attributes have.
struct TypeAndShape {
  ValueType type;
  std::optional<SymbolicShape> shape;  // of the tensor, or of the tensors in the container
};

// Kinds of attribute values with the numbers of ONNX AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

// monostate: the value comes from the calling node (ref_name).
using AttributeValue =
    std::variant<std::monostate, float, int64_t, std::string, std::shared_ptr<const Initializer>,
                 std::shared_ptr<Graph>, std::shared_ptr<const SparseTensor>, TypeAndShape,
                 std::vector<float>, std::vector<int64_t>, std::vector<std::string>,
                 std::vector<std::shared_ptr<const Initializer>>, std::vector<std::shared_ptr<Graph>>,
                 std::vector<std::shared_ptr<const SparseTensor>>, std::vector<TypeAndShape>>;

struct Attribute {
  Name name;
  AttributeValue value;
  // In the body of a local function: the attribute of the calling node it takes its value from, and the type
  // that value must have.
  Name ref_name;
  AttributeType ref_type = AttributeType::kUndefined;

  // The type of `value`, or ref_type.
  AttributeType type() const;
};

}  // namespace lamina
