#include "providers/plugin/host_kernel_context.h"

#include "base/error.h"
#include "base/thread_pool.h"

namespace lamina::plugin {
namespace {

constexpr size_t kMaxTrackedOutputs = 64;

Status CheckIndex(const char* what, size_t index, int count) {
  if (index < static_cast<size_t>(count)) return Status();
  return InvalidArgumentError("the node has {} {}s, {} {} was asked for", count, what, what, index);
}

LaminaStatus* InfoGetNode(const LaminaKernelInfo* info, const LaminaNode** node) noexcept {
  return Answer(
      "KernelInfo_GetNode",
      [&] {
        *node = info->node;
        return Status();
      },
      info, node);
}

LaminaStatus* InfoGetEp(const LaminaKernelInfo* info, const LaminaEp** ep) noexcept {
  return Answer(
      "KernelInfo_GetEp",
      [&] {
        *ep = info->ep;
        return Status();
      },
      info, ep);
}

LaminaStatus* PrepackGetConstant(LaminaPrepackContext* context, size_t index,
                                 const LaminaTensor** tensor) noexcept {
  return Answer(
      "PrepackContext_GetConstant",
      [&]() -> Status {
        *tensor = nullptr;
        const Tensor* constant = context->context.Constant(static_cast<int>(index));
        if (!constant) return Status();
        LAMINA_ASSIGN_OR_RETURN(const LaminaTensor view, DescribeTensor(*constant, context->devices));
        *tensor = &context->views.emplace_back(view);
        return Status();
      },
      context, tensor);
}

LaminaStatus* PrepackGetStream(LaminaPrepackContext* context, LaminaSyncStreamImpl** stream) noexcept {
  return Answer(
      "PrepackContext_GetStream",
      [&] {
        *stream = static_cast<LaminaSyncStreamImpl*>(context->context.stream());
        return Status();
      },
      context, stream);
}

LaminaStatus* GetNumInputs(const LaminaKernelContext* context, size_t* count) noexcept {
  return Answer(
      "KernelContext_GetNumInputs",
      [&] {
        *count = static_cast<size_t>(context->context.num_inputs());
        return Status();
      },
      context, count);
}

LaminaStatus* GetNumOutputs(const LaminaKernelContext* context, size_t* count) noexcept {
  return Answer(
      "KernelContext_GetNumOutputs",
      [&] {
        *count = static_cast<size_t>(context->context.num_outputs());
        return Status();
      },
      context, count);
}

LaminaStatus* GetInput(LaminaKernelContext* context, size_t index, const LaminaTensor** tensor) noexcept {
  return Answer(
      "KernelContext_GetInput",
      [&]() -> Status {
        *tensor = nullptr;
        LAMINA_RETURN_IF_ERROR(CheckIndex("input", index, context->context.num_inputs()));
        const Tensor* input = context->context.Input(static_cast<int>(index));
        if (!input) return Status();
        if (input->type() == DataType::kString) return UnsupportedError("input {} has strings", index);
        LAMINA_ASSIGN_OR_RETURN(const LaminaTensor view, DescribeTensor(*input, context->devices));
        *tensor = &context->views.emplace_back(view);
        return Status();
      },
      context, tensor);
}

LaminaStatus* GetPackedWeight(const LaminaKernelContext* context, size_t index, const void** packed,
                              uint64_t* size_bytes) noexcept {
  return Answer(
      "KernelContext_GetPackedWeight",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex("input", index, context->context.num_inputs()));
        const PackedWeight weight = context->context.Packed(static_cast<int>(index));
        *packed = weight.data;
        *size_bytes = weight.size_bytes;
        return Status();
      },
      context, packed, size_bytes);
}

LaminaStatus* HasOutput(const LaminaKernelContext* context, size_t index, bool* has_output) noexcept {
  return Answer(
      "KernelContext_HasOutput",
      [&] {
        *has_output = index < static_cast<size_t>(context->context.num_outputs()) &&
                      context->context.HasOutput(static_cast<int>(index));
        return Status();
      },
      context, has_output);
}

Status MakeOutput(LaminaKernelContext& context, size_t index, const int64_t* shape, size_t rank,
                  const LaminaTensor** tensor) {
  *tensor = nullptr;
  LAMINA_RETURN_IF_ERROR(CheckIndex("output", index, context.context.num_outputs()));
  if (rank > static_cast<size_t>(Shape::kMaxRank)) {
    return InvalidArgumentError("output {}: a shape of {} dimensions, at most {} are possible", index, rank,
                                Shape::kMaxRank);
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    if (shape[axis] < 0) {
      return InvalidArgumentError("output {}: dimension {} is {}", index, axis, shape[axis]);
    }
  }
  if (index < kMaxTrackedOutputs) {
    if ((context.made_outputs >> index & 1) != 0) {
      return InvalidArgumentError("output {} was asked for twice", index);
    }
    context.made_outputs |= uint64_t{1} << index;
  }
  LAMINA_ASSIGN_OR_RETURN(Tensor * output,
                          context.context.Output(static_cast<int>(index), Shape({shape, rank})));
  if (!output) return Status();
  LAMINA_ASSIGN_OR_RETURN(const LaminaTensor view, DescribeTensor(*output, context.devices));
  *tensor = &context.views.emplace_back(view);
  return Status();
}

// Remembers the first request that failed.
Status Noted(LaminaKernelContext& context, const Status& status) {
  if (!status.ok() && context.first_failure.ok()) context.first_failure = status;
  return status;
}

LaminaStatus* GetOutput(LaminaKernelContext* context, size_t index, const int64_t* shape, size_t rank,
                        const LaminaTensor** tensor) noexcept {
  return Answer(
      "KernelContext_GetOutput",
      [&]() -> Status {
        if (!shape && rank > 0) return InvalidArgumentError("output {}: the shape is null", index);
        return Noted(*context, MakeOutput(*context, index, shape, rank, tensor));
      },
      context, tensor);
}

LaminaStatus* GetScratchBuffer(LaminaKernelContext* context, int32_t slot_id, size_t size_bytes,
                               void** buffer) noexcept {
  return Answer(
      "KernelContext_GetScratchBuffer",
      [&]() -> Status {
        *buffer = nullptr;
        if (slot_id < 0 || slot_id >= WorkspaceRequirements::kMaxSlots) {
          return Noted(*context, InvalidArgumentError("workspace slot {} is out of range [0, {})", slot_id,
                                                      WorkspaceRequirements::kMaxSlots));
        }
        Result<void*> memory = context->context.GetScratchBuffer(slot_id, size_bytes);
        if (!memory.ok()) return Noted(*context, memory.status());
        *buffer = *memory;
        return Status();
      },
      context, buffer);
}

LaminaStatus* GetPreallocatedWorkspace(LaminaKernelContext* context, int32_t slot_id,
                                       void** buffer) noexcept {
  return Answer(
      "KernelContext_GetPreallocatedWorkspace",
      [&] {
        *buffer = context->context.GetPreallocatedWorkspace(slot_id);
        return Status();
      },
      context, buffer);
}

LaminaKvPlane DescribePlane(const KvPlane& plane) {
  return {plane.base,
          plane.block_stride_bytes,
          plane.head_stride_bytes,
          plane.token_stride_bytes,
          plane.head_size,
          0};
}

LaminaStatus* GetKvView(LaminaKernelContext* context, const LaminaKvView** view) noexcept {
  return Answer(
      "KernelContext_GetKvView",
      [&] {
        *view = nullptr;
        const KvView* kv = context->context.kv_view();
        if (!kv) return Status();
        LaminaKvView& described = context->kv_view;
        described.lamina_version = LAMINA_EP_API_VERSION;
        described.type = static_cast<LaminaDataType>(kv->type);
        described.key = DescribePlane(kv->key);
        described.value = DescribePlane(kv->value);
        described.kv_heads = kv->kv_heads;
        described.block_tokens = kv->block_tokens;
        described.block_table = kv->block_table;
        described.past_lengths = kv->past_lengths;
        described.blocks_per_sequence = kv->blocks_per_sequence;
        described.capacity_tokens = kv->capacity_tokens;
        *view = &described;
        return Status();
      },
      context, view);
}

LaminaStatus* GetStream(const LaminaKernelContext* context, LaminaSyncStreamImpl** stream) noexcept {
  return Answer(
      "KernelContext_GetStream",
      [&] {
        *stream = static_cast<LaminaSyncStreamImpl*>(context->context.stream());
        return Status();
      },
      context, stream);
}

LaminaStatus* IsCancelled(const LaminaKernelContext* context, bool* cancelled) noexcept {
  return Answer(
      "KernelContext_IsCancelled",
      [&] {
        *cancelled = context->context.cancelled();
        return Status();
      },
      context, cancelled);
}

LaminaStatus* ParallelFor(LaminaKernelContext* context, int64_t count, int64_t grain, LaminaParallelBody body,
                          void* state) noexcept {
  return Answer(
      "KernelContext_ParallelFor",
      [&]() -> Status {
        if (!body) return InvalidArgumentError("a parallel loop without a body");
        context->context.threads().ParallelFor(
            count, grain, [&](int64_t begin, int64_t end, int) { body(state, begin, end); });
        return Status();
      },
      context);
}

}  // namespace

void FillKernelContextApi(LaminaEpApi& api) {
  api.KernelInfo_GetNode = &InfoGetNode;
  api.KernelInfo_GetEp = &InfoGetEp;
  api.PrepackContext_GetConstant = &PrepackGetConstant;
  api.PrepackContext_GetStream = &PrepackGetStream;
  api.KernelContext_GetNumInputs = &GetNumInputs;
  api.KernelContext_GetNumOutputs = &GetNumOutputs;
  api.KernelContext_GetInput = &GetInput;
  api.KernelContext_GetPackedWeight = &GetPackedWeight;
  api.KernelContext_HasOutput = &HasOutput;
  api.KernelContext_GetOutput = &GetOutput;
  api.KernelContext_GetScratchBuffer = &GetScratchBuffer;
  api.KernelContext_GetPreallocatedWorkspace = &GetPreallocatedWorkspace;
  api.KernelContext_GetKvView = &GetKvView;
  api.KernelContext_GetStream = &GetStream;
  api.KernelContext_IsCancelled = &IsCancelled;
  api.KernelContext_ParallelFor = &ParallelFor;
}

}  // namespace lamina::plugin

lamina::Status LaminaKernelContext::Outcome() const {
  if (!first_failure.ok()) return first_failure;
  const int count = context.num_outputs();
  for (int i = 0; i < count && i < static_cast<int>(lamina::plugin::kMaxTrackedOutputs); ++i) {
    if ((made_outputs >> i & 1) == 0 && context.HasOutput(i)) {
      return lamina::InternalError("the kernel returned without making output {}", i);
    }
  }
  return {};
}
