#include "providers/cpu/nbits/nbits_pack.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "providers/cpu/gemm/gemm.h"

namespace lamina {
namespace {

// Reorders a unit of one row from consecutive order to one field for each 16 weights (see nbits_format.h).
void ReorderUnit(int bits, const uint8_t* source, uint8_t* target) {
  constexpr int kBytes = NBitsFormat::kUnitBytes;
  if (bits == 8) {
    std::memcpy(target, source, kBytes);
  } else if (bits == 4) {
    for (int t = 0; t < kBytes; t += 2) {
      const uint8_t low = source[t / 2];
      const uint8_t high = source[8 + t / 2];
      target[t] = static_cast<uint8_t>((low & 0x0f) | (high << 4));
      target[t + 1] = static_cast<uint8_t>((low >> 4) | (high & 0xf0));
    }
  } else {
    for (int t = 0; t < kBytes; ++t) {
      int byte = 0;
      for (int f = 0; f < 4; ++f) byte |= ((source[4 * f + t / 4] >> (2 * (t % 4))) & 3) << (2 * f);
      target[t] = static_cast<uint8_t>(byte);
    }
  }
}

float LoadFloat(DataType type, const void* data, int64_t index) {
  if (type == DataType::kFloat) return static_cast<const float*>(data)[index];
  if (type == DataType::kFloat16) return static_cast<const Float16*>(data)[index];
  return static_cast<const Bfloat16*>(data)[index];
}

// Scales and zero points of lane `lane`, from row `row`.
void PackRowParameters(const NBitsFormat& format, const NBitsSource& source, int64_t row, int64_t lane,
                       char* group) {
  const int64_t scale_bytes = format.scale_type == DataType::kFloat ? 4 : 2;
  const char* scales = static_cast<const char*>(source.scales);
  char* zeros = group + format.scales_bytes();
  const int64_t blocks = std::min(source.blocks_of_row, format.blocks());
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t target = block * format.lanes + lane;
    const int64_t index = row * source.blocks_of_row + block;
    std::memcpy(group + target * scale_bytes, scales + index * scale_bytes, static_cast<size_t>(scale_bytes));
    if (format.zeros == NBitsZeros::kBytes) {
      const auto* bytes = static_cast<const uint8_t*>(source.zeros);
      const int64_t bit = row * source.zero_row_bits + block * format.bits;
      zeros[target] = static_cast<char>((bytes[bit / 8] >> (bit % 8)) & ((1 << format.bits) - 1));
    } else if (format.zeros == NBitsZeros::kFloats) {
      const float zero = LoadFloat(source.zero_type, source.zeros, index);
      std::memcpy(zeros + target * int64_t{sizeof(float)}, &zero, sizeof zero);
    }
  }
}

}  // namespace

void PackNBits(ThreadPool& threads, const NBitsFormat& format, const NBitsSource& source, void* packed) {
  constexpr int64_t kBytes = NBitsFormat::kUnitBytes;
  const int64_t lanes = format.lanes;
  threads.ParallelFor(format.groups(), GrainFor(static_cast<double>(format.units() * lanes) * 10),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t g = begin; g < end; ++g) {
                          char* group = static_cast<char*>(packed) + g * format.group_bytes();
                          std::memset(group, 0, static_cast<size_t>(format.group_bytes()));
                          char* weights = group + format.scales_bytes() + format.zeros_bytes();
                          for (int64_t lane = 0; lane < lanes && g * lanes + lane < format.n; ++lane) {
                            const int64_t row = g * lanes + lane;
                            PackRowParameters(format, source, row, lane, group);
                            const uint8_t* row_bytes = source.weights + row * source.row_bytes;
                            for (int64_t u = 0; u < format.units(); ++u) {
                              uint8_t unit[kBytes] = {};
                              const int64_t available = std::min(kBytes, source.row_bytes - u * kBytes);
                              if (available <= 0) break;
                              std::memcpy(unit, row_bytes + u * kBytes, static_cast<size_t>(available));
                              uint8_t reordered[kBytes];
                              ReorderUnit(format.bits, unit, reordered);
                              char* target = weights + u * lanes * kBytes + lane * 4;
                              for (int j = 0; j < 4; ++j)
                                std::memcpy(target + j * lanes * 4, reordered + 4 * j, 4);
                            }
                          }
                        }
                      });
}

}  // namespace lamina
