// The constants of a model as far as planning looks at them: small ones, where their bytes are at hand.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "provider/graph_node_info.h"

namespace lamina {

// Reads a constant when it is asked for first. Not thread-safe. Graph and reader's sources must outlive it.
class PlanningConstants : public ConstantValues {
 public:
  // Gives a constant of external data. An error means that its bytes are not known: a plan needs no weights.
  using Reader = std::function<Result<Tensor>(const Initializer&)>;
  // At most kMaxInferenceConstantBytes of a constant are looked at; `read_external` may be null.
  PlanningConstants(const Graph& graph, Reader read_external);

  const Value* Find(const Graph& graph, ValueId id) const override;

 private:
  struct Constant {
    bool was_read = false;
    Value value;  // undefined where it is not known
  };
  void Add(const Graph& graph);
  Value Read(const Initializer& initializer) const;

  Reader read_external_;
  mutable std::unordered_map<const Graph*, std::vector<Constant>> constants_;  // by initializer
};

}  // namespace lamina
