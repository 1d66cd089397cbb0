// Products with constant matrices become MatMulNBits: weights in blocks of 4 or 8 bits, rounded to nearest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

struct QuantizeOptions {
  int bits = 4;
  int64_t block_size = 32;
};

struct QuantizedWeight {
  NodeId node;       // of the main graph
  std::string name;  // of the weight
  int64_t k = 0, n = 0;
  DerivedTensorPtr packed;
};

// Replaces MatMul (and Gemm without transposed or scaled operands) of the main graph whose second operand is
// a constant matrix of at least one block of rows; other nodes stay. Weights are derived initializers: none
// is read. REQUIRES: inferred shapes, which hold afterwards. INVALID_ARGUMENT for bits or block sizes that
// DeriveQuantized refuses.
Result<std::vector<QuantizedWeight>> QuantizeWeights(Model& model, const QuantizeOptions& options);

}  // namespace lamina
