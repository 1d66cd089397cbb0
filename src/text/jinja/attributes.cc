#include "text/jinja/attributes.h"

#include <algorithm>
#include <array>

#include "text/jinja/format.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// A method together with the value it was taken from.
class BoundMethod final : public Callable {
 public:
  BoundMethod(Budget* budget, Value self, std::string name, Method method, int nesting)
      : Callable(budget, "builtin_function_or_method", nesting),
        self_(std::move(self)),
        name_(std::move(name)),
        method_(method) {}

  Value Call(Runtime& runtime, Arguments arguments) const override {
    return method_(runtime, self_, arguments);
  }

  std::string Describe() const override {
    return fmt::format("<built-in method {} of {} object>", name_, TypeName(self_));
  }

 private:
  Value self_;
  std::string name_;
  Method method_;
};

// Methods that would change a value; the sandbox hides them. list.pop and list.clear are not among them, as
// in Jinja2.
bool IsHiddenMethod(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 6> kList = {"append", "reverse", "insert",
                                                            "sort",   "extend",  "remove"};
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault",
                                                            "update"};
  if (object.is(Kind::kList)) return std::find(kList.begin(), kList.end(), name) != kList.end();
  if (object.is(Kind::kDict)) return std::find(kDict.begin(), kDict.end(), name) != kDict.end();
  return false;
}

bool IsDunder(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

Value UnsafeAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.MakeUndefined(
      fmt::format("access to attribute {} of '{}' object is unsafe.", QuoteText(name), TypeName(object)),
      true);
}

// How Jinja2's messages name the owner of an attribute that is not there.
std::string OwnerName(const Value& object) {
  switch (object.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kNamespace:
      return "jinja2.utils.Namespace object";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case Kind::kString:
      return object.string().markup ? "markupsafe.Markup object" : "str object";
    default:
      return TypeName(object) + " object";
  }
}

Value NoAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.MakeUndefined(fmt::format("'{}' has no attribute {}", OwnerName(object), QuoteText(name)));
}

Value NoElement(Runtime& runtime, const Value& object, const Value& key) {
  if (key.is_string()) return NoAttribute(runtime, object, key.text());
  return runtime.MakeUndefined(fmt::format("{} has no element {}", OwnerName(object), Repr(runtime, key)));
}

// Attributes that are not methods; missing where there is none.
Value DataAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kBool:
    case Kind::kInt:
      if (name == "real" || name == "numerator") return Value::Integer(object.integer());
      if (name == "imag") return Value::Integer(0);
      if (name == "denominator") return Value::Integer(1);
      return Value();
    case Kind::kFloat:
      if (name == "real") return object;
      if (name == "imag") return Value::Float(0);
      return Value();
    case Kind::kTuple:
      if (static_cast<const List&>(*object.object()).group_tuple) {
        if (name == "grouper") return object.items()[0];
        if (name == "list") return object.items()[1];
      }
      return Value();
    case Kind::kRange:
      if (name == "start") return Value::Integer(object.range().start);
      if (name == "stop") return Value::Integer(object.range().stop);
      if (name == "step") return Value::Integer(object.range().step);
      return Value();
    case Kind::kNamespace: {
      const Value* found = object.name_space().Find(name);
      return found != nullptr ? *found : Value();
    }
    case Kind::kLoop: {
      const Value method = MakeLoopMethod(runtime, object, name);
      return method.missing() ? object.loop().Attribute(runtime, name) : method;
    }
    case Kind::kCallable:
      return object.callable().Attribute(runtime, name);
    default:
      return Value();
  }
}

// The item of a sequence at an index that may be negative; missing where it is outside.
Value ItemAt(Runtime& runtime, const Value& object, Int index) {
  const std::optional<Int> length = Length(runtime, object);
  if (!length) return Value();
  if (index < 0) index += *length;
  if (index < 0 || index >= *length) return Value();
  const auto at = static_cast<size_t>(index);
  switch (object.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return object.items()[at];
    case Kind::kRange:
      return Value::Integer(object.range().start + index * object.range().step);
    case Kind::kString: {
      const std::string& text = object.text();
      if (!object.string().ascii()) runtime.ChargeBytes(text.size());
      const size_t begin = object.string().ascii() ? at : ByteOffset(text, at);
      size_t end = begin;
      NextCodePoint(text, &end);
      return runtime.MakeStringLike(object, text.substr(begin, end - begin));
    }
    default:
      return Value();
  }
}

// The positions that a slice selects from `length` items: start, start + step, ... before stop, `count` of
// them.
struct SliceRange {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
  Int count = 0;
};

SliceRange ResolveSlice(Int length, std::optional<Int> start, std::optional<Int> stop, Int step) {
  const Int lowest = step < 0 ? -1 : 0;
  const Int highest = step < 0 ? length - 1 : length;
  const auto clamp = [&](Int index) {
    if (index < 0) index = index < -length ? lowest : index + length;
    return std::clamp(index, lowest, highest);
  };
  SliceRange range;
  range.step = step;
  range.start = start ? clamp(*start) : step < 0 ? highest : lowest;
  range.stop = stop ? clamp(*stop) : step < 0 ? lowest : highest;
  if (step < 0 ? range.stop < range.start : range.start < range.stop) {
    const Int distance = step < 0 ? range.start - range.stop : range.stop - range.start;
    // A step beyond the length takes one item; as it may be the lowest integer it is not negated.
    const Int stride = step < 0 ? (step < -length ? length + 1 : -step) : step;
    range.count = (distance - 1) / stride + 1;
  }
  return range;
}

std::string SliceText(const std::string& text, bool ascii, const SliceRange& range) {
  const auto start = static_cast<size_t>(range.start);
  const auto count = static_cast<size_t>(range.count);
  if (count == 0) return {};
  if (range.step == 1) {
    const size_t begin = ascii ? start : ByteOffset(text, start);
    const std::string_view rest = std::string_view(text).substr(begin);
    return std::string(rest.substr(0, ascii ? count : ByteOffset(rest, count)));
  }
  std::vector<std::string_view> characters;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    NextCodePoint(text, &i);
    characters.push_back(std::string_view(text).substr(begin, i - begin));
  }
  std::string out;
  for (Int i = 0; i < range.count; ++i) out += characters[static_cast<size_t>(range.start + i * range.step)];
  return out;
}

}  // namespace

Method FindMethod(const Value& object, std::string_view name) {
  return object.is_string() ? FindStringMethod(name) : FindContainerMethod(object.kind(), name);
}

Value FindAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.missing()) return Value();
  if (object.is_undefined()) return runtime.FailUndefined(object);
  if (IsHiddenMethod(object, name)) return UnsafeAttribute(runtime, object, name);
  if (const Method method = FindMethod(object, name)) {
    const int nesting = runtime.NestOver(NestingOf(object));
    return Value(Kind::kCallable, runtime.New<BoundMethod>(object, std::string(name), method, nesting));
  }
  const Value attribute = DataAttribute(runtime, object, name);
  if (!attribute.missing() && !name.empty() && name[0] == '_') return UnsafeAttribute(runtime, object, name);
  return attribute;
}

Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const Value attribute = FindAttribute(runtime, object, name);
  if (!attribute.missing() || runtime.failed()) return attribute;
  if (object.is(Kind::kDict)) {
    if (const Value* item = object.dict().Find(name)) return *item;
  }
  return IsDunder(name) ? UnsafeAttribute(runtime, object, name) : NoAttribute(runtime, object, name);
}

Value GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.missing() || key.missing()) return Value();
  if (object.is_undefined()) return runtime.FailUndefined(object);
  if (object.is(Kind::kDict)) {
    std::string encoded;
    const Value* item = nullptr;
    if (key.is_string()) {
      item = object.dict().Find(key.text());
    } else if (EncodeKey(key, &encoded)) {
      item = object.dict().Find(encoded);
    }
    if (item != nullptr) return *item;
  } else if (key.is_integral()) {
    const Value item = ItemAt(runtime, object, key.integer());
    if (!item.missing() || runtime.failed()) return item;
  }
  if (key.is_string()) {
    const Value attribute = FindAttribute(runtime, object, key.text());
    if (!attribute.missing() || runtime.failed()) return attribute;
    if (IsDunder(key.text())) return UnsafeAttribute(runtime, object, key.text());
  }
  return NoElement(runtime, object, key);
}

Value GetSlice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  if (runtime.failed()) return Value();
  if (object.is_undefined()) return runtime.FailUndefined(object);
  if (object.is(Kind::kDict)) return runtime.Fail("unhashable type: 'slice'");
  if (!object.is_string() && !object.is_sequence() && !object.is(Kind::kRange)) {
    return runtime.Fail("'{}' object is not subscriptable", TypeName(object));
  }
  std::array<std::optional<Int>, 3> bounds;
  const std::array<const Value*, 3> parts = {&start, &stop, &step};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->missing() || parts[i]->is_none()) continue;
    if (!parts[i]->is_integral()) {
      return runtime.Fail("slice indices must be integers or None or have an __index__ method");
    }
    bounds[i] = parts[i]->integer();
  }
  if (bounds[2] == Int{0}) return runtime.Fail("slice step cannot be zero");
  const Int length = Length(runtime, object).value_or(0);
  const SliceRange range = ResolveSlice(length, bounds[0], bounds[1], bounds[2].value_or(1));
  if (object.is_string()) {
    const std::string& text = object.text();
    if (!runtime.ChargeBytes(text.size())) return Value();
    return runtime.MakeStringLike(object, SliceText(text, object.string().ascii(), range));
  }
  if (object.is(Kind::kRange)) {
    const Range& source = object.range();
    Int stride = 0;
    if (__builtin_mul_overflow(range.step, source.step, &stride)) {
      return runtime.FailUnsupported("an integer exceeds 128 bits");
    }
    return runtime.MakeRange(source.start + range.start * source.step,
                             source.start + range.stop * source.step, stride);
  }
  if (!runtime.Reserve(static_cast<size_t>(range.count) * sizeof(Value))) return Value();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(range.count));
  for (Int i = 0; i < range.count; ++i) {
    items.push_back(object.items()[static_cast<size_t>(range.start + i * range.step)]);
  }
  return object.is(Kind::kList) ? runtime.MakeList(std::move(items)) : runtime.MakeTuple(std::move(items));
}

Value Call(Runtime& runtime, const Value& callee, Arguments arguments) {
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge()) return Value();
  if (callee.is(Kind::kCallable)) return callee.callable().Call(runtime, std::move(arguments));
  if (callee.is_undefined()) return runtime.FailUndefined(callee);
  if (callee.is(Kind::kLoop)) {
    const Value& recurse = callee.loop().recurse;
    if (recurse.missing()) {
      return runtime.Fail("The loop must have the 'recursive' marker to be called recursively.");
    }
    return recurse.callable().Call(runtime, std::move(arguments));
  }
  return runtime.Fail("'{}' object is not callable", TypeName(callee));
}

}  // namespace lamina::jinja
