#include "runtime/executor.h"

#include <fmt/ranges.h>

#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace lamina {
namespace {

const Value& UndefinedValue() {
  static const Value undefined;
  return undefined;
}

class StepContext : public KernelContext {
 public:
  StepContext(const Step& step, Frame& frame, RunContext& run) : step_(step), frame_(frame), run_(run) {
    if (step.kv_layer >= 0 && !run.kv_views.empty()) {
      kv_view_ = &run.kv_views[static_cast<size_t>(step.kv_layer)];
    }
  }

  int num_inputs() const override { return static_cast<int>(step_.inputs.size()); }
  int num_outputs() const override { return static_cast<int>(step_.outputs.size()); }

  const Tensor* Input(int index) const override {
    if (index >= num_inputs() || step_.released_inputs[static_cast<size_t>(index)]) return nullptr;
    const Value& value = ValueOf(step_.inputs[static_cast<size_t>(index)]);
    return value.is_tensor() ? &value.tensor() : nullptr;
  }
  const Value& InputValue(int index) const override {
    return index < num_inputs() ? ValueOf(step_.inputs[static_cast<size_t>(index)]) : UndefinedValue();
  }
  PackedWeight Packed(int index) const override {
    return index < num_inputs() ? step_.packed[static_cast<size_t>(index)] : PackedWeight();
  }

  bool HasOutput(int index) const override {
    if (index >= num_outputs() || step_.outputs[static_cast<size_t>(index)] < 0) return false;
    const KernelDef::KvIndices& kv = step_.info->def.kv_cache();
    return !(kv_view_ && (index == kv.present_key || index == kv.present_value));
  }

  Result<Tensor*> Output(int index, const Shape& shape) override {
    if (!HasOutput(index)) return static_cast<Tensor*>(nullptr);
    LAMINA_RETURN_IF_ERROR(CheckShape(index, shape));
    const int32_t value = step_.outputs[static_cast<size_t>(index)];
    LAMINA_ASSIGN_OR_RETURN(Tensor tensor, MemoryFor(index, value, shape));
    Value& slot = frame_.values[static_cast<size_t>(value)];
    slot = Value(std::move(tensor));
    return &slot.tensor();
  }

  Status SetOutputValue(int index, Value value) override {
    if (HasOutput(index)) {
      frame_.values[static_cast<size_t>(step_.outputs[static_cast<size_t>(index)])] = std::move(value);
    }
    return Status();
  }

  Result<void*> GetScratchBuffer(int slot_id, size_t bytes) override {
    const std::optional<WorkspacePattern::Block> block = PlannedSlot(slot_id);
    if (!block) return run_.storage.scratch().Take(bytes);
    if (bytes <= static_cast<size_t>(block->size_bytes))
      return static_cast<void*>(frame_.memory + block->offset_bytes);
    return ResourceExhaustedError("workspace slot {}: {} bytes were planned, {} are asked for", slot_id,
                                  block->size_bytes, bytes);
  }
  void* GetPreallocatedWorkspace(int slot_id) override {
    const std::optional<WorkspacePattern::Block> block = PlannedSlot(slot_id);
    return block ? frame_.memory + block->offset_bytes : nullptr;
  }
  const KvView* kv_view() const override { return kv_view_; }
  ThreadPool& threads() override { return run_.threads; }
  void* stream() const override { return nullptr; }
  bool cancelled() const override { return run_.options.cancel && run_.options.cancel->cancelled(); }

  Status RunSubgraph(std::string_view attribute, std::span<const Value> inputs,
                     std::vector<Value>* outputs) override {
    for (const auto& [name, body] : step_.subgraphs) {
      if (name == attribute) return RunBody(*body, inputs, outputs);
    }
    return InternalError("there is no subgraph attribute '{}'", attribute);
  }

  Result<Tensor> AllocateHost(DataType type, const Shape& shape) override {
    return Tensor::Allocate(type, shape);
  }

 private:
  const Value& ValueOf(const Operand& operand) const {
    if (operand.constant) return *operand.constant;
    return operand.value >= 0 ? frame_.values[static_cast<size_t>(operand.value)] : UndefinedValue();
  }

  std::optional<WorkspacePattern::Block> PlannedSlot(int slot_id) const {
    if (!frame_.plan) return std::nullopt;
    return frame_.plan->workspace.GetOffset(step_.id.index, slot_id);
  }

  // The dimensions that inference found constant hold for the kernel's result too.
  Status CheckShape(int index, const Shape& shape) const {
    const std::vector<int64_t>& expected = step_.output_dims[static_cast<size_t>(index)];
    if (expected.empty()) return Status();
    bool agrees = shape.rank() == static_cast<int>(expected.size());
    for (int axis = 0; agrees && axis < shape.rank(); ++axis) {
      const int64_t dim = expected[static_cast<size_t>(axis)];
      agrees = dim < 0 || dim == shape[axis];
    }
    if (agrees) return Status();
    return InvalidModelError("output {} has shape {}, the model says [{}] (-1: any)", index, shape.ToString(),
                             fmt::join(expected, ","));
  }

  Result<Tensor> MemoryFor(int index, int32_t value, const Shape& shape) {
    const DataType type = step_.output_types[static_cast<size_t>(index)].element;
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
    if (!frame_.bound.empty()) {
      const Tensor& bound = frame_.bound[static_cast<size_t>(value)];
      if (bound.defined()) return BoundMemory(index, bound, type, shape, bytes);
    }
    const KernelDef& def = step_.info->def;
    const int64_t planned_offset =
        frame_.plan ? frame_.plan->offsets[static_cast<size_t>(value)] : FramePlan::kNotPlanned;
    if (planned_offset != FramePlan::kNotPlanned) {
      // An alias or an overwritten input was planned at the same offset.
      const int64_t planned_bytes = frame_.plan->sizes_bytes[static_cast<size_t>(value)];
      if (bytes > static_cast<uint64_t>(planned_bytes)) {
        return ResourceExhaustedError("output {} with shape {} takes {} bytes, {} were planned", index,
                                      shape.ToString(), bytes, planned_bytes);
      }
      return Tensor::View(type, shape, frame_.memory + planned_offset, static_cast<uint64_t>(planned_bytes));
    }
    if (const int input = def.alias_of(index); input >= 0) {
      const Tensor* source = Input(input);
      if (source && source->type() == type && source->size_bytes() == bytes) return source->Reshaped(shape);
    }
    for (int input = 0; input < num_inputs(); ++input) {
      if (!def.may_overwrite(input, index)) continue;
      const int32_t source_value = step_.inputs[static_cast<size_t>(input)].value;
      if (source_value < 0 || !step_.Dies(source_value)) continue;
      const Value& source = frame_.values[static_cast<size_t>(source_value)];
      // Memory that this frame alone holds; nothing else reads it after the step.
      if (source.is_tensor() && source.tensor().owner().use_count() == 1 &&
          source.tensor().size_bytes() == bytes && type != DataType::kString &&
          source.tensor().type() != DataType::kString) {
        Tensor taken = source.tensor();
        return Tensor::Owning(type, shape, taken.mutable_raw_data(), taken.capacity_bytes(), taken.owner());
      }
    }
    if (type == DataType::kString) return Tensor::Allocate(type, shape);
    LAMINA_ASSIGN_OR_RETURN(void* memory, run_.allocator.Alloc(bytes));
    return Tensor::Owning(
        type, shape, memory, bytes,
        std::shared_ptr<const void>(memory, [&allocator = run_.allocator, keep = run_.keep_alive](
                                                const void* p) { allocator.Free(const_cast<void*>(p)); }));
  }

  Result<Tensor> BoundMemory(int index, const Tensor& bound, DataType type, const Shape& shape,
                             uint64_t bytes) const {
    if (bound.type() != type || bound.capacity_bytes() < bytes) {
      return InvalidArgumentError("output {} is {}{} ({} bytes), the tensor bound to it is {} with {} bytes",
                                  index, DataTypeName(type), shape.ToString(), bytes,
                                  DataTypeName(bound.type()), bound.capacity_bytes());
    }
    return bound.Reshaped(shape);
  }

  Status RunBody(const Executable& body, std::span<const Value> inputs, std::vector<Value>* outputs) {
    std::unique_ptr<Frame> frame = run_.storage.Take(body);
    const std::span<const ValueId> formal = body.graph().inputs();
    if (inputs.size() != formal.size()) {
      return InvalidModelError("its body '{}' has {} inputs, {} are given", body.graph().name(),
                               formal.size(), inputs.size());
    }
    for (size_t i = 0; i < formal.size(); ++i)
      frame->values[static_cast<size_t>(formal[i].index)] = inputs[i];
    for (const CapturedValue& capture : body.captures()) {
      frame->values[static_cast<size_t>(capture.value)] =
          frame_.values[static_cast<size_t>(capture.outer_value)];
    }
    LAMINA_RETURN_IF_ERROR(RunExecutable(body, *frame, run_));
    for (const Operand& output : body.outputs()) {
      outputs->push_back(output.constant ? *output.constant
                                         : frame->values[static_cast<size_t>(output.value)]);
    }
    run_.storage.Return(body, std::move(frame));
    return Status();
  }

  const Step& step_;
  Frame& frame_;
  RunContext& run_;
  const KvView* kv_view_ = nullptr;
};

uint64_t BytesTouched(const Step& step, const StepContext& context, const Frame& frame) {
  uint64_t bytes = 0;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const PackedWeight packed = context.Packed(i);
    if (packed.data) {
      bytes += packed.size_bytes;
    } else if (const Tensor* input = context.Input(i)) {
      bytes += input->size_bytes();
    }
  }
  for (const int32_t output : step.outputs) {
    if (output < 0) continue;
    const Value& value = frame.values[static_cast<size_t>(output)];
    if (value.is_tensor()) bytes += value.tensor().size_bytes();
  }
  return bytes;
}

Status RunStep(const Step& step, Frame& frame, RunContext& run) {
  StepContext context(step, frame, run);
  if (!run.options.on_step) return step.kernel->Compute(context);
  StepProfile profile;
  profile.node = step.node->name;
  profile.op_type = step.node->op_type;
  const int64_t start_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(step.kernel->Compute(context));
  profile.duration_ns = SystemClock().NowNs() - start_ns;
  profile.start_ns = start_ns - run.start_ns;
  profile.bytes = BytesTouched(step, context, frame);
  run.options.on_step(profile);
  return Status();
}

}  // namespace

std::unique_ptr<Frame> RunStorage::Take(const Executable& executable) {
  std::vector<std::unique_ptr<Frame>>& free = frames_[&executable];
  if (free.empty()) {
    auto frame = std::make_unique<Frame>();
    frame->values.resize(static_cast<size_t>(executable.num_values()));
    return frame;
  }
  std::unique_ptr<Frame> frame = std::move(free.back());
  free.pop_back();
  return frame;
}

void RunStorage::Return(const Executable& executable, std::unique_ptr<Frame> frame) {
  for (Value& value : frame->values) value = Value();
  frame->bound.clear();
  frame->plan = nullptr;
  frames_[&executable].push_back(std::move(frame));
}

Status RunExecutable(const Executable& executable, Frame& frame, RunContext& run) {
  for (const Step& step : executable.steps()) {
    if (run.options.cancel && run.options.cancel->cancelled()) {
      return CancelledError("the run was cancelled before {}", NodeLabel(*step.node));
    }
    const ScratchSpace::Mark mark = run.storage.scratch().mark();
    const Status status = RunStep(step, frame, run);
    run.storage.scratch().Rewind(mark);
    if (!status.ok()) return status.WithContext(NodeLabel(*step.node));
    for (const int32_t dead : step.dead_after) frame.values[static_cast<size_t>(dead)] = Value();
  }
  return Status();
}

}  // namespace lamina
