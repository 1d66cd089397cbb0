/* The kernel of the operator Conv, on two spatial axes, for float and float16. */
#ifndef C_PROVIDER_CONV_H_
#define C_PROVIDER_CONV_H_

#include "lamina/lamina_ep.h"

/* For KernelRegistry_AddKernelV2; `state` is the LaminaEpApi. */
LaminaStatus* CreateConv(void* state, const LaminaKernelInfo* info, LaminaKernelImpl** kernel);
LaminaStatus* EstimateConvWorkspace(const LaminaEpApi* api, const LaminaNode* node, const LaminaEp* ep,
                                    size_t* bytes);

#endif
