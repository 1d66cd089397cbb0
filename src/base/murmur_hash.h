// MurmurHash3, the variant for 32-bit machines with 128 bits of hash (A. Appleby, public domain): what ONNX
// Runtime names nodes in its statistics files by. Not for untrusted keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lamina {

std::array<uint32_t, 4> MurmurHash3X86128(std::span<const std::byte> bytes, uint32_t seed);

}  // namespace lamina
