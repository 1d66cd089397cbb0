// Methods of dict, list, tuple, range and numbers.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/operators.h"

namespace lamina::jinja {

namespace {

// --- dict

Value DictGet(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "get", args, 1, 2)) return Value();
  const Value& key = args.positional[0];
  std::string encoded;
  const Value* found = nullptr;
  if (key.is_string()) {
    found = self.dict().Find(key.text());
  } else if (EncodeKey(key, &encoded)) {
    found = self.dict().Find(encoded);
  } else {
    return runtime.Fail("unhashable type: '{}'", TypeName(key));
  }
  if (found != nullptr) return *found;
  return args.positional.size() > 1 ? args.positional[1] : Value::None();
}

template <DictView::Part kPart>
Value DictPart(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "dict method", args, 0, 0)) return Value();
  runtime.NestOver(NestingOf(self));
  return Value(Kind::kDictView, runtime.New<DictView>(self, kPart));
}

Value DictCopy(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "copy", args, 0, 0)) return Value();
  auto copy = runtime.NewDict();
  for (const Dict::Entry& entry : self.dict().entries) {
    if (!runtime.AddToDict(*copy, entry.key, entry.value)) return Value();
  }
  return Runtime::FromDict(std::move(copy));
}

Value DictFromKeys(Runtime& runtime, const Value& self, const Arguments& args) {
  static_cast<void>(self);
  if (!CheckPositional(runtime, "fromkeys", args, 1, 2)) return Value();
  auto dict = runtime.NewDict();
  const Value value = args.positional.size() > 1 ? args.positional[1] : Value::None();
  for (const Value& key : Collect(runtime, args.positional[0])) {
    if (!runtime.AddToDict(*dict, key, value)) return Value();
  }
  return runtime.failed() ? Value() : Runtime::FromDict(std::move(dict));
}

// --- list, tuple, range

Value SequenceCount(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "count", args, 1, 1)) return Value();
  Int count = 0;
  for (const Value& item : Collect(runtime, self)) count += Equal(runtime, item, args.positional[0]) ? 1 : 0;
  return Value::Integer(count);
}

Value SequenceIndex(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "index", args, 1, 3)) return Value();
  const std::vector<Value> items = Collect(runtime, self);
  const auto length = static_cast<Int>(items.size());
  std::array<Int, 2> bounds = {0, length};
  for (size_t i = 0; i < 2 && i + 1 < args.positional.size(); ++i) {
    const auto bound = ToIndex(runtime, args.positional[i + 1], "slice index");
    if (!bound) return Value();
    bounds[i] = *bound < 0 ? std::max(Int{0}, *bound + length) : std::min(*bound, length);
  }
  for (Int i = bounds[0]; i < bounds[1] && !runtime.failed(); ++i) {
    if (Equal(runtime, items[static_cast<size_t>(i)], args.positional[0])) return Value::Integer(i);
  }
  return runtime.Fail("the item is not in the {}", TypeName(self));
}

Value ListCopy(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "copy", args, 0, 0)) return Value();
  return runtime.MakeList(self.items());
}

Value ListPop(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "pop", args, 0, 1)) return Value();
  auto& items = static_cast<List&>(*self.object()).items;
  const auto index = args.positional.empty() ? Int{-1} : ToIndex(runtime, args.positional[0], "index");
  if (!index) return Value();
  const auto length = static_cast<Int>(items.size());
  if (length == 0) return runtime.Fail("pop from empty list");
  const Int at = *index < 0 ? *index + length : *index;
  if (at < 0 || at >= length) return runtime.Fail("pop index out of range");
  if (!runtime.ChargeBytes(static_cast<size_t>(length - at) * sizeof(Value))) return Value();
  Value item = items[static_cast<size_t>(at)];
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return item;
}

Value ListClear(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "clear", args, 0, 0)) return Value();
  static_cast<List&>(*self.object()).items.clear();
  return Value::None();
}

// --- numbers

Value BitLength(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "bit_length", args, 0, 0)) return Value();
  const Int value = self.integer();
  auto magnitude = static_cast<unsigned __int128>(value);
  if (value < 0) magnitude = -magnitude;
  Int bits = 0;
  for (; magnitude != 0; magnitude >>= 1) ++bits;
  return Value::Integer(bits);
}

Value IsInteger(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "is_integer", args, 0, 0)) return Value();
  return Value::Bool(std::isfinite(self.real()) && std::floor(self.real()) == self.real());
}

Value Conjugate(Runtime& runtime, const Value& self, const Arguments& args) {
  if (!CheckPositional(runtime, "conjugate", args, 0, 0)) return Value();
  return self.is_integral() ? Value::Integer(self.integer()) : self;
}

constexpr std::array<MethodEntry, 6> kDictMethods = {{
    {"get", DictGet},
    {"items", DictPart<DictView::Part::kItems>},
    {"keys", DictPart<DictView::Part::kKeys>},
    {"values", DictPart<DictView::Part::kValues>},
    {"copy", DictCopy},
    {"fromkeys", DictFromKeys},
}};
constexpr std::array<MethodEntry, 5> kListMethods = {{
    {"count", SequenceCount},
    {"index", SequenceIndex},
    {"copy", ListCopy},
    {"pop", ListPop},
    {"clear", ListClear},
}};
constexpr std::array<MethodEntry, 2> kTupleMethods = {{{"count", SequenceCount}, {"index", SequenceIndex}}};
constexpr std::array<MethodEntry, 2> kIntMethods = {{{"bit_length", BitLength}, {"conjugate", Conjugate}}};
constexpr std::array<MethodEntry, 2> kFloatMethods = {{{"is_integer", IsInteger}, {"conjugate", Conjugate}}};

template <size_t N>
Method Lookup(const std::array<MethodEntry, N>& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const MethodEntry& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : found->method;
}

}  // namespace

Method FindContainerMethod(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kDict:
      return Lookup(kDictMethods, name);
    case Kind::kList:
      return Lookup(kListMethods, name);
    case Kind::kTuple:
    case Kind::kRange:
      return Lookup(kTupleMethods, name);
    case Kind::kBool:
    case Kind::kInt:
      return Lookup(kIntMethods, name);
    case Kind::kFloat:
      return Lookup(kFloatMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace lamina::jinja
