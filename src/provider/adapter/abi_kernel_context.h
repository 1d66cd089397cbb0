// KernelContext over the C interface: one call of a kernel's Compute in a plugin.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lamina/lamina_ep.h"
#include "provider/adapter/abi_node_info.h"
#include "provider/adapter/abi_status.h"
#include "provider/adapter/kernel_hooks.h"
#include "provider/kernel_context.h"

namespace lamina::adapter {

// Kernels see addresses as KernelHooks::KernelAddress gives them. Graphs and values that are no tensors do
// not cross the interface: the host keeps nodes that have them.
class AbiKernelContext : public KernelContext {
 public:
  AbiKernelContext(const LaminaEpApi& api, LaminaKernelContext& context, KernelHooks& hooks, int32_t device)
      : api_(api), context_(context), hooks_(hooks), device_(device) {}

  // Fetches inputs and the cache. The context is not to be used where this fails.
  Status Open() {
    size_t count = 0;
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetNumInputs(&context_, &count)));
    inputs_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const LaminaTensor* tensor = nullptr;
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetInput(&context_, i, &tensor)));
      if (tensor) {
        LAMINA_ASSIGN_OR_RETURN(inputs_[i], KernelTensor(*tensor));
      }
      const void* packed = nullptr;
      uint64_t packed_bytes = 0;
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetPackedWeight(&context_, i, &packed, &packed_bytes)));
      if (!packed) continue;
      if (packed_.empty()) packed_.resize(count);
      LAMINA_ASSIGN_OR_RETURN(void* address, OnDevice(packed));
      packed_[i] = {address, packed_bytes};
    }
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetNumOutputs(&context_, &count)));
    outputs_.resize(count);
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetStream(&context_, &stream_)));
    return OpenKvView();
  }

  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  const Tensor* Input(int index) const override {
    const Value& value = InputValue(index);
    return value.is_tensor() ? &value.tensor() : nullptr;
  }
  const Value& InputValue(int index) const override {
    return index >= 0 && index < num_inputs() ? inputs_[static_cast<size_t>(index)] : undefined_;
  }
  PackedWeight Packed(int index) const override {
    return index >= 0 && static_cast<size_t>(index) < packed_.size() ? packed_[static_cast<size_t>(index)]
                                                                     : PackedWeight();
  }

  Result<Tensor*> Output(int index, const Shape& shape) override {
    if (index < 0 || index >= num_outputs()) return static_cast<Tensor*>(nullptr);
    const LaminaTensor* tensor = nullptr;
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetOutput(
        &context_, static_cast<size_t>(index), shape.begin(), static_cast<size_t>(shape.rank()), &tensor)));
    if (!tensor) return static_cast<Tensor*>(nullptr);
    Value& output = outputs_[static_cast<size_t>(index)];
    LAMINA_ASSIGN_OR_RETURN(output, KernelTensor(*tensor));
    return &output.tensor();
  }
  Status SetOutputValue(int index, Value value) override {
    if (!HasOutput(index)) return Status();
    if (!value.is_tensor()) return UnsupportedError("output {} is no tensor", index);
    const Tensor& source = value.tensor();
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, Output(index, source.shape()));
    if (!output->SharesMemoryWith(source) && source.size_bytes() > 0) {
      std::memcpy(output->mutable_raw_data(), source.raw_data(), source.size_bytes());
    }
    return Status();
  }
  bool HasOutput(int index) const override {
    bool wanted = false;
    return index >= 0 &&
           Check(api_.KernelContext_HasOutput(&context_, static_cast<size_t>(index), &wanted)).ok() && wanted;
  }

  Result<void*> GetScratchBuffer(int slot_id, size_t bytes) override {
    void* buffer = nullptr;
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetScratchBuffer(&context_, slot_id, bytes, &buffer)));
    return OnDevice(buffer);
  }
  void* GetPreallocatedWorkspace(int slot_id) override {
    void* buffer = nullptr;
    if (!Check(api_.KernelContext_GetPreallocatedWorkspace(&context_, slot_id, &buffer)).ok()) return nullptr;
    const Result<void*> address = OnDevice(buffer);
    return address.ok() ? *address : nullptr;
  }

  const KvView* kv_view() const override { return kv_view_ ? &*kv_view_ : nullptr; }
  ThreadPool& threads() override { return hooks_.threads(device_); }
  void* stream() const override {
    return stream_ && stream_->GetHandle ? stream_->GetHandle(stream_) : nullptr;
  }
  bool cancelled() const override {
    bool cancelled = false;
    return Check(api_.KernelContext_IsCancelled(&context_, &cancelled)).ok() && cancelled;
  }
  Status RunSubgraph(std::string_view attribute, std::span<const Value>, std::vector<Value>*) override {
    return UnsupportedError("the graph '{}' cannot be run from a plugin", attribute);
  }
  Result<Tensor> AllocateHost(DataType type, const Shape& shape) override {
    return Tensor::Allocate(type, shape);
  }

  LaminaSyncStreamImpl* abi_stream() const { return stream_; }

 private:
  Status Check(LaminaStatus* status) const { return FromAbi(api_, status); }

  Result<void*> OnDevice(const void* address) const {
    if (!address) return static_cast<void*>(nullptr);
    return hooks_.KernelAddress(device_, const_cast<void*>(address));
  }

  // Kernel code computes on the CPU: it sees every tensor as host memory.
  Result<Tensor> KernelTensor(const LaminaTensor& tensor) const {
    void* address = tensor.data;
    if (tensor.device == device_) {
      LAMINA_ASSIGN_OR_RETURN(address, OnDevice(tensor.data));
    } else if (tensor.device != LAMINA_HOST_DEVICE) {
      return InternalError("a tensor in memory of device {} reached a kernel on device {}", tensor.device,
                           device_);
    }
    return Tensor::View(static_cast<DataType>(tensor.type), Shape({tensor.shape, tensor.rank}), address,
                        tensor.capacity_bytes);
  }

  Status OpenKvView() {
    const LaminaKvView* view = nullptr;
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelContext_GetKvView(&context_, &view)));
    if (!view) return Status();
    KvView& kv = kv_view_.emplace();
    LAMINA_ASSIGN_OR_RETURN(kv.key, KernelPlane(view->key));
    LAMINA_ASSIGN_OR_RETURN(kv.value, KernelPlane(view->value));
    kv.type = static_cast<DataType>(view->type);
    kv.kv_heads = view->kv_heads;
    kv.block_tokens = view->block_tokens;
    kv.blocks_per_sequence = view->blocks_per_sequence;
    kv.capacity_tokens = view->capacity_tokens;
    LAMINA_ASSIGN_OR_RETURN(void* table, OnDevice(view->block_table));
    kv.block_table = static_cast<const int32_t*>(table);
    LAMINA_ASSIGN_OR_RETURN(void* lengths, OnDevice(view->past_lengths));
    kv.past_lengths = static_cast<const int32_t*>(lengths);
    return Status();
  }
  Result<KvPlane> KernelPlane(const LaminaKvPlane& plane) const {
    LAMINA_ASSIGN_OR_RETURN(void* base, OnDevice(plane.base));
    return KvPlane{base, plane.block_stride_bytes, plane.head_stride_bytes, plane.token_stride_bytes,
                   plane.head_size};
  }

  const LaminaEpApi& api_;
  LaminaKernelContext& context_;
  KernelHooks& hooks_;
  const int32_t device_;
  LaminaSyncStreamImpl* stream_ = nullptr;
  Value undefined_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  std::vector<PackedWeight> packed_;  // empty where nothing is packed
  std::optional<KvView> kv_view_;
};

}  // namespace lamina::adapter
