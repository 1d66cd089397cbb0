#include "providers/cpu/rows/row_kernels_inl.h"

namespace lamina {

extern const RowKernels kRowKernelsBaseline;
const RowKernels kRowKernelsBaseline = kRowKernels;

}  // namespace lamina
