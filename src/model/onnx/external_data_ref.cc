#include "model/onnx/external_data_ref.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"

namespace lamina::onnx {
namespace {

// Decimal digits and nothing else.
Result<uint64_t> ParseNumber(std::string_view key, std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) {
    return InvalidModelError("external data: {} '{}' does not fit 64 bits", key, text);
  }
  if (error != std::errc() || rest != end) {
    return InvalidModelError("external data: {} '{}' is not a non-negative decimal number", key, text);
  }
  return number;
}

Result<std::string> ParseSha1(std::string_view text) {
  const auto is_hex_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  if (text.size() != 40 || !std::all_of(text.begin(), text.end(), is_hex_digit)) {
    return InvalidModelError("external data: checksum '{}' is not a SHA-1 of 40 hexadecimal digits", text);
  }
  std::string digits(text);
  for (char& c : digits) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return digits;
}

}  // namespace

Result<ExternalDataRef> ParseExternalData(
    std::span<const std::pair<std::string_view, std::string_view>> entries, uint64_t tensor_bytes) {
  std::optional<std::string_view> location;
  std::optional<std::string_view> offset;
  std::optional<std::string_view> length;
  std::optional<std::string_view> checksum;
  for (const auto& [key, value] : entries) {
    std::optional<std::string_view>* slot = nullptr;
    if (key == "location") slot = &location;
    if (key == "offset") slot = &offset;
    if (key == "length") slot = &length;
    if (key == "checksum") slot = &checksum;
    if (slot) {
      if (slot->has_value()) return InvalidModelError("external data: key '{}' appears twice", key);
      *slot = value;
    } else if (key != "basepath" && !key.starts_with("prepacked")) {
      return InvalidModelError(
          "external data: unknown key '{}', expected location, offset, length or checksum", key);
    }
  }

  if (!location) return InvalidModelError("external data: the key 'location' is missing");
  if (location->empty()) return InvalidModelError("external data: the location is empty");
  if (location->find('\0') != std::string_view::npos) {
    return InvalidModelError("external data: the location contains a NUL character");
  }
  ExternalDataRef ref;
  ref.location = *location;
  ref.length_bytes = tensor_bytes;
  if (offset) {
    LAMINA_ASSIGN_OR_RETURN(ref.offset_bytes, ParseNumber("offset", *offset));
  }
  if (length) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t length_bytes, ParseNumber("length", *length));
    if (length_bytes != tensor_bytes) {
      return InvalidModelError("external data: the length is {} bytes, but the tensor has {}", length_bytes,
                               tensor_bytes);
    }
  }
  uint64_t end_bytes = 0;
  if (__builtin_add_overflow(ref.offset_bytes, ref.length_bytes, &end_bytes)) {
    return InvalidModelError("external data: offset {} + length {} overflows", ref.offset_bytes,
                             ref.length_bytes);
  }
  if (checksum) {
    LAMINA_ASSIGN_OR_RETURN(ref.checksum, ParseSha1(*checksum));
  }
  return ref;
}

}  // namespace lamina::onnx
