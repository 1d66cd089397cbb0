#include "support/test_kernel_context.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "support/allocation_counter.h"

namespace lamina::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kPattern{0xCD};  // 0xCDCD... is a large negative number in every element type

class TestPrepackContext : public PrepackContext {
 public:
  TestPrepackContext(const TestNode& node, ThreadPool& threads) : node_(node), threads_(threads) {}
  const Tensor* Constant(int input) const override { return node_.Constant(input); }
  ThreadPool& threads() override { return threads_; }
  void* stream() const override { return nullptr; }

 private:
  const TestNode& node_;
  ThreadPool& threads_;
};

}  // namespace

GuardedBuffer::GuardedBuffer(size_t size_bytes, size_t alignment_bytes)
    : memory_(size_bytes + 2 * kGuardBytes + alignment_bytes, kPattern), size_bytes_(size_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
  const uintptr_t aligned = (address + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  data_ = memory_.data() + (aligned - reinterpret_cast<uintptr_t>(memory_.data()));
}

bool GuardedBuffer::GuardsIntact() const {
  const auto untouched = [](std::byte byte) { return byte == kPattern; };
  const auto before = data_ - memory_.data();
  return std::all_of(memory_.begin(), memory_.begin() + before, untouched) &&
         std::all_of(memory_.begin() + before + static_cast<ptrdiff_t>(size_bytes_), memory_.end(),
                     untouched);
}

TestKernelContext::TestKernelContext(const TestNode& node, const KernelDef& def, std::vector<Value> inputs,
                                     bool share_memory, ThreadPool& threads, const KvView* kv_view)
    : node_(node),
      def_(def),
      inputs_(std::move(inputs)),
      released_(inputs_.size(), false),
      share_memory_(share_memory),
      threads_(threads),
      kv_view_(kv_view),
      outputs_(static_cast<size_t>(node.num_outputs())),
      scratch_(WorkspaceRequirements::kMaxSlots),
      packed_(inputs_.size()) {}

Status TestKernelContext::Prepare(const Kernel& kernel) {
  WorkspaceRequirements requirements;
  Status declared = kernel.DeclareWorkspaceRequirements(node_, requirements);
  if (!declared.ok() && declared.code() != StatusCode::kUnsupported) return declared;
  for (const WorkspaceRequirement& slot : requirements.slots()) {
    scratch_[static_cast<size_t>(slot.slot_id)] = std::make_unique<GuardedBuffer>(slot.size_bytes, 256);
  }
  for (int input = 0; input < num_inputs(); ++input) {
    if (!node_.is_constant_input(input)) continue;
    PrepackDeclaration declaration;
    LAMINA_RETURN_IF_ERROR(kernel.DeclarePrepack(node_, input, declaration));
    if (!declaration.prepack) continue;
    auto packed = std::make_unique<GuardedBuffer>(declaration.packed_bytes, 64);
    GuardedBuffer scratch(declaration.scratch_bytes, 256);
    TestPrepackContext context(node_, threads_);
    LAMINA_RETURN_IF_ERROR(kernel.PrePackWeight(input, context, packed->data(), scratch.data()));
    if (!packed->GuardsIntact() || !scratch.GuardsIntact()) {
      breaches_ += fmt::format("prepacking input {} wrote outside its buffers\n", input);
    }
    packed_[static_cast<size_t>(input)] = std::move(packed);
    released_[static_cast<size_t>(input)] = true;
    for (int absorbed = 0; absorbed < num_inputs(); ++absorbed) {
      if ((declaration.absorbed_inputs >> absorbed & 1u) != 0)
        released_[static_cast<size_t>(absorbed)] = true;
    }
  }
  return Status();
}

std::string TestKernelContext::Breaches() const {
  std::string breaches = breaches_;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputSlot& slot = outputs_[i];
    if (slot.buffer && !slot.buffer->GuardsIntact()) breaches += fmt::format("output {} was overrun\n", i);
    if (!slot.made && HasOutput(static_cast<int>(i)) && !kv_view_) {
      breaches += fmt::format("output {} was not produced\n", i);
    }
  }
  for (size_t slot = 0; slot < scratch_.size(); ++slot) {
    if (scratch_[slot] && !scratch_[slot]->GuardsIntact()) {
      breaches += fmt::format("scratch slot {} was overrun\n", slot);
    }
  }
  for (size_t i = 0; i < packed_.size(); ++i) {
    if (packed_[i] && !packed_[i]->GuardsIntact())
      breaches += fmt::format("packed input {} was overrun\n", i);
  }
  return breaches;
}

std::vector<Value> TestKernelContext::TakeOutputs() {
  std::vector<Value> copies;
  for (const OutputSlot& slot : outputs_) {
    copies.push_back(slot.value.is_tensor() ? Value(*slot.value.tensor().Clone()) : slot.value);
  }
  return copies;
}

const Tensor* TestKernelContext::Input(int index) const {
  if (index >= num_inputs() || released_[static_cast<size_t>(index)]) return nullptr;
  const Value& value = inputs_[static_cast<size_t>(index)];
  return value.is_tensor() ? &value.tensor() : nullptr;
}

const Value& TestKernelContext::InputValue(int index) const {
  static const Value kAbsent;
  return index < num_inputs() ? inputs_[static_cast<size_t>(index)] : kAbsent;
}

PackedWeight TestKernelContext::Packed(int index) const {
  if (index >= num_inputs() || !packed_[static_cast<size_t>(index)]) return {};
  GuardedBuffer& buffer = *packed_[static_cast<size_t>(index)];
  return {buffer.data(), buffer.size_bytes()};
}

int TestKernelContext::SharedInput(int output, const Shape& shape) const {
  if (!share_memory_) return -1;
  const DataType type = node_.output_type(output).element;
  for (int input = 0; input < num_inputs(); ++input) {
    if (def_.alias_of(output) != input && !def_.may_overwrite(input, output)) continue;
    const Tensor* tensor = Input(input);
    if (!tensor || (type == DataType::kString) != (tensor->type() == DataType::kString)) continue;
    const Result<uint64_t> bytes = TensorBytes(type, shape);
    if (bytes.ok() && *bytes == tensor->size_bytes()) return input;
  }
  return -1;
}

Result<Tensor*> TestKernelContext::Output(int index, const Shape& shape) {
  const AllocationExemption exemption;
  if (!HasOutput(index)) return nullptr;
  OutputSlot& slot = outputs_[static_cast<size_t>(index)];
  if (slot.made) breaches_ += fmt::format("output {} was asked for twice\n", index);
  slot.made = true;
  const DataType type = node_.output_type(index).element;
  LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
  if (const int input = SharedInput(index, shape); input >= 0) {
    const Tensor& shared = *Input(input);
    slot.value = Tensor::Owning(type, shape, const_cast<void*>(shared.raw_data()), bytes, shared.owner());
  } else if (type == DataType::kString) {
    LAMINA_ASSIGN_OR_RETURN(slot.value, Tensor::Allocate(type, shape));
  } else {
    slot.buffer = std::make_unique<GuardedBuffer>(bytes, 64);
    slot.value = Tensor::View(type, shape, slot.buffer->data(), bytes);
  }
  return &slot.value.tensor();
}

Status TestKernelContext::SetOutputValue(int index, Value value) {
  const AllocationExemption exemption;
  if (!HasOutput(index)) return Status();
  OutputSlot& slot = outputs_[static_cast<size_t>(index)];
  if (slot.made) breaches_ += fmt::format("output {} was produced twice\n", index);
  slot.made = true;
  slot.value = std::move(value);
  return Status();
}

Result<void*> TestKernelContext::GetScratchBuffer(int slot_id, size_t bytes) {
  const AllocationExemption exemption;
  if (slot_id < 0 || slot_id >= WorkspaceRequirements::kMaxSlots) {
    return InternalError("scratch slot {} does not exist", slot_id);
  }
  GuardedBuffer* buffer = scratch_[static_cast<size_t>(slot_id)].get();
  const size_t declared_bytes = buffer ? buffer->size_bytes() : 0;
  if (bytes > declared_bytes) {
    return ResourceExhaustedError("node '{}': scratch slot {}: {} bytes declared, {} asked for", node_.name(),
                                  slot_id, declared_bytes, bytes);
  }
  return buffer ? static_cast<void*>(buffer->data()) : nullptr;
}

void* TestKernelContext::GetPreallocatedWorkspace(int slot_id) {
  GuardedBuffer* buffer = scratch_[static_cast<size_t>(slot_id)].get();
  return buffer ? buffer->data() : nullptr;
}

Status TestKernelContext::RunSubgraph(std::string_view attribute, std::span<const Value>,
                                      std::vector<Value>*) {
  return UnsupportedError("the subgraph '{}' needs a session: OpTester runs single nodes", attribute);
}

Result<Tensor> TestKernelContext::AllocateHost(DataType type, const Shape& shape) {
  const AllocationExemption exemption;
  return Tensor::Allocate(type, shape);
}

}  // namespace lamina::testing
