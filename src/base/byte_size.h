// Sizes as people write them: "6GiB", "512MiB", "8GB" (decimal), "1.5 GiB"; a bare number is bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// Units: B, KB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024); case does not matter, a space may
// stand before the unit. A fraction is rounded down to whole bytes and needs a unit. INVALID_ARGUMENT for
// anything else: empty text, a sign, an unknown unit (K, M, G alone are refused because people disagree on
// them), more than 2^64 - 1 bytes.
Result<uint64_t> ParseByteSize(std::string_view text);

// The shortest exact text where the size is a whole number of KiB or larger units ("6GiB", "1536MiB"), else
// bytes
// ("1000"). ParseByteSize reads it back to the same number.
std::string FormatByteSize(uint64_t bytes);

// For people: three significant digits and the binary unit, "5.86 GiB", "512 B".
std::string ApproximateByteSize(uint64_t bytes);

}  // namespace lamina
