// The registration functions of the CPU kernels, one per family (folder or file below providers/cpu).
//
// Only cpu_kernels.cc, which calls them, includes this list: a family that is added to it then recompiles no
// other. The linker checks that each is defined.
#pragma once

#include "provider/kernel_registry.h"

namespace lamina {

// All of them.
void RegisterCpuKernels(KernelRegistry& registry);

void RegisterMatMul(KernelRegistry& registry);
void RegisterGemm(KernelRegistry& registry);
void RegisterLayerNorm(KernelRegistry& registry);
void RegisterSkipLayerNorm(KernelRegistry& registry);
void RegisterSoftmax(KernelRegistry& registry);
void RegisterRotaryEmbedding(KernelRegistry& registry);
void RegisterGroupQueryAttention(KernelRegistry& registry);
void RegisterMatMulNBits(KernelRegistry& registry);
void RegisterGatherBlockQuantized(KernelRegistry& registry);
void RegisterOnnxAttention(KernelRegistry& registry);
void RegisterMultiHeadAttention(KernelRegistry& registry);
void RegisterContribAttention(KernelRegistry& registry);
void RegisterDecoderMaskedAttention(KernelRegistry& registry);
void RegisterMoE(KernelRegistry& registry);
void RegisterQMoE(KernelRegistry& registry);

void RegisterArithmeticKernels(KernelRegistry& registry);
void RegisterVariadicKernels(KernelRegistry& registry);
void RegisterPowKernels(KernelRegistry& registry);
void RegisterCompareKernels(KernelRegistry& registry);
void RegisterLogicalKernels(KernelRegistry& registry);
void RegisterWhereKernels(KernelRegistry& registry);
void RegisterUnaryMathKernels(KernelRegistry& registry);
void RegisterActivationKernels(KernelRegistry& registry);
void RegisterClipKernels(KernelRegistry& registry);
void RegisterTransposeKernels(KernelRegistry& registry);
void RegisterReshapeKernels(KernelRegistry& registry);
void RegisterSliceKernels(KernelRegistry& registry);
void RegisterExpandKernels(KernelRegistry& registry);
void RegisterGatherKernels(KernelRegistry& registry);
void RegisterScatterKernels(KernelRegistry& registry);
void RegisterConstantKernels(KernelRegistry& registry);
void RegisterCastKernels(KernelRegistry& registry);
void RegisterSelectKernels(KernelRegistry& registry);
void RegisterPadKernels(KernelRegistry& registry);
void RegisterReduceKernels(KernelRegistry& registry);
void RegisterArgReduceKernels(KernelRegistry& registry);
void RegisterCumulativeKernels(KernelRegistry& registry);
void RegisterConvKernels(KernelRegistry& registry);
void RegisterPoolKernels(KernelRegistry& registry);
void RegisterConvTransposeKernels(KernelRegistry& registry);
void RegisterBatchNormKernels(KernelRegistry& registry);
void RegisterNormalizeKernels(KernelRegistry& registry);
void RegisterRandomKernels(KernelRegistry& registry);
void RegisterResizeKernels(KernelRegistry& registry);
void RegisterQuantizeLinearKernels(KernelRegistry& registry);
void RegisterIntegerMatMulKernels(KernelRegistry& registry);
void RegisterQLinearConvKernels(KernelRegistry& registry);
void RegisterQLinearElementwiseKernels(KernelRegistry& registry);
void RegisterRecurrentKernels(KernelRegistry& registry);
void RegisterEinsumKernels(KernelRegistry& registry);
void RegisterDftKernels(KernelRegistry& registry);
void RegisterSignalWindowKernels(KernelRegistry& registry);
void RegisterGridSampleKernels(KernelRegistry& registry);
void RegisterRoiKernels(KernelRegistry& registry);
void RegisterNonMaxSuppressionKernels(KernelRegistry& registry);
void RegisterCol2ImKernels(KernelRegistry& registry);
void RegisterCenterCropPadKernels(KernelRegistry& registry);
void RegisterLossKernels(KernelRegistry& registry);
void RegisterDetKernels(KernelRegistry& registry);
void RegisterUniqueKernels(KernelRegistry& registry);
void RegisterSequenceKernels(KernelRegistry& registry);
void RegisterOptionalKernels(KernelRegistry& registry);
void RegisterControlFlowKernels(KernelRegistry& registry);
void RegisterStringKernels(KernelRegistry& registry);
void RegisterTfIdfKernels(KernelRegistry& registry);
void RegisterMlKernels(KernelRegistry& registry);
void RegisterTreeEnsembleKernels(KernelRegistry& registry);
void RegisterLinearAttentionKernels(KernelRegistry& registry);
void RegisterCausalConvKernels(KernelRegistry& registry);
void RegisterFlexAttentionKernels(KernelRegistry& registry);
void RegisterSwiGluKernels(KernelRegistry& registry);
void RegisterDeformConvKernels(KernelRegistry& registry);
void RegisterEmbedLayerNormKernels(KernelRegistry& registry);
void RegisterMatMulBnb4Kernels(KernelRegistry& registry);
void RegisterOptimizerKernels(KernelRegistry& registry);
void RegisterScanKernels(KernelRegistry& registry);
void RegisterSequenceMapKernels(KernelRegistry& registry);
void RegisterQLinearPoolKernels(KernelRegistry& registry);

}  // namespace lamina
