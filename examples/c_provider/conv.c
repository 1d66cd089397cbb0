/* A kernel written against the C interface.
 *
 * Weights in float16 are computed with in float. Constant ones are converted when the model is loaded
 * (DeclarePrepack); others are converted in each call, into a workspace slot that is declared beforehand, so
 * that a session can plan all its memory. */
#include "conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"

/* The workspace slot of weights converted to float. */
enum { kSlotWeights = 0 };
enum { kWorkspaceAlignment = 256 };

typedef struct ConvKernel {
  LaminaKernelImpl base; /* first: a LaminaKernelImpl* is a ConvKernel* */
  const LaminaEpApi* api;
  int64_t group;
  int64_t strides[2];
  int64_t dilations[2];
  int64_t pads[4];                /* top, left, bottom, right */
  int64_t packed_weight_shape[4]; /* of constant weights, whose tensor is gone after packing */
} ConvKernel;

static LaminaStatus* Error(const LaminaEpApi* api, LaminaStatusCode code, const char* text) {
  return api->CreateStatus(code, text);
}

/* --- Workspace --- */

/* Bytes of the weights as float; 0 where they are not converted in each call. */
static LaminaStatus* WeightSlotBytes(const LaminaEpApi* api, const LaminaNode* node, uint64_t* bytes) {
  LaminaDataType type;
  bool is_constant;
  const int64_t* shape;
  size_t rank;
  size_t axis;
  uint64_t elements = 1;
  LaminaStatus* status;
  *bytes = 0;
  if ((status = api->Node_GetInputType(node, 0, &type)) != NULL) return status;
  if ((status = api->Node_IsConstantInput(node, 1, &is_constant)) != NULL) return status;
  if (type != LAMINA_TYPE_FLOAT16 || is_constant) return NULL;
  if ((status = api->Node_GetInputShape(node, 1, &shape, &rank)) != NULL) return status;
  if (shape == NULL) return Error(api, LAMINA_UNSUPPORTED, "the weights have no known bound");
  for (axis = 0; axis < rank; ++axis) elements *= (uint64_t)shape[axis];
  *bytes = elements * sizeof(float);
  return NULL;
}

LaminaStatus* EstimateConvWorkspace(const LaminaEpApi* api, const LaminaNode* node, const LaminaEp* ep,
                                    size_t* bytes) {
  uint64_t slot_bytes;
  LaminaStatus* status = WeightSlotBytes(api, node, &slot_bytes);
  (void)ep;
  if (status != NULL) return status;
  *bytes = (size_t)((slot_bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment);
  return NULL;
}

static LaminaStatus* DeclareWorkspace(LaminaKernelImpl* kernel, const LaminaNode* node,
                                      const int64_t* const* input_shapes, const size_t* input_shape_ranks,
                                      size_t num_inputs, LaminaWorkspaceSlot* slots, size_t max_slots,
                                      size_t* num_slots) {
  const LaminaEpApi* api = ((ConvKernel*)kernel)->api;
  uint64_t bytes;
  LaminaStatus* status = WeightSlotBytes(api, node, &bytes);
  (void)input_shapes;
  (void)input_shape_ranks;
  (void)num_inputs;
  *num_slots = 0;
  if (status != NULL) return status;
  if (bytes == 0 || max_slots < 1) return NULL;
  slots[0].slot_id = kSlotWeights;
  slots[0].size_bytes = bytes;
  *num_slots = 1;
  return NULL;
}

/* --- Packing of constant weights --- */

static LaminaStatus* DeclarePrepack(LaminaKernelImpl* kernel, const LaminaNode* node, size_t index,
                                    LaminaPrepackDeclaration* declaration) {
  const LaminaEpApi* api = ((ConvKernel*)kernel)->api;
  LaminaDataType type;
  const int64_t* shape;
  size_t rank;
  size_t axis;
  LaminaStatus* status;
  uint64_t elements = 1;
  if (index != 1) return NULL;
  if ((status = api->Node_GetInputType(node, 0, &type)) != NULL) return status;
  if (type != LAMINA_TYPE_FLOAT16) return NULL;
  if ((status = api->Node_GetInputShape(node, 1, &shape, &rank)) != NULL) return status;
  if (shape == NULL) return NULL;
  for (axis = 0; axis < rank; ++axis) elements *= (uint64_t)shape[axis];
  declaration->prepack = true;
  declaration->packed_bytes = elements * sizeof(float);
  return NULL;
}

static void ConvertWeights(const void* halves, float* floats, uint64_t count) {
  uint64_t i;
  for (i = 0; i < count; ++i) floats[i] = HalfToFloat(((const uint16_t*)halves)[i]);
}

static LaminaStatus* PrePackWeight(LaminaKernelImpl* kernel, size_t index, LaminaPrepackContext* context,
                                   void* packed, void* scratch) {
  const LaminaEpApi* api = ((ConvKernel*)kernel)->api;
  const LaminaTensor* weights;
  LaminaStatus* status = api->PrepackContext_GetConstant(context, index, &weights);
  (void)scratch;
  if (status != NULL) return status;
  if (weights == NULL) return Error(api, LAMINA_INTERNAL, "the weights to pack are no constant");
  ConvertWeights(weights->data, (float*)packed, weights->size_bytes / sizeof(uint16_t));
  return NULL;
}

/* --- Computing --- */

/* One call, as the threads see it. */
typedef struct ConvCall {
  LaminaDataType type;
  const void* x;        /* [batch, group * channels, height, width] */
  const float* weights; /* [filters, channels, kernel_height, kernel_width] */
  const void* bias;     /* [filters] or null */
  void* y;              /* [batch, filters, out_height, out_width] */
  int64_t filters;
  int64_t filters_per_group;
  int64_t channels; /* of a group */
  int64_t groups;
  int64_t height, width, kernel_height, kernel_width, out_height, out_width;
  const ConvKernel* kernel;
} ConvCall;

static float Load(LaminaDataType type, const void* data, int64_t index) {
  return type == LAMINA_TYPE_FLOAT ? ((const float*)data)[index]
                                   : HalfToFloat(((const uint16_t*)data)[index]);
}

static void Store(LaminaDataType type, void* data, int64_t index, float number) {
  if (type == LAMINA_TYPE_FLOAT) {
    ((float*)data)[index] = number;
  } else {
    ((uint16_t*)data)[index] = FloatToHalf(number);
  }
}

/* Planes [begin, end) of batch * filters. */
static void ComputePlanes(void* state, int64_t begin, int64_t end) {
  const ConvCall* call = (const ConvCall*)state;
  const ConvKernel* kernel = call->kernel;
  int64_t plane;
  for (plane = begin; plane < end; ++plane) {
    const int64_t filter = plane % call->filters;
    const int64_t first_channel =
        (plane / call->filters * call->groups + filter / call->filters_per_group) * call->channels;
    int64_t oy, ox, channel, ky, kx;
    for (oy = 0; oy < call->out_height; ++oy) {
      for (ox = 0; ox < call->out_width; ++ox) {
        float sum = call->bias != NULL ? Load(call->type, call->bias, filter) : 0.0f;
        for (channel = 0; channel < call->channels; ++channel) {
          for (ky = 0; ky < call->kernel_height; ++ky) {
            const int64_t iy = oy * kernel->strides[0] - kernel->pads[0] + ky * kernel->dilations[0];
            if (iy < 0 || iy >= call->height) continue;
            for (kx = 0; kx < call->kernel_width; ++kx) {
              const int64_t ix = ox * kernel->strides[1] - kernel->pads[1] + kx * kernel->dilations[1];
              if (ix < 0 || ix >= call->width) continue;
              sum += call->weights[((filter * call->channels + channel) * call->kernel_height + ky) *
                                       call->kernel_width +
                                   kx] *
                     Load(call->type, call->x,
                          ((first_channel + channel) * call->height + iy) * call->width + ix);
            }
          }
        }
        Store(call->type, call->y, (plane * call->out_height + oy) * call->out_width + ox, sum);
      }
    }
  }
}

/* Positions that a window of `taps` has on an axis; 0 or less where it does not fit. */
static int64_t OutputSize(int64_t size, int64_t pads, int64_t taps, int64_t dilation, int64_t stride) {
  const int64_t room = size + pads - dilation * (taps - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/* The weights as float: packed, as they are, or converted into the workspace. */
static LaminaStatus* GetWeights(const LaminaEpApi* api, LaminaKernelContext* context,
                                const LaminaTensor* weights, const float** floats) {
  const void* packed;
  uint64_t packed_bytes;
  void* buffer;
  uint64_t count;
  LaminaStatus* status = api->KernelContext_GetPackedWeight(context, 1, &packed, &packed_bytes);
  if (status != NULL) return status;
  if (packed != NULL) {
    *floats = (const float*)packed;
    return NULL;
  }
  if (weights == NULL) return Error(api, LAMINA_INVALID_ARGUMENT, "the weights are missing");
  if (weights->type == LAMINA_TYPE_FLOAT) {
    *floats = (const float*)weights->data;
    return NULL;
  }
  count = weights->size_bytes / sizeof(uint16_t);
  status = api->KernelContext_GetScratchBuffer(context, kSlotWeights, (size_t)count * sizeof(float), &buffer);
  if (status != NULL) return status;
  ConvertWeights(weights->data, (float*)buffer, count);
  *floats = (const float*)buffer;
  return NULL;
}

static LaminaStatus* Compute(LaminaKernelImpl* kernel, LaminaKernelContext* context) {
  const ConvKernel* self = (const ConvKernel*)kernel;
  const LaminaEpApi* api = self->api;
  const LaminaTensor* x;
  const LaminaTensor* weights;
  const LaminaTensor* bias = NULL;
  const LaminaTensor* y;
  const int64_t* weight_shape;
  int64_t shape[4];
  size_t num_inputs;
  ConvCall call;
  LaminaStatus* status;
  if ((status = api->KernelContext_GetNumInputs(context, &num_inputs)) != NULL) return status;
  if ((status = api->KernelContext_GetInput(context, 0, &x)) != NULL) return status;
  if ((status = api->KernelContext_GetInput(context, 1, &weights)) != NULL) return status;
  if (num_inputs > 2 && (status = api->KernelContext_GetInput(context, 2, &bias)) != NULL) return status;
  if (x == NULL) return Error(api, LAMINA_INVALID_ARGUMENT, "the input is missing");
  weight_shape = weights != NULL ? weights->shape : self->packed_weight_shape;
  if (x->rank != 4 || (weights != NULL && weights->rank != 4) ||
      x->shape[1] != weight_shape[1] * self->group || weight_shape[0] % self->group != 0) {
    return Error(api, LAMINA_INVALID_ARGUMENT, "the weights do not fit the input");
  }
  memset(&call, 0, sizeof(call));
  if ((status = GetWeights(api, context, weights, &call.weights)) != NULL) return status;
  call.type = x->type;
  call.x = x->data;
  call.bias = bias != NULL ? bias->data : NULL;
  call.groups = self->group;
  call.filters = weight_shape[0];
  call.filters_per_group = weight_shape[0] / self->group;
  call.channels = weight_shape[1];
  call.height = x->shape[2];
  call.width = x->shape[3];
  call.kernel_height = weight_shape[2];
  call.kernel_width = weight_shape[3];
  call.out_height = OutputSize(call.height, self->pads[0] + self->pads[2], call.kernel_height,
                               self->dilations[0], self->strides[0]);
  call.out_width = OutputSize(call.width, self->pads[1] + self->pads[3], call.kernel_width,
                              self->dilations[1], self->strides[1]);
  call.kernel = self;
  shape[0] = x->shape[0];
  shape[1] = call.filters;
  shape[2] = call.out_height;
  shape[3] = call.out_width;
  if ((status = api->KernelContext_GetOutput(context, 0, shape, 4, &y)) != NULL) return status;
  if (y == NULL || y->size_bytes == 0) return NULL;
  call.y = y->data;
  return api->KernelContext_ParallelFor(context, shape[0] * shape[1], 1, &ComputePlanes, &call);
}

/* --- Creation --- */

static void Release(LaminaKernelImpl* kernel) { free(kernel); }

/* Copies a list attribute of `count` positive numbers (0 is allowed for pads); absent: `values` stay. */
static LaminaStatus* ReadInts(const LaminaEpApi* api, const LaminaNode* node, const char* attribute,
                              int64_t* values, size_t count, int64_t smallest) {
  const int64_t* given;
  size_t given_count;
  size_t i;
  char text[96];
  LaminaStatus* status = api->Node_GetAttributeInts(node, attribute, &given, &given_count);
  if (status != NULL || given == NULL) return status;
  if (given_count != count) {
    snprintf(text, sizeof(text), "Conv is done on two axes; %s has %u entries", attribute,
             (unsigned)given_count);
    return Error(api, LAMINA_UNSUPPORTED, text);
  }
  for (i = 0; i < count; ++i) {
    if (given[i] < smallest) {
      snprintf(text, sizeof(text), "%s has a negative or zero entry", attribute);
      return Error(api, LAMINA_INVALID_MODEL, text);
    }
    values[i] = given[i];
  }
  return NULL;
}

static LaminaStatus* ReadAttributes(ConvKernel* self, const LaminaNode* node) {
  const LaminaEpApi* api = self->api;
  const int64_t* group;
  const char* auto_pad;
  const int64_t* shape;
  size_t rank;
  size_t length;
  LaminaStatus* status;
  if ((status = api->Node_GetAttributeString(node, "auto_pad", &auto_pad, &length)) != NULL) return status;
  if (auto_pad != NULL && strcmp(auto_pad, "NOTSET") != 0 && strcmp(auto_pad, "VALID") != 0) {
    return Error(api, LAMINA_UNSUPPORTED, "auto_pad is NOTSET or VALID here");
  }
  if ((status = api->Node_GetAttributeInt(node, "group", &group)) != NULL) return status;
  self->group = group != NULL ? *group : 1;
  if (self->group < 1) return Error(api, LAMINA_INVALID_MODEL, "group must be positive");
  if ((status = ReadInts(api, node, "strides", self->strides, 2, 1)) != NULL) return status;
  if ((status = ReadInts(api, node, "dilations", self->dilations, 2, 1)) != NULL) return status;
  if ((status = ReadInts(api, node, "pads", self->pads, 4, 0)) != NULL) return status;
  if ((status = api->Node_GetInputShape(node, 1, &shape, &rank)) != NULL) return status;
  if (shape != NULL && rank == 4) memcpy(self->packed_weight_shape, shape, 4 * sizeof(int64_t));
  return NULL;
}

LaminaStatus* CreateConv(void* state, const LaminaKernelInfo* info, LaminaKernelImpl** kernel) {
  const LaminaEpApi* api = (const LaminaEpApi*)state;
  const LaminaNode* node;
  ConvKernel* self;
  LaminaStatus* status = api->KernelInfo_GetNode(info, &node);
  if (status != NULL) return status;
  self = (ConvKernel*)calloc(1, sizeof(ConvKernel));
  if (self == NULL) return Error(api, LAMINA_RESOURCE_EXHAUSTED, "no memory for a kernel");
  self->api = api;
  self->strides[0] = self->strides[1] = 1;
  self->dilations[0] = self->dilations[1] = 1;
  status = ReadAttributes(self, node);
  if (status != NULL) {
    free(self);
    return status;
  }
  self->base.lamina_version = LAMINA_EP_API_VERSION;
  self->base.Compute = &Compute;
  self->base.Release = &Release;
  self->base.DeclarePrepack = &DeclarePrepack;
  self->base.PrePackWeight = &PrePackWeight;
  self->base.DeclareWorkspaceRequirements = &DeclareWorkspace;
  *kernel = &self->base;
  return NULL;
}
