// FloorDiv, CeilDiv and Mod of canonical expressions: what divides goes out, the rest becomes an atom.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "model/dim_expr.h"
#include "model/dim_expr_rep.h"

namespace lamina {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0); }

// REQUIRES: b != 0, and not INT64_MIN / -1.
int64_t FloorModulo(int64_t a, int64_t b) {
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// The quotient of two monomials where the division is exact.
std::optional<Monomial> DivideMonomials(const Monomial& a, const Monomial& b) {
  Monomial quotient;
  size_t j = 0;
  for (const Factor& factor : a) {
    if (j < b.size() && CompareAtoms(*factor.atom, *b[j].atom) == 0) {
      if (factor.power < b[j].power) return std::nullopt;
      if (factor.power > b[j].power) quotient.push_back({factor.atom, factor.power - b[j].power});
      ++j;
    } else {
      quotient.push_back(factor);
    }
  }
  if (j != b.size()) return std::nullopt;
  return quotient;
}

std::optional<Term> DivideTerms(const Term& a, const Term& b) {
  // The one quotient of 64-bit integers that overflows.
  if (b.coefficient == -1 && a.coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
  if (a.coefficient % b.coefficient != 0) return std::nullopt;
  std::optional<Monomial> monomial = DivideMonomials(a.monomial, b.monomial);
  if (!monomial) return std::nullopt;
  return Term{*std::move(monomial), a.coefficient / b.coefficient};
}

DimExpr FromTerm(Term term) {
  std::vector<Term> terms;
  terms.push_back(std::move(term));
  return DimExprAccess::FromSortedTerms(std::move(terms));
}

// a / b where b divides a as a polynomial: long division in the monomial order of the canonical form.
std::optional<DimExpr> DivideExactly(const DimExpr& a, const DimExpr& b) {
  const TermsOf divisor(b);
  std::vector<Term> quotient;
  DimExpr rest = a;
  for (int step = 0; step < DimExpr::kMaxSize && rest.known(); ++step) {
    if (rest.Is(0)) return DimExprAccess::FromTerms(std::move(quotient));
    std::optional<Term> term = DivideTerms(*TermsOf(rest).begin(), *divisor.begin());
    if (!term) return std::nullopt;
    rest = rest - FromTerm(*term) * b;
    quotient.push_back(*std::move(term));
  }
  return std::nullopt;
}

uint64_t Magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// The greatest common divisor of the coefficients, starting from `divisor`.
int64_t CoefficientGcd(std::span<const Term> terms, int64_t divisor, bool with_constant) {
  uint64_t gcd = Magnitude(divisor);
  for (const Term& term : terms) {
    if (with_constant || !term.monomial.empty()) gcd = std::gcd(gcd, Magnitude(term.coefficient));
  }
  return gcd > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? 1 : static_cast<int64_t>(gcd);
}

// The monomial that divides every term of both, with the greatest common divisor of their coefficients.
Term CommonFactor(const TermsOf& a, const TermsOf& b) {
  Term common = *b.begin();
  for (const TermsOf* terms : {&b, &a}) {
    for (const Term& term : *terms) {
      Monomial shared;
      for (const Factor& factor : common.monomial) {
        for (const Factor& other : term.monomial) {
          if (CompareAtoms(*factor.atom, *other.atom) == 0) {
            shared.push_back({factor.atom, std::min(factor.power, other.power)});
          }
        }
      }
      common.monomial = std::move(shared);
    }
  }
  common.coefficient = CoefficientGcd(a.terms(), CoefficientGcd(b.terms(), 0, true), true);
  return common;
}

DimExpr MakeDivisionAtom(AtomKind kind, const DimExpr& a, const DimExpr& b) {
  Atom atom;
  atom.kind = kind;
  atom.args = {a, b};
  return DimExprAccess::FromAtom(std::move(atom));
}

// A sum split by a positive constant `c`: a = c * quotient + rest, coefficients of `rest` in (-c, c), its
// constant in [0, c). Splitting towards zero keeps a rest of one sign, whose interval is tight.
struct SplitSum {
  DimExpr quotient;
  DimExpr rest;
};
SplitSum SplitByConstant(const DimExpr& a, int64_t c) {
  std::vector<Term> quotient;
  std::vector<Term> rest;
  for (const Term& term : TermsOf(a)) {
    const bool is_constant = term.monomial.empty();
    const int64_t q = is_constant ? FloorDivide(term.coefficient, c) : term.coefficient / c;
    const int64_t r = term.coefficient - q * c;
    if (q != 0) quotient.push_back({term.monomial, q});
    if (r != 0) rest.push_back({term.monomial, r});
  }
  return {DimExprAccess::FromSortedTerms(std::move(quotient)),
          DimExprAccess::FromSortedTerms(std::move(rest))};
}

// floor((floor(x / d) + k) / c) is floor((x + k * d) / (d * c)): the flattened division, where it applies.
std::optional<std::pair<DimExpr, int64_t>> FlattenNestedDivision(const DimExpr& a, int64_t c) {
  const TermsOf terms(a);
  if (terms.size() == 0 || terms.size() > 2) return std::nullopt;
  const Term& first = *terms.begin();
  if (first.coefficient != 1 || first.monomial.size() != 1 || first.monomial[0].power != 1 ||
      first.monomial[0].atom->kind != AtomKind::kFloorDiv) {
    return std::nullopt;
  }
  int64_t offset = 0;
  if (terms.size() == 2) {
    const Term& second = *(terms.begin() + 1);
    if (!second.monomial.empty()) return std::nullopt;
    offset = second.coefficient;
  }
  const DimExpr& dividend = first.monomial[0].atom->args[0];
  const std::optional<int64_t> divisor = first.monomial[0].atom->args[1].constant();
  int64_t product = 0;
  if (!divisor || *divisor <= 0 || __builtin_mul_overflow(*divisor, c, &product)) return std::nullopt;
  DimExpr numerator = dividend + DimExpr(offset) * DimExpr(*divisor);
  if (!numerator.known()) return std::nullopt;
  return std::pair(std::move(numerator), product);
}

// REQUIRES: c > 0, a known.
DimExpr FloorDivByConstant(const DimExpr& a, int64_t c) {
  if (c == 1) return a;
  const SplitSum split = SplitByConstant(a, c);
  const DimBounds bounds = split.rest.Bounds({});
  if (bounds.min >= 0 && bounds.max < c) return split.quotient;
  // floor((g * A + k) / (g * d)) is floor((A + floor(k / g)) / d).
  const TermsOf rest(split.rest);
  const int64_t gcd = CoefficientGcd(rest.terms(), c, false);
  std::vector<Term> reduced;
  for (const Term& term : rest) {
    const int64_t coefficient = FloorDivide(term.coefficient, gcd);
    if (coefficient != 0) reduced.push_back({term.monomial, coefficient});
  }
  const DimExpr dividend = DimExprAccess::FromSortedTerms(std::move(reduced));
  const int64_t divisor = c / gcd;
  if (divisor == 1) return split.quotient + dividend;
  if (auto flat = FlattenNestedDivision(dividend, divisor)) {
    return split.quotient + FloorDivByConstant(flat->first, flat->second);
  }
  return split.quotient + MakeDivisionAtom(AtomKind::kFloorDiv, dividend, divisor);
}

// REQUIRES: c > 0, a known.
DimExpr ModByConstant(const DimExpr& a, int64_t c) {
  if (c == 1) return 0;
  const DimExpr rest = SplitByConstant(a, c).rest;
  const DimBounds bounds = rest.Bounds({});
  if (bounds.min >= 0 && bounds.max < c) return rest;
  const int64_t gcd = CoefficientGcd(TermsOf(rest).terms(), c, true);
  if (gcd == 1) return MakeDivisionAtom(AtomKind::kMod, rest, c);
  std::vector<Term> reduced;
  for (const Term& term : TermsOf(rest)) reduced.push_back({term.monomial, term.coefficient / gcd});
  return DimExpr(gcd) * ModByConstant(DimExprAccess::FromSortedTerms(std::move(reduced)), c / gcd);
}

}  // namespace

DimExpr DimExpr::FloorDiv(const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (b.Is(0)) return MakeDivisionAtom(AtomKind::kFloorDiv, a, b);
  if (b.Is(-1)) return DimExpr(0) - a;
  if (a.is_constant() && b.is_constant()) return FloorDivide(a.value_, b.value_);
  if (b.is_constant() && b.value_ > 0) return FloorDivByConstant(a, b.value_);
  if (a.Is(0)) return 0;
  if (std::optional<DimExpr> quotient = DivideExactly(a, b)) return *std::move(quotient);

  const TermsOf divisor(b);
  DimExpr quotient = 0;
  DimExpr rest = a;
  if (divisor.size() == 1) {
    // Terms that the one term of the divisor divides go out.
    std::vector<Term> divided;
    std::vector<Term> undivided;
    for (const Term& term : TermsOf(a)) {
      if (std::optional<Term> q = DivideTerms(term, *divisor.begin())) {
        divided.push_back(*std::move(q));
      } else {
        undivided.push_back(term);
      }
    }
    quotient = DimExprAccess::FromTerms(std::move(divided));
    rest = DimExprAccess::FromSortedTerms(std::move(undivided));
  }
  const Term common = CommonFactor(TermsOf(rest), divisor);
  if (!common.monomial.empty() || common.coefficient != 1) {
    const DimExpr factor = FromTerm(common);
    const std::optional<DimExpr> a_reduced = DivideExactly(rest, factor);
    const std::optional<DimExpr> b_reduced = DivideExactly(b, factor);
    if (a_reduced && b_reduced) return quotient + FloorDiv(*a_reduced, *b_reduced);
  }
  return quotient + MakeDivisionAtom(AtomKind::kFloorDiv, rest, b);
}

DimExpr DimExpr::CeilDiv(const DimExpr& a, const DimExpr& b) {
  if (b.is_constant() && b.value_ > 0) return FloorDiv(a + DimExpr(b.value_ - 1), b);
  return DimExpr(0) - FloorDiv(DimExpr(0) - a, b);
}

DimExpr DimExpr::Mod(const DimExpr& a, const DimExpr& b) {
  if (!a.known() || !b.known()) return DimExpr::Unknown();
  if (b.Is(0)) return MakeDivisionAtom(AtomKind::kMod, a, b);
  if (b.Is(-1)) return 0;
  if (a.is_constant() && b.is_constant()) return FloorModulo(a.value_, b.value_);
  if (b.is_constant() && b.value_ > 0) return ModByConstant(a, b.value_);
  if (a.Is(0) || DivideExactly(a, b)) return 0;
  return MakeDivisionAtom(AtomKind::kMod, a, b);
}

}  // namespace lamina
