#include "text/jinja/scope.h"

#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "text/jinja/filters.h"
#include "text/jinja/tests.h"

namespace lamina::jinja {

namespace {

struct Function {
  Function* parent;
  int slots = 0;
};

// A variable: a slot of a function.
struct Variable {
  Function* function = nullptr;
  int slot = 0;
};

// The names of one scope. While an `if` is analysed each branch notes what it adds in a scope of its own.
class Scope {
 public:
  Scope(const Scope* parent, Function* function)
      : parent_(parent), function_(function), slots_(std::make_shared<std::map<std::string, int>>()) {}
  // The same scope as one branch of an `if` sees it.
  Scope Branch() const {
    Scope branch(parent_, function_);
    branch.base_ = this;
    branch.slots_ = slots_;
    return branch;
  }

  Function* function() const { return function_; }

  std::optional<Variable> Find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr;
         scope = scope->base_ != nullptr ? scope->base_ : scope->parent_) {
      const auto found = scope->refs_.find(name);
      if (found != scope->refs_.end()) return found->second;
    }
    return std::nullopt;
  }

  void Load(const std::string& name) {
    if (!Find(name)) Define(name, Source{ScopeLoad::Action::kResolve, {}, name});
  }

  void Store(const std::string& name) {
    stores_.insert(name);
    for (const Scope* scope = this; scope != nullptr; scope = scope->base_) {
      if (scope->refs_.count(name) != 0) return;
    }
    if (const auto outer = parent_ != nullptr ? parent_->Find(name) : std::nullopt) {
      Define(name, Source{ScopeLoad::Action::kAlias, *outer, {}});
    } else {
      Define(name, Source{ScopeLoad::Action::kClear, {}, {}});
    }
  }

  // A variable that is set from outside when the scope is entered. Returns its slot.
  int DeclareParameter(const std::string& name) {
    stores_.insert(name);
    Define(name, std::nullopt);
    return refs_.at(name).slot;
  }

  // Takes over what the branches of an `if` found. A name that only some of them set keeps its outer value
  // in the others.
  void MergeBranches(const std::vector<Scope>& branches) {
    std::map<std::string, size_t> store_counts;
    for (const Scope& branch : branches) {
      for (const std::string& name : branch.stores_) {
        if (!Stores(name)) ++store_counts[name];
      }
    }
    for (const Scope& branch : branches) {
      for (const auto& [name, variable] : branch.refs_) refs_[name] = variable;
      for (const auto& [slot, source] : branch.sources_) sources_[slot] = source;
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const auto& [name, count] : store_counts) {
      if (count == branches.size()) continue;
      const int slot = Find(name)->slot;
      const auto outer = parent_ != nullptr ? parent_->Find(name) : std::nullopt;
      sources_[slot] = outer ? Source{ScopeLoad::Action::kAlias, *outer, {}}
                             : Source{ScopeLoad::Action::kResolve, {}, name};
    }
  }

  SlotRef RefTo(const Variable& variable) const {
    SlotRef ref;
    ref.slot = variable.slot;
    for (const Function* at = function_; at != variable.function; at = at->parent) ++ref.hops;
    return ref;
  }

  // What entering the scope does.
  ScopeEntry Entry() const {
    ScopeEntry entry;
    for (const auto& [slot, source] : sources_) {
      if (!source) continue;
      ScopeLoad load;
      load.action = source->action;
      load.slot = slot;
      load.name = source->name;
      if (source->action == ScopeLoad::Action::kAlias) load.alias = RefTo(source->outer);
      entry.push_back(std::move(load));
    }
    return entry;
  }

  // All names that are set in this scope or around it.
  std::vector<std::pair<std::string, SlotRef>> VisibleStores() const {
    std::map<std::string, SlotRef> visible;
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      for (const std::string& name : scope->stores_) visible.emplace(name, RefTo(*Find(name)));
    }
    return {visible.begin(), visible.end()};
  }

 private:
  struct Source {
    ScopeLoad::Action action;
    Variable outer;
    std::string name;
  };

  bool Stores(const std::string& name) const {
    return stores_.count(name) != 0 || (base_ != nullptr && base_->Stores(name));
  }

  void Define(const std::string& name, std::optional<Source> source) {
    const auto [found, inserted] = slots_->emplace(name, function_->slots);
    if (inserted) ++function_->slots;
    refs_[name] = Variable{function_, found->second};
    sources_[found->second] = std::move(source);
  }

  const Scope* parent_;
  const Scope* base_ = nullptr;  // of a branch
  Function* function_;
  std::map<std::string, Variable> refs_;
  std::map<int, std::optional<Source>> sources_;  // by slot; nothing for parameters
  std::set<std::string> stores_;
  std::shared_ptr<std::map<std::string, int>> slots_;  // shared by the branches
};

// First pass over one scope: which names it mentions. Stops where inner scopes begin.
class ScopeAnalyzer {
 public:
  explicit ScopeAnalyzer(Scope* scope) : scope_(scope) {}

  void Visit(const Body& body) {
    for (const StmtPtr& statement : body) Visit(*statement);
  }

  void VisitTarget(const Expr& target, bool as_parameter) {
    if (target.kind == ExprKind::kName) {
      const std::string& name = static_cast<const NameExpr&>(target).name;
      if (as_parameter) {
        scope_->DeclareParameter(name);
      } else {
        scope_->Store(name);
      }
    } else if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : static_cast<const SequenceExpr&>(target).items)
        VisitTarget(*item, as_parameter);
    } else {
      scope_->Load(static_cast<const NamespaceAttributeExpr&>(target).name);
    }
  }

  void Visit(const ExprPtr& expr) {
    if (expr) Visit(*expr);
  }

  void Visit(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kConst:
        return;
      case ExprKind::kName:
        return scope_->Load(static_cast<const NameExpr&>(expr).name);
      case ExprKind::kNamespaceAttribute:
        return scope_->Load(static_cast<const NamespaceAttributeExpr&>(expr).name);
      case ExprKind::kList:
      case ExprKind::kTuple:
      case ExprKind::kConcat:
      case ExprKind::kAnd:
      case ExprKind::kOr:
        for (const ExprPtr& item : static_cast<const SequenceExpr&>(expr).items) Visit(item);
        return;
      case ExprKind::kDict:
        for (const auto& [key, value] : static_cast<const DictExpr&>(expr).entries) {
          Visit(key);
          Visit(value);
        }
        return;
      case ExprKind::kNot:
      case ExprKind::kNegative:
      case ExprKind::kPositive:
        return Visit(static_cast<const UnaryExpr&>(expr).operand);
      case ExprKind::kBinary:
        Visit(static_cast<const BinaryExpr&>(expr).left);
        return Visit(static_cast<const BinaryExpr&>(expr).right);
      case ExprKind::kCompare:
        Visit(static_cast<const CompareExpr&>(expr).first);
        for (const auto& [op, operand] : static_cast<const CompareExpr&>(expr).rest) Visit(operand);
        return;
      case ExprKind::kConditional: {
        const auto& conditional = static_cast<const ConditionalExpr&>(expr);
        Visit(conditional.condition);
        Visit(conditional.then);
        return Visit(conditional.otherwise);
      }
      case ExprKind::kGetAttr:
        return Visit(static_cast<const GetAttrExpr&>(expr).object);
      case ExprKind::kGetItem:
        Visit(static_cast<const GetItemExpr&>(expr).object);
        return Visit(static_cast<const GetItemExpr&>(expr).index);
      case ExprKind::kSlice: {
        const auto& slice = static_cast<const SliceExpr&>(expr);
        Visit(slice.start);
        Visit(slice.stop);
        return Visit(slice.step);
      }
      case ExprKind::kCall:
        Visit(static_cast<const CallExpr&>(expr).callee);
        return Visit(static_cast<const CallExpr&>(expr).arguments);
      case ExprKind::kFilter:
      case ExprKind::kTest:
        Visit(static_cast<const FilterExpr&>(expr).value);
        return Visit(static_cast<const FilterExpr&>(expr).arguments);
    }
  }

  void Visit(const Stmt& statement) {
    switch (statement.kind) {
      case StmtKind::kOutput:
        for (const ExprPtr& value : static_cast<const OutputStmt&>(statement).values) Visit(value);
        return;
      case StmtKind::kIf:
        return VisitIf(static_cast<const IfStmt&>(statement));
      case StmtKind::kFor:
        return Visit(static_cast<const ForStmt&>(statement).iterable);
      case StmtKind::kSet:
        Visit(static_cast<const SetStmt&>(statement).value);
        return VisitTarget(*static_cast<const SetStmt&>(statement).target, false);
      case StmtKind::kSetBlock:
        return VisitTarget(*static_cast<const SetBlockStmt&>(statement).target, false);
      case StmtKind::kMacro:
        return scope_->Store(static_cast<const MacroStmt&>(statement).target->name);
      case StmtKind::kCallBlock:
        return Visit(static_cast<const CallBlockStmt&>(statement).call);
      case StmtKind::kFilterBlock:
        return Visit(static_cast<const FilterBlockStmt&>(statement).filter);
      case StmtKind::kWith:
        for (const auto& [target, value] : static_cast<const WithStmt&>(statement).assignments) Visit(value);
        return;
      case StmtKind::kOtherTemplate:
        for (const auto& target : static_cast<const OtherTemplateStmt&>(statement).targets) {
          scope_->Store(target->name);
        }
        return;
      case StmtKind::kBlock:
      case StmtKind::kAutoescape:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

 private:
  void Visit(const ArgumentList& arguments) {
    for (const ExprPtr& value : arguments.positional) Visit(value);
    for (const auto& [name, value] : arguments.named) Visit(value);
    Visit(arguments.dynamic_positional);
    Visit(arguments.dynamic_named);
  }

  // The three branches are the first body, all elifs together, and the else body.
  void VisitIf(const IfStmt& statement) {
    Visit(statement.branches.front().condition);
    std::vector<Scope> branches(3, scope_->Branch());
    ScopeAnalyzer(&branches[0]).Visit(statement.branches.front().body);
    for (size_t i = 1; i < statement.branches.size(); ++i) {
      ScopeAnalyzer elif (&branches[1]);
      elif.Visit(statement.branches[i].condition);
      const Scope empty = branches[1].Branch();
      Scope body = branches[1].Branch();
      ScopeAnalyzer(&body).Visit(statement.branches[i].body);
      branches[1].MergeBranches({body, empty, empty});
    }
    ScopeAnalyzer(&branches[2]).Visit(statement.otherwise);
    scope_->MergeBranches(branches);
  }

  Scope* scope_;
};

ExprPtr CloneTarget(const Expr& target) {
  if (target.kind == ExprKind::kName) {
    auto name = std::make_unique<NameExpr>(static_cast<const NameExpr&>(target).name, target.line);
    name->store = true;
    return name;
  }
  auto tuple = std::make_unique<SequenceExpr>(ExprKind::kTuple, target.line);
  for (const ExprPtr& item : static_cast<const SequenceExpr&>(target).items)
    tuple->items.push_back(CloneTarget(*item));
  return tuple;
}

// Second pass: writes slots into the tree and opens inner scopes.
class Resolver {
 public:
  Status Run(ParsedTemplate& parsed) {
    Function function{nullptr};
    Scope scope(nullptr, &function);
    ScopeAnalyzer(&scope).Visit(parsed.body);
    Resolve(parsed.body, Frame{&scope, true, false});
    parsed.entry = scope.Entry();
    parsed.slots = function.slots;
    return status_;
  }

 private:
  struct Frame {
    Scope* scope;
    bool top_level;    // assignments are visible to blocks
    bool conditional;  // directly in an `if`: unknown filters fail only when they run

    Frame Inner(Scope* inner) const { return Frame{inner, false, false}; }
    Frame Soft() const { return Frame{scope, top_level, true}; }
  };

  void Fail(int line, std::string reason) {
    if (status_.ok()) status_ = InvalidModelError("line {}: {}", line, reason);
  }

  void Resolve(Body& body, const Frame& frame) {
    for (const StmtPtr& statement : body) Resolve(*statement, frame);
  }

  SlotRef Ref(const std::string& name, const Frame& frame) {
    frame.scope->Load(name);
    return frame.scope->RefTo(*frame.scope->Find(name));
  }

  void Resolve(const ExprPtr& expr, const Frame& frame) {
    if (expr) Resolve(*expr, frame);
  }

  void Resolve(Expr& expr, const Frame& frame) {
    switch (expr.kind) {
      case ExprKind::kConst:
        return;
      case ExprKind::kName: {
        auto& name = static_cast<NameExpr&>(expr);
        name.ref = Ref(name.name, frame);
        return;
      }
      case ExprKind::kNamespaceAttribute: {
        auto& target = static_cast<NamespaceAttributeExpr&>(expr);
        target.ref = Ref(target.name, frame);
        return;
      }
      case ExprKind::kList:
      case ExprKind::kTuple:
      case ExprKind::kConcat:
      case ExprKind::kAnd:
      case ExprKind::kOr:
        for (const ExprPtr& item : static_cast<SequenceExpr&>(expr).items) Resolve(item, frame);
        return;
      case ExprKind::kDict:
        for (const auto& [key, value] : static_cast<DictExpr&>(expr).entries) {
          Resolve(key, frame);
          Resolve(value, frame);
        }
        return;
      case ExprKind::kNot:
      case ExprKind::kNegative:
      case ExprKind::kPositive:
        return Resolve(static_cast<UnaryExpr&>(expr).operand, frame);
      case ExprKind::kBinary:
        Resolve(static_cast<BinaryExpr&>(expr).left, frame);
        return Resolve(static_cast<BinaryExpr&>(expr).right, frame);
      case ExprKind::kCompare:
        Resolve(static_cast<CompareExpr&>(expr).first, frame);
        for (const auto& [op, operand] : static_cast<CompareExpr&>(expr).rest) Resolve(operand, frame);
        return;
      case ExprKind::kConditional: {
        auto& conditional = static_cast<ConditionalExpr&>(expr);
        Resolve(conditional.condition, frame.Soft());
        Resolve(conditional.then, frame.Soft());
        return Resolve(conditional.otherwise, frame.Soft());
      }
      case ExprKind::kGetAttr:
        return Resolve(static_cast<GetAttrExpr&>(expr).object, frame);
      case ExprKind::kGetItem:
        Resolve(static_cast<GetItemExpr&>(expr).object, frame);
        return Resolve(static_cast<GetItemExpr&>(expr).index, frame);
      case ExprKind::kSlice: {
        auto& slice = static_cast<SliceExpr&>(expr);
        Resolve(slice.start, frame);
        Resolve(slice.stop, frame);
        return Resolve(slice.step, frame);
      }
      case ExprKind::kCall:
        Resolve(static_cast<CallExpr&>(expr).callee, frame);
        return Resolve(static_cast<CallExpr&>(expr).arguments, frame);
      case ExprKind::kFilter:
      case ExprKind::kTest: {
        auto& filter = static_cast<FilterExpr&>(expr);
        const bool is_filter = expr.kind == ExprKind::kFilter;
        const bool known = is_filter ? IsFilter(filter.name) : IsTest(filter.name);
        if (!known && !frame.conditional) {
          Fail(filter.line, fmt::format("No {} named '{}'.", is_filter ? "filter" : "test", filter.name));
        }
        Resolve(filter.value, frame);
        return Resolve(filter.arguments, frame);
      }
    }
  }

  void Resolve(ArgumentList& arguments, const Frame& frame) {
    for (const ExprPtr& value : arguments.positional) Resolve(value, frame);
    for (const auto& [name, value] : arguments.named) Resolve(value, frame);
    Resolve(arguments.dynamic_positional, frame);
    Resolve(arguments.dynamic_named, frame);
  }

  void Resolve(Stmt& statement, const Frame& frame) {
    switch (statement.kind) {
      case StmtKind::kOutput:
        for (const ExprPtr& value : static_cast<OutputStmt&>(statement).values) Resolve(value, frame);
        return;
      case StmtKind::kIf: {
        auto& conditional = static_cast<IfStmt&>(statement);
        for (IfStmt::Branch& branch : conditional.branches) {
          Resolve(branch.condition, frame.Soft());
          Resolve(branch.body, frame.Soft());
        }
        return Resolve(conditional.otherwise, frame.Soft());
      }
      case StmtKind::kFor:
        return ResolveFor(static_cast<ForStmt&>(statement), frame);
      case StmtKind::kSet: {
        auto& set = static_cast<SetStmt&>(statement);
        Resolve(set.value, frame);
        Resolve(set.target, frame);
        set.exported = frame.top_level;
        return;
      }
      case StmtKind::kSetBlock: {
        auto& set = static_cast<SetBlockStmt&>(statement);
        Scope scope(frame.scope, frame.scope->function());
        ScopeAnalyzer(&scope).Visit(set.body);
        Resolve(set.body, frame.Inner(&scope));
        Resolve(set.filter, frame.Inner(&scope));
        Resolve(set.target, frame);
        set.entry = scope.Entry();
        set.exported = frame.top_level;
        return;
      }
      case StmtKind::kMacro: {
        auto& macro = static_cast<MacroStmt&>(statement);
        ResolveFunction(macro.function, frame);
        Resolve(*macro.target, frame);
        macro.exported = frame.top_level;
        return;
      }
      case StmtKind::kCallBlock: {
        auto& call = static_cast<CallBlockStmt&>(statement);
        ResolveFunction(call.function, frame);
        return Resolve(call.call, frame);
      }
      case StmtKind::kFilterBlock: {
        auto& block = static_cast<FilterBlockStmt&>(statement);
        Scope scope(frame.scope, frame.scope->function());
        ScopeAnalyzer(&scope).Visit(block.body);
        ScopeAnalyzer(&scope).Visit(block.filter);
        Resolve(block.body, frame.Inner(&scope));
        Resolve(block.filter, frame.Inner(&scope));
        block.entry = scope.Entry();
        return;
      }
      case StmtKind::kWith: {
        auto& with = static_cast<WithStmt&>(statement);
        Scope scope(frame.scope, frame.scope->function());
        ScopeAnalyzer analyzer(&scope);
        for (const auto& [target, value] : with.assignments) analyzer.VisitTarget(*target, true);
        analyzer.Visit(with.body);
        for (const auto& [target, value] : with.assignments) {
          Resolve(target, frame.Inner(&scope));
          Resolve(value, frame);
        }
        Resolve(with.body, frame.Inner(&scope));
        with.entry = scope.Entry();
        return;
      }
      case StmtKind::kBlock:
        return ResolveBlock(static_cast<BlockStmt&>(statement), frame);
      case StmtKind::kAutoescape: {
        auto& autoescape = static_cast<AutoescapeStmt&>(statement);
        Scope scope(frame.scope, frame.scope->function());
        ScopeAnalyzer(&scope).Visit(autoescape.enabled);
        ScopeAnalyzer(&scope).Visit(autoescape.body);
        Resolve(autoescape.enabled, frame.Inner(&scope));
        Resolve(autoescape.body, frame.Inner(&scope));
        autoescape.entry = scope.Entry();
        return;
      }
      case StmtKind::kOtherTemplate:
        for (const auto& target : static_cast<OtherTemplateStmt&>(statement).targets) Resolve(*target, frame);
        return;
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

  void ResolveFor(ForStmt& loop, const Frame& frame) {
    Resolve(loop.iterable, frame);

    if (loop.test) {
      Function test_function{frame.scope->function()};
      Scope test_scope(frame.scope, &test_function);
      loop.test_target = CloneTarget(*loop.target);
      ScopeAnalyzer analyzer(&test_scope);
      analyzer.VisitTarget(*loop.test_target, true);
      analyzer.Visit(loop.test);
      Resolve(loop.test_target, frame.Inner(&test_scope));
      Resolve(loop.test, frame.Inner(&test_scope));
      loop.test_entry = test_scope.Entry();
      loop.test_slots = test_function.slots;
    }

    Function loop_function{frame.scope->function()};
    Function* const function = loop.recursive ? &loop_function : frame.scope->function();
    Scope body_scope(frame.scope, function);
    if (loop.uses_loop || loop.recursive) loop.loop_slot = body_scope.DeclareParameter("loop");
    ScopeAnalyzer analyzer(&body_scope);
    analyzer.VisitTarget(*loop.target, true);
    analyzer.Visit(loop.body);
    Resolve(loop.target, frame.Inner(&body_scope));
    Resolve(loop.body, frame.Inner(&body_scope));
    loop.body_entry = body_scope.Entry();

    if (loop.has_else) {
      Scope else_scope(frame.scope, function);
      ScopeAnalyzer(&else_scope).Visit(loop.otherwise);
      Resolve(loop.otherwise, frame.Inner(&else_scope));
      loop.else_entry = else_scope.Entry();
    }
    loop.body_slots = loop_function.slots;
  }

  void ResolveFunction(MacroFunction& macro, const Frame& frame) {
    Function function{frame.scope->function()};
    Scope scope(frame.scope, &function);
    for (const auto& parameter : macro.parameters) scope.DeclareParameter(parameter->name);
    if (macro.uses_caller) macro.caller_slot = scope.DeclareParameter("caller");
    if (macro.uses_kwargs) macro.kwargs_slot = scope.DeclareParameter("kwargs");
    if (macro.uses_varargs) macro.varargs_slot = scope.DeclareParameter("varargs");
    ScopeAnalyzer analyzer(&scope);
    for (const ExprPtr& value : macro.defaults) analyzer.Visit(value);
    analyzer.Visit(macro.body);
    const Frame inner = frame.Inner(&scope);
    for (const auto& parameter : macro.parameters) Resolve(*parameter, inner);
    for (const ExprPtr& value : macro.defaults) Resolve(value, inner);
    Resolve(macro.body, inner);
    macro.entry = scope.Entry();
    macro.slots = function.slots;
  }

  // A block sees the rendering's variables and what was set at the top level, not the scopes around it.
  void ResolveBlock(BlockStmt& block, const Frame& frame) {
    if (block.scoped) block.visible = frame.scope->VisibleStores();
    Function function{nullptr};
    Scope scope(nullptr, &function);
    ScopeAnalyzer(&scope).Visit(block.body);
    Resolve(block.body, Frame{&scope, false, false});
    block.entry = scope.Entry();
    block.slots = function.slots;
  }

  Status status_;
};

}  // namespace

Status ResolveNames(ParsedTemplate& parsed) { return Resolver().Run(parsed); }

}  // namespace lamina::jinja
