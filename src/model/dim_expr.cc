#include "model/dim_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "model/dim_expr_rep.h"

namespace lamina {
namespace {

// Terms that a product may have before like terms are merged.
constexpr size_t kMaxProductTerms = 1024;

int64_t Degree(const Monomial& monomial) {
  int64_t degree = 0;
  for (const Factor& factor : monomial) degree += factor.power;
  return degree;
}

std::strong_ordering CompareTerms(std::span<const Term> a, std::span<const Term> b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    // The other way round than in a sum: names in alphabetical order.
    if (auto order = CompareMonomials(b[i].monomial, a[i].monomial); order != 0) return order;
    if (auto order = a[i].coefficient <=> b[i].coefficient; order != 0) return order;
  }
  return a.size() <=> b.size();
}

// The product of two monomials; false where a power is above kMaxPower.
bool MultiplyMonomials(const Monomial& a, const Monomial& b, Monomial& product) {
  product.clear();
  product.reserve(a.size() + b.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const auto order = i == a.size()   ? std::strong_ordering::greater
                       : j == b.size() ? std::strong_ordering::less
                                       : CompareAtoms(*a[i].atom, *b[j].atom);
    if (order < 0) {
      product.push_back(a[i++]);
    } else if (order > 0) {
      product.push_back(b[j++]);
    } else {
      Factor factor = a[i++];
      factor.power += b[j++].power;
      if (factor.power > kMaxPower) return false;
      product.push_back(std::move(factor));
    }
  }
  return true;
}

void CollectSymbols(const DimExpr& expr, std::set<std::string>& names) {
  for (const Term& term : TermsOf(expr)) {
    for (const Factor& factor : term.monomial) {
      if (factor.atom->kind == AtomKind::kSymbol) names.insert(factor.atom->name);
      for (const DimExpr& arg : factor.atom->args) CollectSymbols(arg, names);
    }
  }
}

// a + sign * b.
DimExpr AddScaled(const DimExpr& a, const DimExpr& b, int64_t sign) {
  const TermsOf left(a);
  const TermsOf right(b);
  std::vector<Term> sum;
  sum.reserve(left.size() + right.size());
  auto i = left.begin();
  auto j = right.begin();
  while (i != left.end() || j != right.end()) {
    const auto order = j == right.end()  ? std::strong_ordering::greater
                       : i == left.end() ? std::strong_ordering::less
                                         : CompareMonomials(i->monomial, j->monomial);
    if (order > 0) {
      sum.push_back(*i++);
      continue;
    }
    Term term = *j;
    if (__builtin_mul_overflow(term.coefficient, sign, &term.coefficient)) {
      return DimExpr::Unknown();
    }
    ++j;
    if (order == 0 && __builtin_add_overflow(term.coefficient, (i++)->coefficient, &term.coefficient)) {
      return DimExpr::Unknown();
    }
    if (term.coefficient != 0) sum.push_back(std::move(term));
  }
  return DimExprAccess::FromSortedTerms(std::move(sum));
}

// The arguments of a Min or Max, flattened.
void AppendArgs(AtomKind kind, const DimExpr& expr, std::vector<DimExpr>& args) {
  const Atom* atom = DimExprAccess::SingleAtom(expr);
  if (atom != nullptr && atom->kind == kind) {
    args.insert(args.end(), atom->args.begin(), atom->args.end());
  } else {
    args.push_back(expr);
  }
}

DimExpr MinOrMax(AtomKind kind, const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (a == b) return a;
  std::vector<DimExpr> candidates;
  AppendArgs(kind, a, candidates);
  AppendArgs(kind, b, candidates);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  // Every candidate is compared with every other, so that the result does not depend on their order.
  std::vector<DimExpr> args;
  for (size_t i = 0; i < candidates.size(); ++i) {
    bool dominated = false;
    for (size_t j = 0; j < candidates.size() && !dominated; ++j) {
      if (i == j) continue;
      const DimExpr excess =
          kind == AtomKind::kMax ? candidates[i] - candidates[j] : candidates[j] - candidates[i];
      const DimBounds bounds = excess.Bounds({});
      dominated = bounds.max <= 0 && (bounds.min < 0 || j < i);
    }
    if (!dominated) args.push_back(candidates[i]);
  }
  if (args.size() == 1) return args[0];
  Atom atom;
  atom.kind = kind;
  atom.args = std::move(args);
  return DimExprAccess::FromAtom(std::move(atom));
}

}  // namespace

std::strong_ordering CompareAtoms(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (auto order = a.kind <=> b.kind; order != 0) return order;
  if (auto order = a.name <=> b.name; order != 0) return order;
  for (size_t i = 0; i < a.args.size() && i < b.args.size(); ++i) {
    if (auto order = a.args[i] <=> b.args[i]; order != 0) return order;
  }
  return a.args.size() <=> b.args.size();
}

std::strong_ordering CompareMonomials(const Monomial& a, const Monomial& b) {
  if (auto order = Degree(a) <=> Degree(b); order != 0) return order;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (auto order = CompareAtoms(*b[i].atom, *a[i].atom); order != 0) return order;
    if (auto order = a[i].power <=> b[i].power; order != 0) return order;
  }
  return a.size() <=> b.size();
}

DimExpr DimExprAccess::FromSortedTerms(std::vector<Term> terms) {
  if (terms.empty()) return DimExpr(0);
  if (terms.size() == 1 && terms[0].monomial.empty()) return DimExpr(terms[0].coefficient);
  auto rep = std::make_shared<DimExpr::Rep>();
  rep->size = static_cast<int>(terms.size());
  for (const Term& term : terms) {
    for (const Factor& factor : term.monomial) {
      rep->depth = std::max(rep->depth, factor.atom->depth);
      rep->size += factor.atom->size;
      if (rep->size > DimExpr::kMaxSize) return DimExpr::Unknown();
    }
  }
  if (rep->depth > DimExpr::kMaxDepth) return DimExpr::Unknown();
  rep->terms = std::move(terms);
  return DimExpr(std::shared_ptr<const DimExpr::Rep>(std::move(rep)));
}

DimExpr DimExprAccess::FromTerms(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return CompareMonomials(a.monomial, b.monomial) > 0; });
  std::vector<Term> merged;
  merged.reserve(terms.size());
  for (Term& term : terms) {
    if (!merged.empty() && CompareMonomials(merged.back().monomial, term.monomial) == 0) {
      int64_t& sum = merged.back().coefficient;
      if (__builtin_add_overflow(sum, term.coefficient, &sum)) return DimExpr::Unknown();
    } else {
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(term));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  return FromSortedTerms(std::move(merged));
}

DimExpr DimExprAccess::FromAtom(Atom atom) {
  for (const DimExpr& arg : atom.args) {
    if (!arg.rep_) {
      ++atom.size;
      continue;
    }
    atom.depth = std::max(atom.depth, arg.rep_->depth + 1);
    atom.size += arg.rep_->size;
  }
  std::vector<Term> terms(1);
  terms[0].coefficient = 1;
  terms[0].monomial.push_back({std::make_shared<const Atom>(std::move(atom)), 1});
  return FromSortedTerms(std::move(terms));
}

const Atom* DimExprAccess::SingleAtom(const DimExpr& expr) {
  const DimExpr::Rep* rep = expr.rep_.get();
  if (rep == nullptr || rep->terms.size() != 1) return nullptr;
  const Term& term = rep->terms[0];
  if (term.coefficient != 1 || term.monomial.size() != 1 || term.monomial[0].power != 1) return nullptr;
  return term.monomial[0].atom.get();
}

TermsOf::TermsOf(const DimExpr& expr) {
  if (const DimExpr::Rep* rep = DimExprAccess::rep(expr)) {
    terms_ = rep->terms;
  } else if (!expr.Is(0)) {
    constant_.coefficient = *expr.constant();
    terms_ = std::span<const Term>(&constant_, 1);
  }
}

DimExpr DimExpr::Unknown() {
  static const std::shared_ptr<const Rep> rep = [] {
    Rep unknown;
    unknown.known = false;
    return std::make_shared<const Rep>(std::move(unknown));
  }();
  return DimExpr(rep);
}

DimExpr DimExpr::Symbol(std::string_view name) {
  Atom atom;
  atom.name = name;
  return DimExprAccess::FromAtom(std::move(atom));
}

bool DimExpr::known() const { return rep_ == nullptr || rep_->known; }

DimExpr operator+(const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (a.Is(0)) return b;
  if (b.Is(0)) return a;
  return AddScaled(a, b, 1);
}

DimExpr operator-(const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (b.Is(0)) return a;
  return AddScaled(a, b, -1);
}

DimExpr operator*(const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (a.Is(1) || b.Is(0)) return b;
  if (b.Is(1) || a.Is(0)) return a;
  const TermsOf left(a);
  const TermsOf right(b);
  if (left.size() * right.size() > kMaxProductTerms) return DimExpr::Unknown();
  std::vector<Term> product;
  product.reserve(left.size() * right.size());
  for (const Term& x : left) {
    for (const Term& y : right) {
      Term term;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &term.coefficient) ||
          !MultiplyMonomials(x.monomial, y.monomial, term.monomial)) {
        return DimExpr::Unknown();
      }
      product.push_back(std::move(term));
    }
  }
  return DimExprAccess::FromTerms(std::move(product));
}

DimExpr DimExpr::Min(const DimExpr& a, const DimExpr& b) { return MinOrMax(AtomKind::kMin, a, b); }

DimExpr DimExpr::Max(const DimExpr& a, const DimExpr& b) { return MinOrMax(AtomKind::kMax, a, b); }

std::string_view DimExpr::symbol() const {
  const Atom* atom = DimExprAccess::SingleAtom(*this);
  return atom != nullptr && atom->kind == AtomKind::kSymbol ? std::string_view(atom->name)
                                                            : std::string_view();
}

std::vector<std::string> DimExpr::Symbols() const {
  std::set<std::string> names;
  CollectSymbols(*this, names);
  return {names.begin(), names.end()};
}

bool operator==(const DimExpr& a, const DimExpr& b) {
  if (a.rep_ == b.rep_) return a.value_ == b.value_;
  return (a <=> b) == 0;
}

std::strong_ordering operator<=>(const DimExpr& a, const DimExpr& b) {
  if (a.rep_ == b.rep_) return a.value_ <=> b.value_;
  // Constants come first.
  if (!a.rep_ || !b.rep_) {
    return a.rep_ ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  return CompareTerms(a.rep_->terms, b.rep_->terms);
}

DimExpr DataDependentDim(std::string_view value_name, int axis) {
  return DimExpr::Symbol(fmt::format("{}.dim{}", value_name, axis));
}

DimExpr SymbolicShape::num_elements() const {
  DimExpr product = 1;
  for (const DimExpr& dim : dims) product = product * dim;
  return product;
}

bool SymbolicShape::is_constant() const {
  return std::all_of(dims.begin(), dims.end(), [](const DimExpr& dim) { return dim.is_constant(); });
}

std::optional<Shape> SymbolicShape::constant() const {
  Result<Shape> shape = is_constant() ? Evaluate({}) : Result<Shape>(Shape());
  if (!is_constant() || !shape.ok()) return std::nullopt;
  return *shape;
}

std::string SymbolicShape::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ",";
    text += dims[i].ToString();
  }
  return text + "]";
}

}  // namespace lamina
