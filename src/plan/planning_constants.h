// The constants of a model as far as planning looks at them: small ones, where their bytes are at hand.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "provider/graph_node_info.h"

namespace lamina {

// Immutable after creation. The graph must outlive it.
class PlanningConstants : public ConstantValues {
 public:
  // Gives a constant of external data. An error means that its bytes are not known: a plan needs no weights.
  using Reader = std::function<Result<Tensor>(const Initializer&)>;
  // At most kMaxInferenceConstantBytes of a constant are looked at; `read_external` may be null.
  PlanningConstants(const Graph& graph, const Reader& read_external);

  const Value* Find(const Graph& graph, ValueId id) const override;

 private:
  void Add(const Graph& graph, const Reader& read_external);

  std::unordered_map<const Graph*, std::vector<Value>> values_;  // by initializer; undefined where not known
};

}  // namespace lamina
