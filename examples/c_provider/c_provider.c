/* A provider plugin in C: one device that computes on the CPU, the operators Conv and Relu, and Add followed
 * by Relu as one fused node. Written from lamina_ep.h and docs/providers.md.
 *
 *   c_provider.c  what the library exports, the factory, the provider, Relu, the fused node
 *   conv.c        a kernel with workspace and packed weights
 *
 * The device uses host memory: it has no allocator, no data transfer and no streams of its own. */
#include <stdlib.h>
#include <string.h>

#include "conv.h"
#include "lamina/lamina_ep.h"

typedef struct Factory {
  LaminaEpFactory base;
  const LaminaEpApi* api;
} Factory;

typedef struct Provider {
  LaminaEp base;
  const LaminaEpApi* api;
  LaminaKernelRegistry* registry;
} Provider;

/* --- Relu --- */

typedef struct ReluKernel {
  LaminaKernelImpl base;
  const LaminaEpApi* api;
} ReluKernel;

typedef struct ReluCall {
  const float* x;
  const float* y; /* added before, or null */
  float* z;
} ReluCall;

static void ComputeRelu(void* state, int64_t begin, int64_t end) {
  const ReluCall* call = (const ReluCall*)state;
  int64_t i;
  for (i = begin; i < end; ++i) {
    const float number = call->y != NULL ? call->x[i] + call->y[i] : call->x[i];
    call->z[i] = number > 0.0f ? number : 0.0f;
  }
}

/* Of `x`, or of `x` + `y`, into output 0. */
static LaminaStatus* RunRelu(const LaminaEpApi* api, LaminaKernelContext* context, const LaminaTensor* x,
                             const LaminaTensor* y) {
  const LaminaTensor* z;
  ReluCall call;
  LaminaStatus* status;
  if (x == NULL) return api->CreateStatus(LAMINA_INVALID_ARGUMENT, "the input is missing");
  if ((status = api->KernelContext_GetOutput(context, 0, x->shape, x->rank, &z)) != NULL) return status;
  if (z == NULL || z->size_bytes == 0) return NULL;
  call.x = (const float*)x->data;
  call.y = y != NULL ? (const float*)y->data : NULL;
  call.z = (float*)z->data;
  return api->KernelContext_ParallelFor(context, (int64_t)(z->size_bytes / sizeof(float)), 16384,
                                        &ComputeRelu, &call);
}

static LaminaStatus* ReluCompute(LaminaKernelImpl* kernel, LaminaKernelContext* context) {
  const LaminaEpApi* api = ((ReluKernel*)kernel)->api;
  const LaminaTensor* x;
  LaminaStatus* status = api->KernelContext_GetInput(context, 0, &x);
  return status != NULL ? status : RunRelu(api, context, x, NULL);
}

static void ReluRelease(LaminaKernelImpl* kernel) { free(kernel); }

static LaminaStatus* CreateRelu(void* state, const LaminaKernelInfo* info, LaminaKernelImpl** kernel) {
  const LaminaEpApi* api = (const LaminaEpApi*)state;
  ReluKernel* self = (ReluKernel*)calloc(1, sizeof(ReluKernel));
  (void)info;
  if (self == NULL) return api->CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "no memory for a kernel");
  self->api = api;
  self->base.lamina_version = LAMINA_EP_API_VERSION;
  self->base.Compute = &ReluCompute;
  self->base.Release = &ReluRelease;
  *kernel = &self->base;
  return NULL;
}

/* --- Add and Relu as one node --- */

typedef struct AddRelu {
  LaminaNodeComputeInfo base;
  const LaminaEpApi* api;
} AddRelu;

static LaminaStatus* AddReluCompute(LaminaNodeComputeInfo* info, void* state, LaminaKernelContext* context) {
  const LaminaEpApi* api = ((AddRelu*)info)->api;
  const LaminaTensor* x;
  const LaminaTensor* y;
  LaminaStatus* status;
  (void)state;
  if ((status = api->KernelContext_GetInput(context, 0, &x)) != NULL) return status;
  if ((status = api->KernelContext_GetInput(context, 1, &y)) != NULL) return status;
  if (x == NULL || y == NULL || x->rank != y->rank ||
      memcmp(x->shape, y->shape, x->rank * sizeof(int64_t)) != 0) {
    return api->CreateStatus(LAMINA_INVALID_ARGUMENT, "the terms of the sum have different shapes");
  }
  return RunRelu(api, context, x, y);
}

static LaminaStatus* Compile(LaminaEp* ep, const LaminaGraph* const* graphs,
                             const LaminaNode* const* fused_nodes, size_t count,
                             LaminaNodeComputeInfo** infos) {
  const LaminaEpApi* api = ((Provider*)ep)->api;
  size_t i;
  (void)graphs; /* GetCapability fuses nothing but Add and Relu */
  (void)fused_nodes;
  for (i = 0; i < count; ++i) {
    AddRelu* made = (AddRelu*)calloc(1, sizeof(AddRelu));
    if (made == NULL) {
      while (i > 0) free(infos[--i]);
      return api->CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "no memory for a kernel");
    }
    made->api = api;
    made->base.lamina_version = LAMINA_EP_API_VERSION;
    made->base.Compute = &AddReluCompute;
    infos[i] = &made->base;
  }
  return NULL;
}

static void ReleaseComputeInfos(LaminaEp* ep, LaminaNodeComputeInfo** infos, size_t count) {
  size_t i;
  (void)ep;
  for (i = 0; i < count; ++i) free(infos[i]);
}

/* --- Which nodes --- */

static LaminaStatus* IsOperator(const LaminaEpApi* api, const LaminaNode* node, const char* op_type,
                                bool* is_it) {
  const char* type;
  const char* domain;
  LaminaStatus* status;
  if ((status = api->Node_GetOperatorType(node, &type)) != NULL) return status;
  if ((status = api->Node_GetDomain(node, &domain)) != NULL) return status;
  *is_it = strcmp(type, op_type) == 0 && *domain == '\0';
  return NULL;
}

/* Whether `add` computes x + y of one static shape and type float, x and y being two values: the fused node
 * has each value that it reads once. */
static LaminaStatus* IsPlainSum(const LaminaEpApi* api, const LaminaNode* add, bool* is_it) {
  const char* name[2];
  const int64_t* min[2];
  const int64_t* max[2];
  size_t rank[2];
  size_t i;
  LaminaStatus* status = IsOperator(api, add, "Add", is_it);
  if (status != NULL || !*is_it) return status;
  for (i = 0; i < 2; ++i) {
    LaminaDataType type;
    if ((status = api->Node_GetInputName(add, i, &name[i])) != NULL) return status;
    if ((status = api->Node_GetInputType(add, i, &type)) != NULL) return status;
    if ((status = api->Node_GetInputShapeBounds(add, i, &min[i], &max[i], &rank[i])) != NULL) return status;
    *is_it = *is_it && name[i] != NULL && type == LAMINA_TYPE_FLOAT && min[i] != NULL &&
             memcmp(min[i], max[i], rank[i] * sizeof(int64_t)) == 0;
  }
  *is_it = *is_it && strcmp(name[0], name[1]) != 0 && rank[0] == rank[1] &&
           memcmp(max[0], max[1], rank[0] * sizeof(int64_t)) == 0;
  return NULL;
}

/* The node among `nodes` that makes the value, or null. */
static LaminaStatus* Producer(const LaminaEpApi* api, const LaminaNode* const* nodes, size_t count,
                              const char* value, const LaminaNode** producer) {
  size_t i;
  *producer = NULL;
  for (i = 0; i < count; ++i) {
    const char* name;
    LaminaStatus* status = api->Node_GetOutputName(nodes[i], 0, &name);
    if (status != NULL) return status;
    if (name != NULL && strcmp(name, value) == 0) *producer = nodes[i];
  }
  return NULL;
}

/* How often the value is read by `nodes`, an output of the graph included. */
static LaminaStatus* CountUses(const LaminaEpApi* api, const LaminaGraph* graph,
                               const LaminaNode* const* nodes, size_t count, const char* value,
                               size_t* uses) {
  const char* const* outputs;
  size_t num_outputs;
  size_t i;
  size_t input;
  LaminaStatus* status = api->Graph_GetOutputNames(graph, &outputs, &num_outputs);
  *uses = 0;
  if (status != NULL) return status;
  for (i = 0; i < num_outputs; ++i) *uses += strcmp(outputs[i], value) == 0;
  for (i = 0; i < count; ++i) {
    size_t num_inputs;
    if ((status = api->Node_GetNumInputs(nodes[i], &num_inputs)) != NULL) return status;
    for (input = 0; input < num_inputs; ++input) {
      const char* name;
      if ((status = api->Node_GetInputName(nodes[i], input, &name)) != NULL) return status;
      *uses += name != NULL && strcmp(name, value) == 0;
    }
  }
  return NULL;
}

/* Takes a Relu: with the sum before it where nothing else needs that, else alone. */
static LaminaStatus* TakeRelu(const LaminaEpApi* api, const LaminaGraph* graph, const LaminaNode* relu,
                              const LaminaNode* const* nodes, size_t count, LaminaEpGraphSupportInfo* info) {
  const char* value;
  const LaminaNode* group[2];
  size_t uses;
  bool is_sum = false;
  LaminaStatus* status;
  if ((status = api->Node_GetInputName(relu, 0, &value)) != NULL) return status;
  if (value == NULL) return api->EpGraphSupportInfo_AddSingleNode(info, relu);
  if ((status = Producer(api, nodes, count, value, &group[0])) != NULL) return status;
  if (group[0] != NULL && (status = IsPlainSum(api, group[0], &is_sum)) != NULL) return status;
  if ((status = CountUses(api, graph, nodes, count, value, &uses)) != NULL) return status;
  if (!is_sum || uses != 1) return api->EpGraphSupportInfo_AddSingleNode(info, relu);
  group[1] = relu;
  return api->EpGraphSupportInfo_AddNodesToFuse(info, group, 2, NULL);
}

static LaminaStatus* GetCapability(LaminaEp* ep, const LaminaGraph* graph, LaminaEpGraphSupportInfo* info) {
  const LaminaEpApi* api = ((Provider*)ep)->api;
  const LaminaNode* const* nodes;
  size_t count;
  size_t i;
  LaminaStatus* status = api->Graph_GetNodes(graph, &nodes, &count);
  if (status != NULL) return status;
  for (i = 0; i < count; ++i) {
    const LaminaKernelDef* kernel;
    const int64_t* shape;
    size_t rank;
    bool is_it;
    if ((status = api->EpGraphSupportInfo_LookUpKernel(info, nodes[i], &kernel)) != NULL) return status;
    if (kernel == NULL) continue; /* the host knows why */
    if ((status = IsOperator(api, nodes[i], "Relu", &is_it)) != NULL) return status;
    if (is_it) {
      if ((status = TakeRelu(api, graph, nodes[i], nodes, count, info)) != NULL) return status;
      continue;
    }
    if ((status = api->Node_GetInputShape(nodes[i], 1, &shape, &rank)) != NULL) return status;
    if (shape != NULL && rank != 4) {
      status = api->EpGraphSupportInfo_RejectNode(info, nodes[i], "Conv is done on two spatial axes");
    } else {
      status = api->EpGraphSupportInfo_AddSingleNode(info, nodes[i]);
    }
    if (status != NULL) return status;
  }
  return NULL;
}

/* --- The provider --- */

static LaminaStatus* GetKernelRegistry(LaminaEp* ep, const LaminaKernelRegistry** registry) {
  *registry = ((Provider*)ep)->registry;
  return NULL;
}

static LaminaStatus* AddKernel(const LaminaEpApi* api, LaminaKernelRegistry* registry, const char* op_type,
                               const LaminaDataType* types, size_t num_types, LaminaKernelCreateFunc create,
                               LaminaKernelWorkspaceEstimateFunc estimate) {
  LaminaKernelDefBuilder* builder;
  LaminaKernelDef* def = NULL;
  LaminaStatus* status = api->CreateKernelDefBuilder(op_type, "", &builder);
  if (status != NULL) return status;
  if (status == NULL) status = api->KernelDefBuilder_SetInputTypes(builder, 0, types, num_types);
  if (status == NULL) status = api->KernelDefBuilder_SetOutputTypes(builder, 0, types, num_types);
  if (status == NULL) status = api->KernelDefBuilder_Build(builder, &def);
  if (status == NULL) {
    status = api->KernelRegistry_AddKernelV2(registry, def, create, (void*)api, estimate);
  }
  api->ReleaseKernelDef(def);
  api->ReleaseKernelDefBuilder(builder);
  return status;
}

static LaminaStatus* AddKernels(const LaminaEpApi* api, LaminaKernelRegistry* registry) {
  static const LaminaDataType kConvTypes[] = {LAMINA_TYPE_FLOAT, LAMINA_TYPE_FLOAT16};
  static const LaminaDataType kReluTypes[] = {LAMINA_TYPE_FLOAT};
  LaminaStatus* status = AddKernel(api, registry, "Conv", kConvTypes, 2, &CreateConv, &EstimateConvWorkspace);
  return status != NULL ? status : AddKernel(api, registry, "Relu", kReluTypes, 1, &CreateRelu, NULL);
}

static void ReleaseProvider(Provider* self) {
  self->api->ReleaseKernelRegistry(self->registry);
  free(self);
}

static LaminaStatus* CreateEp(LaminaEpFactory* factory, const LaminaKeyValues* options,
                              const LaminaLogger* logger, LaminaEp** ep) {
  const LaminaEpApi* api = ((Factory*)factory)->api;
  Provider* self;
  LaminaStatus* status;
  (void)logger;
  if (options->count > 0) {
    return api->CreateStatus(LAMINA_INVALID_ARGUMENT, "the provider has no options");
  }
  self = (Provider*)calloc(1, sizeof(Provider));
  if (self == NULL) return api->CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "no memory for the provider");
  self->api = api;
  self->base.lamina_version = LAMINA_EP_API_VERSION;
  self->base.GetCapability = &GetCapability;
  self->base.GetKernelRegistry = &GetKernelRegistry;
  self->base.Compile = &Compile;
  self->base.ReleaseNodeComputeInfos = &ReleaseComputeInfos;
  status = api->CreateKernelRegistry(&self->registry);
  if (status == NULL) status = AddKernels(api, self->registry);
  if (status != NULL) {
    ReleaseProvider(self);
    return status;
  }
  *ep = &self->base;
  return NULL;
}

static void ReleaseEp(LaminaEpFactory* factory, LaminaEp* ep) {
  (void)factory;
  ReleaseProvider((Provider*)ep);
}

/* --- The factory --- */

static const char* GetName(const LaminaEpFactory* factory) {
  (void)factory;
  return "c_provider";
}

static const char* GetVendor(const LaminaEpFactory* factory) {
  (void)factory;
  return "example";
}

static LaminaDeviceKind GetDeviceKind(const LaminaEpFactory* factory) {
  (void)factory;
  return LAMINA_DEVICE_NPU;
}

static LaminaStatus* GetSupportedDevices(LaminaEpFactory* factory, const LaminaKeyValues* options,
                                         LaminaDeviceInfo* const* devices, size_t max_devices,
                                         size_t* count) {
  (void)factory;
  (void)options;
  *count = 0;
  if (max_devices < 1) return NULL;
  devices[0]->kind = LAMINA_DEVICE_NPU;
  devices[0]->name = "Example device in C";
  devices[0]->memory_bytes = (uint64_t)1 << 30;
  *count = 1;
  return NULL;
}

LAMINA_EP_EXPORT LaminaStatus* CreateEpFactories(const char* registered_name, const LaminaApiBase* base,
                                                 const LaminaLogger* logger, LaminaEpFactory** factories,
                                                 size_t max_factories, size_t* num_factories) {
  const LaminaEpApi* api = base->GetEpApi(LAMINA_EP_API_VERSION);
  Factory* factory;
  (void)registered_name;
  (void)logger;
  *num_factories = 0;
  if (api == NULL || max_factories < 1) return NULL; /* an older host says so itself */
  factory = (Factory*)calloc(1, sizeof(Factory));
  if (factory == NULL) return api->CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "no memory for the factory");
  factory->api = api;
  factory->base.lamina_version = LAMINA_EP_API_VERSION;
  factory->base.GetName = &GetName;
  factory->base.GetVendor = &GetVendor;
  factory->base.GetDeviceKind = &GetDeviceKind;
  factory->base.GetSupportedDevices = &GetSupportedDevices;
  factory->base.CreateEp = &CreateEp;
  factory->base.ReleaseEp = &ReleaseEp;
  factories[0] = &factory->base;
  *num_factories = 1;
  return NULL;
}

LAMINA_EP_EXPORT void ReleaseEpFactory(LaminaEpFactory* factory) { free(factory); }
