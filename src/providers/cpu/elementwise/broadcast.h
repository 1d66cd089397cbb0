// The one broadcast engine of the CPU kernels: multidirectional (numpy) broadcasting of up to three operands.
//
// Operand shapes are aligned at their last axis; an extent of 1 is repeated. The engine merges axes that all
// operands walk alike, and calls a row function for stretches of the last merged axis, in which every operand
// is either contiguous or one repeated element. So an operator writes three or four plain loops, which the
// compiler vectorises, and nothing about strides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "lamina/types.h"

namespace lamina {

inline constexpr int kMaxBroadcastOperands = 3;

// The common shape; INVALID_ARGUMENT naming both where they do not fit, or the rank is too high.
Result<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Before opset 7 the second operand was broadcast on request only (attribute `broadcast`), aligned at `axis`
// (absent: at the end). This is its shape with the trailing ones that align it as numpy would.
Result<Shape> AlignLegacyOperand(const Shape& a, const Shape& b, bool broadcast, int64_t axis, bool has_axis);

struct BroadcastOperand {
  const void* data = nullptr;
  Shape shape;
  int64_t element_bytes = 0;
};

struct BroadcastRow {
  std::array<const std::byte*, kMaxBroadcastOperands> inputs{};
  std::array<bool, kMaxBroadcastOperands> repeated{};  // one element stands for all `count`
  std::byte* output = nullptr;
  int64_t count = 0;

  template <typename T>
  const T* input(int operand) const {
    return reinterpret_cast<const T*>(inputs[static_cast<size_t>(operand)]);
  }
  template <typename T>
  T* out() const {
    return reinterpret_cast<T*>(output);
  }
};

// Calls `row` for rows that together make up the output, on all threads. `work` is the cost of an element in
// simple operations. The output may be the memory of an operand of the output's shape and element size.
// REQUIRES: every operand's shape broadcasts to output_shape.
void ForEachBroadcastRow(ThreadPool& threads, std::span<const BroadcastOperand> operands,
                         const Shape& output_shape, void* output, int64_t output_element_bytes, int64_t work,
                         FunctionRef<void(const BroadcastRow&)> row);

}  // namespace lamina
