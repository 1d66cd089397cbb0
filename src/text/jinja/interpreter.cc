#include "text/jinja/interpreter.h"

#include <utility>

#include "text/jinja/format.h"
#include "text/jinja/globals.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"

namespace lamina::jinja {

class Interpreter::FrameScope {
 public:
  FrameScope(Interpreter& interpreter, std::shared_ptr<Frame> frame)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.frame_, std::move(frame))) {}
  ~FrameScope() { interpreter_.frame_ = std::move(outer_); }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Frame> outer_;
};

class Interpreter::BufferScope {
 public:
  explicit BufferScope(Interpreter& interpreter)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.output_, &text_)) {}
  ~BufferScope() { Close(); }
  BufferScope(const BufferScope&) = delete;
  BufferScope& operator=(const BufferScope&) = delete;

  std::string Take() {
    Close();
    return std::move(text_);
  }

 private:
  void Close() {
    if (!open_) return;
    open_ = false;
    interpreter_.output_ = outer_;
    interpreter_.open_output_bytes_ -= text_.size();
  }

  Interpreter& interpreter_;
  std::string text_;
  std::string* outer_;
  bool open_ = true;
};

namespace {

class MacroValue final : public Callable {
 public:
  MacroValue(Budget* budget, const MacroFunction& function, std::shared_ptr<Frame> closure)
      : Callable(budget, "Macro", 1), function_(function), closure_(std::move(closure)) {}

  Value Call(Runtime& runtime, Arguments arguments) const override {
    return static_cast<Interpreter&>(runtime).CallMacro(function_, closure_, std::move(arguments));
  }

  Value Attribute(Runtime& runtime, std::string_view name) const override {
    if (name == "name") return function_.name.empty() ? Value::None() : runtime.MakeString(function_.name);
    if (name == "caller") return Value::Bool(function_.uses_caller);
    if (name == "catch_kwargs") return Value::Bool(function_.uses_kwargs);
    if (name == "catch_varargs") return Value::Bool(function_.uses_varargs);
    if (name != "arguments") return Value();
    std::vector<Value> names;
    for (const auto& parameter : function_.parameters) names.push_back(runtime.MakeString(parameter->name));
    return runtime.MakeTuple(std::move(names));
  }

  std::string Describe() const override {
    return function_.name.empty() ? "<Macro anonymous>"
                                  : fmt::format("<Macro {}>", QuoteText(function_.name));
  }

 private:
  const MacroFunction& function_;
  std::shared_ptr<Frame> closure_;
};

class RecursiveLoop final : public Callable {
 public:
  RecursiveLoop(Budget* budget, const ForStmt& loop, std::shared_ptr<Frame> closure, int depth0)
      : Callable(budget, "function", 1), loop_(loop), closure_(std::move(closure)), depth0_(depth0) {}

  Value Call(Runtime& runtime, Arguments arguments) const override {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) {
      return runtime.Fail("loop() takes one argument, the items of the next level");
    }
    return static_cast<Interpreter&>(runtime).RunRecursiveLoop(loop_, closure_, arguments.positional[0],
                                                               depth0_);
  }
  std::string Describe() const override { return "<function loop>"; }

 private:
  const ForStmt& loop_;
  std::shared_ptr<Frame> closure_;
  int depth0_;
};

// The items of a for statement that pass its test.
class FilteredIterator final : public Iterator {
 public:
  FilteredIterator(Budget* budget, const ForStmt& loop, Value source, std::shared_ptr<Frame> frame)
      : Iterator(budget, "generator", NestingOf(source)),
        loop_(loop),
        source_(std::move(source)),
        frame_(std::move(frame)) {}

  bool Next(Runtime& runtime, Value* item) override {
    while (runtime.Charge() && source_.iterator().Next(runtime, item)) {
      if (static_cast<Interpreter&>(runtime).PassesLoopTest(loop_, frame_, *item)) return !runtime.failed();
    }
    return false;
  }

 private:
  const ForStmt& loop_;
  Value source_;
  std::shared_ptr<Frame> frame_;
};

}  // namespace

Result<std::string> Interpreter::Render(const ParsedTemplate& parsed) {
  std::string text;
  if (!failed()) {
    frame_ = NewFrame(nullptr, parsed.slots);
    BufferScope buffer(*this);
    EnterScope(parsed.entry);
    Execute(parsed.body);
    text = buffer.Take();
  }
  if (failed()) return status();
  return text;
}

std::shared_ptr<Frame> Interpreter::NewFrame(std::shared_ptr<Frame> parent, int slots) {
  auto frame = New<Frame>(std::move(parent), slots);
  Register(frame);
  return frame;
}

Value& Interpreter::Slot(const SlotRef& ref) {
  Frame* frame = frame_.get();
  for (int i = 0; i < ref.hops; ++i) frame = frame->parent.get();
  return frame->slots[static_cast<size_t>(ref.slot)];
}

void Interpreter::EnterScope(const ScopeEntry& entry) {
  for (const ScopeLoad& load : entry) {
    Value value;
    if (load.action == ScopeLoad::Action::kAlias) value = Slot(load.alias);
    if (load.action == ScopeLoad::Action::kResolve) value = ResolveVariable(load.name);
    frame_->slots[static_cast<size_t>(load.slot)] = std::move(value);
  }
}

Value Interpreter::ResolveVariable(const std::string& name) {
  if (const auto found = exports_.find(name); found != exports_.end()) return found->second;
  if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
  return FindGlobal(*this, name);
}

void Interpreter::Emit(const Value& value) {
  if (failed()) return;
  const auto append = [this](std::string_view text) {
    if (text.size() > limits().max_output_bytes - open_output_bytes_) {
      FailWith(StatusCode::kResourceExhausted,
               fmt::format("the template prints more than {} bytes", limits().max_output_bytes));
      return;
    }
    output_->append(text);
    open_output_bytes_ += text.size();
  };
  if (value.is_string()) {
    if (ChargeBytes(value.text().size())) append(value.text());
  } else {
    append(ToText(*this, value));
  }
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  for (const StmtPtr& statement : body) {
    const Flow flow = Execute(*statement);
    if (flow != Flow::kNormal || failed()) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Execute(const Stmt& statement) {
  const DepthGuard guard(*this);
  if (!guard.ok() || !Charge()) return Flow::kNormal;
  line = statement.line;
  switch (statement.kind) {
    case StmtKind::kOutput:
      for (const ExprPtr& value : static_cast<const OutputStmt&>(statement).values) Emit(Evaluate(*value));
      return Flow::kNormal;
    case StmtKind::kIf:
      return ExecuteIf(static_cast<const IfStmt&>(statement));
    case StmtKind::kFor:
      return ExecuteFor(static_cast<const ForStmt&>(statement));
    case StmtKind::kSet: {
      const auto& set = static_cast<const SetStmt&>(statement);
      const Value value = Evaluate(*set.value);
      Assign(*set.target, value);
      if (set.exported) Export(*set.target);
      return Flow::kNormal;
    }
    case StmtKind::kSetBlock:
      return ExecuteSetBlock(static_cast<const SetBlockStmt&>(statement));
    case StmtKind::kMacro: {
      const auto& macro = static_cast<const MacroStmt&>(statement);
      Assign(*macro.target, MakeMacro(macro.function));
      if (macro.exported) Export(*macro.target);
      return Flow::kNormal;
    }
    case StmtKind::kCallBlock:
      ExecuteCallBlock(static_cast<const CallBlockStmt&>(statement));
      return Flow::kNormal;
    case StmtKind::kFilterBlock:
      return ExecuteFilterBlock(static_cast<const FilterBlockStmt&>(statement));
    case StmtKind::kWith:
      return ExecuteWith(static_cast<const WithStmt&>(statement));
    case StmtKind::kBlock:
      ExecuteBlock(static_cast<const BlockStmt&>(statement));
      return Flow::kNormal;
    case StmtKind::kAutoescape: {
      const auto& autoescape = static_cast<const AutoescapeStmt&>(statement);
      EnterScope(autoescape.entry);
      if (Truthy(*this, Evaluate(*autoescape.enabled))) FailUnsupported("autoescaping is not supported");
      return failed() ? Flow::kNormal : Execute(autoescape.body);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kOtherTemplate:
      Fail("no loader for this environment specified: {} needs another template",
           static_cast<const OtherTemplateStmt&>(statement).tag);
      return Flow::kNormal;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteIf(const IfStmt& statement) {
  for (const IfStmt::Branch& branch : statement.branches) {
    const bool taken = Truthy(*this, Evaluate(*branch.condition));
    if (failed()) return Flow::kNormal;
    if (taken) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

// --- Loops.

Interpreter::Flow Interpreter::ExecuteFor(const ForStmt& statement) {
  const Value iterable = Evaluate(*statement.iterable);
  if (failed()) return Flow::kNormal;
  if (!statement.recursive) return RunLoop(statement, iterable, Value(), 0);
  Emit(RunRecursiveLoop(statement, frame_, iterable, 0));
  return Flow::kNormal;
}

Value Interpreter::RunRecursiveLoop(const ForStmt& loop, const std::shared_ptr<Frame>& closure,
                                    const Value& iterable, int depth0) {
  const DepthGuard guard(*this);
  if (!guard.ok()) return Value();
  auto frame = NewFrame(closure, loop.body_slots);
  std::string text;
  {
    const FrameScope scope(*this, frame);
    BufferScope buffer(*this);
    RunLoop(loop, iterable, Value(Kind::kCallable, New<RecursiveLoop>(loop, closure, depth0 + 1)), depth0);
    text = buffer.Take();
  }
  ReleaseIfUnshared(std::move(frame));
  return failed() ? Value() : MakeString(std::move(text));
}

bool Interpreter::PassesLoopTest(const ForStmt& loop, const std::shared_ptr<Frame>& frame,
                                 const Value& item) {
  const FrameScope scope(*this, frame);
  Assign(*loop.test_target, item);
  return Truthy(*this, Evaluate(*loop.test));
}

void Interpreter::EnterTestScope(const ForStmt& loop, const std::shared_ptr<Frame>& frame) {
  const FrameScope scope(*this, frame);
  EnterScope(loop.test_entry);
}

Interpreter::Flow Interpreter::RunLoop(const ForStmt& statement, const Value& iterable, Value recurse,
                                       int depth0) {
  Value source = iterable;
  std::shared_ptr<Frame> test_frame;
  if (statement.test) {
    const Value items = Iterate(*this, iterable);
    if (failed()) return Flow::kNormal;
    // A recursive loop's test belongs to the function around the loop, as the loop's own frame does.
    test_frame = NewFrame(statement.recursive ? frame_->parent : frame_, statement.test_slots);
    EnterTestScope(statement, test_frame);
    source = Value(Kind::kIterator, New<FilteredIterator>(statement, items, test_frame));
  }
  const Value iterator = Iterate(*this, source);
  if (failed()) return Flow::kNormal;

  std::shared_ptr<Loop> loop;
  if (statement.loop_slot >= 0) {
    loop = New<Loop>();
    Register(loop);
    loop->source = source;
    loop->iterator = iterator;
    loop->recurse = std::move(recurse);
    loop->depth0 = depth0;
  }

  bool completed_one = false;  // a body that jumps away does not count, as in Jinja2
  Value item;
  while (Charge() && (loop ? loop->Advance(*this) : iterator.iterator().Next(*this, &item))) {
    if (loop) {
      item = loop->current;
      frame_->slots[static_cast<size_t>(statement.loop_slot)] = Value(Kind::kLoop, loop);
    }
    Assign(*statement.target, item);
    EnterScope(statement.body_entry);
    const Flow flow = failed() ? Flow::kNormal : Execute(statement.body);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed_one = true;
  }

  if (loop) {
    frame_->slots[static_cast<size_t>(statement.loop_slot)] = Value();
    ReleaseIfUnshared(std::move(loop));
  }
  source = item = Value();
  if (test_frame) ReleaseIfUnshared(std::move(test_frame));
  if (failed() || completed_one || !statement.has_else) return Flow::kNormal;
  EnterScope(statement.else_entry);
  return Execute(statement.otherwise);
}

// --- Blocks that capture their output.

Interpreter::Flow Interpreter::ExecuteSetBlock(const SetBlockStmt& statement) {
  EnterScope(statement.entry);
  BufferScope buffer(*this);
  const Flow flow = Execute(statement.body);
  if (flow != Flow::kNormal) return flow;
  Value value = MakeString(buffer.Take());
  if (statement.filter && !failed()) {
    const Value outer_text = std::exchange(block_text_, value);
    value = Evaluate(*statement.filter);
    block_text_ = outer_text;
  }
  if (failed()) return flow;
  Assign(*statement.target, value);
  if (statement.exported) Export(*statement.target);
  return flow;
}

Interpreter::Flow Interpreter::ExecuteFilterBlock(const FilterBlockStmt& statement) {
  EnterScope(statement.entry);
  BufferScope buffer(*this);
  const Flow flow = Execute(statement.body);
  if (flow != Flow::kNormal || failed()) return flow;
  const Value outer_text = std::exchange(block_text_, MakeString(buffer.Take()));
  const Value value = failed() ? Value() : Evaluate(*statement.filter);
  block_text_ = outer_text;
  Emit(value);
  return flow;
}

Interpreter::Flow Interpreter::ExecuteWith(const WithStmt& statement) {
  EnterScope(statement.entry);
  for (const auto& [target, value] : statement.assignments) Assign(*target, Evaluate(*value));
  return failed() ? Flow::kNormal : Execute(statement.body);
}

void Interpreter::ExecuteBlock(const BlockStmt& statement) {
  if (statement.required) {
    Fail("Required block {} not found", QuoteText(statement.name));
    return;
  }
  const auto outer_exports = exports_;
  for (const auto& [name, ref] : statement.visible) {
    if (const Value& value = Slot(ref); !value.missing()) exports_[name] = value;
  }
  auto frame = NewFrame(nullptr, statement.slots);
  {
    const FrameScope scope(*this, frame);
    EnterScope(statement.entry);
    Execute(statement.body);
  }
  ReleaseIfUnshared(std::move(frame));
  exports_ = outer_exports;
}

// --- Macros.

Value Interpreter::MakeMacro(const MacroFunction& function) {
  return Value(Kind::kCallable, New<MacroValue>(function, frame_));
}

void Interpreter::ExecuteCallBlock(const CallBlockStmt& statement) {
  const Value caller = MakeMacro(statement.function);
  if (statement.call) {
    Emit(EvaluateCall(static_cast<const CallExpr&>(*statement.call), caller));
  } else {
    Emit(CallMacro(statement.function, frame_, {}));
  }
}

Value Interpreter::CallMacro(const MacroFunction& function, const std::shared_ptr<Frame>& closure,
                             Arguments arguments) {
  const DepthGuard guard(*this);
  if (!guard.ok() || !Charge()) return Value();
  const std::string name = function.name.empty() ? "None" : QuoteText(function.name);
  const auto take_named = [&](std::string_view wanted) {
    for (size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != wanted) continue;
      Value value = std::move(arguments.named[i].second);
      arguments.named.erase(arguments.named.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    return Value();
  };

  auto frame = NewFrame(closure, function.slots);
  const size_t given = std::min(arguments.positional.size(), function.parameters.size());
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const NameExpr& parameter = *function.parameters[i];
    frame->slots[static_cast<size_t>(parameter.ref.slot)] =
        i < given ? arguments.positional[i] : take_named(parameter.name);
  }
  if (function.caller_slot >= 0) {
    Value caller = take_named("caller");
    if (caller.missing() || caller.is_none()) caller = MakeUndefined("No caller defined");
    frame->slots[static_cast<size_t>(function.caller_slot)] = std::move(caller);
  }
  if (function.kwargs_slot >= 0) {
    auto kwargs = NewDict();
    for (const auto& [key, value] : arguments.named) AddToDict(*kwargs, MakeString(key), value);
    frame->slots[static_cast<size_t>(function.kwargs_slot)] = FromDict(std::move(kwargs));
  } else if (!arguments.named.empty()) {
    const std::string& key = arguments.named.front().first;
    if (key == "caller") {
      return Fail("macro {} was invoked with two values for the special caller argument", name);
    }
    return Fail("macro {} takes no keyword argument {}", name, QuoteText(key));
  }
  if (function.varargs_slot >= 0) {
    frame->slots[static_cast<size_t>(function.varargs_slot)] =
        MakeTuple({arguments.positional.begin() + static_cast<ptrdiff_t>(given), arguments.positional.end()});
  } else if (arguments.positional.size() > function.parameters.size()) {
    return Fail("macro {} takes not more than {} argument(s)", name, function.parameters.size());
  }

  std::string text;
  {
    const FrameScope scope(*this, frame);
    EnterScope(function.entry);
    const size_t required = function.parameters.size() - function.defaults.size();
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      Value& slot = frame->slots[static_cast<size_t>(function.parameters[i]->ref.slot)];
      if (!slot.missing()) continue;
      Value value = i < required ? MakeUndefined(fmt::format("parameter {} was not provided",
                                                             QuoteText(function.parameters[i]->name)))
                                 : Evaluate(*function.defaults[i - required]);
      slot = std::move(value);
    }
    BufferScope buffer(*this);
    if (!failed()) Execute(function.body);
    text = buffer.Take();
  }
  ReleaseIfUnshared(std::move(frame));
  return failed() ? Value() : MakeString(std::move(text));
}

// --- Assignment.

void Interpreter::Assign(const Expr& target, const Value& value) {
  if (failed()) return;
  switch (target.kind) {
    case ExprKind::kName:
      Slot(static_cast<const NameExpr&>(target).ref) = value;
      return;
    case ExprKind::kTuple:
      return AssignParts(static_cast<const SequenceExpr&>(target), value);
    default: {
      const auto& attribute = static_cast<const NamespaceAttributeExpr&>(target);
      const Value& object = Slot(attribute.ref);
      if (!object.is(Kind::kNamespace)) {
        Fail("cannot assign attribute on non-namespace object");
        return;
      }
      auto& attributes = object.name_space().attributes;
      for (auto& [name, current] : attributes) {
        if (name == attribute.attribute) {
          current = value;
          return;
        }
      }
      attributes.emplace_back(attribute.attribute, value);
    }
  }
}

void Interpreter::AssignParts(const SequenceExpr& target, const Value& value) {
  if (!IsIterable(value)) {
    Fail("cannot unpack non-iterable {} object", TypeName(value));
    return;
  }
  const std::vector<Value> parts = value.is_sequence() ? value.items() : Collect(*this, value);
  const size_t expected = target.items.size();
  if (failed()) return;
  if (parts.size() < expected) {
    Fail("not enough values to unpack (expected {}, got {})", expected, parts.size());
  } else if (parts.size() > expected) {
    Fail("too many values to unpack (expected {})", expected);
  }
  for (size_t i = 0; i < expected && !failed(); ++i) Assign(*target.items[i], parts[i]);
}

void Interpreter::Export(const Expr& target) {
  if (failed()) return;
  if (target.kind == ExprKind::kName) {
    const auto& name = static_cast<const NameExpr&>(target);
    exports_[name.name] = Slot(name.ref);
  } else if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& item : static_cast<const SequenceExpr&>(target).items) Export(*item);
  }
}

}  // namespace lamina::jinja
