// The syntax tree of a template. The parser builds it, the resolver (scope.h) fills in where each name lives,
// the interpreter walks it; afterwards it never changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace lamina::jinja {

// A local variable: `slot` of the frame `hops` functions further out.
struct SlotRef {
  int hops = 0;
  int slot = 0;
};

// What a scope does with one of its variables when it is entered.
struct ScopeLoad {
  enum class Action { kClear, kAlias, kResolve };
  Action action = Action::kClear;
  int slot = 0;      // of the present function
  SlotRef alias;     // kAlias: copied from here
  std::string name;  // kResolve: looked up among the variables of the rendering
};
using ScopeEntry = std::vector<ScopeLoad>;

// --- Expressions.

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNamespaceAttribute,  // only as a target: ns.x
  kList,
  kTuple,
  kDict,
  kNot,
  kNegative,
  kPositive,
  kBinary,
  kCompare,
  kConcat,
  kAnd,
  kOr,
  kConditional,
  kGetAttr,
  kGetItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  Expr(ExprKind expr_kind, int at_line) : kind(expr_kind), line(at_line) {}
  virtual ~Expr() = default;
  const ExprKind kind;
  int line;
  int height = 1;  // of the tree below and with this node; the parser bounds it
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstExpr : Expr {
  ConstExpr(Value constant, int at_line) : Expr(ExprKind::kConst, at_line), value(std::move(constant)) {}
  Value value;
};

struct NameExpr : Expr {
  NameExpr(std::string identifier, int at_line)
      : Expr(ExprKind::kName, at_line), name(std::move(identifier)) {}
  std::string name;
  SlotRef ref;
  bool store = false;  // a target, not a use
};

struct NamespaceAttributeExpr : Expr {
  NamespaceAttributeExpr(std::string object, std::string member, int at_line)
      : Expr(ExprKind::kNamespaceAttribute, at_line), name(std::move(object)), attribute(std::move(member)) {}
  std::string name;
  std::string attribute;
  SlotRef ref;
};

// kList, kTuple, kConcat, kAnd, kOr: operands in order.
struct SequenceExpr : Expr {
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

struct DictExpr : Expr {
  explicit DictExpr(int at_line) : Expr(ExprKind::kDict, at_line) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

// kNot, kNegative, kPositive
struct UnaryExpr : Expr {
  UnaryExpr(ExprKind expr_kind, ExprPtr value, int at_line)
      : Expr(expr_kind, at_line), operand(std::move(value)) {}
  ExprPtr operand;
};

enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

struct BinaryExpr : Expr {
  BinaryExpr(BinaryOp operation, ExprPtr first, ExprPtr second, int at_line)
      : Expr(ExprKind::kBinary, at_line), op(operation), left(std::move(first)), right(std::move(second)) {}
  BinaryOp op;
  ExprPtr left;
  ExprPtr right;
};

enum class CompareOp : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct CompareExpr : Expr {
  explicit CompareExpr(int at_line) : Expr(ExprKind::kCompare, at_line) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionalExpr : Expr {
  explicit ConditionalExpr(int at_line) : Expr(ExprKind::kConditional, at_line) {}
  ExprPtr condition;
  ExprPtr then;
  ExprPtr otherwise;  // null: undefined
};

struct GetAttrExpr : Expr {
  GetAttrExpr(ExprPtr value, std::string attribute, int at_line)
      : Expr(ExprKind::kGetAttr, at_line), object(std::move(value)), name(std::move(attribute)) {}
  ExprPtr object;
  std::string name;
};

struct GetItemExpr : Expr {
  GetItemExpr(ExprPtr value, ExprPtr subscript, int at_line)
      : Expr(ExprKind::kGetItem, at_line), object(std::move(value)), index(std::move(subscript)) {}
  ExprPtr object;
  ExprPtr index;
};

// Only as a subscript; each part may be null.
struct SliceExpr : Expr {
  explicit SliceExpr(int at_line) : Expr(ExprKind::kSlice, at_line) {}
  ExprPtr start;
  ExprPtr stop;
  ExprPtr step;
};

struct ArgumentList {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr dynamic_positional;  // *args
  ExprPtr dynamic_named;       // **kwargs
};

struct CallExpr : Expr {
  CallExpr(ExprPtr function, int at_line) : Expr(ExprKind::kCall, at_line), callee(std::move(function)) {}
  ExprPtr callee;
  ArgumentList arguments;
};

// kFilter and kTest. A filter's `value` is null where it is applied to the text of a block.
struct FilterExpr : Expr {
  FilterExpr(ExprKind expr_kind, ExprPtr operand, std::string filter, int at_line)
      : Expr(expr_kind, at_line), value(std::move(operand)), name(std::move(filter)) {}
  ExprPtr value;
  std::string name;
  ArgumentList arguments;
};

// --- Statements.

enum class StmtKind : uint8_t {
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBlock,
  kAutoescape,
  kBreak,
  kContinue,
  kOtherTemplate,  // include, import, extends: always an error when executed
};

struct Stmt {
  Stmt(StmtKind stmt_kind, int at_line) : kind(stmt_kind), line(at_line) {}
  virtual ~Stmt() = default;
  const StmtKind kind;
  int line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// Data is a constant string.
struct OutputStmt : Stmt {
  explicit OutputStmt(int at_line) : Stmt(StmtKind::kOutput, at_line) {}
  std::vector<ExprPtr> values;
};

struct IfStmt : Stmt {
  explicit IfStmt(int at_line) : Stmt(StmtKind::kIf, at_line) {}
  struct Branch {
    ExprPtr condition;
    Body body;
  };
  std::vector<Branch> branches;  // if, then each elif
  Body otherwise;
};

struct ForStmt : Stmt {
  explicit ForStmt(int at_line) : Stmt(StmtKind::kFor, at_line) {}
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr test;  // null where there is none
  Body body;
  Body otherwise;
  bool has_else = false;
  bool recursive = false;
  bool uses_loop = false;  // `loop` appears in the body

  // Resolved.
  ScopeEntry body_entry;
  ScopeEntry test_entry;
  ScopeEntry else_entry;
  int loop_slot = -1;
  int body_slots = 0;   // recursive: the body is a function
  ExprPtr test_target;  // the target again, resolved in the test's function
  int test_slots = 0;
};

struct SetStmt : Stmt {
  explicit SetStmt(int at_line) : Stmt(StmtKind::kSet, at_line) {}
  ExprPtr target;
  ExprPtr value;
  bool exported = false;  // at the top level: blocks see it
};

struct SetBlockStmt : Stmt {
  explicit SetBlockStmt(int at_line) : Stmt(StmtKind::kSetBlock, at_line) {}
  ExprPtr target;
  ExprPtr filter;  // chain that ends in a FilterExpr without value; null where there is none
  Body body;
  bool exported = false;
  ScopeEntry entry;
};

// A function of the template: a macro, or the body of a call block.
struct MacroFunction {
  std::string name;  // empty for a call block
  std::vector<std::unique_ptr<NameExpr>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  // Whether the body uses these names without setting them first.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;

  // Resolved. Slots of the function; -1 where the body does not use the name.
  ScopeEntry entry;
  int slots = 0;
  int caller_slot = -1;
  int kwargs_slot = -1;
  int varargs_slot = -1;
};

struct MacroStmt : Stmt {
  explicit MacroStmt(int at_line) : Stmt(StmtKind::kMacro, at_line) {}
  std::unique_ptr<NameExpr> target;
  MacroFunction function;
  bool exported = false;
};

struct CallBlockStmt : Stmt {
  explicit CallBlockStmt(int at_line) : Stmt(StmtKind::kCallBlock, at_line) {}
  ExprPtr call;  // a CallExpr; null for a `generation` block, which prints its body
  MacroFunction function;
};

struct FilterBlockStmt : Stmt {
  explicit FilterBlockStmt(int at_line) : Stmt(StmtKind::kFilterBlock, at_line) {}
  ExprPtr filter;
  Body body;
  ScopeEntry entry;
};

struct WithStmt : Stmt {
  explicit WithStmt(int at_line) : Stmt(StmtKind::kWith, at_line) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
  Body body;
  ScopeEntry entry;
};

struct BlockStmt : Stmt {
  explicit BlockStmt(int at_line) : Stmt(StmtKind::kBlock, at_line) {}
  std::string name;
  bool scoped = false;
  bool required = false;
  Body body;
  ScopeEntry entry;
  int slots = 0;
  // scoped: variables around the block that it sees.
  std::vector<std::pair<std::string, SlotRef>> visible;
};

struct AutoescapeStmt : Stmt {
  explicit AutoescapeStmt(int at_line) : Stmt(StmtKind::kAutoescape, at_line) {}
  ExprPtr enabled;
  Body body;
  ScopeEntry entry;
};

struct JumpStmt : Stmt {  // kBreak, kContinue
  using Stmt::Stmt;
};

struct OtherTemplateStmt : Stmt {
  OtherTemplateStmt(std::string statement, int at_line)
      : Stmt(StmtKind::kOtherTemplate, at_line), tag(std::move(statement)) {}
  std::string tag;
  std::vector<std::unique_ptr<NameExpr>> targets;  // what an import would define
};

struct ParsedTemplate {
  Body body;
  ScopeEntry entry;
  int slots = 0;
};

}  // namespace lamina::jinja
