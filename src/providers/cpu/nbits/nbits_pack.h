// Repacking of MatMulNBits weights into NBitsFormat.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "providers/cpu/nbits/nbits_format.h"

namespace lamina {

// Weights as the operators store them: row r of `weights` has row_bytes bytes, low bits first; scales
// [n, blocks_of_row] of format.scale_type; zero points packed like the weights, those of row r from bit
// r * zero_row_bits on, or [n, blocks_of_row] of zero_type.
struct NBitsSource {
  const uint8_t* weights = nullptr;
  int64_t row_bytes = 0;
  const void* scales = nullptr;
  int64_t blocks_of_row = 0;
  const void* zeros = nullptr;  // null: format.zeros == kNone
  int64_t zero_row_bits = 0;    // of packed ones
  DataType zero_type = DataType::kUint8;
};

// Fills packed [format.packed_bytes()].
void PackNBits(ThreadPool& threads, const NBitsFormat& format, const NBitsSource& source, void* packed);

}  // namespace lamina
