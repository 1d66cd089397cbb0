// The launchers of kernel_api.h, each defined in the source file of its family.
#pragma once

#include "providers/cuda/device/kernel_api.h"

namespace lamina::cuda {

int LaunchUnary(const LaunchTarget& target, const UnaryArguments& arguments);
int LaunchBinary(const LaunchTarget& target, const BinaryArguments& arguments);
int LaunchWhere(const LaunchTarget& target, const WhereArguments& arguments);
int LaunchCast(const LaunchTarget& target, const CastArguments& arguments);
int LaunchStridedCopy(const LaunchTarget& target, const StridedCopyArguments& arguments);
int LaunchGather(const LaunchTarget& target, const GatherArguments& arguments);
int LaunchGatherQuantized(const LaunchTarget& target, const GatherQuantizedArguments& arguments);
int LaunchRange(const LaunchTarget& target, const RangeArguments& arguments);
int LaunchFill(const LaunchTarget& target, const FillArguments& arguments);
int LaunchCausalMask(const LaunchTarget& target, const CausalMaskArguments& arguments);
int LaunchReduce(const LaunchTarget& target, const ReduceArguments& arguments);
int LaunchSoftmax(const LaunchTarget& target, const SoftmaxArguments& arguments);
int LaunchNorm(const LaunchTarget& target, const NormArguments& arguments);
int LaunchRotary(const LaunchTarget& target, const RotaryArguments& arguments);
int LaunchAttentionPast(const LaunchTarget& target, const AttentionPastArguments& arguments);
int LaunchAttentionTokens(const LaunchTarget& target, const AttentionTokensArguments& arguments);
int LaunchAttention(const LaunchTarget& target, const AttentionArguments& arguments);
int LaunchAttentionStep(const LaunchTarget& target, const AttentionStepArguments& arguments);
int LaunchPackProduct(const LaunchTarget& target, const PackProductArguments& arguments);
int LaunchProduct(const LaunchTarget& target, const ProductArguments& arguments);
int LaunchBatchedProduct(const LaunchTarget& target, const BatchedProductArguments& arguments);
int LaunchNBitsProduct(const LaunchTarget& target, const NBitsProductArguments& arguments);
int LaunchRoundActivations(const LaunchTarget& target, const RoundActivationsArguments& arguments);
int LaunchNBitsUnpack(const LaunchTarget& target, const NBitsUnpackArguments& arguments);
int LaunchPackFourBits(const LaunchTarget& target, const PackFourBitsArguments& arguments);
int LaunchFourBitsProduct(const LaunchTarget& target, const FourBitsProductArguments& arguments);
int LaunchFourBitsUnpack(const LaunchTarget& target, const FourBitsUnpackArguments& arguments);

}  // namespace lamina::cuda
