#include "providers/cpu/cpu_kernels.h"

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
  RegisterMultiHeadAttention(registry);
  RegisterMoE(registry);
  RegisterQMoE(registry);
}

}  // namespace lamina
