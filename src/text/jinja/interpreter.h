// Runs a parsed template.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace lamina::jinja {

// The slots of one call of a function of the template.
struct Frame : MutableObject {
  Frame(Budget* budget, std::shared_ptr<Frame> enclosing, int slot_count)
      : MutableObject(budget, sizeof(*this) + static_cast<size_t>(slot_count) * sizeof(Value)),
        parent(std::move(enclosing)),
        slots(static_cast<size_t>(slot_count)) {}
  void Clear() override {
    slots.clear();
    parent.reset();
  }
  std::shared_ptr<Frame> parent;  // of the function around it in the text
  std::vector<Value> slots;
};

// One rendering.
class Interpreter : public Runtime {
 public:
  explicit Interpreter(const RenderOptions& options) : Runtime(options) {}

  void SetVariable(const std::string& name, Value value) { variables_[name] = std::move(value); }
  Result<std::string> Render(const ParsedTemplate& parsed);

  // For the callables and iterators that a template makes.
  Value CallMacro(const MacroFunction& function, const std::shared_ptr<Frame>& closure, Arguments arguments);
  Value RunRecursiveLoop(const ForStmt& loop, const std::shared_ptr<Frame>& closure, const Value& iterable,
                         int depth0);
  // Whether the test of a for statement accepts an item, in the test's own frame.
  bool PassesLoopTest(const ForStmt& loop, const std::shared_ptr<Frame>& frame, const Value& item);
  std::shared_ptr<Frame> NewFrame(std::shared_ptr<Frame> parent, int slots);
  void EnterTestScope(const ForStmt& loop, const std::shared_ptr<Frame>& frame);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class FrameScope;   // makes a frame the present one
  class BufferScope;  // collects output

  // --- Statements (interpreter.cc).
  Flow Execute(const Body& body);
  Flow Execute(const Stmt& statement);
  Flow ExecuteIf(const IfStmt& statement);
  Flow ExecuteFor(const ForStmt& statement);
  Flow RunLoop(const ForStmt& statement, const Value& iterable, Value recurse, int depth0);
  Flow ExecuteSetBlock(const SetBlockStmt& statement);
  Flow ExecuteFilterBlock(const FilterBlockStmt& statement);
  Flow ExecuteWith(const WithStmt& statement);
  void ExecuteCallBlock(const CallBlockStmt& statement);
  void ExecuteBlock(const BlockStmt& statement);
  void Emit(const Value& value);
  void EnterScope(const ScopeEntry& entry);
  void Assign(const Expr& target, const Value& value);
  void AssignParts(const SequenceExpr& target, const Value& value);
  void Export(const Expr& target);
  Value ResolveVariable(const std::string& name);
  Value MakeMacro(const MacroFunction& function);
  Value& Slot(const SlotRef& ref);

  // --- Expressions (evaluate.cc).
  Value Evaluate(const Expr& expr);
  Value EvaluateOptional(const ExprPtr& expr) { return expr ? Evaluate(*expr) : Value(); }
  std::vector<Value> EvaluateAll(const std::vector<ExprPtr>& exprs);
  Value EvaluateName(const NameExpr& expr);
  Value EvaluateDict(const DictExpr& expr);
  Value EvaluateCompare(const CompareExpr& expr);
  Value EvaluateConcat(const SequenceExpr& expr);
  Value EvaluateGetItem(const GetItemExpr& expr);
  Value EvaluateCall(const CallExpr& expr, const Value& caller);
  Value EvaluateFilter(const FilterExpr& expr);
  Arguments EvaluateArguments(const ArgumentList& list);

  std::unordered_map<std::string, Value> variables_;
  std::unordered_map<std::string, Value> exports_;  // set at the top level; blocks see them
  std::shared_ptr<Frame> frame_;
  std::string* output_ = nullptr;
  size_t open_output_bytes_ = 0;  // in all buffers that are being filled
  Value block_text_;              // what a filter without a value applies to
};

}  // namespace lamina::jinja
