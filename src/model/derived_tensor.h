// Constants that are computed from other constants when a model is loaded or written: what rewrites make of
// weights. A rewrite never reads a weight; it says what is to be done, and type and shape of the result are
// known at once. weights/derived_elements computes them, a piece at a time.
//
// In a graph a derived constant is an initializer whose ExternalDataRef names no file (the reader admits none
// without one); Model::derived says by its name what it is. So all that handles external data takes it for
// bytes that are elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "model/initializer.h"

namespace lamina {

enum class DerivedOperation : uint8_t {
  kSource,          // a constant of the model's files
  kConcat,          // the operands along `axis`; one type, equal other dimensions
  kSlice,           // indices [start, start + shape[axis]) of `axis` of operand 0
  kTranspose,       // operand 0 with axes permuted by `perm`
  kReshape,         // the elements of operand 0 under another shape
  kCast,            // operand 0 converted to the result's type; floating-point types
  kMultiply,        // operand 0 times operand 1, which is one number or has one for each index of `axis`;
                    // floating point, computed in fp32, of operand 0's type
  kQuantizeBlocks,  // operand 0 [k, n] as the packed matrix of MatMulNBits [n, k blocks, block bytes]
  kBlockScales,     // the scales [n, k blocks] of that matrix, of operand 0's type
  kPackIntegers,  // operand 0, [k, n] where `axis` is 0, else [n, k], of 4 or 8 bits, as bytes [n, k bits / 8
                  // rounded up], the first in the low half; signed ones plus half their range
};

// "concat"
const char* DerivedOperationName(DerivedOperation operation);

struct DerivedTensor;
using DerivedTensorPtr = std::shared_ptr<const DerivedTensor>;

// An expression; immutable.
struct DerivedTensor {
  DerivedOperation operation = DerivedOperation::kSource;
  DataType type = DataType::kUndefined;
  Shape shape;
  Initializer source;  // of kSource
  std::vector<DerivedTensorPtr> operands;
  int axis = 0;
  int64_t start = 0;
  std::vector<int64_t> perm;
  // Of the quantisation: symmetric around 2^(bits-1).
  int bits = 4;
  int64_t block_size = 32;
};

// The derived constants of a model, by name. Not thread-safe for Add.
class DerivedTensors {
 public:
  // Whether the initializer is derived: by its form alone.
  static bool IsDerived(const Initializer& initializer);
  // The expression of an initializer: what was added under its name, or the initializer itself.
  DerivedTensorPtr ExpressionOf(const Initializer& initializer) const;
  // Null where nothing was added under the name.
  DerivedTensorPtr Find(std::string_view name) const;
  // Makes the initializer of a value called `name`.
  Initializer Add(const std::string& name, DerivedTensorPtr expression);

 private:
  std::map<std::string, DerivedTensorPtr, std::less<>> expressions_;
};

// INVALID_ARGUMENT where types or shapes do not allow the operation.
Result<DerivedTensorPtr> DeriveConcat(std::vector<DerivedTensorPtr> operands, int axis);
// `count` indices of `axis` from `start` on.
Result<DerivedTensorPtr> DeriveSlice(DerivedTensorPtr operand, int axis, int64_t start, int64_t count);
Result<DerivedTensorPtr> DeriveTranspose(DerivedTensorPtr operand, std::vector<int64_t> perm);
Result<DerivedTensorPtr> DeriveReshape(DerivedTensorPtr operand, const Shape& shape);
Result<DerivedTensorPtr> DeriveCast(DerivedTensorPtr operand, DataType type);
Result<DerivedTensorPtr> DeriveMultiply(DerivedTensorPtr operand, DerivedTensorPtr factors, int axis);

// A matrix of integers of 4 or 8 bits as MatMulNBits takes weights and zero points; `k_axis` is 0 or 1.
Result<DerivedTensorPtr> DerivePackedIntegers(DerivedTensorPtr operand, int k_axis);

// Weights [k, n] rounded to nearest for MatMulNBits, in blocks of `block_size` elements of k that share a
// scale. INVALID_ARGUMENT unless the operand is a floating-point matrix, bits 4 or 8, and the block a power
// of two of at least 16.
struct QuantizedMatrix {
  DerivedTensorPtr packed;
  DerivedTensorPtr scales;
};
Result<QuantizedMatrix> DeriveQuantized(const DerivedTensorPtr& operand, int bits, int64_t block_size);

}  // namespace lamina
