#include "providers/cpu/attention/attention_kernels.h"

namespace lamina {

extern const AttentionKernels kAttentionKernelsBaseline;
extern const AttentionKernels kAttentionKernelsAvx2;
extern const AttentionKernels kAttentionKernelsAvx512;

const AttentionKernels& AttentionKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kAttentionKernelsBaseline;
    case CpuIsa::kAvx2:
      return kAttentionKernelsAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kAttentionKernelsAvx512;
  }
  return kAttentionKernelsBaseline;
}

}  // namespace lamina
