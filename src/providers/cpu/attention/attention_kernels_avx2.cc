#include "providers/cpu/attention/attention_kernels_inl.h"

namespace lamina {

extern const AttentionKernels kAttentionKernelsAvx2;
const AttentionKernels kAttentionKernelsAvx2 = kAttentionKernels;

}  // namespace lamina
