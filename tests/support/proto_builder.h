// Builds protocol buffer messages by hand, also malformed ones.
//
//   const std::string model = Proto().Varint(1, 8).Message(7, Proto().Text(2, "graph")).bytes();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::testing {

class Proto {
 public:
  Proto& Varint(uint32_t field, uint64_t value) {
    Tag(field, 0);
    AppendVarint(value);
    return *this;
  }
  Proto& Text(uint32_t field, std::string_view text) { return TextWithLength(field, text.size(), text); }
  // A length that need not be that of the text.
  Proto& TextWithLength(uint32_t field, uint64_t length, std::string_view text) {
    Tag(field, 2);
    AppendVarint(length);
    bytes_ += text;
    return *this;
  }
  Proto& Message(uint32_t field, const Proto& message) { return Text(field, message.bytes_); }
  template <typename T>
  Proto& Fixed(uint32_t field, T value) {
    Tag(field, sizeof(T) == 4 ? 5 : 1);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Proto& PackedVarints(uint32_t field, const std::vector<int64_t>& values) {
    Proto packed;
    for (const int64_t value : values) packed.AppendVarint(static_cast<uint64_t>(value));
    return Message(field, packed);
  }
  template <typename T>
  Proto& PackedFixed(uint32_t field, const std::vector<T>& values) {
    return Text(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  Proto& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(uint32_t field, uint32_t wire_type) { AppendVarint((uint64_t{field} << 3) | wire_type); }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace lamina::testing
