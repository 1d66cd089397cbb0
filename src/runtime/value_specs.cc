#include "runtime/value_specs.h"

namespace lamina {

ValueSpec SpecOf(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  ValueSpec spec;
  spec.name = value.name.str();
  spec.type = value.type;
  spec.has_shape = value.shape.has_value();
  spec.optional = value.initializer.valid();
  if (value.shape) {
    for (const DimExpr& dim : value.shape->dims) {
      spec.dims.push_back(dim.constant().value_or(-1));
      spec.dim_names.push_back(dim.is_constant() ? "" : dim.ToString());
    }
  }
  return spec;
}

bool FitsSpec(const ValueSpec& spec, const Shape& shape) {
  if (!spec.has_shape) return true;
  if (shape.rank() != static_cast<int>(spec.dims.size())) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t dim = spec.dims[static_cast<size_t>(axis)];
    if (dim >= 0 && dim != shape[axis]) return false;
  }
  return true;
}

std::string SpecText(const ValueSpec& spec) {
  std::string text = spec.type.ToString();
  if (!spec.has_shape) return text;
  text += "[";
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (i > 0) text += ",";
    text += spec.dims[i] >= 0 ? std::to_string(spec.dims[i])
                              : (spec.dim_names[i].empty() ? "?" : spec.dim_names[i]);
  }
  return text + "]";
}

}  // namespace lamina
