// Comparison of results with expected ones under the tolerances that hold for the whole project: used by
// `lamina check` and by tests.
#pragma once

#include "lamina/status.h"
#include "lamina/value.h"

namespace lamina {

// Two numbers agree where |actual - expected| <= atol + rtol * |expected|. With `of_largest` rtol applies to
// the largest finite magnitude of the expected tensor instead: low-precision sums carry the error of their
// largest terms. NaN agrees with NaN, an infinity with itself.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
  bool of_largest = false;
  bool exact() const { return rtol == 0 && atol == 0; }
};

struct CompareOptions {
  // The model computes with int8 activations (a node with accuracy_level 4).
  bool int8_activations = false;
  // Logits and KV of a decoder: sums of thousands of products.
  bool decoder_output = false;
};

// fp32 and complex64: rtol 1e-3, atol 1e-5 (decoder outputs 1e-4); fp64: 1e-6; fp16, bf16 and, with int8
// activations, fp32: 1e-2 of the largest magnitude; integers, bool, strings and 8-bit and smaller floats:
// exact.
Tolerance ToleranceFor(DataType type, const CompareOptions& options = {});

// OK where `actual` has the type, shape and, within tolerance, the values of `expected`; otherwise
// INVALID_ARGUMENT whose text says what differs, how many elements do and which is the furthest off.
// REQUIRES: tensors in host memory.
Status CompareTensors(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance);
// The same through sequences, optionals and maps, each tensor by ToleranceFor its type.
Status CompareValues(const Value& expected, const Value& actual, const CompareOptions& options = {});

}  // namespace lamina
