// The text of docs/operators.md, from the registries of the providers.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lamina::testing {

// Operators that no kernel implements, "domain.Name" (without the domain for ai.onnx) -> reason.
const std::map<std::string, std::string>& MissingOperators();

// Operators of com.microsoft that no kernel implements, a family a line.
struct MissingContribOperators {
  std::vector<std::string> names;
  std::string reason;
};
const std::vector<MissingContribOperators>& MissingContrib();

// Every operator of ai.onnx up to the newest opset known here.
const std::map<std::string, int>& OnnxOperators();  // name -> version it appeared in

std::string OperatorsDocument();

}  // namespace lamina::testing
