/* The C interface of execution providers that are loaded at run time ("plugins").
 *
 * A plugin is a shared library that exports CreateEpFactories and ReleaseEpFactory. The host, Lamina, loads
 * it (Env::RegisterProviderLibrary, `--provider-library NAME=PATH`), asks its factory for devices and a
 * provider, asks the provider which nodes it takes, and calls the provider's kernels. docs/providers.md is a
 * guide; examples/c_provider is a small plugin in C, examples/simulated_accelerator a whole one.
 *
 * Tables. Everything is a struct of function pointers whose first member is the version it was built for.
 * What the host offers is LaminaEpApi; what the plugin offers are the structs named "implemented by the
 * plugin": it fills `lamina_version` with LAMINA_EP_API_VERSION and what it implements, and may embed the
 * struct as the first member of a larger one to keep state. A null entry is a function that is not
 * implemented; entries that must be there are marked "required".
 *
 * Versions. Tables and structs only ever grow at the end. Whoever reads a struct of the other side reads no
 * further than that side's version reaches. The host accepts plugins of its own version and of all older
 * ones; a plugin of a newer version, a table without a required entry and a version of 0 are refused with the
 * reason. Members without a note exist since version 1. Elements of arrays are passed by pointer, so that
 * they can grow too; the two structs without a version, LaminaWorkspaceSlot and LaminaKvPlane, never do.
 *
 * Errors. Functions return a LaminaStatus: null is success, anything else is an object that the receiver
 * releases with LaminaEpApi::ReleaseStatus. Where a function failed, its results are not looked at. Nothing
 * may throw, longjmp or call exit across this interface; in C++ the pointers are noexcept.
 *
 * Ownership. Whoever makes an object frees it: the host calls the Release function that came with what it was
 * given. Pointers that a query returns (names, shapes, tensors, attributes) live until the callback returns
 * in which they were asked for, unless the query says otherwise. Strings are UTF-8 and end with a null byte.
 *
 * Threads. LaminaEpApi may be called from any thread while a callback runs that was given the object it is
 * called with. Which functions of the plugin must be thread-safe is said with them.
 *
 * Units. Sizes are bytes, shapes count elements, in row-major order.
 */
#ifndef LAMINA_LAMINA_EP_H_
#define LAMINA_LAMINA_EP_H_

/* C, with the names of ONNX Runtime's interface: checks of C++ style do not apply. NOLINTBEGIN */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define LAMINA_EP_NOEXCEPT noexcept
extern "C" {
#else
#define LAMINA_EP_NOEXCEPT
#endif

#if defined(__GNUC__)
#define LAMINA_EP_EXPORT __attribute__((visibility("default")))
#else
#define LAMINA_EP_EXPORT
#endif

/* 1: factories, providers, kernels, prepacking, allocators, copies, streams, fused subgraphs.
 * 2: workspace (estimates, declarations, planned slots), bounds of shapes, statistics and stream-ordered
 *    allocation, available resources, loaders of external data. */
#define LAMINA_EP_API_VERSION 2

/* A function pointer member that returns a status. */
#define LAMINA_EP_FUNCTION(name, ...) LaminaStatus* (*name)(__VA_ARGS__)LAMINA_EP_NOEXCEPT

/* ---------------------------------------------------------------------------------------------------------
 * Plain types
 * ------------------------------------------------------------------------------------------------------ */

typedef enum LaminaStatusCode {
  LAMINA_OK = 0,
  LAMINA_INVALID_ARGUMENT = 1,
  LAMINA_NOT_FOUND = 2,
  LAMINA_INVALID_MODEL = 3,
  LAMINA_UNSUPPORTED = 4,
  LAMINA_RESOURCE_EXHAUSTED = 5,
  LAMINA_CANCELLED = 6,
  LAMINA_DEVICE_LOST = 7,
  LAMINA_IO = 8,
  LAMINA_INTERNAL = 9
} LaminaStatusCode;

/* Element types, with the numbers of ONNX TensorProto.DataType. Elements of less than a byte are packed, low
 * bits first. Strings, sequences, maps and optionals do not cross this interface: the host keeps nodes that
 * have them. */
typedef enum LaminaDataType {
  LAMINA_TYPE_UNDEFINED = 0,
  LAMINA_TYPE_FLOAT = 1,
  LAMINA_TYPE_UINT8 = 2,
  LAMINA_TYPE_INT8 = 3,
  LAMINA_TYPE_UINT16 = 4,
  LAMINA_TYPE_INT16 = 5,
  LAMINA_TYPE_INT32 = 6,
  LAMINA_TYPE_INT64 = 7,
  LAMINA_TYPE_STRING = 8,
  LAMINA_TYPE_BOOL = 9,
  LAMINA_TYPE_FLOAT16 = 10,
  LAMINA_TYPE_DOUBLE = 11,
  LAMINA_TYPE_UINT32 = 12,
  LAMINA_TYPE_UINT64 = 13,
  LAMINA_TYPE_COMPLEX64 = 14,
  LAMINA_TYPE_COMPLEX128 = 15,
  LAMINA_TYPE_BFLOAT16 = 16,
  LAMINA_TYPE_FLOAT8E4M3FN = 17,
  LAMINA_TYPE_FLOAT8E4M3FNUZ = 18,
  LAMINA_TYPE_FLOAT8E5M2 = 19,
  LAMINA_TYPE_FLOAT8E5M2FNUZ = 20,
  LAMINA_TYPE_UINT4 = 21,
  LAMINA_TYPE_INT4 = 22,
  LAMINA_TYPE_FLOAT4E2M1 = 23,
  LAMINA_TYPE_FLOAT8E8M0 = 24,
  LAMINA_TYPE_UINT2 = 25,
  LAMINA_TYPE_INT2 = 26
} LaminaDataType;

/* Types of attributes, with the numbers of ONNX AttributeProto.AttributeType. */
typedef enum LaminaAttributeType {
  LAMINA_ATTRIBUTE_UNDEFINED = 0,
  LAMINA_ATTRIBUTE_FLOAT = 1,
  LAMINA_ATTRIBUTE_INT = 2,
  LAMINA_ATTRIBUTE_STRING = 3,
  LAMINA_ATTRIBUTE_TENSOR = 4,
  LAMINA_ATTRIBUTE_GRAPH = 5,
  LAMINA_ATTRIBUTE_FLOATS = 6,
  LAMINA_ATTRIBUTE_INTS = 7,
  LAMINA_ATTRIBUTE_STRINGS = 8
} LaminaAttributeType;

typedef enum LaminaDeviceKind {
  LAMINA_DEVICE_CPU = 0,
  LAMINA_DEVICE_GPU = 1,
  LAMINA_DEVICE_NPU = 2,
  LAMINA_DEVICE_FPGA = 3
} LaminaDeviceKind;

typedef enum LaminaMemoryType {
  LAMINA_MEMORY_DEVICE = 0, /* the device's own memory */
  LAMINA_MEMORY_HOST = 1,   /* memory that host code reads and writes; of an allocator: host memory that the
                               device copies from at full speed ("pinned") */
} LaminaMemoryType;

typedef enum LaminaStreamPurpose { LAMINA_STREAM_COMPUTE = 0, LAMINA_STREAM_COPY = 1 } LaminaStreamPurpose;

typedef enum LaminaLogLevel {
  LAMINA_LOG_DEBUG = 0,
  LAMINA_LOG_INFO = 1,
  LAMINA_LOG_WARNING = 2,
  LAMINA_LOG_ERROR = 3
} LaminaLogLevel;

/* Where memory is: an index into the devices of the provider (LaminaEpFactory::GetSupportedDevices), or the
 * host. */
#define LAMINA_HOST_DEVICE (-1)

/* A dimension without an upper bound. */
#define LAMINA_UNBOUNDED_DIM INT64_MAX

/* Slots that one kernel may declare, see LaminaKernelImpl::DeclareWorkspaceRequirements. */
#define LAMINA_MAX_WORKSPACE_SLOTS 8

/* Objects of the host. */
typedef struct LaminaStatus LaminaStatus;
typedef struct LaminaLogger LaminaLogger;
typedef struct LaminaNode LaminaNode;
typedef struct LaminaGraph LaminaGraph;
typedef struct LaminaEpGraphSupportInfo LaminaEpGraphSupportInfo;
typedef struct LaminaKernelDefBuilder LaminaKernelDefBuilder;
typedef struct LaminaKernelDef LaminaKernelDef;
typedef struct LaminaKernelRegistry LaminaKernelRegistry;
typedef struct LaminaKernelInfo LaminaKernelInfo;
typedef struct LaminaKernelContext LaminaKernelContext;
typedef struct LaminaPrepackContext LaminaPrepackContext;
typedef struct LaminaExternalFile LaminaExternalFile;
typedef struct LaminaLoadProgress LaminaLoadProgress;

/* Tables. */
typedef struct LaminaEpApi LaminaEpApi;
typedef struct LaminaApiBase LaminaApiBase;
typedef struct LaminaEpFactory LaminaEpFactory;
typedef struct LaminaEp LaminaEp;
typedef struct LaminaKernelImpl LaminaKernelImpl;
typedef struct LaminaNodeComputeInfo LaminaNodeComputeInfo;
typedef struct LaminaAllocator LaminaAllocator;
typedef struct LaminaDataTransferImpl LaminaDataTransferImpl;
typedef struct LaminaSyncStreamImpl LaminaSyncStreamImpl;
typedef struct LaminaSyncNotificationImpl LaminaSyncNotificationImpl;
typedef struct LaminaExternalDataLoader LaminaExternalDataLoader;

/* A tensor, filled by the host. Contiguous. */
typedef struct LaminaTensor {
  uint32_t lamina_version;
  LaminaDataType type;
  int32_t device;    /* whose memory `data` is: an index, or LAMINA_HOST_DEVICE */
  uint32_t reserved; /* 0 */
  void* data;        /* read-only for inputs, constants and attributes; may be null where size_bytes is 0 */
  uint64_t size_bytes;
  uint64_t capacity_bytes; /* of the memory; at least size_bytes */
  const int64_t* shape;    /* [rank]; not null, also for a scalar */
  size_t rank;
} LaminaTensor;

/* Pairs of text. */
typedef struct LaminaKeyValues {
  uint32_t lamina_version;
  uint32_t reserved; /* 0 */
  size_t count;
  const char* const* keys;
  const char* const* values;
} LaminaKeyValues;

/* A device, as the plugin describes it: the host passes the struct zeroed, with `lamina_version` set to its
 * own; the plugin fills in what it knows. Strings live as long as the factory. Numbers of 0 are unknown. */
typedef struct LaminaDeviceInfo {
  uint32_t lamina_version;
  LaminaDeviceKind kind;
  const char* name;           /* marketing name; required */
  const char* driver;         /* version of the driver, or null */
  uint64_t memory_bytes;      /* capacity; required */
  uint64_t reserved_bytes;    /* of it, never available */
  uint64_t granularity_bytes; /* allocations are rounded up to multiples of it; 0 is 1 */
  double memory_bandwidth_bytes_per_s;
  double link_bandwidth_bytes_per_s; /* between host and device */
  int32_t compute_capability_major;
  int32_t compute_capability_minor;
  int32_t multiprocessors;
  int32_t reserved; /* 0 */
} LaminaDeviceInfo;

/* Scratch memory that a kernel asks for. Never grows. */
typedef struct LaminaWorkspaceSlot {
  int32_t slot_id; /* a constant of the kernel class, in [0, LAMINA_MAX_WORKSPACE_SLOTS) */
  uint32_t reserved;
  uint64_t size_bytes;
} LaminaWorkspaceSlot;

/* How a constant input is stored for a kernel in place of its original. Zeroed by the host, `lamina_version`
 * set. */
typedef struct LaminaPrepackDeclaration {
  uint32_t lamina_version;
  bool prepack;           /* false: the other members are not looked at */
  bool required;          /* the kernel cannot compute from the original: packed even where packing is off */
  uint64_t packed_bytes;  /* kept for the kernel, aligned to 64 */
  uint64_t scratch_bytes; /* needed while packing */
  uint32_t absorbed_inputs; /* bit i: input i is read while packing and then no longer needed */
  uint32_t reserved;
} LaminaPrepackDeclaration;

/* Keys or values of one attention node in a cache. Element (sequence b, head h, token t, channel d) lies at
 *   base + block(b, t / block_tokens) * block_stride_bytes + h * head_stride_bytes
 *        + (t % block_tokens) * token_stride_bytes + d * sizeof(element).
 * Never grows. */
typedef struct LaminaKvPlane {
  void* base;
  int64_t block_stride_bytes;
  int64_t head_stride_bytes;
  int64_t token_stride_bytes;
  int32_t head_size;
  int32_t reserved;
} LaminaKvPlane;

/* A KV cache bound to a run: the kernel reads past tokens in it and appends the run's own. All pointers are
 * memory of the kernel's device. */
typedef struct LaminaKvView {
  uint32_t lamina_version;
  LaminaDataType type;
  LaminaKvPlane key;
  LaminaKvPlane value;
  int32_t kv_heads;
  int32_t block_tokens;        /* tokens a block holds; of a contiguous cache its capacity */
  const int32_t* block_table;  /* [batch, blocks_per_sequence] block numbers */
  const int32_t* past_lengths; /* [batch] valid tokens before this run */
  int32_t blocks_per_sequence;
  int32_t capacity_tokens; /* past + appended may not exceed it */
} LaminaKvView;

/* Filled by the plugin; zeroed by the host, `lamina_version` set. */
typedef struct LaminaAllocatorStats {
  uint32_t lamina_version;
  uint32_t reserved;
  uint64_t limit_bytes; /* 0: none */
  uint64_t in_use_bytes;
  uint64_t total_allocated_bytes; /* held from the level below */
  uint64_t max_in_use_bytes;
  uint64_t max_alloc_size_bytes;
  uint64_t num_allocs;
  uint64_t num_reserves;
  uint64_t num_arena_extensions;
  uint64_t num_arena_shrinkages;
} LaminaAllocatorStats;

typedef enum LaminaResourceKind { LAMINA_RESOURCE_NONE = 0, LAMINA_RESOURCE_BYTES = 1 } LaminaResourceKind;

/* What a device has left. Zeroed by the host, `lamina_version` set. */
typedef struct LaminaResourceCount {
  uint32_t lamina_version;
  LaminaResourceKind kind; /* NONE: cannot be told */
  uint64_t bytes;
} LaminaResourceCount;

typedef struct LaminaRunInfo {
  uint32_t lamina_version;
  uint32_t reserved;
  uint64_t id;     /* of the session's runs */
  const char* tag; /* of the caller; not null */
} LaminaRunInfo;

typedef struct LaminaNodeFusionOptions {
  uint32_t lamina_version;
  uint32_t reserved;
} LaminaNodeFusionOptions;

/* One initializer to load: bytes of a file that the host opened and checked, and where they go. */
typedef struct LaminaExternalDataItem {
  uint32_t lamina_version;
  LaminaDataType type;
  const char* name; /* of the initializer */
  const LaminaExternalFile* file;
  uint64_t offset_bytes;
  uint64_t size_bytes;
  void* destination; /* memory of `device` */
  int32_t device;
  uint32_t reserved;
} LaminaExternalDataItem;

/* ---------------------------------------------------------------------------------------------------------
 * Functions that a plugin passes by pointer
 * ------------------------------------------------------------------------------------------------------ */

/* Makes the kernel of a node; `state` is what was registered. Attributes are checked here: INVALID_MODEL for
 * wrong ones, UNSUPPORTED for right ones that the kernel cannot do. */
typedef LaminaStatus* (*LaminaKernelCreateFunc)(void* state, const LaminaKernelInfo* info,
                                                LaminaKernelImpl** kernel)LAMINA_EP_NOEXCEPT;

/* The most scratch that the node needs under the shapes being planned, in bytes, found without a kernel:
 * called while nodes are given to devices. A failure counts as no estimate and is logged as a warning.
 * Deterministic and without side effects: it may be called several times for a node. */
typedef LaminaStatus* (*LaminaKernelWorkspaceEstimateFunc)(
    const LaminaEpApi* api, const LaminaNode* node, const LaminaEp* ep,
    size_t* estimated_workspace_bytes)LAMINA_EP_NOEXCEPT;

/* Part [begin, end) of a parallel loop. */
typedef void (*LaminaParallelBody)(void* state, int64_t begin, int64_t end) LAMINA_EP_NOEXCEPT;

/* ---------------------------------------------------------------------------------------------------------
 * LaminaEpApi: what the host offers
 * ------------------------------------------------------------------------------------------------------ */

/* Entries are never null up to the version that was asked for. */
struct LaminaEpApi {
  uint32_t lamina_version; /* the host's */
  uint32_t reserved;

  /* --- Statuses --- */

  /* Copies the text. LAMINA_OK gives null; so does a lack of memory, which the caller cannot mend. */
  LaminaStatus* (*CreateStatus)(LaminaStatusCode code, const char* message)LAMINA_EP_NOEXCEPT;
  /* RESOURCE_EXHAUSTED for memory of a device, with figures that the host reports to its user. */
  LaminaStatus* (*CreateMemoryShortage)(const char* message, uint64_t needed_bytes,
                                        uint64_t available_bytes)LAMINA_EP_NOEXCEPT;
  /* LAMINA_OK for null. */
  LaminaStatusCode (*GetStatusCode)(const LaminaStatus* status) LAMINA_EP_NOEXCEPT;
  /* Not null; lives as long as the status. */
  const char* (*GetStatusMessage)(const LaminaStatus* status)LAMINA_EP_NOEXCEPT;
  /* Null is ignored. */
  void (*ReleaseStatus)(LaminaStatus* status) LAMINA_EP_NOEXCEPT;

  /* --- Log --- */

  /* From any thread. `logger` is the one that CreateEpFactories and CreateEp were given. */
  void (*Logger_Log)(const LaminaLogger* logger, LaminaLogLevel level,
                     const char* message) LAMINA_EP_NOEXCEPT;

  /* --- Nodes ---
   * Given to GetCapability, Compile, estimates, kernel creation and declarations. Indices count absent
   * optional inputs and outputs before the last present one; an index out of range is INVALID_ARGUMENT. */

  LAMINA_EP_FUNCTION(Node_GetName, const LaminaNode* node, const char** name);
  LAMINA_EP_FUNCTION(Node_GetOperatorType, const LaminaNode* node, const char** op_type);
  /* "" is ai.onnx. */
  LAMINA_EP_FUNCTION(Node_GetDomain, const LaminaNode* node, const char** domain);
  /* The opset version that the model imports for the domain. */
  LAMINA_EP_FUNCTION(Node_GetOpsetVersion, const LaminaNode* node, int32_t* version);
  LAMINA_EP_FUNCTION(Node_GetNumInputs, const LaminaNode* node, size_t* count);
  LAMINA_EP_FUNCTION(Node_GetNumOutputs, const LaminaNode* node, size_t* count);
  /* UNDEFINED where the optional input or output is absent or is no tensor. */
  LAMINA_EP_FUNCTION(Node_GetInputType, const LaminaNode* node, size_t index, LaminaDataType* type);
  LAMINA_EP_FUNCTION(Node_GetOutputType, const LaminaNode* node, size_t index, LaminaDataType* type);
  /* Names of values; null where it is absent. Known in GetCapability and Compile, null elsewhere. */
  LAMINA_EP_FUNCTION(Node_GetInputName, const LaminaNode* node, size_t index, const char** name);
  LAMINA_EP_FUNCTION(Node_GetOutputName, const LaminaNode* node, size_t index, const char** name);
  /* The shape under the binding being planned: of every dimension the largest value that the session admits.
   * Null, with a rank of 0, only where no bound is known or the input is absent. */
  LAMINA_EP_FUNCTION(Node_GetInputShape, const LaminaNode* node, size_t index, const int64_t** shape,
                     size_t* rank);
  LAMINA_EP_FUNCTION(Node_GetOutputShape, const LaminaNode* node, size_t index, const int64_t** shape,
                     size_t* rank);
  /* LAMINA_ATTRIBUTE_UNDEFINED where the attribute is absent. */
  LAMINA_EP_FUNCTION(Node_GetAttributeType, const LaminaNode* node, const char* attribute,
                     LaminaAttributeType* type);
  /* The value, or null with OK where the attribute is absent. INVALID_ARGUMENT where it is of another type.
   */
  LAMINA_EP_FUNCTION(Node_GetAttributeInt, const LaminaNode* node, const char* attribute,
                     const int64_t** value);
  LAMINA_EP_FUNCTION(Node_GetAttributeFloat, const LaminaNode* node, const char* attribute,
                     const float** value);
  /* The text may hold null bytes; one more follows its `length_bytes`. */
  LAMINA_EP_FUNCTION(Node_GetAttributeString, const LaminaNode* node, const char* attribute,
                     const char** value, size_t* length_bytes);
  /* Lists: [count]; null with a count of 0 where absent, not null where the list is empty. */
  LAMINA_EP_FUNCTION(Node_GetAttributeInts, const LaminaNode* node, const char* attribute,
                     const int64_t** values, size_t* count);
  LAMINA_EP_FUNCTION(Node_GetAttributeFloats, const LaminaNode* node, const char* attribute,
                     const float** values, size_t* count);
  LAMINA_EP_FUNCTION(Node_GetAttributeStrings, const LaminaNode* node, const char* attribute,
                     const char* const** values, size_t* count);
  /* In host memory. Null also where the tensor's bytes are in another file. */
  LAMINA_EP_FUNCTION(Node_GetAttributeTensor, const LaminaNode* node, const char* attribute,
                     const LaminaTensor** tensor);
  /* Whether the input is an initializer of the model, of any size. */
  LAMINA_EP_FUNCTION(Node_IsConstantInput, const LaminaNode* node, size_t index, bool* is_constant);
  /* The constant in host memory; null where the input is none, or takes more than 64 KiB: planning reads no
   * weights. */
  LAMINA_EP_FUNCTION(Node_GetConstantInput, const LaminaNode* node, size_t index,
                     const LaminaTensor** tensor);
  /* The device that the node is planned for, an index. */
  LAMINA_EP_FUNCTION(Node_GetDevice, const LaminaNode* node, int32_t* device);

  /* --- Graphs --- */

  /* Nodes in topological order. In GetCapability those that the provider may take. */
  LAMINA_EP_FUNCTION(Graph_GetNodes, const LaminaGraph* graph, const LaminaNode* const** nodes,
                     size_t* count);
  /* Formal inputs and outputs, by position. */
  LAMINA_EP_FUNCTION(Graph_GetInputNames, const LaminaGraph* graph, const char* const** names, size_t* count);
  LAMINA_EP_FUNCTION(Graph_GetOutputNames, const LaminaGraph* graph, const char* const** names,
                     size_t* count);

  /* --- Answers of GetCapability --- */

  /* The kernel that the provider's registry has for the node, or null. */
  LAMINA_EP_FUNCTION(EpGraphSupportInfo_LookUpKernel, LaminaEpGraphSupportInfo* info, const LaminaNode* node,
                     const LaminaKernelDef** def);
  /* Takes the node, with a kernel of the registry. NOT_FOUND where the registry has none. */
  LAMINA_EP_FUNCTION(EpGraphSupportInfo_AddSingleNode, LaminaEpGraphSupportInfo* info,
                     const LaminaNode* node);
  /* Takes the nodes as one, which LaminaEp::Compile makes executable. No path may leave the group and come
   * back. `options` may be null. */
  LAMINA_EP_FUNCTION(EpGraphSupportInfo_AddNodesToFuse, LaminaEpGraphSupportInfo* info,
                     const LaminaNode* const* nodes, size_t count, const LaminaNodeFusionOptions* options);
  /* Says why a node is not taken; `lamina plan` shows it. Copied. */
  LAMINA_EP_FUNCTION(EpGraphSupportInfo_RejectNode, LaminaEpGraphSupportInfo* info, const LaminaNode* node,
                     const char* reason);

  /* --- Definitions of kernels --- */

  LAMINA_EP_FUNCTION(CreateKernelDefBuilder, const char* op_type, const char* domain,
                     LaminaKernelDefBuilder** builder);
  void (*ReleaseKernelDefBuilder)(LaminaKernelDefBuilder* builder) LAMINA_EP_NOEXCEPT;
  /* Opset versions `first` to `last`, inclusive; a `last` of 0 or less: all from `first`. Default: all. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetSinceVersion, LaminaKernelDefBuilder* builder, int32_t first,
                     int32_t last);
  /* Element types admitted at an input or output; an index that is not named admits every type. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetInputTypes, LaminaKernelDefBuilder* builder, size_t index,
                     const LaminaDataType* types, size_t count);
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetOutputTypes, LaminaKernelDefBuilder* builder, size_t index,
                     const LaminaDataType* types, size_t count);
  /* What was set for the last input holds for all after it. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetVariadicInputs, LaminaKernelDefBuilder* builder);
  /* LAMINA_MEMORY_HOST: the kernel reads the input, or writes the output, in host memory (shapes, axes),
   * below index 64. Default: memory of the device. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetInputMemoryType, LaminaKernelDefBuilder* builder, size_t index,
                     LaminaMemoryType type);
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetOutputMemoryType, LaminaKernelDefBuilder* builder, size_t index,
                     LaminaMemoryType type);
  /* The output is the input's memory under another shape. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_AddInputOutputAlias, LaminaKernelDefBuilder* builder, size_t input,
                     size_t output);
  /* The output may overwrite the input where nobody else reads it. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_AddInputOutputMayInplace, LaminaKernelDefBuilder* builder, size_t input,
                     size_t output);
  /* An attention node whose past and present may live in a KV cache, see KernelContext_GetKvView. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_SetKvCache, LaminaKernelDefBuilder* builder, size_t past_key,
                     size_t past_value, size_t present_key, size_t present_value);
  /* The definition is the caller's, to be released after it was registered; the builder can be used again. */
  LAMINA_EP_FUNCTION(KernelDefBuilder_Build, LaminaKernelDefBuilder* builder, LaminaKernelDef** def);
  void (*ReleaseKernelDef)(LaminaKernelDef* def) LAMINA_EP_NOEXCEPT;

  LAMINA_EP_FUNCTION(CreateKernelRegistry, LaminaKernelRegistry** registry);
  void (*ReleaseKernelRegistry)(LaminaKernelRegistry* registry) LAMINA_EP_NOEXCEPT;
  /* Copies the definition. The first one registered that fits a node wins. INVALID_ARGUMENT for a null
   * `create`. `state` must outlive the registry. */
  LAMINA_EP_FUNCTION(KernelRegistry_AddKernel, LaminaKernelRegistry* registry, const LaminaKernelDef* def,
                     LaminaKernelCreateFunc create, void* state);

  /* --- Kernels --- */

  LAMINA_EP_FUNCTION(KernelInfo_GetNode, const LaminaKernelInfo* info, const LaminaNode** node);
  LAMINA_EP_FUNCTION(KernelInfo_GetEp, const LaminaKernelInfo* info, const LaminaEp** ep);

  /* Valid while PrePackWeight runs. The constant, in memory of the kernel's device, or in host memory where
   * the input is a host input; null where the input is absent or no constant. */
  LAMINA_EP_FUNCTION(PrepackContext_GetConstant, LaminaPrepackContext* context, size_t index,
                     const LaminaTensor** tensor);
  /* The stream to pack on; null where there is none: packing is then done when PrePackWeight returns. */
  LAMINA_EP_FUNCTION(PrepackContext_GetStream, LaminaPrepackContext* context, LaminaSyncStreamImpl** stream);

  /* A context is valid while Compute runs, and may be used by one thread at a time. Indices as with nodes. */
  LAMINA_EP_FUNCTION(KernelContext_GetNumInputs, const LaminaKernelContext* context, size_t* count);
  LAMINA_EP_FUNCTION(KernelContext_GetNumOutputs, const LaminaKernelContext* context, size_t* count);
  /* Null for an absent optional input and for a weight that was prepacked. */
  LAMINA_EP_FUNCTION(KernelContext_GetInput, LaminaKernelContext* context, size_t index,
                     const LaminaTensor** tensor);
  /* What PrePackWeight filled; null where the input was not packed. */
  LAMINA_EP_FUNCTION(KernelContext_GetPackedWeight, const LaminaKernelContext* context, size_t index,
                     const void** packed, uint64_t* size_bytes);
  LAMINA_EP_FUNCTION(KernelContext_HasOutput, const LaminaKernelContext* context, size_t index,
                     bool* has_output);
  /* The tensor to fill; null where the output is not wanted. Called at most once for an output. Errors: the
   * shape contradicts the plan; no memory. */
  LAMINA_EP_FUNCTION(KernelContext_GetOutput, LaminaKernelContext* context, size_t index,
                     const int64_t* shape, size_t rank, const LaminaTensor** tensor);
  /* Scratch memory of the device for a slot, aligned to 256 bytes, valid until Compute returns: the planned
   * slot, where something was planned. RESOURCE_EXHAUSTED where `size_bytes` exceeds what was planned. In
   * sessions that do not plan, memory of an arena. */
  LAMINA_EP_FUNCTION(KernelContext_GetScratchBuffer, LaminaKernelContext* context, int32_t slot_id,
                     size_t size_bytes, void** buffer);
  /* The cache that is bound to this attention node, or null: past and present are then ordinary tensors. */
  LAMINA_EP_FUNCTION(KernelContext_GetKvView, LaminaKernelContext* context, const LaminaKvView** view);
  /* The stream the kernel works on, of LaminaEp::CreateSyncStream; null where there is none. */
  LAMINA_EP_FUNCTION(KernelContext_GetStream, const LaminaKernelContext* context,
                     LaminaSyncStreamImpl** stream);
  /* Polled by kernels that may run long: they then return CANCELLED. */
  LAMINA_EP_FUNCTION(KernelContext_IsCancelled, const LaminaKernelContext* context, bool* cancelled);
  /* Runs `body` over [0, count) in parts of `grain` on the session's threads and the calling one; done on
   * return. For kernels that compute on the CPU. */
  LAMINA_EP_FUNCTION(KernelContext_ParallelFor, LaminaKernelContext* context, int64_t count, int64_t grain,
                     LaminaParallelBody body, void* state);

  /* --- Since version 2 --- */

  /* Bounds of every dimension over all that the session admits, [rank] each; LAMINA_UNBOUNDED_DIM where there
   * is no upper one. Null, with a rank of 0, where the rank is unknown or the input is absent. */
  LAMINA_EP_FUNCTION(Node_GetInputShapeBounds, const LaminaNode* node, size_t index, const int64_t** min,
                     const int64_t** max, size_t* rank);
  LAMINA_EP_FUNCTION(Node_GetOutputShapeBounds, const LaminaNode* node, size_t index, const int64_t** min,
                     const int64_t** max, size_t* rank);
  /* AddKernel with an estimate of the node's scratch, which may be null. */
  LAMINA_EP_FUNCTION(KernelRegistry_AddKernelV2, LaminaKernelRegistry* registry, const LaminaKernelDef* def,
                     LaminaKernelCreateFunc create, void* state,
                     LaminaKernelWorkspaceEstimateFunc workspace_estimate);
  /* The slot that was planned, valid until Compute returns; null where it was not. */
  LAMINA_EP_FUNCTION(KernelContext_GetPreallocatedWorkspace, LaminaKernelContext* context, int32_t slot_id,
                     void** buffer);
  /* Reads exactly the bytes into host memory; IO otherwise. Thread-safe. */
  LAMINA_EP_FUNCTION(ExternalFile_Read, const LaminaExternalFile* file, uint64_t offset_bytes,
                     uint64_t size_bytes, void* destination);
  /* Says that bytes of a load arrived; called on the thread that called LoadTensors. An error (CANCELLED) is
   * returned from the load. */
  LAMINA_EP_FUNCTION(LoadProgress_Report, LaminaLoadProgress* progress, uint64_t loaded_bytes);
};

/* What CreateEpFactories is given. It never changes. */
struct LaminaApiBase {
  /* The table for a plugin that was built for `version`; null where the host is older. The plugin then
   * returns null with no factories, and the host says so. */
  const LaminaEpApi* (*GetEpApi)(uint32_t version)LAMINA_EP_NOEXCEPT;
  /* Of the host, "0.1.0". */
  const char* (*GetVersionString)(void)LAMINA_EP_NOEXCEPT;
};

/* ---------------------------------------------------------------------------------------------------------
 * Kernels, implemented by the plugin
 * ------------------------------------------------------------------------------------------------------ */

/* Made once per node; immutable: every function may be called from several threads. Keeps no pointer to
 * inputs, weights or scratch between calls. */
struct LaminaKernelImpl {
  uint32_t lamina_version;
  uint32_t flags; /* 0 */
  /* Required. Puts the node's work on the context's stream, or does it. The host is told of a failure that is
   * found later through the stream. */
  LAMINA_EP_FUNCTION(Compute, LaminaKernelImpl* kernel, LaminaKernelContext* context);
  /* Required. */
  void (*Release)(LaminaKernelImpl* kernel) LAMINA_EP_NOEXCEPT;
  /* Asked once for every constant input at planning. Sizes only; no weight is read. */
  LAMINA_EP_FUNCTION(DeclarePrepack, LaminaKernelImpl* kernel, const LaminaNode* node, size_t index,
                     LaminaPrepackDeclaration* declaration);
  /* Fills `packed`, memory of the device, from the constant and those it absorbs. Required where
   * DeclarePrepack is there. */
  LAMINA_EP_FUNCTION(PrePackWeight, LaminaKernelImpl* kernel, size_t index, LaminaPrepackContext* context,
                     void* packed, void* scratch);

  /* --- Since version 2 --- */

  /* Scratch slots for everything that `node` admits. `input_shapes` [num_inputs] are those of
   * Node_GetInputShape, null where no bound is known; a kernel that needs such a bound returns UNSUPPORTED,
   * and then, as where this function is missing, gets a reserve: half of the node's outputs and constants.
   * Fills slots[0, *num_slots), at most `max_slots`, which the host allocated. A slot id that is out of range
   * or there twice fails the load. */
  LAMINA_EP_FUNCTION(DeclareWorkspaceRequirements, LaminaKernelImpl* kernel, const LaminaNode* node,
                     const int64_t* const* input_shapes, const size_t* input_shape_ranks, size_t num_inputs,
                     LaminaWorkspaceSlot* slots, size_t max_slots, size_t* num_slots);
};

/* A fused subgraph made executable. Thread-safe. */
struct LaminaNodeComputeInfo {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Called once at load; `state` goes to the other functions. May be null: state is null then. */
  LAMINA_EP_FUNCTION(CreateState, LaminaNodeComputeInfo* info, const LaminaKernelInfo* kernel_info,
                     void** state);
  /* Required. As LaminaKernelImpl::Compute; inputs and outputs are those of the fused graph, by position. */
  LAMINA_EP_FUNCTION(Compute, LaminaNodeComputeInfo* info, void* state, LaminaKernelContext* context);
  void (*ReleaseState)(LaminaNodeComputeInfo* info, void* state) LAMINA_EP_NOEXCEPT;
};

/* ---------------------------------------------------------------------------------------------------------
 * Memory, copies, streams, implemented by the plugin
 * ------------------------------------------------------------------------------------------------------ */

/* Raw memory of one device; the host puts its arenas above. Thread-safe. */
struct LaminaAllocator {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. At least `size_bytes` (0 gives a unique address), aligned to 256. Fails with
   * CreateMemoryShortage. */
  LAMINA_EP_FUNCTION(Alloc, LaminaAllocator* allocator, uint64_t size_bytes, void** memory);
  /* Required. Null is ignored. */
  void (*Free)(LaminaAllocator* allocator, void* memory) LAMINA_EP_NOEXCEPT;
  /* For what lives as long as a session. Null: Alloc. */
  LAMINA_EP_FUNCTION(Reserve, LaminaAllocator* allocator, uint64_t size_bytes, void** memory);

  /* --- Since version 2 --- */

  /* Memory that only work put on `stream` from now on uses. Null: Alloc. */
  LAMINA_EP_FUNCTION(AllocOnStream, LaminaAllocator* allocator, uint64_t size_bytes,
                     LaminaSyncStreamImpl* stream, void** memory);
  LAMINA_EP_FUNCTION(GetStats, LaminaAllocator* allocator, LaminaAllocatorStats* stats);
};

/* Bytes to copy. Ranges do not overlap. */
typedef struct LaminaMemoryCopy {
  uint32_t lamina_version;
  uint32_t reserved;
  const void* source;
  void* destination;
  uint64_t size_bytes;
  int32_t source_device; /* an index, or LAMINA_HOST_DEVICE */
  int32_t destination_device;
} LaminaMemoryCopy;

/* Thread-safe. */
struct LaminaDataTransferImpl {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. Between the host and the provider's devices, and between its devices. */
  bool (*CanCopy)(const LaminaDataTransferImpl* transfer, int32_t source_device,
                  int32_t destination_device) LAMINA_EP_NOEXCEPT;
  /* Required. With a stream the copies are put on it and memory stays valid until they are done; without one
   * they are done on return. */
  LAMINA_EP_FUNCTION(Copy, LaminaDataTransferImpl* transfer, const LaminaMemoryCopy* const* copies,
                     size_t count, LaminaSyncStreamImpl* stream);
};

/* A queue of work on a device, in order. Used by one thread at a time. */
struct LaminaSyncStreamImpl {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. Called when the work on it is done. */
  void (*Release)(LaminaSyncStreamImpl* stream) LAMINA_EP_NOEXCEPT;
  /* The provider's own handle (a cudaStream_t); null is allowed. */
  void* (*GetHandle)(LaminaSyncStreamImpl* stream)LAMINA_EP_NOEXCEPT;
  /* Required. */
  LAMINA_EP_FUNCTION(CreateNotification, LaminaSyncStreamImpl* stream,
                     LaminaSyncNotificationImpl** notification);
  /* Work that was put here begins soon without another call. */
  LAMINA_EP_FUNCTION(Flush, LaminaSyncStreamImpl* stream);
  /* Required. Waits for everything on the stream and returns the first error of that work, once; DEVICE_LOST
   * each time where the device is gone. */
  LAMINA_EP_FUNCTION(Synchronize, LaminaSyncStreamImpl* stream);
};

/* A point in a stream, marked again and again. */
struct LaminaSyncNotificationImpl {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. */
  void (*Release)(LaminaSyncNotificationImpl* notification) LAMINA_EP_NOEXCEPT;
  /* Required. Marks the work that is on the stream now. */
  LAMINA_EP_FUNCTION(Activate, LaminaSyncNotificationImpl* notification);
  /* Required. Work put on `consumer`, a stream of any device of the provider, from now on begins after what
   * was marked. The host does not wait. */
  LAMINA_EP_FUNCTION(WaitOnDevice, LaminaSyncNotificationImpl* notification, LaminaSyncStreamImpl* consumer);
  /* Required. Returns when what was marked is done, with the first error of that work. */
  LAMINA_EP_FUNCTION(WaitOnHost, LaminaSyncNotificationImpl* notification);
};

/* Fills device memory from files, faster than through the host's staging buffers. Thread-safe. Since version
 * 2. */
struct LaminaExternalDataLoader {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. */
  bool (*CanLoad)(const LaminaExternalDataLoader* loader, int32_t device) LAMINA_EP_NOEXCEPT;
  /* Required. Done on return, also with an error. */
  LAMINA_EP_FUNCTION(LoadTensors, LaminaExternalDataLoader* loader,
                     const LaminaExternalDataItem* const* items, size_t count, LaminaLoadProgress* progress);
};

/* ---------------------------------------------------------------------------------------------------------
 * The provider and its factory, implemented by the plugin
 * ------------------------------------------------------------------------------------------------------ */

/* Thread-safe. */
struct LaminaEp {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Says with EpGraphSupportInfo_* which nodes of the graph the provider would run. Resources are none of its
   * business: the host visits the nodes in topological order and takes as many as the budget allows. Null:
   * every node that the registry has a kernel for. */
  LAMINA_EP_FUNCTION(GetCapability, LaminaEp* ep, const LaminaGraph* graph, LaminaEpGraphSupportInfo* info);
  /* The provider's kernels; called once after CreateEp. The registry is the provider's and lives as long.
   * Null where the provider compiles everything that it takes. */
  LAMINA_EP_FUNCTION(GetKernelRegistry, LaminaEp* ep, const LaminaKernelRegistry** registry);
  /* Makes fused groups executable: infos[i] for graphs[i], which fused_nodes[i] stands for. What the results
   * read of graphs and nodes they copy. Required where AddNodesToFuse is used; ReleaseNodeComputeInfos then
   * too. */
  LAMINA_EP_FUNCTION(Compile, LaminaEp* ep, const LaminaGraph* const* graphs,
                     const LaminaNode* const* fused_nodes, size_t count, LaminaNodeComputeInfo** infos);
  void (*ReleaseNodeComputeInfos)(LaminaEp* ep, LaminaNodeComputeInfo** infos,
                                  size_t count) LAMINA_EP_NOEXCEPT;
  /* Memory of a device: null for *allocator where there is none of that type. Without CreateAllocator the
   * devices have host memory, and the host allocates it. */
  LAMINA_EP_FUNCTION(CreateAllocator, LaminaEp* ep, int32_t device, LaminaMemoryType type,
                     LaminaAllocator** allocator);
  void (*ReleaseAllocator)(LaminaEp* ep, LaminaAllocator* allocator) LAMINA_EP_NOEXCEPT;
  /* Required where CreateAllocator is there. Lives as long as the provider. */
  LAMINA_EP_FUNCTION(GetDataTransfer, LaminaEp* ep, LaminaDataTransferImpl** transfer);
  /* Null, or null for *stream: kernels and copies are done when they return. */
  LAMINA_EP_FUNCTION(CreateSyncStream, LaminaEp* ep, int32_t device, LaminaStreamPurpose purpose,
                     LaminaSyncStreamImpl** stream);
  /* Before the first and after the last kernel of a run, also of one that failed, with the run's compute
   * streams on the provider's devices. */
  LAMINA_EP_FUNCTION(OnRunStart, LaminaEp* ep, const LaminaRunInfo* run, LaminaSyncStreamImpl* const* streams,
                     size_t count);
  LAMINA_EP_FUNCTION(OnRunEnd, LaminaEp* ep, const LaminaRunInfo* run, LaminaSyncStreamImpl* const* streams,
                     size_t count);
  /* A table of the provider's own, for programs that know it by name; null where it has none of that name.
   * Lives as long as the provider. */
  const void* (*GetExtension)(LaminaEp* ep, const char* name)LAMINA_EP_NOEXCEPT;

  /* --- Since version 2 --- */

  /* What could be allocated on the device now. */
  LAMINA_EP_FUNCTION(GetAvailableResource, LaminaEp* ep, int32_t device, LaminaResourceCount* available);
  /* Null for *loader: weights are copied through the data transfer. Lives as long as the provider. */
  LAMINA_EP_FUNCTION(GetExternalDataLoader, LaminaEp* ep, LaminaExternalDataLoader** loader);
};

/* Thread-safe. Strings live as long as the factory. */
struct LaminaEpFactory {
  uint32_t lamina_version;
  uint32_t reserved;
  /* Required. The name in rules, flags and options (`sim:1`, `ep.sim.devices`): lower-case letters, digits
   * and
   * `_`, beginning with a letter. A user may register the library under another one. */
  const char* (*GetName)(const LaminaEpFactory* factory)LAMINA_EP_NOEXCEPT;
  /* Required. Lower case; `gpu:VENDOR` finds its devices. */
  const char* (*GetVendor)(const LaminaEpFactory* factory)LAMINA_EP_NOEXCEPT;
  /* Of the plugin, "1.2.3". Null is allowed. */
  const char* (*GetVersion)(const LaminaEpFactory* factory)LAMINA_EP_NOEXCEPT;
  /* Required. The kind that all its devices have. */
  LaminaDeviceKind (*GetDeviceKind)(const LaminaEpFactory* factory) LAMINA_EP_NOEXCEPT;
  /* Required. The devices that are present, in the order of their indices: fills *devices[0] and so on, at
   * most `max_devices`. None is no error. `options` are those of CreateEp. */
  LAMINA_EP_FUNCTION(GetSupportedDevices, LaminaEpFactory* factory, const LaminaKeyValues* options,
                     LaminaDeviceInfo* const* devices, size_t max_devices, size_t* count);
  /* Required. A provider for all those devices. `options`: the user's `ep.NAME.KEY` without the prefix;
   * INVALID_ARGUMENT names one that is unknown or has a bad value. */
  LAMINA_EP_FUNCTION(CreateEp, LaminaEpFactory* factory, const LaminaKeyValues* options,
                     const LaminaLogger* logger, LaminaEp** ep);
  /* Required. Everything the provider gave out was released before. */
  void (*ReleaseEp)(LaminaEpFactory* factory, LaminaEp* ep) LAMINA_EP_NOEXCEPT;
};

/* ---------------------------------------------------------------------------------------------------------
 * What a plugin exports
 * ------------------------------------------------------------------------------------------------------ */

/* Called once after the library was loaded. Fills factories[0, *num_factories), at most `max_factories`.
 * `registered_name` is what the user calls the library. */
typedef LaminaStatus* (*LaminaCreateEpFactoriesFunc)(const char* registered_name, const LaminaApiBase* base,
                                                     const LaminaLogger* logger, LaminaEpFactory** factories,
                                                     size_t max_factories,
                                                     size_t* num_factories)LAMINA_EP_NOEXCEPT;
LAMINA_EP_EXPORT LaminaStatus* CreateEpFactories(const char* registered_name, const LaminaApiBase* base,
                                                 const LaminaLogger* logger, LaminaEpFactory** factories,
                                                 size_t max_factories,
                                                 size_t* num_factories) LAMINA_EP_NOEXCEPT;
/* Called for each factory before the library is unloaded, when its providers are released. */
typedef void (*LaminaReleaseEpFactoryFunc)(LaminaEpFactory* factory) LAMINA_EP_NOEXCEPT;
LAMINA_EP_EXPORT void ReleaseEpFactory(LaminaEpFactory* factory) LAMINA_EP_NOEXCEPT;

#ifdef __cplusplus
}
#endif

/* NOLINTEND */
#endif /* LAMINA_LAMINA_EP_H_ */
