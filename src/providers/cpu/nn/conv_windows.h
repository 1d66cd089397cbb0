// Reading the windows of a convolution: as columns of a matrix, tap by tap, or row by row.
#pragma once

#include <cstdint>

#include "lamina/types.h"
#include "providers/cpu/nn/window.h"

namespace lamina {

// Whether every window is one element and windows are the input in its order.
bool IsPointwise(const WindowGeometry& window);
// The same windows of a pointwise convolution over planes of one axis. REQUIRES: IsPointwise(window).
WindowGeometry Flattened(const WindowGeometry& window);

// The line of a plane (along its last axis) that tap `tap` of the kernel's outer axes reads for output row
// `row` (output positions without the last axis); -1 in the padding.
int64_t WindowLine(const WindowGeometry& window, int64_t row, int64_t tap);

// Where tap `tap` (row-major in the kernel) of output `position` reads in a plane of the input; -1 in the
// padding.
int64_t WindowTap(const WindowGeometry& window, int64_t position, int64_t tap);

// Part of the matrix of windows [channels * kernel, output positions].
struct WindowPanel {
  int64_t column = 0;  // first output position
  int64_t columns = 0;
  int64_t width = 0;  // columns to fill; those past `columns` become zero
  int64_t ld = 0;     // elements from a row of the buffer to the next
  int64_t row = 0;    // first (channel, tap)
  int64_t rows = 0;
};
// Fills buffer [rows, ld] from the planes `x` [channels, input...] of type float, float16 or bfloat16.
void FillWindowPanel(const WindowGeometry& window, DataType type, const void* x, const WindowPanel& panel,
                     float* buffer);

// The lines of a plane (its last axis) that output row `row` reads, one for each outer tap of the kernel;
// null for one in the padding. `lines` [kernel / its last extent].
void WindowLines(const WindowGeometry& window, int64_t row, const float* plane, const float** lines);

// sums[i] += the window of output (row, first + i) of one plane times weights [kernel...].
void AccumulateWindowRow(const WindowGeometry& window, DataType type, const void* plane, int64_t row,
                         int64_t first, int64_t count, const float* weights, float* sums);

}  // namespace lamina
