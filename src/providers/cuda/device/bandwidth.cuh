// What the memory of a device gives: the bound that products of few rows are measured against.
#pragma once

#include <cuda_runtime.h>

namespace lamina::cuda {

// Of the current device: the larger of bytes read by a kernel and bytes copied, read and written, over up to
// 4 GiB of free memory. Takes some ten milliseconds.
cudaError_t MeasureMemoryBandwidth(double* bytes_per_s);

}  // namespace lamina::cuda
