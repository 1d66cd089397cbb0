// Parses expressions, with Jinja2's precedence:
//   if-else < or < and < not < comparisons and `in` < + - < ~ < * / // % < ** < unary < postfix < filters,
//   tests
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/parse_state.h"

namespace lamina::jinja {

// Told about every use and assignment of a name, in the order of the text.
class NameListener {
 public:
  virtual ~NameListener() = default;
  virtual void OnUse(const std::string& name) = 0;
};

// After a failure of the state the functions return null or incomplete trees, which nobody may look at.
class ExpressionParser {
 public:
  ExpressionParser(ParseState& state, NameListener& listener) : state_(state), listener_(listener) {}

  ExprPtr ParseExpression(bool with_conditional = true);

  // One expression, or several with commas between them as a tuple. `end_name`: a name that ends it, besides
  // the end of the tag. `simple`: only names and literals. `parenthesized`: empty is a tuple.
  struct TupleOptions {
    bool simple = false;
    bool with_conditional = true;
    bool parenthesized = false;
    std::string_view end_name = {};
  };
  ExprPtr ParseTuple(const TupleOptions& options);

  // `| name(arguments) | ...` applied to `value`. `inline_start`: the first has no `|` in front.
  ExprPtr ParseFilterChain(ExprPtr value, bool inline_start);

 private:
  template <typename Node>
  ExprPtr Finish(std::unique_ptr<Node> node, int inner_height);

  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParsePrimary();
  ExprPtr ParseName();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr value);
  ExprPtr ParseFiltersAndTests(ExprPtr value);
  ExprPtr ParseSubscript(ExprPtr value);
  ExprPtr ParseSubscriptItem();
  ExprPtr ParseCall(ExprPtr callee);
  ExprPtr ParseTest(ExprPtr value);
  // Returns the height of the highest argument.
  int ParseArguments(ArgumentList* arguments);
  std::string ParseDottedName();
  bool AtTupleEnd(std::string_view end_name) const;
  // `operand (op operand)*` as one node of several items; the operand alone where there is one.
  template <typename ParseOperand, typename AtOperator>
  ExprPtr ParseSequence(ExprKind kind, ParseOperand parse_operand, AtOperator at_operator);

  ParseState& state_;
  NameListener& listener_;
};

}  // namespace lamina::jinja
