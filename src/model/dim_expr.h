// Symbolic dimensions: expressions of integers and named symbols in one canonical form, so that equal
// expressions compare equal and a shape can be evaluated or bounded for a binding of its symbols.
//
//   const DimExpr total = DimExpr::Symbol("past_sequence_length") + DimExpr::Symbol("sequence_length");
//   *total.Evaluate({{"past_sequence_length", 9}, {"sequence_length", 1}})   // 10
//
// The canonical form is a sum of products: terms sorted, like terms merged, constants folded; floordiv, mod,
// min and max of expressions are atoms, simplified where their value is known for all non-negative symbols.
// A constant holds no memory.
//
// Some expressions are *unknown*: DimExpr::Unknown(), which stands for a number that nothing is known of, and
// what is made from it. Sizes are bounded, so that a hostile model costs neither time nor stack: a
// coefficient that leaves 64 bits, atoms nested deeper than kMaxDepth or more than kMaxSize operations make
// an expression unknown too. It has no bounds and fails to evaluate; shape inference puts a fresh symbol in
// its place.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

// A closed interval of values; max == kUnboundedDim means no upper bound is known, min == kUnboundedBelow no
// lower bound.
inline constexpr int64_t kUnboundedDim = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kUnboundedBelow = std::numeric_limits<int64_t>::min();
struct DimBounds {
  int64_t min = 0;
  int64_t max = kUnboundedDim;
  bool exact() const { return min == max; }
  friend bool operator==(const DimBounds&, const DimBounds&) = default;
};

using SymbolValues = std::map<std::string, int64_t, std::less<>>;
using SymbolBounds = std::map<std::string, DimBounds, std::less<>>;

// Immutable; copies share structure. Thread-safe to read.
class DimExpr {
 public:
  static constexpr int kMaxSize = 512;
  static constexpr int kMaxDepth = 24;

  DimExpr() = default;
  DimExpr(int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): integers are dimensions
  static DimExpr Symbol(std::string_view name);
  static DimExpr Unknown();
  // Parses a dim_param: a name, or an expression such as "s15 + s70", "2*seq", "floor(n/2)", "(n + 3)//4",
  // "Max(1, n)", "Mod(n, 8)", "n % 8". A text that is not such an expression is one symbol of that name; so
  // is a name with a hyphen or slash inside ("batch-size").
  static DimExpr FromDimParam(std::string_view text);

  friend DimExpr operator+(const DimExpr& a, const DimExpr& b);
  friend DimExpr operator-(const DimExpr& a, const DimExpr& b);
  friend DimExpr operator*(const DimExpr& a, const DimExpr& b);
  // Division rounds towards minus infinity; mod has the sign of the divisor. A division by a constant zero is
  // an atom whose evaluation fails.
  static DimExpr FloorDiv(const DimExpr& a, const DimExpr& b);
  static DimExpr CeilDiv(const DimExpr& a, const DimExpr& b);
  static DimExpr Mod(const DimExpr& a, const DimExpr& b);
  static DimExpr Min(const DimExpr& a, const DimExpr& b);
  static DimExpr Max(const DimExpr& a, const DimExpr& b);

  // Unknown expressions compare equal, although the numbers may differ.
  bool known() const;
  // The value where the expression has no symbols.
  std::optional<int64_t> constant() const { return rep_ ? std::nullopt : std::optional<int64_t>(value_); }
  bool is_constant() const { return rep_ == nullptr; }
  // Whether it is this constant.
  bool Is(int64_t value) const { return rep_ == nullptr && value_ == value; }
  // The name where the expression is one symbol, else empty.
  std::string_view symbol() const;
  // Names of all symbols in it, sorted.
  std::vector<std::string> Symbols() const;

  // INVALID_ARGUMENT where a symbol is unbound, a division is by zero or the result overflows.
  Result<int64_t> Evaluate(const SymbolValues& values) const;
  // An interval that holds the value for every binding inside `bounds` (symbols not named there are >= 0 and
  // unbounded). Exact for sums of distinct symbols with coefficients of one sign.
  DimBounds Bounds(const SymbolBounds& bounds) const;
  DimExpr Substitute(const std::map<std::string, DimExpr, std::less<>>& replacements) const;

  // "past_sequence_length + sequence_length", "2*s0 - 1", "(n + 3)//4", "Max(1, n)". FromDimParam reads it
  // back; a symbol whose name would read as something else is quoted: 'a + b'.
  std::string ToString() const;
  friend bool operator==(const DimExpr& a, const DimExpr& b);
  // Any total order that agrees with ==.
  friend std::strong_ordering operator<=>(const DimExpr& a, const DimExpr& b);

  struct Rep;  // in dim_expr_rep.h

 private:
  friend struct DimExprAccess;
  explicit DimExpr(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  int64_t value_ = 0;               // of a constant
  std::shared_ptr<const Rep> rep_;  // null for a constant
};

// The symbol of a dimension that only a run tells: "NonZero_3.dim1" for axis 1 of the value NonZero_3.
DimExpr DataDependentDim(std::string_view value_name, int axis);

// The dimensions of a tensor of known rank.
struct SymbolicShape {
  std::vector<DimExpr> dims;

  int rank() const { return static_cast<int>(dims.size()); }
  DimExpr num_elements() const;
  bool is_constant() const;
  // The shape where all dimensions are constants in range of Shape, else nothing.
  std::optional<Shape> constant() const;
  // The concrete shape. Errors: DimExpr::Evaluate, a negative dimension, more than Shape::kMaxRank
  // dimensions.
  Result<Shape> Evaluate(const SymbolValues& values) const;
  std::string ToString() const;  // "[batch_size,sequence_length,384]"
  friend bool operator==(const SymbolicShape&, const SymbolicShape&) = default;
};

// Bounds of every dimension of a tensor of known rank, inline like Shape.
class ShapeBounds {
 public:
  ShapeBounds() = default;
  explicit ShapeBounds(const Shape& exact);
  int rank() const { return rank_; }
  const DimBounds& operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  // REQUIRES: rank() < Shape::kMaxRank.
  void Append(DimBounds dim) { dims_[static_cast<size_t>(rank_++)] = dim; }
  // Whether every dimension has an upper bound.
  bool bounded() const;
  // The shape of the upper bounds. REQUIRES: bounded().
  Shape Max() const;

 private:
  std::array<DimBounds, Shape::kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace lamina
