#include "text/base64.h"

#include <array>
#include <cstdint>

namespace lamina::text {
namespace {

constexpr std::array<int8_t, 256> MakeValues() {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values{};
  for (int8_t& value : values) value = -1;
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}
constexpr std::array<int8_t, 256> kValues = MakeValues();

}  // namespace

bool DecodeBase64(std::string_view encoded, std::string& out) {
  out.clear();
  if (encoded.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && encoded.ends_with('=')) {
    encoded.remove_suffix(1);
    ++padding;
  }
  out.reserve(encoded.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (char digit : encoded) {
    const int8_t value = kValues[static_cast<unsigned char>(digit)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return (bits & ((1u << count) - 1)) == 0;
}

}  // namespace lamina::text
