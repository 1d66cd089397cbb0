#include "providers/cpu/attention/attention_kernels_inl.h"

namespace lamina {

extern const AttentionKernels kAttentionKernelsAvx512;
const AttentionKernels kAttentionKernelsAvx512 = kAttentionKernels;

}  // namespace lamina
