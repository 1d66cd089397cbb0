#include "base/sha1.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace lamina {
namespace {

std::string Hex(const std::string& text) {
  Sha1 sha;
  sha.Update(std::as_bytes(std::span(text)));
  return sha.HexDigest();
}

// The examples of FIPS 180 and its test vectors.
TEST(Sha1Test, KnownDigests) {
  EXPECT_EQ(Hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(Hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Sha1Test, PiecesDoNotMatter) {
  std::mt19937 random(4);
  for (size_t length = 0; length < 200; ++length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>(random());
    Sha1 sha;
    for (size_t at = 0; at < length;) {
      const size_t piece = std::min<size_t>(random() % 70, length - at);
      sha.Update(std::as_bytes(std::span(text)).subspan(at, piece));
      at += piece;
    }
    ASSERT_EQ(sha.HexDigest(), Hex(text)) << length;
  }
}

}  // namespace
}  // namespace lamina
