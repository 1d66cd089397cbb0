#include "text/jinja/tests.h"

#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_algorithms.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

using Args = std::vector<Value>;
using Test = bool (*)(Runtime& runtime, const Value& value, const Args& args);

bool HasRemainder(Runtime& runtime, const Value& value, const Value& divisor, Int remainder) {
  const Value result = Binary(runtime, BinaryOp::kModulo, value, divisor);
  return !runtime.failed() && Equal(runtime, result, Value::Integer(remainder));
}

bool Odd(Runtime& runtime, const Value& value, const Args&) {
  return HasRemainder(runtime, value, Value::Integer(2), 1);
}
bool Even(Runtime& runtime, const Value& value, const Args&) {
  return HasRemainder(runtime, value, Value::Integer(2), 0);
}
bool DivisibleBy(Runtime& runtime, const Value& value, const Args& args) {
  return HasRemainder(runtime, value, args[0], 0);
}

template <Kind kKind>
bool HasKind(Runtime&, const Value& value, const Args&) {
  return value.is(kKind);
}
bool Defined(Runtime&, const Value& value, const Args&) { return !value.is_undefined(); }
bool Number(Runtime&, const Value& value, const Args&) { return value.is_number(); }
bool True(Runtime&, const Value& value, const Args&) { return value.is(Kind::kBool) && value.boolean(); }
bool False(Runtime&, const Value& value, const Args&) { return value.is(Kind::kBool) && !value.boolean(); }
bool Sequence(Runtime&, const Value& value, const Args&) {
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) || value.is(Kind::kRange) ||
         value.is_undefined();
}
bool Iterable(Runtime&, const Value& value, const Args&) { return IsIterable(value); }
bool IsCallable(Runtime&, const Value& value, const Args&) {
  return value.is(Kind::kCallable) || value.is(Kind::kLoop) || value.is_undefined();
}
bool Escaped(Runtime&, const Value& value, const Args&) { return value.is_string() && value.string().markup; }
bool Lower(Runtime& runtime, const Value& value, const Args&) { return IsLowerText(ToText(runtime, value)); }
bool Upper(Runtime& runtime, const Value& value, const Args&) { return IsUpperText(ToText(runtime, value)); }
bool CheckHashable(Runtime& runtime, const Value& value) {
  std::string encoded;
  if (!EncodeKey(value, &encoded)) runtime.Fail("unhashable type: '{}'", TypeName(value));
  return !runtime.failed();
}
bool NamesFilter(Runtime& runtime, const Value& value, const Args&) {
  return CheckHashable(runtime, value) && value.is_string() && IsFilter(value.text());
}
bool NamesTest(Runtime& runtime, const Value& value, const Args&) {
  return CheckHashable(runtime, value) && value.is_string() && IsTest(value.text());
}
bool SameAs(Runtime&, const Value& value, const Args& args) { return Same(value, args[0]); }
bool In(Runtime& runtime, const Value& value, const Args& args) { return Contains(runtime, args[0], value); }

template <CompareOp kOp>
bool Compares(Runtime& runtime, const Value& value, const Args& args) {
  return Compare(runtime, kOp, value, args[0]);
}

struct Entry {
  std::string_view name;
  Test test;
  size_t arguments;
  std::string_view parameter = {};  // its name, where the argument may be given by keyword
};

constexpr std::array<Entry, 39> kTests = {{
    {"odd", Odd, 0},
    {"even", Even, 0},
    {"divisibleby", DivisibleBy, 1, "num"},
    {"defined", Defined, 0},
    {"undefined", HasKind<Kind::kUndefined>, 0},
    {"filter", NamesFilter, 0},
    {"test", NamesTest, 0},
    {"none", HasKind<Kind::kNone>, 0},
    {"boolean", HasKind<Kind::kBool>, 0},
    {"false", False, 0},
    {"true", True, 0},
    {"integer", HasKind<Kind::kInt>, 0},
    {"float", HasKind<Kind::kFloat>, 0},
    {"lower", Lower, 0},
    {"upper", Upper, 0},
    {"string", HasKind<Kind::kString>, 0},
    {"mapping", HasKind<Kind::kDict>, 0},
    {"number", Number, 0},
    {"sequence", Sequence, 0},
    {"iterable", Iterable, 0},
    {"callable", IsCallable, 0},
    {"sameas", SameAs, 1, "other"},
    {"escaped", Escaped, 0},
    {"in", In, 1, "seq"},
    {"==", Compares<CompareOp::kEqual>, 1},
    {"eq", Compares<CompareOp::kEqual>, 1},
    {"equalto", Compares<CompareOp::kEqual>, 1},
    {"!=", Compares<CompareOp::kNotEqual>, 1},
    {"ne", Compares<CompareOp::kNotEqual>, 1},
    {">", Compares<CompareOp::kGreater>, 1},
    {"gt", Compares<CompareOp::kGreater>, 1},
    {"greaterthan", Compares<CompareOp::kGreater>, 1},
    {"ge", Compares<CompareOp::kGreaterEqual>, 1},
    {">=", Compares<CompareOp::kGreaterEqual>, 1},
    {"<", Compares<CompareOp::kLess>, 1},
    {"lt", Compares<CompareOp::kLess>, 1},
    {"lessthan", Compares<CompareOp::kLess>, 1},
    {"<=", Compares<CompareOp::kLessEqual>, 1},
    {"le", Compares<CompareOp::kLessEqual>, 1},
}};

const Entry* FindTest(std::string_view name) {
  const auto found =
      std::find_if(kTests.begin(), kTests.end(), [&](const Entry& entry) { return entry.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace

bool IsTest(std::string_view name) { return FindTest(name) != nullptr; }

bool ApplyTest(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments) {
  if (!runtime.Charge() || value.missing()) return false;
  const Entry* entry = FindTest(name);
  if (entry == nullptr) {
    runtime.Fail("No test named '{}' found.", name);
    return false;
  }
  std::vector<Value> positional = arguments.positional;
  for (const auto& [keyword, argument] : arguments.named) {
    if (keyword != entry->parameter) {
      runtime.Fail("test '{}' got an unexpected keyword argument '{}'", name, keyword);
      return false;
    }
    positional.push_back(argument);
  }
  if (positional.size() != entry->arguments) {
    runtime.Fail("test '{}' takes {} arguments ({} given)", name, entry->arguments, positional.size());
    return false;
  }
  for (const Value& argument : positional) {
    if (argument.missing()) return false;
  }
  return entry->test(runtime, value, positional) && !runtime.failed();
}

}  // namespace lamina::jinja
