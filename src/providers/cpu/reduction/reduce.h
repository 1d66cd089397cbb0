// The engine of the Reduce operators: walks a tensor and feeds runs of elements to the functions of one
// reduction.
//
// The result depends on the shape alone: how elements are grouped into partial results never depends on the
// number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "lamina/types.h"

namespace lamina {

// A reduction over elements of one type. Accumulators are opaque memory of accumulator_bytes each.
struct Reduction {
  static constexpr size_t kMaxAccumulatorBytes = 16;

  size_t accumulator_bytes = 0;
  void (*init)(void* accumulators, int64_t count) = nullptr;
  // Adds `count` elements to one accumulator.
  void (*add_run)(void* accumulator, const void* elements, int64_t count) = nullptr;
  // Adds element i to accumulator i.
  void (*add_row)(void* accumulators, const void* elements, int64_t count) = nullptr;
  // Adds accumulator `other` to `accumulator`.
  void (*merge)(void* accumulator, const void* other) = nullptr;
  // Writes `count` results; each accumulator has taken `reduced` elements.
  void (*finish)(const void* accumulators, void* results, int64_t count, int64_t reduced) = nullptr;
};

// Reduces the axes of `axes_mask` (bit i: axis i) of `input`; results in row-major order of the other axes.
// fp16 and bf16 inputs are read and results written as such while `reduction` is one of floats.
void Reduce(ThreadPool& threads, const Reduction& reduction, DataType type, const void* input,
            const Shape& shape, uint32_t axes_mask, void* output);

}  // namespace lamina
