// SHA-1 (FIPS 180-4), for the `checksum` of ONNX external data. It detects damage, not malice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lamina {

class Sha1 {
 public:
  void Update(std::span<const std::byte> bytes);
  // 40 lower-case hexadecimal digits. REQUIRES: called once, after all updates.
  std::string HexDigest();

 private:
  static constexpr size_t kBlockBytes = 64;
  void Compress(const std::byte* block);

  std::array<uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<std::byte, kBlockBytes> pending_{};  // the first total_bytes_ % kBlockBytes are in use
  uint64_t total_bytes_ = 0;
};

}  // namespace lamina
