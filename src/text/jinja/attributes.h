// Attributes, subscripts and methods: `x.name`, `x[key]`, `x[a:b:c]`, `x.method(...)`.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// `x.name`: an attribute or method, else the item with that key, else undefined.
Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name);
// As GetAttribute without the fall back to items; missing where there is no such attribute.
Value FindAttribute(Runtime& runtime, const Value& object, std::string_view name);
// `x[key]`: an item, else the attribute of that name, else undefined.
Value GetItem(Runtime& runtime, const Value& object, const Value& key);
// `x[start:stop:step]`; missing parts are absent.
Value GetSlice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
               const Value& step);

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);
// A method of a value of this kind; null where it has none of that name that a template may call.
Method FindMethod(const Value& object, std::string_view name);

// Calls a value.
Value Call(Runtime& runtime, const Value& callee, Arguments arguments);

// --- Tables of methods, by the file that implements them.
struct MethodEntry {
  std::string_view name;
  Method method;
};
Method FindStringMethod(std::string_view name);
Method FindContainerMethod(Kind kind, std::string_view name);

}  // namespace lamina::jinja
