// Matches the arguments of a call to the parameters of a filter, test, method or global function.
#pragma once

#include <array>
#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// Values in the order of `names`, missing where not given. Fails on unknown, repeated and surplus arguments
// and where one of the first `required` is absent. `function` is named in the error.
template <size_t N>
std::array<Value, N> BindArguments(Runtime& runtime, std::string_view function, const Arguments& arguments,
                                   const std::array<std::string_view, N>& names, size_t required) {
  std::array<Value, N> bound;
  if (arguments.positional.size() > N) {
    runtime.Fail("{}() takes at most {} arguments ({} given)", function, N, arguments.positional.size());
    return bound;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t index = 0;
    while (index < N && names[index] != name) ++index;
    if (index == N) {
      runtime.Fail("{}() got an unexpected keyword argument '{}'", function, name);
      return bound;
    }
    if (!bound[index].missing()) {
      runtime.Fail("{}() got multiple values for argument '{}'", function, name);
      return bound;
    }
    bound[index] = value;
  }
  for (size_t i = 0; i < required && i < N; ++i) {
    if (bound[i].missing()) {
      runtime.Fail("{}() missing required argument: '{}'", function, names[i]);
      return bound;
    }
  }
  return bound;
}

// For functions that take no keyword arguments (most methods of str).
inline bool CheckPositional(Runtime& runtime, std::string_view function, const Arguments& arguments,
                            size_t at_least, size_t at_most) {
  if (!arguments.named.empty()) {
    runtime.Fail("{}() takes no keyword arguments", function);
  } else if (arguments.positional.size() < at_least || arguments.positional.size() > at_most) {
    runtime.Fail("{}() takes {} to {} arguments ({} given)", function, at_least, at_most,
                 arguments.positional.size());
  }
  return !runtime.failed();
}

}  // namespace lamina::jinja
