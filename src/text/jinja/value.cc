#include "text/jinja/value.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {
// Dicts up to this size are searched from front to back.
constexpr size_t kLinearEntries = 8;
// Starts the encoding of every key that is not a string: no byte of UTF-8 text.
constexpr char kNotText = '\xff';

void AppendRaw(const void* data, size_t size, std::string* out) {
  out->append(static_cast<const char*>(data), size);
}
}  // namespace

String::String(Budget* budget, std::string bytes, bool is_markup)
    : Object(budget, sizeof(*this) + bytes.size()),
      text(std::move(bytes)),
      length(CountCodePoints(text)),
      markup(is_markup) {}

bool EncodeKey(const Value& key, std::string* encoded) {
  switch (key.kind()) {
    case Kind::kString:
      *encoded += key.text();
      return true;
    case Kind::kNone:
      *encoded += {kNotText, 'n'};
      return true;
    case Kind::kBool:
    case Kind::kInt: {
      *encoded += {kNotText, 'i'};
      const Int value = key.integer();
      AppendRaw(&value, sizeof(value), encoded);
      return true;
    }
    case Kind::kFloat: {
      const double value = key.real();
      if (value == std::floor(value) && std::fabs(value) < 0x1p126) {
        return EncodeKey(Value::Integer(static_cast<Int>(value)), encoded);
      }
      *encoded += {kNotText, 'f'};
      AppendRaw(&value, sizeof(value), encoded);
      return true;
    }
    case Kind::kTuple: {
      *encoded += {kNotText, 't'};
      // Tuples that share parts can describe far more text than they hold.
      constexpr size_t kMaxEncodedBytes = size_t{1} << 20;
      for (const Value& item : key.items()) {
        std::string part;
        if (!EncodeKey(item, &part) || encoded->size() + part.size() > kMaxEncodedBytes) return false;
        const size_t size = part.size();
        AppendRaw(&size, sizeof(size), encoded);
        *encoded += part;
      }
      return true;
    }
    case Kind::kUndefined:
      *encoded += {kNotText, 'u'};
      return true;
    case Kind::kRange: {
      // Ranges are equal where they give the same numbers.
      const Range& range = key.range();
      const Int length = range.length();
      const Int numbers[] = {length, length > 0 ? range.start : 0, length > 1 ? range.step : 0};
      *encoded += {kNotText, 'r'};
      AppendRaw(numbers, sizeof(numbers), encoded);
      return true;
    }
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kCallable:
    case Kind::kLoop: {
      const Object* identity = key.object().get();
      *encoded += {kNotText, 'o'};
      AppendRaw(&identity, sizeof(identity), encoded);
      return true;
    }
    case Kind::kMissing:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      return false;
  }
  return false;
}

std::string_view Dict::KeyOf(const Entry& entry) const {
  return entry.key.is_string() ? std::string_view(entry.key.text()) : std::string_view(entry.encoded);
}

ptrdiff_t Dict::IndexOf(std::string_view encoded) const {
  if (entries.size() > kLinearEntries) {
    const auto found = index_.find(encoded);
    return found == index_.end() ? -1 : static_cast<ptrdiff_t>(found->second);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (KeyOf(entries[i]) == encoded) return static_cast<ptrdiff_t>(i);
  }
  return -1;
}

const Value* Dict::Find(std::string_view encoded) const {
  const ptrdiff_t index = IndexOf(encoded);
  return index < 0 ? nullptr : &entries[static_cast<size_t>(index)].value;
}

void Dict::Set(Value key, std::string encoded, Value value) {
  const ptrdiff_t index = IndexOf(encoded);
  if (index >= 0) {
    entries[static_cast<size_t>(index)].value = std::move(value);
    return;
  }
  AddBytes(2 * sizeof(Entry) + encoded.size());
  if (key.is_string()) encoded.clear();
  entries.push_back({std::move(key), std::move(value), std::move(encoded)});
  if (entries.size() == kLinearEntries + 1) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(KeyOf(entries[i]), i);
  } else if (entries.size() > kLinearEntries) {
    index_.emplace(KeyOf(entries.back()), entries.size() - 1);
  }
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value Callable::Attribute(Runtime& runtime, std::string_view name) const {
  static_cast<void>(runtime);
  static_cast<void>(name);
  return Value();
}

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.string().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      switch (value.dict_view().part) {
        case DictView::Part::kKeys:
          return "dict_keys";
        case DictView::Part::kValues:
          return "dict_values";
        case DictView::Part::kItems:
          return "dict_items";
      }
      return "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.iterator().type_name;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return value.callable().type_name;
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

int NestingOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<const List&>(*value.object()).depth;
    case Kind::kDict:
      return value.dict().depth;
    case Kind::kDictView:
      return NestingOf(value.dict_view().source) + 1;
    case Kind::kIterator:
      return value.iterator().depth;
    case Kind::kCallable:
      return value.callable().depth;
    default:
      return 0;
  }
}

}  // namespace lamina::jinja
