#include "model/function_calls.h"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace lamina {
namespace {

// Appends the functions called in `graph` and its subgraphs.
void CollectCalls(const Graph& graph, const FunctionIndex& index, std::vector<const LocalFunction*>& calls) {
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    if (const LocalFunction* called = index.CalledBy(node)) calls.push_back(called);
    for (const Graph* subgraph : node.Subgraphs()) CollectCalls(*subgraph, index, calls);
  }
}

}  // namespace

Result<FunctionIndex> FunctionIndex::Create(const Model& model) {
  FunctionIndex index;
  for (const LocalFunction& function : model.functions) {
    const Key key{function.domain, function.name, function.overload};
    if (!index.functions_.emplace(key, &function).second) {
      return InvalidModelError("local function '{}' is defined more than once", FunctionName(function));
    }
  }
  return index;
}

const LocalFunction* FunctionIndex::CalledBy(const Node& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(Key{node.domain, node.op_type, node.overload});
  return found != functions_.end() ? found->second : nullptr;
}

std::string FunctionName(const LocalFunction& function) {
  return fmt::format("{}::{}{}{}", function.domain, function.name, function.overload.empty() ? "" : ":",
                     function.overload);
}

Status CheckFunctionCalls(const Model& model) {
  LAMINA_ASSIGN_OR_RETURN(const FunctionIndex index, FunctionIndex::Create(model));

  // Depth-first along calls, without recursion: a chain may be as long as the file allows.
  enum class State { kOpen, kDone };
  struct Frame {
    const LocalFunction* function;
    std::vector<const LocalFunction*> calls;
    size_t next = 0;
  };
  std::unordered_map<const LocalFunction*, State> states;
  std::vector<Frame> stack;
  const auto open = [&](const LocalFunction* function) {
    states[function] = State::kOpen;
    stack.push_back({function, {}});
    CollectCalls(*function->body, index, stack.back().calls);
  };
  for (const LocalFunction& function : model.functions) {
    if (!states.contains(&function)) open(&function);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.calls.size()) {
        states[frame.function] = State::kDone;
        stack.pop_back();
        continue;
      }
      const LocalFunction* called = frame.calls[frame.next++];
      const auto state = states.find(called);
      if (state == states.end()) {
        open(called);
      } else if (state->second == State::kOpen) {
        return InvalidModelError("local function '{}' calls itself, by way of '{}'", FunctionName(*called),
                                 FunctionName(*frame.function));
      }
    }
  }
  return {};
}

}  // namespace lamina
