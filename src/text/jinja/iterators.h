// Iterators over values, and the variable `loop`.
#pragma once

#include <vector>

#include "text/jinja/operators.h"

namespace lamina::jinja {

// Calls `visit(item)` for each item of an iterable until the rendering fails.
template <typename Visit>
void ForEach(Runtime& runtime, const Value& iterable, Visit visit) {
  const Value iterator = Iterate(runtime, iterable);
  Value item;
  while (!runtime.failed() && iterator.iterator().Next(runtime, &item)) visit(item);
}

// `loop.cycle` and `loop.changed`; missing for other names.
Value MakeLoopMethod(Runtime& runtime, const Value& loop, std::string_view name);

}  // namespace lamina::jinja
