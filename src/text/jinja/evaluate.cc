// Expressions of the interpreter.
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace lamina::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
  const DepthGuard guard(*this);
  if (!guard.ok() || !Charge()) return Value();
  line = expr.line;
  switch (expr.kind) {
    case ExprKind::kConst:
      return static_cast<const ConstExpr&>(expr).value;
    case ExprKind::kName:
      return EvaluateName(static_cast<const NameExpr&>(expr));
    case ExprKind::kNamespaceAttribute:
      return Value();  // only a target
    case ExprKind::kList:
      return MakeList(EvaluateAll(static_cast<const SequenceExpr&>(expr).items));
    case ExprKind::kTuple:
      return MakeTuple(EvaluateAll(static_cast<const SequenceExpr&>(expr).items));
    case ExprKind::kDict:
      return EvaluateDict(static_cast<const DictExpr&>(expr));
    case ExprKind::kNot: {
      const Value operand = Evaluate(*static_cast<const UnaryExpr&>(expr).operand);
      return failed() ? Value() : Value::Bool(!Truthy(*this, operand));
    }
    case ExprKind::kNegative: {
      const Value operand = Evaluate(*static_cast<const UnaryExpr&>(expr).operand);
      return failed() ? Value() : Negate(*this, operand);
    }
    case ExprKind::kPositive: {
      const Value operand = Evaluate(*static_cast<const UnaryExpr&>(expr).operand);
      return failed() ? Value() : Plus(*this, operand);
    }
    case ExprKind::kBinary: {
      const auto& binary = static_cast<const BinaryExpr&>(expr);
      const Value left = Evaluate(*binary.left);
      const Value right = Evaluate(*binary.right);
      if (failed()) return Value();
      line = expr.line;
      return Binary(*this, binary.op, left, right);
    }
    case ExprKind::kCompare:
      return EvaluateCompare(static_cast<const CompareExpr&>(expr));
    case ExprKind::kConcat:
      return EvaluateConcat(static_cast<const SequenceExpr&>(expr));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      // The operand that settles it, else the last.
      const bool settling = expr.kind == ExprKind::kOr;
      Value value;
      for (const ExprPtr& operand : static_cast<const SequenceExpr&>(expr).items) {
        value = Evaluate(*operand);
        if (failed() || Truthy(*this, value) == settling) break;
      }
      return value;
    }
    case ExprKind::kConditional: {
      const auto& conditional = static_cast<const ConditionalExpr&>(expr);
      const bool holds = Truthy(*this, Evaluate(*conditional.condition));
      if (failed()) return Value();
      if (holds) return Evaluate(*conditional.then);
      if (conditional.otherwise) return Evaluate(*conditional.otherwise);
      return MakeUndefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.",
          expr.line));
    }
    case ExprKind::kGetAttr: {
      const auto& get = static_cast<const GetAttrExpr&>(expr);
      const Value object = Evaluate(*get.object);
      if (failed()) return Value();
      line = expr.line;
      return GetAttribute(*this, object, get.name);
    }
    case ExprKind::kGetItem:
      return EvaluateGetItem(static_cast<const GetItemExpr&>(expr));
    case ExprKind::kSlice:
      return Fail("a slice among several subscripts selects nothing");
    case ExprKind::kCall:
      return EvaluateCall(static_cast<const CallExpr&>(expr), Value());
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return EvaluateFilter(static_cast<const FilterExpr&>(expr));
  }
  return Value();
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    values.push_back(Evaluate(*expr));
    if (failed()) break;
  }
  return values;
}

Value Interpreter::EvaluateName(const NameExpr& expr) {
  const Value& value = Slot(expr.ref);
  if (!value.missing()) return value;
  // The names by which Jinja2 gives a template its own blocks and those of a parent.
  if (expr.name == "self" || expr.name == "super") return FailUnsupported("'{}' is not supported", expr.name);
  return MakeUndefinedName(expr.name);
}

Value Interpreter::EvaluateDict(const DictExpr& expr) {
  auto dict = NewDict();
  for (const auto& [key_expr, value_expr] : expr.entries) {
    const Value key = Evaluate(*key_expr);
    const Value value = Evaluate(*value_expr);
    if (failed() || !AddToDict(*dict, key, value)) return Value();
  }
  return FromDict(std::move(dict));
}

Value Interpreter::EvaluateCompare(const CompareExpr& expr) {
  Value left = Evaluate(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = Evaluate(*operand);
    if (failed()) return Value();
    line = expr.line;
    const bool holds = Compare(*this, op, left, right);
    if (failed()) return Value();
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateConcat(const SequenceExpr& expr) {
  TextBuilder text(*this);
  for (const ExprPtr& operand : expr.items) {
    const Value value = Evaluate(*operand);
    if (failed()) return Value();
    text.Append(value.is_string() ? value.text() : ToText(*this, value));
  }
  return MakeString(text.Take());
}

Value Interpreter::EvaluateGetItem(const GetItemExpr& expr) {
  const Value object = Evaluate(*expr.object);
  if (failed()) return Value();
  if (expr.index->kind == ExprKind::kSlice) {
    const auto& slice = static_cast<const SliceExpr&>(*expr.index);
    const Value start = EvaluateOptional(slice.start);
    const Value stop = EvaluateOptional(slice.stop);
    const Value step = EvaluateOptional(slice.step);
    line = expr.line;
    return GetSlice(*this, object, start, stop, step);
  }
  const Value index = Evaluate(*expr.index);
  if (failed()) return Value();
  line = expr.line;
  return GetItem(*this, object, index);
}

Arguments Interpreter::EvaluateArguments(const ArgumentList& list) {
  Arguments arguments;
  arguments.positional = EvaluateAll(list.positional);
  for (const auto& [name, expr] : list.named) {
    if (failed()) return arguments;
    arguments.named.emplace_back(name, Evaluate(*expr));
  }
  if (list.dynamic_positional && !failed()) {
    const Value items = Evaluate(*list.dynamic_positional);
    if (failed()) return arguments;
    for (Value& item : Collect(*this, items)) arguments.positional.push_back(std::move(item));
  }
  if (list.dynamic_named && !failed()) {
    const Value items = Evaluate(*list.dynamic_named);
    if (failed()) return arguments;
    if (!items.is(Kind::kDict)) {
      Fail("argument after ** must be a mapping, not {}", TypeName(items));
      return arguments;
    }
    for (const Dict::Entry& entry : items.dict().entries) {
      if (!entry.key.is_string()) {
        Fail("keywords must be strings");
        return arguments;
      }
      arguments.named.emplace_back(entry.key.text(), entry.value);
    }
  }
  return arguments;
}

Value Interpreter::EvaluateCall(const CallExpr& expr, const Value& caller) {
  Value callee;
  Value self;
  Method method = nullptr;
  if (expr.callee->kind == ExprKind::kGetAttr) {
    // A method is called without making an object of it first.
    const auto& get = static_cast<const GetAttrExpr&>(*expr.callee);
    self = Evaluate(*get.object);
    if (failed()) return Value();
    line = get.line;
    method = FindMethod(self, get.name);
    if (method == nullptr) callee = GetAttribute(*this, self, get.name);
  } else {
    callee = Evaluate(*expr.callee);
  }
  if (failed()) return Value();
  Arguments arguments = EvaluateArguments(expr.arguments);
  if (!caller.missing()) arguments.named.emplace_back("caller", caller);
  if (failed()) return Value();
  line = expr.line;
  return method != nullptr ? method(*this, self, arguments) : Call(*this, callee, std::move(arguments));
}

Value Interpreter::EvaluateFilter(const FilterExpr& expr) {
  const Value value = expr.value ? Evaluate(*expr.value) : block_text_;
  if (failed()) return Value();
  const Arguments arguments = EvaluateArguments(expr.arguments);
  if (failed()) return Value();
  line = expr.line;
  if (expr.kind == ExprKind::kFilter) return ApplyFilter(*this, expr.name, value, arguments);
  const bool passes = ApplyTest(*this, expr.name, value, arguments);
  return failed() ? Value() : Value::Bool(passes);
}

}  // namespace lamina::jinja
