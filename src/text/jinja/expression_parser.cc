#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

namespace lamina::jinja {

namespace {

// A tree this high is evaluated and destroyed on a small part of any thread's stack.
constexpr int kMaxHeight = 300;

int HeightOf(const ExprPtr& expr) { return expr ? expr->height : 0; }

Value ConstantString(std::string text) {
  return Value(Kind::kString, std::make_shared<String>(nullptr, std::move(text), false));
}

std::optional<BinaryOp> SumOperator(const Token& token) {
  if (token.IsOperator("+")) return BinaryOp::kAdd;
  if (token.IsOperator("-")) return BinaryOp::kSubtract;
  return std::nullopt;
}

std::optional<BinaryOp> ProductOperator(const Token& token) {
  if (token.IsOperator("*")) return BinaryOp::kMultiply;
  if (token.IsOperator("/")) return BinaryOp::kDivide;
  if (token.IsOperator("//")) return BinaryOp::kFloorDivide;
  if (token.IsOperator("%")) return BinaryOp::kModulo;
  return std::nullopt;
}

std::optional<CompareOp> ComparisonOperator(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "==") return CompareOp::kEqual;
  if (token.text == "!=") return CompareOp::kNotEqual;
  if (token.text == "<") return CompareOp::kLess;
  if (token.text == "<=") return CompareOp::kLessEqual;
  if (token.text == ">") return CompareOp::kGreater;
  if (token.text == ">=") return CompareOp::kGreaterEqual;
  return std::nullopt;
}

}  // namespace

template <typename Node>
ExprPtr ExpressionParser::Finish(std::unique_ptr<Node> node, int inner_height) {
  node->height = inner_height + 1;
  if (node->height > kMaxHeight) state_.Fail(node->line, "an expression is nested too deeply");
  return node;
}

template <typename ParseOperand, typename AtOperator>
ExprPtr ExpressionParser::ParseSequence(ExprKind kind, ParseOperand parse_operand, AtOperator at_operator) {
  const int line = state_.current().line;
  ExprPtr first = parse_operand();
  if (!at_operator()) return first;
  auto node = std::make_unique<SequenceExpr>(kind, line);
  int height = HeightOf(first);
  node->items.push_back(std::move(first));
  while (at_operator()) {
    state_.Next();
    node->items.push_back(parse_operand());
    height = std::max(height, HeightOf(node->items.back()));
  }
  return Finish(std::move(node), height);
}

ExprPtr ExpressionParser::ParseExpression(bool with_conditional) {
  const NestingScope nesting(state_);
  if (state_.failed()) return nullptr;
  ExprPtr value = ParseOr();
  while (with_conditional && state_.current().IsName("if")) {
    auto node = std::make_unique<ConditionalExpr>(state_.Next().line);
    node->condition = ParseOr();
    node->then = std::move(value);
    if (state_.SkipName("else")) node->otherwise = ParseExpression();
    const int height = std::max({HeightOf(node->condition), HeightOf(node->then), HeightOf(node->otherwise)});
    value = Finish(std::move(node), height);
  }
  return value;
}

ExprPtr ExpressionParser::ParseOr() {
  return ParseSequence(
      ExprKind::kOr, [this] { return ParseAnd(); }, [this] { return state_.current().IsName("or"); });
}

ExprPtr ExpressionParser::ParseAnd() {
  return ParseSequence(
      ExprKind::kAnd, [this] { return ParseNot(); }, [this] { return state_.current().IsName("and"); });
}

ExprPtr ExpressionParser::ParseNot() {
  if (!state_.current().IsName("not")) return ParseCompare();
  const NestingScope nesting(state_);
  if (state_.failed()) return nullptr;
  const int line = state_.Next().line;
  ExprPtr operand = ParseNot();
  const int height = HeightOf(operand);
  return Finish(std::make_unique<UnaryExpr>(ExprKind::kNot, std::move(operand), line), height);
}

ExprPtr ExpressionParser::ParseCompare() {
  const int line = state_.current().line;
  ExprPtr first = ParseSum();
  auto node = std::make_unique<CompareExpr>(line);
  int height = HeightOf(first);
  for (;;) {
    std::optional<CompareOp> op = ComparisonOperator(state_.current());
    if (op) {
      state_.Next();
    } else if (state_.SkipName("in")) {
      op = CompareOp::kIn;
    } else if (state_.current().IsName("not") && state_.look().IsName("in")) {
      state_.Next();
      state_.Next();
      op = CompareOp::kNotIn;
    } else {
      break;
    }
    node->rest.emplace_back(*op, ParseSum());
    height = std::max(height, HeightOf(node->rest.back().second));
  }
  if (node->rest.empty()) return first;
  node->first = std::move(first);
  return Finish(std::move(node), height);
}

ExprPtr ExpressionParser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (const auto op = SumOperator(state_.current())) {
    const int line = state_.Next().line;
    ExprPtr right = ParseConcat();
    const int height = std::max(HeightOf(left), HeightOf(right));
    left = Finish(std::make_unique<BinaryExpr>(*op, std::move(left), std::move(right), line), height);
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  return ParseSequence(
      ExprKind::kConcat, [this] { return ParseProduct(); },
      [this] { return state_.current().IsOperator("~"); });
}

ExprPtr ExpressionParser::ParseProduct() {
  ExprPtr left = ParsePower();
  while (const auto op = ProductOperator(state_.current())) {
    const int line = state_.Next().line;
    ExprPtr right = ParsePower();
    const int height = std::max(HeightOf(left), HeightOf(right));
    left = Finish(std::make_unique<BinaryExpr>(*op, std::move(left), std::move(right), line), height);
  }
  return left;
}

ExprPtr ExpressionParser::ParsePower() {
  ExprPtr left = ParseUnary(true);
  while (state_.current().IsOperator("**")) {
    const int line = state_.Next().line;
    ExprPtr right = ParseUnary(true);
    const int height = std::max(HeightOf(left), HeightOf(right));
    left = Finish(std::make_unique<BinaryExpr>(BinaryOp::kPower, std::move(left), std::move(right), line),
                  height);
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  const NestingScope nesting(state_);
  if (state_.failed()) return nullptr;
  const Token& token = state_.current();
  ExprPtr value;
  if (token.IsOperator("-") || token.IsOperator("+")) {
    const ExprKind kind = token.text == "-" ? ExprKind::kNegative : ExprKind::kPositive;
    const int line = state_.Next().line;
    ExprPtr operand = ParseUnary(false);
    const int height = HeightOf(operand);
    value = Finish(std::make_unique<UnaryExpr>(kind, std::move(operand), line), height);
  } else {
    value = ParsePrimary();
  }
  value = ParsePostfix(std::move(value));
  return with_filter ? ParseFiltersAndTests(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::ParsePrimary() {
  const Token& token = state_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text;
      while (state_.current().kind == TokenKind::kString) text += state_.Next().text;
      return std::make_unique<ConstExpr>(ConstantString(std::move(text)), line);
    }
    case TokenKind::kInteger:
      return std::make_unique<ConstExpr>(Value::Integer(state_.Next().integer), line);
    case TokenKind::kFloat:
      return std::make_unique<ConstExpr>(Value::Float(state_.Next().real), line);
    default:
      break;
  }
  if (state_.SkipOperator("(")) {
    ExprPtr value = ParseTuple({.parenthesized = true});
    state_.ExpectOperator(")");
    return value;
  }
  if (token.IsOperator("[")) return ParseList();
  if (token.IsOperator("{")) return ParseDict();
  state_.Fail(line, fmt::format("unexpected '{}'", Describe(token)));
  return nullptr;
}

ExprPtr ExpressionParser::ParseName() {
  const Token& token = state_.Next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return std::make_unique<ConstExpr>(Value::Bool(true), token.line);
  if (name == "false" || name == "False") return std::make_unique<ConstExpr>(Value::Bool(false), token.line);
  if (name == "none" || name == "None") return std::make_unique<ConstExpr>(Value::None(), token.line);
  listener_.OnUse(name);
  return std::make_unique<NameExpr>(name, token.line);
}

bool ExpressionParser::AtTupleEnd(std::string_view end_name) const {
  const Token& token = state_.current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
         token.IsOperator(")") || (!end_name.empty() && token.IsName(end_name));
}

ExprPtr ExpressionParser::ParseTuple(const TupleOptions& options) {
  const NestingScope nesting(state_);
  const int line = state_.current().line;
  auto tuple = std::make_unique<SequenceExpr>(ExprKind::kTuple, line);
  bool is_tuple = false;
  int height = 0;
  while (!state_.failed()) {
    if (!tuple->items.empty()) state_.ExpectOperator(",");
    if (AtTupleEnd(options.end_name)) break;
    tuple->items.push_back(options.simple ? ParsePrimary() : ParseExpression(options.with_conditional));
    height = std::max(height, HeightOf(tuple->items.back()));
    if (!state_.current().IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!tuple->items.empty()) return std::move(tuple->items.front());
    if (!options.parenthesized) {
      state_.Fail(line, fmt::format("Expected an expression, got '{}'", Describe(state_.current())));
    }
  }
  return Finish(std::move(tuple), height);
}

ExprPtr ExpressionParser::ParseList() {
  auto list = std::make_unique<SequenceExpr>(ExprKind::kList, state_.Next().line);
  int height = 0;
  while (!state_.failed() && !state_.current().IsOperator("]")) {
    if (!list->items.empty()) state_.ExpectOperator(",");
    if (state_.current().IsOperator("]")) break;
    list->items.push_back(ParseExpression());
    height = std::max(height, HeightOf(list->items.back()));
  }
  state_.ExpectOperator("]");
  return Finish(std::move(list), height);
}

ExprPtr ExpressionParser::ParseDict() {
  auto dict = std::make_unique<DictExpr>(state_.Next().line);
  int height = 0;
  while (!state_.failed() && !state_.current().IsOperator("}")) {
    if (!dict->entries.empty()) state_.ExpectOperator(",");
    if (state_.current().IsOperator("}")) break;
    ExprPtr key = ParseExpression();
    state_.ExpectOperator(":");
    ExprPtr value = ParseExpression();
    height = std::max({height, HeightOf(key), HeightOf(value)});
    dict->entries.emplace_back(std::move(key), std::move(value));
  }
  state_.ExpectOperator("}");
  return Finish(std::move(dict), height);
}

ExprPtr ExpressionParser::ParsePostfix(ExprPtr value) {
  while (!state_.failed()) {
    if (state_.current().IsOperator(".") || state_.current().IsOperator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (state_.current().IsOperator("(")) {
      value = ParseCall(std::move(value));
    } else {
      break;
    }
  }
  return value;
}

ExprPtr ExpressionParser::ParseFiltersAndTests(ExprPtr value) {
  while (!state_.failed()) {
    if (state_.current().IsOperator("|")) {
      value = ParseFilterChain(std::move(value), false);
    } else if (state_.current().IsName("is")) {
      value = ParseTest(std::move(value));
    } else if (state_.current().IsOperator("(")) {
      value = ParseCall(std::move(value));
    } else {
      break;
    }
  }
  return value;
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr value) {
  const int line = state_.current().line;
  int height = HeightOf(value);
  if (state_.SkipOperator(".")) {
    const Token& member = state_.Next();
    if (member.kind == TokenKind::kName) {
      return Finish(std::make_unique<GetAttrExpr>(std::move(value), member.text, line), height);
    }
    if (member.kind != TokenKind::kInteger) state_.Fail(member.line, "expected name or number");
    auto index = std::make_unique<ConstExpr>(Value::Integer(member.integer), line);
    return Finish(std::make_unique<GetItemExpr>(std::move(value), std::move(index), line), height);
  }
  state_.ExpectOperator("[");
  auto items = std::make_unique<SequenceExpr>(ExprKind::kTuple, line);
  while (!state_.failed() && !state_.current().IsOperator("]")) {
    if (!items->items.empty()) state_.ExpectOperator(",");
    items->items.push_back(ParseSubscriptItem());
    height = std::max(height, HeightOf(items->items.back()) + 1);
  }
  state_.ExpectOperator("]");
  ExprPtr index;
  if (items->items.size() == 1) {
    index = std::move(items->items.front());
  } else {
    index = std::move(items);
  }
  return Finish(std::make_unique<GetItemExpr>(std::move(value), std::move(index), line), height);
}

ExprPtr ExpressionParser::ParseSubscriptItem() {
  const int line = state_.current().line;
  const auto at_part_end = [this] {
    const Token& token = state_.current();
    return token.IsOperator(":") || token.IsOperator("]") || token.IsOperator(",");
  };
  ExprPtr start;
  if (!state_.current().IsOperator(":")) {
    start = ParseExpression();
    if (!state_.current().IsOperator(":")) return start;
  }
  state_.Next();
  auto slice = std::make_unique<SliceExpr>(line);
  slice->start = std::move(start);
  if (!at_part_end()) slice->stop = ParseExpression();
  if (state_.SkipOperator(":") && !at_part_end()) slice->step = ParseExpression();
  const int height = std::max({HeightOf(slice->start), HeightOf(slice->stop), HeightOf(slice->step)});
  return Finish(std::move(slice), height);
}

int ExpressionParser::ParseArguments(ArgumentList* arguments) {
  const int line = state_.current().line;
  const auto require = [&](bool condition) {
    if (!condition) state_.Fail(line, "invalid syntax for function call expression");
  };
  int height = 0;
  const auto parse = [&] {
    ExprPtr value = ParseExpression();
    height = std::max(height, HeightOf(value));
    return value;
  };
  state_.ExpectOperator("(");
  bool need_comma = false;
  while (!state_.failed() && !state_.current().IsOperator(")")) {
    if (need_comma) {
      state_.ExpectOperator(",");
      if (state_.current().IsOperator(")")) break;
    }
    need_comma = true;
    const bool no_dynamic = !arguments->dynamic_positional && !arguments->dynamic_named;
    if (state_.SkipOperator("*")) {
      require(no_dynamic);
      arguments->dynamic_positional = parse();
    } else if (state_.SkipOperator("**")) {
      require(!arguments->dynamic_named);
      arguments->dynamic_named = parse();
    } else if (state_.current().kind == TokenKind::kName && state_.look().IsOperator("=")) {
      require(!arguments->dynamic_named);
      std::string name = state_.Next().text;
      state_.Next();
      for (const auto& [earlier, unused] : arguments->named) {
        if (earlier == name) state_.Fail(line, fmt::format("keyword argument repeated: {}", name));
      }
      arguments->named.emplace_back(std::move(name), parse());
    } else {
      require(no_dynamic && arguments->named.empty());
      arguments->positional.push_back(parse());
    }
  }
  state_.ExpectOperator(")");
  return height;
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  const int callee_height = HeightOf(callee);
  auto call = std::make_unique<CallExpr>(std::move(callee), state_.current().line);
  const int height = std::max(callee_height, ParseArguments(&call->arguments));
  return Finish(std::move(call), height);
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = state_.TakeName();
  while (state_.SkipOperator(".")) name += "." + state_.TakeName();
  return name;
}

ExprPtr ExpressionParser::ParseFilterChain(ExprPtr value, bool inline_start) {
  while (!state_.failed() && (inline_start || state_.current().IsOperator("|"))) {
    if (!inline_start) state_.Next();
    inline_start = false;
    const int line = state_.current().line;
    int height = HeightOf(value);
    auto filter = std::make_unique<FilterExpr>(ExprKind::kFilter, std::move(value), ParseDottedName(), line);
    if (state_.current().IsOperator("(")) height = std::max(height, ParseArguments(&filter->arguments));
    value = Finish(std::move(filter), height);
  }
  return value;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr value) {
  const int line = state_.Next().line;
  const bool negated = state_.SkipName("not");
  int height = HeightOf(value);
  auto test = std::make_unique<FilterExpr>(ExprKind::kTest, std::move(value), ParseDottedName(), line);
  const Token& token = state_.current();
  const bool starts_operand =
      (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" && token.text != "and") ||
      token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
      token.kind == TokenKind::kFloat || token.IsOperator("[") || token.IsOperator("{");
  if (token.IsOperator("(")) {
    height = std::max(height, ParseArguments(&test->arguments));
  } else if (starts_operand) {
    if (token.IsName("is")) {
      state_.Fail(line, "You cannot chain multiple tests with is");
      return nullptr;
    }
    ExprPtr operand = ParsePostfix(ParsePrimary());
    height = std::max(height, HeightOf(operand));
    test->arguments.positional.push_back(std::move(operand));
  }
  ExprPtr result = Finish(std::move(test), height);
  if (!negated) return result;
  return Finish(std::make_unique<UnaryExpr>(ExprKind::kNot, std::move(result), line), height + 1);
}

}  // namespace lamina::jinja
