#include "providers/cuda/device/kernel_families.cuh"

namespace lamina::cuda {

const KernelApi& KernelTable() {
  static constexpr KernelApi kTable = {
      LaunchUnary,
      LaunchBinary,
      LaunchWhere,
      LaunchCast,
      LaunchStridedCopy,
      LaunchGather,
      LaunchGatherQuantized,
      LaunchRange,
      LaunchFill,
      LaunchCausalMask,
      LaunchReduce,
      LaunchSoftmax,
      LaunchNorm,
      LaunchRotary,
      LaunchAttentionPast,
      LaunchAttentionTokens,
      LaunchAttention,
      LaunchAttentionStep,
      LaunchPackProduct,
      LaunchProduct,
      LaunchBatchedProduct,
      LaunchNBitsProduct,
      LaunchRoundActivations,
      LaunchNBitsUnpack,
      LaunchPackFourBits,
      LaunchFourBitsProduct,
      LaunchFourBitsUnpack,
  };
  return kTable;
}

}  // namespace lamina::cuda
