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

// A sparse tensor constant: `values` [nnz], `indices` [nnz] or [nnz, rank], dense shape.
struct SparseTensor {
  Initializer values;
  Initializer indices;
  Shape shape;
};

using AttributeValue =
    std::variant<std::monostate, float, int64_t, std::string, std::shared_ptr<const Initializer>,
                 std::shared_ptr<Graph>, std::shared_ptr<const SparseTensor>, TypeAndShape,
                 std::vector<float>, std::vector<int64_t>, std::vector<std::string>,
                 std::vector<std::shared_ptr<const Initializer>>, std::vector<std::shared_ptr<Graph>>,
                 std::vector<TypeAndShape>>;

struct Attribute {
  Name name;
  AttributeValue value;
  // In the body of a local function: the attribute of the calling node it takes its value from.
  Name ref_name;
};

}  // namespace lamina
