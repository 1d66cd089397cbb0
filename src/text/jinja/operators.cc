#include "text/jinja/operators.h"

#include <cmath>
#include <limits>

#include "text/jinja/format.h"
#include "text/jinja/iterators.h"

namespace lamina::jinja {

namespace {

enum class Order { kLess, kEqual, kGreater, kNone };

template <typename T>
Order OrderOf(const T& left, const T& right) {
  return left < right    ? Order::kLess
         : right < left  ? Order::kGreater
         : left == right ? Order::kEqual
                         : Order::kNone;
}

Order Reverse(Order order) {
  return order == Order::kLess ? Order::kGreater : order == Order::kGreater ? Order::kLess : order;
}

// Exact, also where the int has more digits than a double.
Order OrderIntFloat(Int integer, double real) {
  if (std::isnan(real)) return Order::kNone;
  constexpr double kLimit = 0x1p127;
  if (real >= kLimit) return Order::kLess;
  if (real < -kLimit) return Order::kGreater;
  const double whole = std::floor(real);
  const Order order = OrderOf(integer, static_cast<Int>(whole));
  return order == Order::kEqual && whole < real ? Order::kLess : order;
}

// REQUIRES: both are numbers.
Order OrderNumbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return OrderOf(left.integer(), right.integer());
  if (left.is_integral()) return OrderIntFloat(left.integer(), right.real());
  if (right.is_integral()) return Reverse(OrderIntFloat(right.integer(), left.real()));
  return OrderOf(left.real(), right.real());
}

Order FindOrder(Runtime& runtime, const Value& left, const Value& right, std::string_view symbol) {
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge()) return Order::kNone;
  if (left.is_number() && right.is_number()) return OrderNumbers(left, right);
  if (left.is_string() && right.is_string()) {
    runtime.ChargeBytes(std::min(left.text().size(), right.text().size()));
    return OrderOf(left.text(), right.text());  // bytes of UTF-8 sort as code points do
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const auto& first = left.items();
    const auto& second = right.items();
    for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
      if (!Equal(runtime, first[i], second[i])) return FindOrder(runtime, first[i], second[i], symbol);
    }
    return OrderOf(first.size(), second.size());
  }
  if (left.is_undefined()) {
    runtime.FailUndefined(left);
  } else if (right.is_undefined()) {
    runtime.FailUndefined(right);
  } else if (left.is(Kind::kDictView) && left.kind() == right.kind()) {
    runtime.FailUnsupported("sets are not supported: {} of views of a dict", symbol);
  } else {
    runtime.Fail("'{}' not supported between instances of '{}' and '{}'", symbol, TypeName(left),
                 TypeName(right));
  }
  return Order::kNone;
}

std::string_view Symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kPower:
      return "** or pow()";
  }
  return "?";
}

Value FailOverflow(Runtime& runtime) { return runtime.FailUnsupported("an integer exceeds 128 bits"); }

Value PowerInt(Runtime& runtime, Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return FailOverflow(runtime);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return FailOverflow(runtime);
  }
  return Value::Integer(result);
}

Value PowerFloat(Runtime& runtime, double base, double exponent) {
  if (base == 0 && exponent < 0) return runtime.Fail("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    return runtime.FailUnsupported("complex numbers are not supported");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    return runtime.Fail("(34, 'Numerical result out of range')");
  }
  return Value::Float(result);
}

// Python's // and % round toward minus infinity.
Value DivideInts(Runtime& runtime, BinaryOp op, Int left, Int right) {
  if (right == 0) {
    return op == BinaryOp::kModulo ? runtime.Fail("integer modulo by zero")
                                   : runtime.Fail("integer division or modulo by zero");
  }
  if (right == -1) {
    Int negated = 0;
    if (op == BinaryOp::kModulo) return Value::Integer(0);
    return __builtin_sub_overflow(Int{0}, left, &negated) ? FailOverflow(runtime) : Value::Integer(negated);
  }
  Int quotient = left / right;
  Int remainder = left % right;
  if (remainder != 0 && (remainder < 0) != (right < 0)) {
    remainder += right;
    --quotient;
  }
  return Value::Integer(op == BinaryOp::kModulo ? remainder : quotient);
}

Value DivideFloats(Runtime& runtime, BinaryOp op, double left, double right) {
  if (right == 0) {
    return op == BinaryOp::kModulo ? runtime.Fail("float modulo")
                                   : runtime.Fail("float floor division by zero");
  }
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0) {
    if ((remainder < 0) != (right < 0)) {
      remainder += right;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, right);
  }
  if (op == BinaryOp::kModulo) return Value::Float(remainder);
  if (quotient == 0) return Value::Float(std::copysign(0.0, left / right));
  const double whole = std::floor(quotient);
  return Value::Float(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value BinaryNumbers(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    const Int a = left.integer();
    const Int b = right.integer();
    Int result = 0;
    switch (op) {
      case BinaryOp::kAdd:
        return __builtin_add_overflow(a, b, &result) ? FailOverflow(runtime) : Value::Integer(result);
      case BinaryOp::kSubtract:
        return __builtin_sub_overflow(a, b, &result) ? FailOverflow(runtime) : Value::Integer(result);
      case BinaryOp::kMultiply:
        return __builtin_mul_overflow(a, b, &result) ? FailOverflow(runtime) : Value::Integer(result);
      case BinaryOp::kDivide:
        if (b == 0) return runtime.Fail("division by zero");
        return Value::Float(left.real() / right.real());
      case BinaryOp::kFloorDivide:
      case BinaryOp::kModulo:
        return DivideInts(runtime, op, a, b);
      case BinaryOp::kPower:
        if (b < 0) return PowerFloat(runtime, left.real(), right.real());
        return PowerInt(runtime, a, b);
    }
  }
  const double a = left.real();
  const double b = right.real();
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSubtract:
      return Value::Float(a - b);
    case BinaryOp::kMultiply:
      return Value::Float(a * b);
    case BinaryOp::kDivide:
      if (b == 0) return runtime.Fail("float division by zero");
      return Value::Float(a / b);
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo:
      return DivideFloats(runtime, op, a, b);
    case BinaryOp::kPower:
      return PowerFloat(runtime, a, b);
  }
  return Value();
}

// Markup joined to a plain string escapes the latter.
Value ConcatStrings(Runtime& runtime, const Value& left, const Value& right) {
  TextBuilder text(runtime);
  const bool markup = left.string().markup || right.string().markup;
  for (const Value* part : {&left, &right}) {
    text.Append(markup && !part->string().markup ? EscapeHtml(part->text()) : part->text());
  }
  return markup ? runtime.MakeMarkup(text.Take()) : runtime.MakeString(text.Take());
}

Value ConcatSequences(Runtime& runtime, const Value& left, const Value& right) {
  const auto& first = left.items();
  const auto& second = right.items();
  if (!runtime.Reserve((first.size() + second.size()) * sizeof(Value))) return Value();
  std::vector<Value> items(first);
  items.insert(items.end(), second.begin(), second.end());
  return left.is(Kind::kList) ? runtime.MakeList(std::move(items)) : runtime.MakeTuple(std::move(items));
}

bool ContainsKey(Runtime& runtime, const Dict& dict, const Value& key) {
  std::string encoded;
  if (!EncodeKey(key, &encoded)) {
    runtime.Fail("unhashable type: '{}'", TypeName(key));
    return false;
  }
  return dict.Find(encoded) != nullptr;
}

bool ContainsItem(Runtime& runtime, const Value& iterable, const Value& item) {
  const Value iterator = Iterate(runtime, iterable);
  Value element;
  while (!runtime.failed() && iterator.iterator().Next(runtime, &element)) {
    if (Equal(runtime, element, item)) return true;
  }
  return false;
}

// Views of keys and of items compare as sets.
bool EqualViews(Runtime& runtime, const DictView& left, const DictView& right) {
  if (left.part == DictView::Part::kValues || left.part != right.part) return false;
  const Dict& first = left.source.dict();
  const Dict& second = right.source.dict();
  if (first.entries.size() != second.entries.size()) return false;
  for (const Dict::Entry& entry : first.entries) {
    const Value* other = second.Find(entry.key.is_string() ? entry.key.text() : entry.encoded);
    if (other == nullptr) return false;
    if (left.part == DictView::Part::kItems && !Equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

bool IsSetView(const Value& value) {
  return value.is(Kind::kDictView) && value.dict_view().part != DictView::Part::kValues;
}

Value Repeat(Runtime& runtime, const Value& value, Int count) {
  if (value.is_string()) {
    TextBuilder text(runtime);
    text.Repeat(value.text(), count);
    return runtime.MakeStringLike(value, text.Take());
  }
  std::vector<Value> items;
  const auto& source = value.items();
  if (count > 0 && !source.empty()) {
    if (count > static_cast<Int>(runtime.free_bytes() / sizeof(Value) / source.size())) {
      runtime.Reserve(std::numeric_limits<size_t>::max());
      return Value();
    }
    items.reserve(static_cast<size_t>(count) * source.size());
    for (Int i = 0; i < count; ++i) items.insert(items.end(), source.begin(), source.end());
  }
  return value.is(Kind::kList) ? runtime.MakeList(std::move(items)) : runtime.MakeTuple(std::move(items));
}

}  // namespace

bool Truthy(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    default:
      return Length(runtime, value).value_or(1) != 0;
  }
}

bool Same(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return left.integer() == right.integer();
    case Kind::kFloat:
      return false;  // equal floats are rarely one object in Python
    case Kind::kString:
      return left.text() == right.text();  // equal literals are mostly one object
    default:
      return left.object() == right.object();
  }
}

bool Equal(Runtime& runtime, const Value& left, const Value& right) {
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge()) return false;
  if (left.is_number() && right.is_number()) return OrderNumbers(left, right) == Order::kEqual;
  if (left.kind() != right.kind()) return false;
  if (left.is_undefined()) return true;
  if (left.object() == right.object()) return true;
  switch (left.kind()) {
    case Kind::kString:
      runtime.ChargeBytes(left.text().size() == right.text().size() ? left.text().size() : 0);
      return left.text() == right.text();
    case Kind::kList:
    case Kind::kTuple: {
      const auto& first = left.items();
      const auto& second = right.items();
      if (first.size() != second.size()) return false;
      for (size_t i = 0; i < first.size(); ++i) {
        if (!Equal(runtime, first[i], second[i])) return false;
      }
      return true;
    }
    case Kind::kDict: {
      if (left.dict().entries.size() != right.dict().entries.size()) return false;
      for (const Dict::Entry& entry : left.dict().entries) {
        const Value* other = right.dict().Find(entry.key.is_string() ? entry.key.text() : entry.encoded);
        if (other == nullptr || !Equal(runtime, entry.value, *other)) return false;
      }
      return true;
    }
    case Kind::kRange: {
      const Range& first = left.range();
      const Range& second = right.range();
      const Int length = first.length();
      return length == second.length() &&
             (length == 0 || (first.start == second.start && (length == 1 || first.step == second.step)));
    }
    case Kind::kDictView:
      return EqualViews(runtime, left.dict_view(), right.dict_view());
    default:
      return false;
  }
}

bool Less(Runtime& runtime, const Value& left, const Value& right, std::string_view symbol) {
  return FindOrder(runtime, left, right, symbol) == Order::kLess;
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        runtime.Fail("'in <string>' requires string as left operand, not {}", TypeName(item));
        return false;
      }
      runtime.ChargeBytes(container.text().size());
      return container.text().find(item.text()) != std::string::npos;
    case Kind::kDict:
      return ContainsKey(runtime, container.dict(), item);
    case Kind::kDictView:
      if (container.dict_view().part == DictView::Part::kKeys) {
        return ContainsKey(runtime, container.dict_view().source.dict(), item);
      }
      return ContainsItem(runtime, container, item);
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kCallable:
      runtime.Fail("argument of type '{}' is not iterable", TypeName(container));
      return false;
    default:
      return ContainsItem(runtime, container, item);
  }
}

bool Compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
      return Equal(runtime, left, right);
    case CompareOp::kNotEqual:
      return !Equal(runtime, left, right);
    case CompareOp::kLess:
      return FindOrder(runtime, left, right, "<") == Order::kLess;
    case CompareOp::kLessEqual: {
      const Order order = FindOrder(runtime, left, right, "<=");
      return order == Order::kLess || order == Order::kEqual;
    }
    case CompareOp::kGreater:
      return FindOrder(runtime, left, right, ">") == Order::kGreater;
    case CompareOp::kGreaterEqual: {
      const Order order = FindOrder(runtime, left, right, ">=");
      return order == Order::kGreater || order == Order::kEqual;
    }
    case CompareOp::kIn:
      return Contains(runtime, right, left);
    case CompareOp::kNotIn:
      return !Contains(runtime, right, left);
  }
  return false;
}

Value Binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (runtime.failed()) return Value();
  if (left.is_number() && right.is_number()) return BinaryNumbers(runtime, op, left, right);
  if (op == BinaryOp::kModulo && left.is_string()) return FormatPercent(runtime, left, right);
  if (op == BinaryOp::kSubtract && (IsSetView(left) || IsSetView(right)) &&
      (IsIterable(left) && IsIterable(right))) {
    return runtime.FailUnsupported("sets are not supported: - of views of a dict");
  }
  if (left.is_undefined()) return runtime.FailUndefined(left);
  if (op == BinaryOp::kAdd) {
    if (left.is_string() && right.is_string()) return ConcatStrings(runtime, left, right);
    if (left.is_sequence() && left.kind() == right.kind()) return ConcatSequences(runtime, left, right);
    if (right.is_undefined()) return runtime.FailUndefined(right);
    if (left.is_string() || left.is_sequence()) {
      const std::string type = TypeName(left);
      return runtime.Fail("can only concatenate {} (not \"{}\") to {}", type, TypeName(right), type);
    }
  }
  if (op == BinaryOp::kMultiply) {
    if ((left.is_string() || left.is_sequence()) && right.is_integral()) {
      return Repeat(runtime, left, right.integer());
    }
    if ((right.is_string() || right.is_sequence()) && left.is_integral()) {
      return Repeat(runtime, right, left.integer());
    }
  }
  if (right.is_undefined()) return runtime.FailUndefined(right);
  return runtime.Fail("unsupported operand type(s) for {}: '{}' and '{}'", Symbol(op), TypeName(left),
                      TypeName(right));
}

Value Negate(Runtime& runtime, const Value& value) {
  if (value.is_integral()) {
    Int negated = 0;
    if (__builtin_sub_overflow(Int{0}, value.integer(), &negated)) return FailOverflow(runtime);
    return Value::Integer(negated);
  }
  if (value.is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.is_undefined()) return runtime.FailUndefined(value);
  return runtime.Fail("bad operand type for unary -: '{}'", TypeName(value));
}

Value Plus(Runtime& runtime, const Value& value) {
  if (value.is_integral()) return Value::Integer(value.integer());
  if (value.is(Kind::kFloat)) return value;
  if (value.is_undefined()) return runtime.FailUndefined(value);
  return runtime.Fail("bad operand type for unary +: '{}'", TypeName(value));
}

std::optional<Int> Length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<Int>(value.string().length);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<Int>(value.items().size());
    case Kind::kDict:
      return static_cast<Int>(value.dict().entries.size());
    case Kind::kDictView:
      return static_cast<Int>(value.dict_view().source.dict().entries.size());
    case Kind::kRange:
      return value.range().length();
    case Kind::kLoop:
      return value.loop().Length(runtime);
    default:
      return std::nullopt;
  }
}

std::optional<Int> ToIndex(Runtime& runtime, const Value& value, std::string_view what) {
  if (value.is_integral()) return value.integer();
  if (value.is_undefined()) {
    runtime.FailUndefined(value);
  } else {
    runtime.Fail("{} must be an integer, not '{}'", what, TypeName(value));
  }
  return std::nullopt;
}

}  // namespace lamina::jinja
