// How a DimExpr that is not a constant is stored: a sum of terms, each a coefficient times a product of
// powers of atoms. Shared by the dim_expr*.cc files only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/dim_expr.h"

namespace lamina {

// What a product is made of: a symbol, or an operation that the sum of products cannot express.
enum class AtomKind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };

struct Atom {
  AtomKind kind = AtomKind::kSymbol;
  std::string name;           // kSymbol
  std::vector<DimExpr> args;  // kFloorDiv, kMod: dividend, divisor; kMin, kMax: two or more, sorted
  int depth = 1;              // of nested atoms
  int size = 1;               // atoms in it, itself included
};

struct Factor {
  std::shared_ptr<const Atom> atom;
  int32_t power = 1;
};

// Higher powers are unknown.
inline constexpr int32_t kMaxPower = 32;

// Factors in ascending order of their atoms; empty for the constant term.
using Monomial = std::vector<Factor>;

struct Term {
  Monomial monomial;
  int64_t coefficient = 0;
};

// Terms in descending graded lexicographic order (a monomial order, so that long division works), without
// zero coefficients; the constant term is last. Never just a constant.
struct DimExpr::Rep {
  std::vector<Term> terms;
  int depth = 1;
  int size = 1;
  bool known = true;
};

std::strong_ordering CompareAtoms(const Atom& a, const Atom& b);
// `greater` comes first in a sum.
std::strong_ordering CompareMonomials(const Monomial& a, const Monomial& b);

struct DimExprAccess {
  // The expression of terms in canonical order.
  static DimExpr FromSortedTerms(std::vector<Term> terms);
  // Sorts and merges first.
  static DimExpr FromTerms(std::vector<Term> terms);
  static DimExpr FromAtom(Atom atom);
  static DimExpr Unknown();
  // The atom where the expression is exactly one, else null.
  static const Atom* SingleAtom(const DimExpr& expr);
  static const DimExpr::Rep* rep(const DimExpr& expr) { return expr.rep_.get(); }
};

// The terms of any expression, constants included. REQUIRES: the expression outlives it.
class TermsOf {
 public:
  explicit TermsOf(const DimExpr& expr);
  TermsOf(const TermsOf&) = delete;
  TermsOf& operator=(const TermsOf&) = delete;
  std::span<const Term> terms() const { return terms_; }
  auto begin() const { return terms_.begin(); }
  auto end() const { return terms_.end(); }
  size_t size() const { return terms_.size(); }

 private:
  Term constant_;
  std::span<const Term> terms_;
};

}  // namespace lamina
