// Computes single nodes for constant folding, with the kernels of the environment.
#pragma once

#include <memory>
#include <vector>

#include "lamina/session.h"
#include "rewrite/graph_editor.h"

namespace lamina {

class SessionConstantEvaluator : public ConstantEvaluator {
 public:
  explicit SessionConstantEvaluator(std::shared_ptr<Env> env) : env_(std::move(env)) {}
  Result<std::vector<Tensor>> Evaluate(const Graph& graph, const Node& node,
                                       std::span<const Tensor* const> inputs) override;

 private:
  std::shared_ptr<Env> env_;
};

}  // namespace lamina
