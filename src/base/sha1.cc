#include "base/sha1.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace lamina {

void Sha1::Update(std::span<const std::byte> bytes) {
  const size_t pending = total_bytes_ % kBlockBytes;
  total_bytes_ += bytes.size();
  if (pending > 0) {
    const size_t taken = std::min(bytes.size(), kBlockBytes - pending);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(pending));
    bytes = bytes.subspan(taken);
    if (pending + taken < kBlockBytes) return;
    Compress(pending_.data());
  }
  for (; bytes.size() >= kBlockBytes; bytes = bytes.subspan(kBlockBytes)) Compress(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::string Sha1::HexDigest() {
  const uint64_t total_bits = total_bytes_ * 8;
  // A one bit, zeros up to 8 bytes before the end of a block, the length in bits.
  std::array<std::byte, kBlockBytes + 8> padding{};
  padding[0] = std::byte{0x80};
  const size_t used = total_bytes_ % kBlockBytes;
  const size_t zeros_end = used < kBlockBytes - 8 ? kBlockBytes - 8 - used : 2 * kBlockBytes - 8 - used;
  for (int i = 0; i < 8; ++i) padding[zeros_end + i] = static_cast<std::byte>(total_bits >> (56 - 8 * i));
  Update({padding.data(), zeros_end + 8});
  std::string digest;
  for (const uint32_t word : state_) digest += fmt::format("{:08x}", word);
  return digest;
}

void Sha1::Compress(const std::byte* block) {
  std::array<uint32_t, 80> w;
  for (size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (size_t byte = 0; byte < 4; ++byte) w[i] = w[i] << 8 | static_cast<uint32_t>(block[i * 4 + byte]);
  }
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

  uint32_t a = state_[0];
  uint32_t b = state_[1];
  uint32_t c = state_[2];
  uint32_t d = state_[3];
  uint32_t e = state_[4];
  const auto round = [&](uint32_t f, uint32_t constant, uint32_t word) {
    const uint32_t next = std::rotl(a, 5) + f + e + constant + word;
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  };
  for (size_t i = 0; i < 20; ++i) round((b & c) | (~b & d), 0x5a827999, w[i]);
  for (size_t i = 20; i < 40; ++i) round(b ^ c ^ d, 0x6ed9eba1, w[i]);
  for (size_t i = 40; i < 60; ++i) round((b & c) | (b & d) | (c & d), 0x8f1bbcdc, w[i]);
  for (size_t i = 60; i < 80; ++i) round(b ^ c ^ d, 0xca62c1d6, w[i]);
  state_[0] += a;
  state_[1] += b;
  state_[2] += c;
  state_[3] += d;
  state_[4] += e;
}

}  // namespace lamina
