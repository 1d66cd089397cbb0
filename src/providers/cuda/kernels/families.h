// Registration of the kernels, by source file.
#pragma once

namespace lamina::cuda {

class KernelRegistrar;

void RegisterElementwise(KernelRegistrar& registrar);
void RegisterReshape(KernelRegistrar& registrar);
void RegisterLayout(KernelRegistrar& registrar);
void RegisterGather(KernelRegistrar& registrar);
void RegisterGenerators(KernelRegistrar& registrar);
void RegisterRows(KernelRegistrar& registrar);
void RegisterRotary(KernelRegistrar& registrar);
void RegisterGroupQueryAttention(KernelRegistrar& registrar);
void RegisterMatMul(KernelRegistrar& registrar);
void RegisterMatMulNBits(KernelRegistrar& registrar);

}  // namespace lamina::cuda
