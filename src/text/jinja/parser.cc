#include "text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <set>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parse_state.h"
#include "text/jinja/scope.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// Parses statements. While the bodies of macros and loops are open it notes which special names they use.
class Parser : private NameListener {
 public:
  explicit Parser(std::vector<Token> tokens) : state_(std::move(tokens)), expressions_(state_, *this) {}

  Result<Body> Run() {
    Body body = ParseUntil({});
    if (state_.failed()) return state_.status();
    return body;
  }

 private:
  using EndTags = std::vector<std::string_view>;

  // The special names of a macro whose body is being parsed; `settled` ones were assigned before any use.
  struct OpenMacro {
    MacroFunction* function;
    std::set<std::string, std::less<>> settled;
  };

  void OnUse(const std::string& name) override {
    if (!listening_) return;
    if (name == "loop") {
      for (ForStmt* loop : open_loops_) loop->uses_loop = true;
    }
    if (name != "caller" && name != "kwargs" && name != "varargs") return;
    for (OpenMacro& macro : open_macros_) {
      if (macro.settled.count(name) != 0) continue;
      if (name == "caller") macro.function->uses_caller = true;
      if (name == "kwargs") macro.function->uses_kwargs = true;
      if (name == "varargs") macro.function->uses_varargs = true;
    }
  }

  void OnAssign(const std::string& name, int line) {
    if (name == "loop" && loops_around_ > 0) {
      state_.Fail(line, "Can't assign to special loop variable in for-loop target");
    }
    if (name != "caller" && name != "kwargs" && name != "varargs") return;
    for (OpenMacro& macro : open_macros_) macro.settled.insert(name);
  }

  // Statements up to a block whose tag is one of `end_tags`, which becomes the current token; without end
  // tags up to the end of the template.
  Body ParseUntil(const EndTags& end_tags) {
    const NestingScope nesting(state_);
    Body body;
    OutputStmt* output = nullptr;  // collects data and prints up to the next block
    const auto add_output = [&](ExprPtr value) {
      if (output == nullptr) {
        auto statement = std::make_unique<OutputStmt>(state_.current().line);
        output = statement.get();
        body.push_back(std::move(statement));
      }
      output->values.push_back(std::move(value));
    };
    while (!state_.failed() && !state_.AtEnd()) {
      const Token& token = state_.current();
      if (token.kind == TokenKind::kData) {
        auto text = std::make_shared<String>(nullptr, token.text, false);
        add_output(std::make_unique<ConstExpr>(Value(Kind::kString, std::move(text)), token.line));
        state_.Next();
      } else if (token.kind == TokenKind::kVariableBegin) {
        state_.Next();
        add_output(expressions_.ParseTuple({}));
        state_.Expect(TokenKind::kVariableEnd);
      } else {
        output = nullptr;
        state_.Expect(TokenKind::kBlockBegin);
        const Token& tag = state_.current();
        if (tag.kind == TokenKind::kName &&
            std::find(end_tags.begin(), end_tags.end(), tag.text) != end_tags.end()) {
          return body;
        }
        if (StmtPtr statement = ParseStatement(end_tags)) body.push_back(std::move(statement));
        state_.Expect(TokenKind::kBlockEnd);
      }
    }
    if (!end_tags.empty()) FailUnclosed("Unexpected end of template.", end_tags);
    return body;
  }

  void FailUnclosed(std::string reason, const EndTags& end_tags) {
    if (!end_tags.empty()) {
      reason += " Jinja was looking for the following tags: ";
      for (size_t i = 0; i < end_tags.size(); ++i)
        reason += fmt::format("{}'{}'", i ? " or " : "", end_tags[i]);
      reason += ".";
    }
    if (!open_tags_.empty()) {
      reason += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
    }
    state_.Fail(state_.current().line, reason);
  }

  // The body of a statement: from the end of its opening tag up to one of `end_tags`.
  Body ParseBody(const EndTags& end_tags) {
    state_.SkipOperator(":");
    state_.Expect(TokenKind::kBlockEnd);
    return ParseUntil(end_tags);
  }

  // As ParseBody, for one end tag, which is passed over.
  Body ParseClosedBody(std::string_view end_tag) {
    Body body = ParseBody({end_tag});
    state_.Next();
    return body;
  }

  StmtPtr ParseStatement(const EndTags& end_tags) {
    const Token& tag = state_.current();
    if (tag.kind != TokenKind::kName) {
      state_.Fail(tag.line, "tag name expected");
      return nullptr;
    }
    using Handler = StmtPtr (Parser::*)();
    struct Statement {
      std::string_view tag;
      Handler handler;
    };
    static constexpr std::array<Statement, 17> kStatements = {{
        {"if", &Parser::ParseIf},
        {"set", &Parser::ParseSet},
        {"for", &Parser::ParseFor},
        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock},
        {"generation", &Parser::ParseGeneration},
        {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},
        {"block", &Parser::ParseBlock},
        {"autoescape", &Parser::ParseAutoescape},
        {"print", &Parser::ParsePrint},
        {"break", &Parser::ParseJump},
        {"continue", &Parser::ParseJump},
        {"include", &Parser::ParseInclude},
        {"extends", &Parser::ParseExtends},
        {"import", &Parser::ParseImport},
        {"from", &Parser::ParseFromImport},
    }};
    const auto found = std::find_if(kStatements.begin(), kStatements.end(),
                                    [&](const Statement& statement) { return statement.tag == tag.text; });
    if (found == kStatements.end()) {
      FailUnclosed(fmt::format("Encountered unknown tag '{}'.", tag.text), end_tags);
      return nullptr;
    }
    open_tags_.push_back(tag.text);
    StmtPtr statement = (this->*found->handler)();
    if (!state_.failed()) open_tags_.pop_back();
    return statement;
  }

  // --- Targets of assignments.

  // A name that is assigned, as the parameter of a macro or the target of an import.
  std::unique_ptr<NameExpr> ParseTargetName() {
    const int line = state_.current().line;
    auto name = std::make_unique<NameExpr>(state_.TakeName(), line);
    CheckTargetName(*name);
    return name;
  }

  void CheckTargetName(NameExpr& name) {
    static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                   "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), name.name) != kConstants.end()) {
      state_.Fail(name.line, "can't assign to a constant");
    }
    name.store = true;
    OnAssign(name.name, name.line);
  }

  // Names, tuples of them, and where allowed `namespace.attribute`.
  ExprPtr ParseTarget(std::string_view end_name, bool with_namespace) {
    if (with_namespace && state_.current().kind == TokenKind::kName && state_.look().IsOperator(".")) {
      const int line = state_.current().line;
      std::string name = state_.TakeName();
      state_.Next();
      OnUse(name);
      return std::make_unique<NamespaceAttributeExpr>(std::move(name), state_.TakeName(), line);
    }
    const bool was_listening = std::exchange(listening_, false);
    ExprPtr target = expressions_.ParseTuple({.simple = true, .end_name = end_name});
    listening_ = was_listening;
    if (!state_.failed()) CheckTarget(*target);
    return target;
  }

  void CheckTarget(Expr& target) {
    if (target.kind == ExprKind::kName) {
      CheckTargetName(static_cast<NameExpr&>(target));
    } else if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : static_cast<SequenceExpr&>(target).items) CheckTarget(*item);
    } else {
      state_.Fail(target.line, "can't assign to this expression");
    }
  }

  // --- Statements. The tag's name is the current token; each stops at the end of its last tag.

  StmtPtr ParseIf() {
    auto statement = std::make_unique<IfStmt>(state_.Next().line);
    while (!state_.failed()) {
      IfStmt::Branch& branch = statement->branches.emplace_back();
      branch.condition = expressions_.ParseTuple({.with_conditional = false});
      branch.body = ParseBody({"elif", "else", "endif"});
      const Token& tag = state_.Next();
      if (tag.IsName("elif")) continue;
      if (tag.IsName("else")) statement->otherwise = ParseClosedBody("endif");
      break;
    }
    return statement;
  }

  StmtPtr ParseFor() {
    auto statement = std::make_unique<ForStmt>(state_.Next().line);
    ++loops_around_;
    statement->target = ParseTarget("in", false);
    state_.ExpectName("in");
    statement->iterable = expressions_.ParseTuple({.with_conditional = false, .end_name = "recursive"});
    if (state_.SkipName("if")) statement->test = expressions_.ParseExpression();
    statement->recursive = state_.SkipName("recursive");
    open_loops_.push_back(statement.get());
    ++breakable_loops_;
    statement->body = ParseBody({"endfor", "else"});
    --breakable_loops_;
    open_loops_.pop_back();
    if (state_.Next().IsName("else")) {
      statement->has_else = true;
      statement->otherwise = ParseClosedBody("endfor");
    }
    --loops_around_;
    return statement;
  }

  StmtPtr ParseSet() {
    const int line = state_.Next().line;
    ExprPtr target = ParseTarget({}, true);
    if (state_.SkipOperator("=")) {
      auto statement = std::make_unique<SetStmt>(line);
      statement->target = std::move(target);
      statement->value = expressions_.ParseTuple({});
      return statement;
    }
    auto statement = std::make_unique<SetBlockStmt>(line);
    statement->target = std::move(target);
    statement->filter = expressions_.ParseFilterChain(nullptr, false);
    statement->body = ParseClosedBody("endset");
    return statement;
  }

  void ParseSignature(MacroFunction* function) {
    state_.ExpectOperator("(");
    while (!state_.failed() && !state_.current().IsOperator(")")) {
      if (!function->parameters.empty()) state_.ExpectOperator(",");
      const int line = state_.current().line;
      function->parameters.push_back(ParseTargetName());
      for (size_t i = 0; i + 1 < function->parameters.size(); ++i) {
        if (function->parameters[i]->name == function->parameters.back()->name) {
          state_.Fail(line, fmt::format("duplicate argument '{}'", function->parameters.back()->name));
        }
      }
      if (state_.SkipOperator("=")) {
        function->defaults.push_back(expressions_.ParseExpression());
      } else if (!function->defaults.empty()) {
        state_.Fail(line, "non-default argument follows default argument");
      }
    }
    state_.ExpectOperator(")");
  }

  // The body of a macro or call block; break and continue do not reach loops outside it.
  void ParseFunctionBody(MacroFunction* function, std::string_view end_tag) {
    const int outer_loops = std::exchange(breakable_loops_, 0);
    OpenMacro& open = open_macros_.emplace_back(OpenMacro{function, {}});
    for (const auto& parameter : function->parameters) {
      if (parameter->name != "caller") open.settled.insert(parameter->name);
    }
    const int line = state_.current().line;
    function->body = ParseClosedBody(end_tag);
    open_macros_.pop_back();
    breakable_loops_ = outer_loops;
    CheckCallerParameter(*function, line);
  }

  // `caller` as a parameter needs a default, and then is an ordinary one.
  void CheckCallerParameter(MacroFunction& function, int line) {
    if (!function.uses_caller) return;
    const size_t required = function.parameters.size() - function.defaults.size();
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      if (function.parameters[i]->name != "caller") continue;
      if (i < required) {
        state_.Fail(
            line,
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be "
            "given a default.");
      }
      function.uses_caller = false;
    }
  }

  StmtPtr ParseMacro() {
    auto statement = std::make_unique<MacroStmt>(state_.Next().line);
    statement->target = ParseTargetName();
    statement->function.name = statement->target->name;
    ParseSignature(&statement->function);
    ParseFunctionBody(&statement->function, "endmacro");
    return statement;
  }

  StmtPtr ParseCallBlock() {
    auto statement = std::make_unique<CallBlockStmt>(state_.Next().line);
    if (state_.current().IsOperator("(")) ParseSignature(&statement->function);
    statement->call = expressions_.ParseExpression();
    if (!state_.failed() && statement->call->kind != ExprKind::kCall)
      state_.Fail(statement->line, "expected call");
    ParseFunctionBody(&statement->function, "endcall");
    return statement;
  }

  StmtPtr ParseGeneration() {
    auto statement = std::make_unique<CallBlockStmt>(state_.Next().line);
    ParseFunctionBody(&statement->function, "endgeneration");
    return statement;
  }

  StmtPtr ParseFilterBlock() {
    auto statement = std::make_unique<FilterBlockStmt>(state_.Next().line);
    statement->filter = expressions_.ParseFilterChain(nullptr, true);
    statement->body = ParseClosedBody("endfilter");
    return statement;
  }

  StmtPtr ParseWith() {
    auto statement = std::make_unique<WithStmt>(state_.Next().line);
    while (!state_.failed() && state_.current().kind != TokenKind::kBlockEnd) {
      if (!statement->assignments.empty()) state_.ExpectOperator(",");
      ExprPtr target = ParseTarget({}, false);
      state_.ExpectOperator("=");
      statement->assignments.emplace_back(std::move(target), expressions_.ParseExpression());
    }
    statement->body = ParseClosedBody("endwith");
    return statement;
  }

  StmtPtr ParseBlock() {
    auto statement = std::make_unique<BlockStmt>(state_.Next().line);
    statement->name = state_.TakeName();
    if (!block_names_.insert(statement->name).second) {
      state_.Fail(statement->line, fmt::format("block '{}' defined twice", statement->name));
    }
    statement->scoped = state_.SkipName("scoped");
    statement->required = state_.SkipName("required");
    const int outer_loops = std::exchange(breakable_loops_, 0);
    statement->body = ParseClosedBody("endblock");
    breakable_loops_ = outer_loops;
    state_.SkipName(statement->name);
    return statement;
  }

  StmtPtr ParseAutoescape() {
    auto statement = std::make_unique<AutoescapeStmt>(state_.Next().line);
    statement->enabled = expressions_.ParseExpression();
    statement->body = ParseClosedBody("endautoescape");
    return statement;
  }

  StmtPtr ParsePrint() {
    auto statement = std::make_unique<OutputStmt>(state_.Next().line);
    while (!state_.failed() && state_.current().kind != TokenKind::kBlockEnd) {
      if (!statement->values.empty()) state_.ExpectOperator(",");
      statement->values.push_back(expressions_.ParseExpression());
    }
    return statement;
  }

  StmtPtr ParseJump() {
    const Token& tag = state_.Next();
    if (breakable_loops_ == 0) state_.Fail(tag.line, fmt::format("'{}' outside loop", tag.text));
    return std::make_unique<JumpStmt>(tag.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, tag.line);
  }

  // --- Statements that need other templates. They are read so that a template may carry them unused.

  StmtPtr ParseInclude() {
    StmtPtr statement = ParseOtherTemplate("include");
    if (state_.current().IsName("ignore") && state_.look().IsName("missing")) {
      state_.Next();
      state_.Next();
    }
    SkipImportContext();
    return statement;
  }

  StmtPtr ParseExtends() { return ParseOtherTemplate("extends"); }

  StmtPtr ParseImport() {
    auto statement = ParseOtherTemplate("import");
    state_.ExpectName("as");
    statement->targets.push_back(ParseTargetName());
    SkipImportContext();
    return statement;
  }

  StmtPtr ParseFromImport() {
    auto statement = ParseOtherTemplate("import");
    state_.ExpectName("import");
    do {
      const bool renamed = state_.look().IsName("as");
      if (renamed) {
        state_.TakeName();
        state_.Next();
      }
      statement->targets.push_back(ParseTargetName());
      if (SkipImportContext()) break;
    } while (!state_.failed() && state_.SkipOperator(","));
    return statement;
  }

  std::unique_ptr<OtherTemplateStmt> ParseOtherTemplate(std::string tag) {
    auto statement = std::make_unique<OtherTemplateStmt>(std::move(tag), state_.Next().line);
    expressions_.ParseExpression();
    return statement;
  }

  bool SkipImportContext() {
    const Token& token = state_.current();
    if ((!token.IsName("with") && !token.IsName("without")) || !state_.look().IsName("context")) return false;
    state_.Next();
    state_.Next();
    return true;
  }

  ParseState state_;
  ExpressionParser expressions_;
  bool listening_ = true;
  int loops_around_ = 0;     // for statements around, their else bodies included
  int breakable_loops_ = 0;  // loops that break and continue reach
  std::vector<ForStmt*> open_loops_;
  std::vector<OpenMacro> open_macros_;
  std::vector<std::string> open_tags_;
  std::set<std::string, std::less<>> block_names_;
};

}  // namespace

Result<std::shared_ptr<const ParsedTemplate>> ParseTemplate(std::string_view source) {
  Result<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  Result<Body> body = Parser(std::move(tokens).value()).Run();
  if (!body.ok()) return body.status();
  auto parsed = std::make_shared<ParsedTemplate>();
  parsed->body = std::move(body).value();
  LAMINA_RETURN_IF_ERROR(ResolveNames(*parsed));
  return std::shared_ptr<const ParsedTemplate>(std::move(parsed));
}

}  // namespace lamina::jinja
