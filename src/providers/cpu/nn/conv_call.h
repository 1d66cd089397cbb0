// One convolution of fp32, fp16 or bf16, computed in fp32: what its loops share.
#pragma once

#include <cstdint>

#include "providers/cpu/nn/conv.h"
#include "providers/cpu/nn/window.h"

namespace lamina {

struct ConvCall {
  DataType type = DataType::kFloat;
  const void* x = nullptr;         // [batch, groups * channels, input...]
  const float* weights = nullptr;  // [groups * filters, channels, kernel...]
  const void* bias = nullptr;      // [groups * filters] or null
  const void* sum = nullptr;       // the output's shape, or null
  void* y = nullptr;               // [batch, groups * filters, output...]
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t filters = 0;   // of a group
  WindowGeometry window;
  const ConvEpilogue* epilogue = nullptr;

  float BiasOf(int64_t filter) const;
  // Stores `count` results of plane `plane` ([batch * groups * filters]) from `position` on: adds the bias
  // and what the epilogue says. Overwrites `values`, which may lie at their place in y.
  void Store(int64_t plane, int64_t position, int64_t count, float* values) const;
};

// A product of weights and windows.
void ConvAsProduct(ThreadPool& threads, const ConvCall& call);
// One input channel for each group.
void ConvDepthwise(ThreadPool& threads, const ConvCall& call);

}  // namespace lamina
