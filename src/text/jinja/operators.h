// Python's operators and protocols on values. All report failures to the runtime and then return a missing
// value, false, or an empty text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace lamina::jinja {

bool Truthy(Runtime& runtime, const Value& value);
// Python's ==.
bool Equal(Runtime& runtime, const Value& left, const Value& right);
// Python's `is`, as far as values have identity.
bool Same(const Value& left, const Value& right);
// Python's <; fails where the types have no order. `symbol` is the operator for the error text.
bool Less(Runtime& runtime, const Value& left, const Value& right, std::string_view symbol = "<");
bool Contains(Runtime& runtime, const Value& container, const Value& item);
bool Compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);

Value Binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Value Negate(Runtime& runtime, const Value& value);
Value Plus(Runtime& runtime, const Value& value);

// len(); nothing where the value has none (not a failure).
std::optional<Int> Length(Runtime& runtime, const Value& value);
// iter(): an Iterator; fails for what cannot be iterated.
Value Iterate(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// list(): all items.
std::vector<Value> Collect(Runtime& runtime, const Value& iterable);
// An iterator over items that are already there.
Value IterateItems(Runtime& runtime, std::vector<Value> items, const char* type_name);

// An argument that must be an int; fails naming `what`.
std::optional<Int> ToIndex(Runtime& runtime, const Value& value, std::string_view what);

}  // namespace lamina::jinja
