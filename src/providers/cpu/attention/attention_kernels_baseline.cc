#include "providers/cpu/attention/attention_kernels_inl.h"

namespace lamina {

extern const AttentionKernels kAttentionKernelsBaseline;
const AttentionKernels kAttentionKernelsBaseline = kAttentionKernels;

}  // namespace lamina
