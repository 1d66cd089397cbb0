// Which local function a node calls.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// The local functions of a model by domain, name and overload. The model must outlive the index and its
// vector of functions must not change.
class FunctionIndex {
 public:
  // INVALID_MODEL where two functions have the same key.
  static Result<FunctionIndex> Create(const Model& model);
  // The function that `node` calls, or null for an operator.
  const LocalFunction* CalledBy(const Node& node) const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Key, const LocalFunction*> functions_;
};

// "domain::name", and ":overload" where it has one.
std::string FunctionName(const LocalFunction& function);

// INVALID_MODEL where a function is defined twice, or calls itself, directly or through others.
Status CheckFunctionCalls(const Model& model);

}  // namespace lamina
