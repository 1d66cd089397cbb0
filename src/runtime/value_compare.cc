#include "runtime/value_compare.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "base/element_type.h"
#include "base/error.h"

namespace lamina {
namespace {

// "[1,0,2]": the place of a flat index.
std::string Coordinates(const Shape& shape, int64_t index) {
  Shape place = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return place.ToString();
}

std::string Describe(double value) { return fmt::format("{:.9g}", value); }
std::string Describe(std::complex<double> value) {
  return fmt::format("{:.9g}{:+.9g}i", value.real(), value.imag());
}

bool IsFinite(double value) { return std::isfinite(value); }
bool IsFinite(std::complex<double> value) {
  return std::isfinite(value.real()) && std::isfinite(value.imag());
}

bool SameSpecial(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool SameSpecial(std::complex<double> a, std::complex<double> b) {
  return SameSpecial(a.real(), b.real()) && SameSpecial(a.imag(), b.imag());
}

// T: element type; Wide: double or complex<double>.
template <typename T, typename Wide>
Status CompareNumbers(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance) {
  const auto wanted = expected.elements<T>();
  const auto found = actual.elements<T>();
  const auto widen = [](const T& value) {
    if constexpr (kIsHalf<T>) {
      return Wide(static_cast<float>(value));
    } else {
      return Wide(value);
    }
  };
  double largest = 0;
  if (tolerance.of_largest) {
    for (const T& value : wanted) {
      if (const Wide wide = widen(value); IsFinite(wide)) largest = std::max(largest, std::abs(wide));
    }
  }
  int64_t differing = 0;
  double worst_excess = -1;
  size_t worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Wide want = widen(wanted[i]);
    const Wide have = widen(found[i]);
    if (SameSpecial(want, have)) continue;
    double excess = std::numeric_limits<double>::infinity();
    if (IsFinite(want) && IsFinite(have)) {
      const double allowed =
          tolerance.atol + tolerance.rtol * (tolerance.of_largest ? largest : std::abs(want));
      excess = std::abs(have - want) - allowed;
      if (excess <= 0) continue;
    }
    ++differing;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (differing == 0) return Status();
  return InvalidArgumentError(
      "{} of {} elements differ (rtol {}{}, atol {}); the furthest off is {}: expected {}, found {}",
      differing, wanted.size(), tolerance.rtol, tolerance.of_largest ? " of the largest magnitude" : "",
      tolerance.atol, Coordinates(expected.shape(), static_cast<int64_t>(worst)),
      Describe(widen(wanted[worst])), Describe(widen(found[worst])));
}

// Integers, bool and strings.
template <typename T>
Status CompareExactly(const Tensor& expected, const Tensor& actual) {
  const auto wanted = expected.elements<T>();
  const auto found = actual.elements<T>();
  int64_t differing = 0;
  size_t first = 0;
  for (size_t i = wanted.size(); i-- > 0;) {
    if (wanted[i] == found[i]) continue;
    ++differing;
    first = i;
  }
  if (differing == 0) return Status();
  return InvalidArgumentError("{} of {} elements differ; the first is {}: expected {}, found {}", differing,
                              wanted.size(), Coordinates(expected.shape(), static_cast<int64_t>(first)),
                              wanted[first], found[first]);
}

// Element `index` of `bits` bits (8 or less) as its bit pattern.
uint8_t BitPattern(const Tensor& tensor, int64_t index, int bits) {
  const int per_byte = 8 / bits;
  const uint8_t byte = tensor.data<uint8_t>()[index / per_byte];
  return static_cast<uint8_t>(byte >> (index % per_byte * bits) & ((1 << bits) - 1));
}

bool IsNanPattern(DataType type, uint8_t pattern) {
  switch (type) {
    case DataType::kFloat8E4M3Fn:
      return (pattern & 0x7f) == 0x7f;
    case DataType::kFloat8E5M2:
      return (pattern & 0x7f) > 0x7c;
    case DataType::kFloat8E4M3Fnuz:
    case DataType::kFloat8E5M2Fnuz:
      return pattern == 0x80;
    case DataType::kFloat8E8M0:
      return pattern == 0xff;
    default:
      return false;
  }
}

// fp8 and sub-byte types, by bit pattern; all NaNs agree.
Status ComparePatterns(const Tensor& expected, const Tensor& actual) {
  const int bits = DataTypeBits(expected.type());
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const uint8_t want = BitPattern(expected, i, bits);
    const uint8_t have = BitPattern(actual, i, bits);
    if (want == have || (IsNanPattern(expected.type(), want) && IsNanPattern(expected.type(), have)))
      continue;
    return InvalidArgumentError("element {} differs: expected bits {:#x}, found {:#x}",
                                Coordinates(expected.shape(), i), want, have);
  }
  return Status();
}

Status CompareSequences(const Sequence& expected, const Sequence& actual, const CompareOptions& options) {
  if (expected.items.size() != actual.items.size()) {
    return InvalidArgumentError("a sequence of {} expected, found {}", expected.items.size(),
                                actual.items.size());
  }
  for (size_t i = 0; i < expected.items.size(); ++i) {
    LAMINA_RETURN_IF_ERROR(CompareValues(expected.items[i], actual.items[i], options)
                               .WithContext(fmt::format("item {} of the sequence", i)));
  }
  return Status();
}

Status CompareMaps(const Map& expected, const Map& actual, const CompareOptions& options) {
  const Tolerance tolerance = ToleranceFor(expected.value, options);
  if (expected.entries.size() != actual.entries.size()) {
    return InvalidArgumentError("a map of {} entries expected, found {}", expected.entries.size(),
                                actual.entries.size());
  }
  for (const auto& [key, want] : expected.entries) {
    const auto found = actual.entries.find(key);
    const auto* want_number = std::get_if<double>(&want);
    bool same = found != actual.entries.end();
    if (same && want_number) {
      const auto* have = std::get_if<double>(&found->second);
      same = have &&
             (SameSpecial(*want_number, *have) ||
              std::abs(*have - *want_number) <= tolerance.atol + tolerance.rtol * std::abs(*want_number));
    } else if (same) {
      same = want == found->second;
    }
    if (!same) {
      return InvalidArgumentError("the map differs at key {}", key.index() == 0
                                                                   ? std::to_string(std::get<int64_t>(key))
                                                                   : "'" + std::get<std::string>(key) + "'");
    }
  }
  return Status();
}

}  // namespace

Tolerance ToleranceFor(DataType type, const CompareOptions& options) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return {1e-2, 0, true};
    case DataType::kFloat:
      if (options.int8_activations) return {1e-2, 0, true};
      [[fallthrough]];
    case DataType::kComplex64:
      return {1e-3, options.decoder_output ? 1e-4 : 1e-5, false};
    case DataType::kDouble:
    case DataType::kComplex128:
      return {1e-6, 1e-6, false};
    default:
      return {};
  }
}

Status CompareTensors(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance) {
  if (expected.type() != actual.type()) {
    return InvalidArgumentError("type {} expected, found {}", DataTypeName(expected.type()),
                                DataTypeName(actual.type()));
  }
  if (!(expected.shape() == actual.shape())) {
    return InvalidArgumentError("shape {} expected, found {}", expected.shape().ToString(),
                                actual.shape().ToString());
  }
  Status status;
  if (expected.type() == DataType::kComplex64) {
    return CompareNumbers<std::complex<float>, std::complex<double>>(expected, actual, tolerance);
  }
  if (expected.type() == DataType::kComplex128) {
    return CompareNumbers<std::complex<double>, std::complex<double>>(expected, actual, tolerance);
  }
  if (DispatchType<float, double, Float16, Bfloat16>(expected.type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        status = CompareNumbers<T, double>(expected, actual, tolerance);
      })) {
    return status;
  }
  if (DispatchType<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool,
                   std::string>(expected.type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          status = tolerance.exact() ? CompareExactly<T>(expected, actual)
                                     : CompareNumbers<T, double>(expected, actual, tolerance);
        } else {
          status = CompareExactly<T>(expected, actual);
        }
      })) {
    return status;
  }
  return ComparePatterns(expected, actual);
}

Status CompareValues(const Value& expected, const Value& actual, const CompareOptions& options) {
  if (expected.kind() != actual.kind()) {
    return InvalidArgumentError("{} expected, found {}", expected.type().ToString(),
                                actual.type().ToString());
  }
  switch (expected.kind()) {
    case ValueKind::kTensor:
      return CompareTensors(expected.tensor(), actual.tensor(),
                            ToleranceFor(expected.tensor().type(), options));
    case ValueKind::kSequence:
      return CompareSequences(expected.sequence(), actual.sequence(), options);
    case ValueKind::kOptional: {
      const Value* want = expected.optional().value.get();
      const Value* have = actual.optional().value.get();
      if ((want == nullptr) != (have == nullptr)) {
        return InvalidArgumentError("the optional should {}hold a value", want ? "" : "not ");
      }
      return want ? CompareValues(*want, *have, options) : Status();
    }
    case ValueKind::kMap:
      return CompareMaps(expected.map(), actual.map(), options);
    default:
      return Status();
  }
}

}  // namespace lamina
