#include "base/murmur_hash.h"

#include <bit>

namespace lamina {
namespace {

constexpr uint32_t kC1 = 0x239b961b;
constexpr uint32_t kC2 = 0xab0e9789;
constexpr uint32_t kC3 = 0x38b34ae5;
constexpr uint32_t kC4 = 0xa1e38b93;
constexpr size_t kBlockBytes = 16;

// The 32-bit word of a block, little-endian; bytes past the end count as zero.
uint32_t Word(std::span<const std::byte> block, size_t index) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    const size_t position = 4 * index + i;
    if (position < block.size()) word |= std::to_integer<uint32_t>(block[position]) << (8 * i);
  }
  return word;
}

uint32_t MixKey(uint32_t key, uint32_t first, int rotation, uint32_t second) {
  return std::rotl(key * first, rotation) * second;
}

uint32_t FinalMix(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ h >> 16;
}

}  // namespace

std::array<uint32_t, 4> MurmurHash3X86128(std::span<const std::byte> bytes, uint32_t seed) {
  std::array<uint32_t, 4> h = {seed, seed, seed, seed};
  size_t done = 0;
  for (; done + kBlockBytes <= bytes.size(); done += kBlockBytes) {
    const std::span<const std::byte> block = bytes.subspan(done, kBlockBytes);
    h[0] ^= MixKey(Word(block, 0), kC1, 15, kC2);
    h[0] = (std::rotl(h[0], 19) + h[1]) * 5 + 0x561ccd1b;
    h[1] ^= MixKey(Word(block, 1), kC2, 16, kC3);
    h[1] = (std::rotl(h[1], 17) + h[2]) * 5 + 0x0bcaa747;
    h[2] ^= MixKey(Word(block, 2), kC3, 17, kC4);
    h[2] = (std::rotl(h[2], 15) + h[3]) * 5 + 0x96cd1c35;
    h[3] ^= MixKey(Word(block, 3), kC4, 18, kC1);
    h[3] = (std::rotl(h[3], 13) + h[0]) * 5 + 0x32ac3b17;
  }
  const std::span<const std::byte> tail = bytes.subspan(done);
  h[3] ^= MixKey(Word(tail, 3), kC4, 18, kC1);
  h[2] ^= MixKey(Word(tail, 2), kC3, 17, kC4);
  h[1] ^= MixKey(Word(tail, 1), kC2, 16, kC3);
  h[0] ^= MixKey(Word(tail, 0), kC1, 15, kC2);

  const auto spread = [&] {
    h[0] += h[1] + h[2] + h[3];
    for (size_t i = 1; i < 4; ++i) h[i] += h[0];
  };
  for (uint32_t& word : h) word ^= static_cast<uint32_t>(bytes.size());
  spread();
  for (uint32_t& word : h) word = FinalMix(word);
  spread();
  return h;
}

}  // namespace lamina
