// The constants of a model as host tensors: views of the mapped files wherever that is possible.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/model.h"
#include "provider/graph_node_info.h"

namespace lamina {

// Made once at load; immutable after that, so safe to read from several threads. The model must outlive it.
class ConstantTable : public ConstantValues {
 public:
  // Gives the tensor of an initializer (ExternalData::Map).
  using Reader = std::function<Result<Tensor>(const Initializer&)>;

  // The constants of `graph` and its subgraphs. Errors: those of `read`.
  static Result<ConstantTable> Build(const Graph& graph, const Reader& read);

  // Reads what was added to `graph` since, leaving its subgraphs as they are. Errors: those of `read`.
  Status AddMissing(const Graph& graph, const Reader& read);

  // The constant of the value (of `graph`, or captured from a graph around it), or null where it is none;
  // undefined for one that was added to the graph and not read yet.
  // An initializer that is also a graph input of the main graph is a default, not a constant: null.
  const Value* Find(const Graph& graph, ValueId id) const override;
  // Gives back the memory of a constant of the table that is derived (views of files have none of their own);
  // type and shape stay, the elements are not there any more.
  void Release(const Value* constant);
  // The default of a graph input, or null.
  const Value* FindDefault(const Graph& graph, ValueId id) const;

 private:
  Status Add(const Graph& graph, const Reader& read);

  // Per graph, by initializer id.
  std::unordered_map<const Graph*, std::vector<Value>> tensors_;
};

}  // namespace lamina
