#include "base/murmur_hash.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

// The check of the hash's own test suite (SMHasher): hashes of {}, {0}, {0, 1}, ... with falling seeds,
// hashed together.
TEST(MurmurHashTest, VerificationValue) {
  std::vector<std::byte> key(256);
  std::vector<std::byte> hashes;
  for (uint32_t i = 0; i < 256; ++i) {
    key[i] = static_cast<std::byte>(i);
    for (const uint32_t word : MurmurHash3X86128(std::span(key).first(i), 256 - i)) {
      for (int byte = 0; byte < 4; ++byte) hashes.push_back(static_cast<std::byte>(word >> (8 * byte)));
    }
  }
  EXPECT_EQ(MurmurHash3X86128(hashes, 0)[0], 0xB3ECE62AU);
}

}  // namespace
}  // namespace lamina
