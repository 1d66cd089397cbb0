#include "text/json_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace lamina::text {
namespace {

constexpr int64_t kMaxPower = 308;  // the largest power of ten that is a double

// 10^power as the nearest double. REQUIRES: 0 <= power <= kMaxPower.
double PowerOfTen(int64_t power) {
  constexpr std::array<double, 23> kExact = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (power < static_cast<int64_t>(kExact.size())) return kExact[static_cast<size_t>(power)];
  std::array<char, 8> text{};
  const int length = std::snprintf(text.data(), text.size(), "1e%d", static_cast<int>(power));
  double value = 0;
  std::from_chars(text.data(), text.data() + length, value);
  return value;
}

// value * 10^exponent; infinity beyond the range.
double Scale(double value, int64_t exponent) {
  for (; value != 0 && exponent < -kMaxPower; exponent += kMaxPower) value /= PowerOfTen(kMaxPower);
  if (value == 0) return value;
  if (exponent > kMaxPower) return std::numeric_limits<double>::infinity();
  return exponent >= 0 ? value * PowerOfTen(exponent) : value / PowerOfTen(-exponent);
}

class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}

  std::optional<JsonNumber> Read() {
    const bool negative = Take("-");
    const size_t first_digit = pos_;
    if (!ReadDigits(/*fraction=*/false)) return std::nullopt;
    if (text_[first_digit] == '0' && pos_ > first_digit + 1)
      return std::nullopt;  // JSON has no leading zeros
    if (Take(".") && !ReadDigits(/*fraction=*/true)) return std::nullopt;
    if (Take("eE") && !ReadExponent()) return std::nullopt;
    const double magnitude = Scale(static_cast<double>(significand_), exponent_);
    if (std::isinf(magnitude)) return std::nullopt;
    return JsonNumber{negative ? -magnitude : magnitude, pos_};
  }

 private:
  bool AtDigit() const { return pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; }

  // Passes over the next character where it is one of `characters`.
  bool Take(std::string_view characters) {
    if (pos_ == text_.size() || characters.find(text_[pos_]) == std::string_view::npos) return false;
    ++pos_;
    return true;
  }

  // Digits to the significand; those that no longer fit count for their place only. False where none come.
  bool ReadDigits(bool fraction) {
    const size_t begin = pos_;
    for (; AtDigit(); ++pos_) {
      const auto digit = static_cast<uint64_t>(text_[pos_] - '0');
      full_ = full_ || significand_ > (std::numeric_limits<uint64_t>::max() - digit) / 10;
      if (!full_) significand_ = significand_ * 10 + digit;
      if (fraction && !full_) --exponent_;
      if (!fraction && full_) ++exponent_;
    }
    return pos_ > begin;
  }

  bool ReadExponent() {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const bool negative = pos_ < text_.size() && text_[pos_] == '-';
    Take("+-");
    const size_t begin = pos_;
    int64_t exponent = 0;
    for (; AtDigit(); ++pos_) exponent = std::min(exponent * 10 + (text_[pos_] - '0'), kMost);
    exponent_ += negative ? -exponent : exponent;
    return pos_ > begin;
  }

  std::string_view text_;
  size_t pos_ = 0;
  uint64_t significand_ = 0;
  int64_t exponent_ = 0;
  bool full_ = false;
};

}  // namespace

std::optional<JsonNumber> ParseJsonNumber(std::string_view text) { return NumberReader(text).Read(); }

}  // namespace lamina::text
