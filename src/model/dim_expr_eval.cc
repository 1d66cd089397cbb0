// The value of a DimExpr for a binding of its symbols, and the interval of its values for bounds of them.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "model/dim_expr.h"
#include "model/dim_expr_rep.h"

namespace lamina {
namespace {

__extension__ using Int128 = __int128;

bool FitsInt64(Int128 value) {
  return value >= std::numeric_limits<int64_t>::min() && value <= std::numeric_limits<int64_t>::max();
}

Status OverflowError(const DimExpr& expr) {
  return InvalidArgumentError("dimension {}: the value does not fit 64 bits", expr.ToString());
}

// REQUIRES: b != 0.
Int128 FloorDivide(Int128 a, Int128 b) { return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0); }

// base ^ power, nothing on overflow of 128 bits.
std::optional<Int128> Power(Int128 base, int32_t power) {
  Int128 result = 1;
  while (power > 0) {
    if ((power & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
    power >>= 1;
    if (power > 0 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return result;
}

Result<int64_t> EvaluateAtom(const Atom& atom, const SymbolValues& values) {
  if (atom.kind == AtomKind::kSymbol) {
    const auto found = values.find(atom.name);
    if (found == values.end()) return InvalidArgumentError("dimension symbol {} has no value", atom.name);
    return found->second;
  }
  LAMINA_ASSIGN_OR_RETURN(int64_t result, atom.args[0].Evaluate(values));
  for (size_t i = 1; i < atom.args.size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t operand, atom.args[i].Evaluate(values));
    switch (atom.kind) {
      case AtomKind::kMin:
        result = std::min(result, operand);
        break;
      case AtomKind::kMax:
        result = std::max(result, operand);
        break;
      default: {
        if (operand == 0) {
          return InvalidArgumentError("dimension {} is divided by {}, which is 0", atom.args[0].ToString(),
                                      atom.args[1].ToString());
        }
        const Int128 quotient = FloorDivide(result, operand);
        const Int128 value = atom.kind == AtomKind::kFloorDiv ? quotient : result - quotient * operand;
        if (!FitsInt64(value)) return OverflowError(atom.args[0]);
        result = static_cast<int64_t>(value);
      }
    }
  }
  return result;
}

// Interval arithmetic on int64 with the two ends as infinities, computed in 128 bits and saturated.
constexpr Int128 kInfinity = Int128{1} << 100;
struct Interval {
  Int128 min;
  Int128 max;
};

Int128 Widen(int64_t end) {
  if (end == kUnboundedDim) return kInfinity;
  if (end == kUnboundedBelow) return -kInfinity;
  return end;
}
int64_t Narrow(Int128 end) {
  if (end >= kUnboundedDim) return kUnboundedDim;
  if (end <= kUnboundedBelow) return kUnboundedBelow;
  return static_cast<int64_t>(end);
}
Interval Widen(const DimBounds& bounds) { return {Widen(bounds.min), Widen(bounds.max)}; }

// A product of ends: 0 times infinity is 0, whatever leaves 64 bits is infinite.
Int128 MultiplyEnds(Int128 a, Int128 b) {
  if (a == 0 || b == 0) return 0;
  const bool negative = (a < 0) != (b < 0);
  Int128 product = 0;
  if (a >= kInfinity || a <= -kInfinity || b >= kInfinity || b <= -kInfinity ||
      __builtin_mul_overflow(a, b, &product) || !FitsInt64(product)) {
    return negative ? -kInfinity : kInfinity;
  }
  return product;
}
Int128 AddEnds(Int128 a, Int128 b) {
  if (a >= kInfinity || b >= kInfinity) return kInfinity;
  if (a <= -kInfinity || b <= -kInfinity) return -kInfinity;
  return a + b;
}
Int128 DivideEnds(Int128 a, Int128 b) {
  if (b >= kInfinity) return a < 0 ? -1 : 0;
  if (a >= kInfinity || a <= -kInfinity) return a;
  return FloorDivide(a, b);
}

Interval Multiply(const Interval& a, const Interval& b) {
  const auto [min, max] = std::minmax({MultiplyEnds(a.min, b.min), MultiplyEnds(a.min, b.max),
                                       MultiplyEnds(a.max, b.min), MultiplyEnds(a.max, b.max)});
  return {min, max};
}

Interval RaiseToPower(const Interval& base, int32_t power) {
  if (power % 2 == 0 && base.min < 0) {
    // An even power of an interval around or below zero.
    const Int128 far = std::max(-base.min, base.max);
    const Int128 near = base.max < 0 ? -base.max : Int128{0};
    return RaiseToPower({near, far}, power);
  }
  const auto raise = [power](Int128 end) {
    Int128 result = 1;
    for (int32_t i = 0; i < power; ++i) result = MultiplyEnds(result, end);
    return result;
  };
  return {raise(base.min), raise(base.max)};
}

// Only divisors above 0 are bounded: dimensions are not divided by negative numbers.
Interval Divide(const Interval& a, const Interval& b) {
  const Int128 least_divisor = std::max<Int128>(b.min, 1);
  if (b.min < 0 || b.max < least_divisor) return {-kInfinity, kInfinity};
  const auto [min, max] = std::minmax({DivideEnds(a.min, least_divisor), DivideEnds(a.min, b.max),
                                       DivideEnds(a.max, least_divisor), DivideEnds(a.max, b.max)});
  return {min, max};
}

Interval Modulo(const Interval& a, const Interval& b) {
  if (b.min < 0 || b.max < 1) return {-kInfinity, kInfinity};
  const Int128 most = b.max >= kInfinity ? kInfinity : b.max - 1;
  if (a.min >= 0) {
    // The remainder is never above the dividend, and is the dividend below the divisor.
    if (a.max < b.min) return a;
    return {0, std::min(a.max, most)};
  }
  return {0, most};
}

Interval BoundsOf(const DimExpr& expr, const SymbolBounds& bounds);

Interval BoundsOfAtom(const Atom& atom, const SymbolBounds& bounds) {
  if (atom.kind == AtomKind::kSymbol) {
    const auto found = bounds.find(atom.name);
    return found == bounds.end() ? Interval{0, kInfinity} : Widen(found->second);
  }
  Interval result = BoundsOf(atom.args[0], bounds);
  for (size_t i = 1; i < atom.args.size(); ++i) {
    const Interval operand = BoundsOf(atom.args[i], bounds);
    switch (atom.kind) {
      case AtomKind::kMin:
        result = {std::min(result.min, operand.min), std::min(result.max, operand.max)};
        break;
      case AtomKind::kMax:
        result = {std::max(result.min, operand.min), std::max(result.max, operand.max)};
        break;
      case AtomKind::kFloorDiv:
        result = Divide(result, operand);
        break;
      default:
        result = Modulo(result, operand);
        break;
    }
  }
  return result;
}

Interval BoundsOf(const DimExpr& expr, const SymbolBounds& bounds) {
  if (!expr.known()) return {-kInfinity, kInfinity};
  Interval sum{0, 0};
  for (const Term& term : TermsOf(expr)) {
    Interval product{term.coefficient, term.coefficient};
    for (const Factor& factor : term.monomial) {
      product = Multiply(product, RaiseToPower(BoundsOfAtom(*factor.atom, bounds), factor.power));
    }
    sum = {AddEnds(sum.min, product.min), AddEnds(sum.max, product.max)};
  }
  return sum;
}

DimExpr SubstituteAtom(const Atom& atom, const std::map<std::string, DimExpr, std::less<>>& replacements) {
  if (atom.kind == AtomKind::kSymbol) {
    const auto found = replacements.find(atom.name);
    return found == replacements.end() ? DimExpr::Symbol(atom.name) : found->second;
  }
  DimExpr result = atom.args[0].Substitute(replacements);
  for (size_t i = 1; i < atom.args.size(); ++i) {
    const DimExpr operand = atom.args[i].Substitute(replacements);
    switch (atom.kind) {
      case AtomKind::kMin:
        result = DimExpr::Min(result, operand);
        break;
      case AtomKind::kMax:
        result = DimExpr::Max(result, operand);
        break;
      case AtomKind::kFloorDiv:
        result = DimExpr::FloorDiv(result, operand);
        break;
      default:
        result = DimExpr::Mod(result, operand);
        break;
    }
  }
  return result;
}

DimExpr RaiseToPower(DimExpr base, int32_t power) {
  DimExpr result = 1;
  while (power > 0) {
    if ((power & 1) != 0) result = result * base;
    power >>= 1;
    if (power > 0) base = base * base;
  }
  return result;
}

}  // namespace

Result<int64_t> DimExpr::Evaluate(const SymbolValues& values) const {
  if (!known()) return InvalidArgumentError("the dimension is not known");
  if (is_constant()) return value_;
  Int128 sum = 0;
  for (const Term& term : rep_->terms) {
    Int128 product = term.coefficient;
    for (const Factor& factor : term.monomial) {
      LAMINA_ASSIGN_OR_RETURN(const int64_t value, EvaluateAtom(*factor.atom, values));
      const std::optional<Int128> power = Power(value, factor.power);
      if (!power || __builtin_mul_overflow(product, *power, &product)) return OverflowError(*this);
    }
    if (__builtin_add_overflow(sum, product, &sum)) return OverflowError(*this);
  }
  if (!FitsInt64(sum)) return OverflowError(*this);
  return static_cast<int64_t>(sum);
}

DimBounds DimExpr::Bounds(const SymbolBounds& bounds) const {
  if (is_constant()) return {value_, value_};
  const Interval interval = BoundsOf(*this, bounds);
  return {Narrow(interval.min), Narrow(interval.max)};
}

DimExpr DimExpr::Substitute(const std::map<std::string, DimExpr, std::less<>>& replacements) const {
  if (is_constant() || !known()) return *this;
  DimExpr sum = 0;
  for (const Term& term : rep_->terms) {
    DimExpr product = term.coefficient;
    for (const Factor& factor : term.monomial) {
      product = product * RaiseToPower(SubstituteAtom(*factor.atom, replacements), factor.power);
    }
    sum = sum + product;
  }
  return sum;
}

Result<Shape> SymbolicShape::Evaluate(const SymbolValues& values) const {
  if (rank() > Shape::kMaxRank) {
    return InvalidArgumentError("shape of {} dimensions: at most {} are supported", rank(), Shape::kMaxRank);
  }
  Shape shape;
  for (const DimExpr& dim : dims) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t value, dim.Evaluate(values));
    if (value < 0) return InvalidArgumentError("dimension {} is {}, below 0", dim.ToString(), value);
    shape.Append(value);
  }
  return shape;
}

ShapeBounds::ShapeBounds(const Shape& exact) {
  for (const int64_t dim : exact) Append({dim, dim});
}

bool ShapeBounds::bounded() const {
  return std::all_of(dims_.begin(), dims_.begin() + rank_,
                     [](const DimBounds& dim) { return dim.max != kUnboundedDim; });
}

Shape ShapeBounds::Max() const {
  Shape shape;
  for (int axis = 0; axis < rank_; ++axis) shape.Append((*this)[axis].max);
  return shape;
}

}  // namespace lamina
