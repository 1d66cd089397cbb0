#include "rewrite/pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace lamina {

struct Pattern::Rep {
  enum class Kind : uint8_t { kAny, kConstant, kNumber, kOp, kOneOf };
  Kind kind = Kind::kAny;
  std::string_view name;  // names, operators and domains are literals
  std::string_view op_type;
  std::string_view domain;
  std::optional<double> number;
  std::vector<Pattern> inputs;  // or alternatives
  bool shared = false;
  bool open = false;
};

namespace {

using Rep = Pattern::Rep;

Pattern Make(Rep rep) { return Pattern(std::make_shared<const Rep>(std::move(rep))); }

bool IsCommutative(std::string_view op_type) {
  constexpr std::array<std::string_view, 7> kCommutative = {"Add", "Mul", "And", "Or", "Max", "Min", "Equal"};
  return std::find(kCommutative.begin(), kCommutative.end(), op_type) != kCommutative.end();
}

}  // namespace

Pattern Pattern::Named(std::string_view name) const {
  Rep rep = *rep_;
  rep.name = name;
  return Make(std::move(rep));
}

Pattern Pattern::Shared() const {
  Rep rep = *rep_;
  rep.shared = true;
  return Make(std::move(rep));
}

Pattern Pattern::In(std::string_view domain) const {
  Rep rep = *rep_;
  rep.domain = domain;
  return Make(std::move(rep));
}

Pattern Pattern::Open() const {
  Rep rep = *rep_;
  rep.open = true;
  return Make(std::move(rep));
}

Pattern Any(std::string_view name) {
  Rep rep;
  rep.name = name;
  return Make(std::move(rep));
}

Pattern Constant(std::string_view name) {
  Rep rep;
  rep.kind = Rep::Kind::kConstant;
  rep.name = name;
  return Make(std::move(rep));
}

Pattern Number(double value) {
  Rep rep;
  rep.kind = Rep::Kind::kNumber;
  rep.number = value;
  return Make(std::move(rep));
}

Pattern Number(std::string_view name) {
  Rep rep;
  rep.kind = Rep::Kind::kNumber;
  rep.name = name;
  return Make(std::move(rep));
}

Pattern Op(std::string_view op_type, std::vector<Pattern> inputs) {
  Rep rep;
  rep.kind = Rep::Kind::kOp;
  rep.op_type = op_type;
  rep.inputs = std::move(inputs);
  return Make(std::move(rep));
}

Pattern OneOf(std::vector<Pattern> alternatives) {
  Rep rep;
  rep.kind = Rep::Kind::kOneOf;
  rep.inputs = std::move(alternatives);
  return Make(std::move(rep));
}

Pattern Maybe(std::string_view op_type, const Pattern& input) { return OneOf({Op(op_type, {input}), input}); }

ValueId Match::operator[](std::string_view name) const {
  for (const auto& [bound, value] : names_) {
    if (bound == name) return value;
  }
  return {};
}

class Matcher {
 public:
  explicit Matcher(const GraphEditor& editor) : editor_(editor) {}

  std::optional<Match> Find(const Pattern& pattern, NodeId root) {
    const Rep& rep = pattern.rep();
    const bool found = rep.kind == Rep::Kind::kOneOf
                           ? std::any_of(rep.inputs.begin(), rep.inputs.end(),
                                         [&](const Pattern& one) { return TryNode(one.rep(), root); })
                           : TryNode(rep, root);
    if (!found || !ServesNothingElse() || !editor_.OnOneProvider(match_.nodes_)) return {};
    return std::move(match_);
  }

 private:
  struct Mark {
    size_t names, nodes;
  };
  Mark Now() const { return {match_.names_.size(), match_.nodes_.size()}; }
  void Undo(Mark mark) {
    match_.names_.resize(mark.names);
    match_.nodes_.resize(mark.nodes);
    match_.shared_.resize(mark.nodes);
  }

  bool Bind(std::string_view name, ValueId value) {
    if (name.empty()) return true;
    for (const auto& [bound, bound_value] : match_.names_) {
      if (bound == name) return bound_value == value;
    }
    match_.names_.emplace_back(name, value);
    return true;
  }

  bool TryNode(const Rep& rep, NodeId node) {
    const Mark mark = Now();
    if (Holds(rep, node)) return true;
    Undo(mark);
    return false;
  }

  bool Try(const Rep& rep, ValueId value) {
    if (!value.valid()) return false;
    const Mark mark = Now();
    if (HoldsFor(rep, value)) return true;
    Undo(mark);
    return false;
  }

  bool HoldsFor(const Rep& rep, ValueId value) {
    switch (rep.kind) {
      case Rep::Kind::kAny:
        return Bind(rep.name, value);
      case Rep::Kind::kConstant:
        return editor_.IsConstant(value) && Bind(rep.name, value);
      case Rep::Kind::kNumber: {
        const std::optional<double> number = editor_.Scalar(value);
        if (!number) return false;
        if (rep.number && std::abs(*number - *rep.number) > 1e-6 * std::abs(*rep.number)) return false;
        return Bind(rep.name, value);
      }
      case Rep::Kind::kOneOf:
        return std::any_of(rep.inputs.begin(), rep.inputs.end(),
                           [&](const Pattern& one) { return Try(one.rep(), value); });
      case Rep::Kind::kOp: {
        const NodeId producer = editor_.Producer(value);
        return producer.valid() && editor_.Output(producer) == value && Holds(rep, producer);
      }
    }
    return false;
  }

  bool Holds(const Rep& rep, NodeId id) {
    if (rep.kind != Rep::Kind::kOp) return false;
    const Node& node = editor_.node(id);
    if (!(node.op_type == rep.op_type) || !(node.domain == rep.domain)) return false;
    const size_t count = rep.inputs.size();
    if (node.inputs.size() < count || !editor_.Output(id).valid()) return false;
    if (!rep.open) {
      for (size_t i = count; i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid()) return false;
      }
    }
    if (!Bind(rep.name, editor_.Output(id))) return false;
    match_.nodes_.push_back(id);
    match_.shared_.push_back(rep.shared);
    const Mark mark = Now();
    if (InputsHold(rep, node, false)) return true;
    Undo(mark);
    return count == 2 && IsCommutative(rep.op_type) && InputsHold(rep, node, true);
  }

  bool InputsHold(const Rep& rep, const Node& node, bool swapped) {
    for (size_t i = 0; i < rep.inputs.size(); ++i) {
      if (!Try(rep.inputs[i].rep(), node.inputs[swapped ? 1 - i : i])) return false;
    }
    return true;
  }

  // All readers of inner nodes are in the picture.
  bool ServesNothingElse() const {
    for (size_t i = 1; i < match_.nodes_.size(); ++i) {
      if (match_.shared_[i]) continue;
      for (const ValueId output : editor_.node(match_.nodes_[i]).outputs) {
        if (!output.valid()) continue;
        const ValueInfo& info = editor_.value(output);
        if (info.is_graph_output) return false;
        for (const Use& use : info.uses) {
          if (use.input_index == Use::kCapture) return false;
          if (std::find(match_.nodes_.begin(), match_.nodes_.end(), use.node) == match_.nodes_.end())
            return false;
        }
      }
    }
    return true;
  }

  const GraphEditor& editor_;
  Match match_;
};

std::optional<Match> FindMatch(const GraphEditor& editor, const Pattern& pattern, NodeId root) {
  return Matcher(editor).Find(pattern, root);
}

}  // namespace lamina
