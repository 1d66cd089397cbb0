// Transposed convolution of fp32 as a product: for a block of input positions, weights^T [filters * kernel,
// channels] times the input [channels, positions], whose rows are then added to the output at the places of
// their taps.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "providers/cpu/nn/window.h"

namespace lamina {

struct ConvTransposeCall {
  const float* x = nullptr;        // [batch, groups * channels, input...]
  const float* weights = nullptr;  // [groups * channels, filters, kernel...]
  const float* bias = nullptr;     // [groups * filters] or null
  float* y = nullptr;              // [batch, groups * filters, output...]
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t filters = 0;   // of a group
  // The window slides over the output: `output` are its extents, `pads_begin` what is cut off before it.
  WindowGeometry window;
};

void ConvTransposeAsProduct(ThreadPool& threads, const ConvTransposeCall& call);

}  // namespace lamina
