#include "providers/cpu/cpu_kernels.h"

#include "providers/cpu/attention/causal_mask.h"

namespace lamina {

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterArithmeticKernels(registry);
  RegisterVariadicKernels(registry);
  RegisterPowKernels(registry);
  RegisterCompareKernels(registry);
  RegisterLogicalKernels(registry);
  RegisterWhereKernels(registry);
  RegisterUnaryMathKernels(registry);
  RegisterActivationKernels(registry);
  RegisterClipKernels(registry);
  RegisterTransposeKernels(registry);
  RegisterReshapeKernels(registry);
  RegisterSliceKernels(registry);
  RegisterExpandKernels(registry);
  RegisterGatherKernels(registry);
  RegisterScatterKernels(registry);
  RegisterConstantKernels(registry);
  RegisterCastKernels(registry);
  RegisterSelectKernels(registry);
  RegisterPadKernels(registry);
  RegisterReduceKernels(registry);
  RegisterArgReduceKernels(registry);
  RegisterCumulativeKernels(registry);
  RegisterConvKernels(registry);
  RegisterPoolKernels(registry);
  RegisterConvTransposeKernels(registry);
  RegisterBatchNormKernels(registry);
  RegisterNormalizeKernels(registry);
  RegisterRandomKernels(registry);
  RegisterResizeKernels(registry);
  RegisterQuantizeLinearKernels(registry);
  RegisterIntegerMatMulKernels(registry);
  RegisterQLinearConvKernels(registry);
  RegisterRecurrentKernels(registry);
  RegisterEinsumKernels(registry);
  RegisterDftKernels(registry);
  RegisterSignalWindowKernels(registry);
  RegisterGridSampleKernels(registry);
  RegisterRoiKernels(registry);
  RegisterNonMaxSuppressionKernels(registry);
  RegisterCol2ImKernels(registry);
  RegisterCenterCropPadKernels(registry);
  RegisterLossKernels(registry);
  RegisterDetKernels(registry);
  RegisterUniqueKernels(registry);
  RegisterSequenceKernels(registry);
  RegisterOptionalKernels(registry);
  RegisterDeformConvKernels(registry);
  RegisterSequenceMapKernels(registry);
  RegisterOptimizerKernels(registry);
  RegisterQLinearElementwiseKernels(registry);
  RegisterQLinearPoolKernels(registry);
  RegisterEmbedLayerNormKernels(registry);
  RegisterMatMulBnb4Kernels(registry);
  RegisterControlFlowKernels(registry);
  RegisterScanKernels(registry);
  RegisterStringKernels(registry);
  RegisterTfIdfKernels(registry);
  RegisterMlKernels(registry);
  RegisterTreeEnsembleKernels(registry);
  RegisterLinearAttentionKernels(registry);
  RegisterCausalConvKernels(registry);
  RegisterFlexAttentionKernels(registry);
  RegisterSwiGluKernels(registry);
  RegisterMatMul(registry);
  RegisterGemm(registry);
  RegisterLayerNorm(registry);
  RegisterSkipLayerNorm(registry);
  RegisterSoftmax(registry);
  RegisterRotaryEmbedding(registry);
  RegisterGroupQueryAttention(registry);
  RegisterMatMulNBits(registry);
  RegisterGatherBlockQuantized(registry);
  RegisterOnnxAttention(registry);
  RegisterCausalMask(registry);
  RegisterMultiHeadAttention(registry);
  RegisterContribAttention(registry);
  RegisterDecoderMaskedAttention(registry);
  RegisterMoE(registry);
  RegisterQMoE(registry);
}

}  // namespace lamina
