#include "runtime/executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "memory/bfc_arena.h"
#include "plan/memory_model.h"
#include "runtime/node_stats_recorder.h"
#include "runtime/weight_traffic.h"

namespace lamina {
namespace {

const Value& UndefinedValue() {
  static const Value undefined;
  return undefined;
}

bool IsPlanned(const Frame& frame, int32_t device, int32_t value) {
  return !frame.planned.empty() &&
         frame.planned[static_cast<size_t>(device)].plan->offsets[static_cast<size_t>(value)] !=
             FramePlan::kNotPlanned;
}

// REQUIRES: IsPlanned.
Result<Tensor> PlannedTensor(const Frame& frame, int32_t position, int32_t value, DataType type,
                             const Shape& shape, Device device) {
  const PlannedMemory& planned = frame.planned[static_cast<size_t>(position)];
  const auto planned_bytes = static_cast<uint64_t>(planned.plan->sizes_bytes[static_cast<size_t>(value)]);
  LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
  if (bytes > planned_bytes) {
    return ResourceExhaustedError("a value with shape {} takes {} bytes, {} were planned", shape.ToString(),
                                  bytes, planned_bytes);
  }
  return Tensor::View(type, shape, planned.memory + planned.plan->offsets[static_cast<size_t>(value)],
                      planned_bytes, device);
}

// Memory for a value that has no planned place: that of the run's pattern, else from the arena.
Result<Tensor> ArenaTensor(RunContext& run, const Frame& frame, int32_t position, int32_t value,
                           DataType type, const Shape& shape, uint64_t bytes) {
  run.used_arena = true;
  const Device device = run.devices[static_cast<size_t>(position)].device();
  const RunPattern& pattern = frame.pattern;
  const bool kept_apart = pattern.IsKeptApart(value) && device.is_host();
  if (std::byte* place = kept_apart ? nullptr : pattern.Find(position, value, bytes)) {
    // The owner frees nothing: it counts who uses the memory.
    return Tensor::Owning(type, shape, place, bytes, std::shared_ptr<const void>(place, [](const void*) {}),
                          device);
  }
  Allocator& allocator = run.storage.activations(position);
  LAMINA_ASSIGN_OR_RETURN(void* memory, allocator.Alloc(bytes));
  std::shared_ptr<RunPattern::Trace> trace = kept_apart ? nullptr : pattern.trace();
  if (trace) trace->Allocated(device, value, bytes);
  const auto free = [&allocator, keep = run.keep_alive, trace = std::move(trace), device,
                     value](const void* p) {
    if (trace) trace->Freed(device, value);
    allocator.Free(const_cast<void*>(p));
  };
  return Tensor::Owning(type, shape, memory, bytes, std::shared_ptr<const void>(memory, free), device);
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
    if (!HasOutput(index)) return Status();
    const int32_t id = step_.outputs[static_cast<size_t>(index)];
    const int32_t position = step_.output_devices[static_cast<size_t>(index)];
    // What a body hands on may be a value that it captured, whose memory the plan gives to others.
    if (!frame_.planned.empty() && value.is_tensor() && value.tensor().device().is_host()) {
      const Tensor& source = value.tensor();
      if (IsPlanned(frame_, position, id)) {
        LAMINA_ASSIGN_OR_RETURN(Tensor place, PlannedTensor(frame_, position, id, source.type(),
                                                            source.shape(), source.device()));
        std::memcpy(place.mutable_raw_data(), source.raw_data(), source.size_bytes());
        value = Value(std::move(place));
      } else if (!source.owner()) {
        LAMINA_ASSIGN_OR_RETURN(Tensor copy, source.Clone());
        value = Value(std::move(copy));
      }
    }
    frame_.values[static_cast<size_t>(id)] = std::move(value);
    return Status();
  }

  // Scratch that the kernel asked for so far.
  uint64_t scratch_bytes() const { return scratch_bytes_; }

  Result<void*> GetScratchBuffer(int slot_id, size_t bytes) override {
    scratch_bytes_ += bytes;
    const PlannedMemory* planned = PlannedOn(step_.device);
    if (!planned) {
      run_.used_arena = true;
      return run_.storage.scratch(step_.device).Take(bytes);
    }
    const std::optional<WorkspacePattern::Block> block = PlannedSlot(slot_id);
    if (!block) return TakeFromReserve(*planned, slot_id, bytes);
    if (bytes <= static_cast<size_t>(block->size_bytes))
      return static_cast<void*>(planned->memory + block->offset_bytes);
    return BeyondPlan(slot_id, block->size_bytes, bytes);
  }
  void* GetPreallocatedWorkspace(int slot_id) override {
    const std::optional<WorkspacePattern::Block> block = PlannedSlot(slot_id);
    return block ? PlannedOn(step_.device)->memory + block->offset_bytes : nullptr;
  }
  const KvView* kv_view() const override { return kv_view_; }
  ThreadPool& threads() override { return run_.threads; }
  void* stream() const override { return run_.queues ? run_.queues->kernel_stream(step_.device) : nullptr; }
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

  // Null where the run was not planned.
  const PlannedMemory* PlannedOn(int32_t device) const {
    return frame_.planned.empty() ? nullptr : &frame_.planned[static_cast<size_t>(device)];
  }

  std::optional<WorkspacePattern::Block> PlannedSlot(int slot_id) const {
    const PlannedMemory* planned = PlannedOn(step_.device);
    if (!planned) return std::nullopt;
    return planned->plan->workspace.GetOffset(step_.id.index, slot_id);
  }

  static Status BeyondPlan(int slot_id, int64_t planned_bytes, size_t asked_bytes) {
    return ResourceExhaustedError("workspace slot {}: {} bytes were planned, {} are asked for", slot_id,
                                  planned_bytes, asked_bytes);
  }

  // Memory for a slot that was not declared: only kernels that declare nothing have some.
  Result<void*> TakeFromReserve(const PlannedMemory& planned, int slot_id, size_t bytes) {
    const WorkspacePattern::Block reserve = PlannedSlot(kReserveSlot).value_or(WorkspacePattern::Block());
    const int64_t left_bytes = std::max<int64_t>(reserve.size_bytes - reserve_used_bytes_, 0);
    if (bytes > static_cast<uint64_t>(left_bytes)) return BeyondPlan(slot_id, left_bytes, bytes);
    void* memory = planned.memory + reserve.offset_bytes + reserve_used_bytes_;
    reserve_used_bytes_ += static_cast<int64_t>(RoundUpBytes(bytes, kWorkspaceAlignment));
    return memory;
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
    const int32_t position = step_.output_devices[static_cast<size_t>(index)];
    const SessionDevice& device = run_.devices[static_cast<size_t>(position)];
    if (!frame_.bound.empty()) {
      const Tensor& bound = frame_.bound[static_cast<size_t>(value)];
      if (bound.defined() && bound.device() == device.device())
        return BoundMemory(index, bound, type, shape, bytes);
    }
    const KernelDef& def = step_.info->def;
    if (IsPlanned(frame_, position, value)) {
      // An alias or an overwritten input was planned at the same offset.
      return PlannedTensor(frame_, position, value, type, shape, device.device());
    }
    if (frame_.pattern.IsKeptApart(value) && type != DataType::kString) {
      return ArenaTensor(run_, frame_, position, value, type, shape, bytes);
    }
    if (const int input = def.alias_of(index); input >= 0) {
      const Tensor* source = Input(input);
      if (source && source->type() == type && source->size_bytes() == bytes &&
          source->device() == device.device()) {
        return source->Reshaped(shape);
      }
    }
    for (int input = 0; input < num_inputs(); ++input) {
      if (!def.may_overwrite(input, index)) continue;
      const int32_t source_value = step_.inputs[static_cast<size_t>(input)].value;
      if (source_value < 0 || !step_.Dies(source_value)) continue;
      const Value& source = frame_.values[static_cast<size_t>(source_value)];
      // Memory that this frame alone holds; nothing else reads it after the step.
      if (source.is_tensor() && source.tensor().owner().use_count() == 1 &&
          source.tensor().size_bytes() == bytes && type != DataType::kString &&
          source.tensor().type() != DataType::kString && source.tensor().device() == device.device()) {
        Tensor taken = source.tensor();
        return Tensor::Owning(type, shape, taken.mutable_raw_data(), taken.capacity_bytes(), taken.owner(),
                              device.device());
      }
    }
    if (type == DataType::kString) return Tensor::Allocate(type, shape);
    return ArenaTensor(run_, frame_, position, value, type, shape, bytes);
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
  uint64_t scratch_bytes_ = 0;
  int64_t reserve_used_bytes_ = 0;
};

// The rows for which a step looks up a table or chooses experts.
int64_t RowsOf(const Step& step, const StepContext& context) {
  if (context.num_inputs() < 2) return 1;
  const bool is_mixture = step.node->op_type == "MoE" || step.node->op_type == "QMoE";
  const Tensor* input = context.Input(is_mixture ? 0 : 1);
  if (!input) return 1;
  const Shape& shape = input->shape();
  if (!is_mixture) return shape.num_elements();
  return shape.rank() > 0 ? shape.num_elements() / std::max<int64_t>(shape[shape.rank() - 1], 1) : 1;
}

uint64_t BytesTouched(const Step& step, const StepContext& context, const Frame& frame) {
  uint64_t bytes = 0;
  const int64_t rows = RowsOf(step, context);
  for (int i = 0; i < context.num_inputs(); ++i) {
    const PackedWeight packed = context.Packed(i);
    const Tensor* input = context.Input(i);
    if (!packed.data && !input) continue;
    const uint64_t whole_bytes = packed.data ? packed.size_bytes : input->size_bytes();
    const double share = input ? ShareRead(*step.node, static_cast<size_t>(i), input->shape(), rows) : 1.0;
    bytes += static_cast<uint64_t>(share * static_cast<double>(whole_bytes));
  }
  for (const int32_t output : step.outputs) {
    if (output < 0) continue;
    const Value& value = frame.values[static_cast<size_t>(output)];
    if (value.is_tensor()) bytes += value.tensor().size_bytes();
  }
  return bytes;
}

// Starts the copy of the step's input, from another device, to the step's.
Status RunCopy(const Step& step, StepContext& context, RunContext& run) {
  const Tensor* source = context.Input(0);
  if (!source) return InternalError("there is no tensor to copy");
  LAMINA_ASSIGN_OR_RETURN(Tensor * destination, context.Output(0, source->shape()));
  return run.queues->StartCopy(step.copy, *source, *destination);
}

Status Compute(const Step& step, StepContext& context, RunContext& run) {
  for (const int32_t copy : step.waits) {
    if (!run.is_recording) LAMINA_RETURN_IF_ERROR(run.queues->WaitForCopy(copy));
  }
  if (step.copy >= 0) return RunCopy(step, context, run);
  const Status status = step.kernel->Compute(context);
  const SessionDevice& device = run.devices[static_cast<size_t>(step.device)];
  return status.ok() || device.is_host() ? status : status.WithContext(device.name());
}

Status ComputeProfiled(const Step& step, StepContext& context, Frame& frame, RunContext& run) {
  StepProfile profile;
  profile.node = step.node->name;
  profile.op_type = step.node->op_type;
  profile.device = run.devices[static_cast<size_t>(step.device)].device();
  const int64_t start_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(Compute(step, context, run));
  profile.duration_ns = SystemClock().NowNs() - start_ns;
  profile.start_ns = start_ns - run.start_ns;
  profile.bytes = BytesTouched(step, context, frame);
  run.options.on_step(profile);
  return Status();
}

// What a step used; outputs in multiples of 256 bytes, as an arena hands them out.
NodeMemoryStats MemoryStatsOf(const Step& step, const StepContext& context, const Frame& frame) {
  constexpr uint64_t kArenaGranule = 256;
  NodeMemoryStats stats;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const PackedWeight packed = context.Packed(i);
    const Tensor* input = context.Input(i);
    const uint64_t bytes = packed.data ? packed.size_bytes : input ? input->size_bytes() : 0;
    (step.inputs[static_cast<size_t>(i)].constant ? stats.initializer_bytes : stats.input_bytes) += bytes;
  }
  for (const int32_t output : step.outputs) {
    if (output < 0) continue;
    const Value& value = frame.values[static_cast<size_t>(output)];
    if (!value.is_tensor()) continue;
    stats.dynamic_bytes += RoundUpBytes(value.tensor().size_bytes(), kArenaGranule);
  }
  stats.temporary_bytes = context.scratch_bytes();
  return stats;
}

}  // namespace

RunStorage::RunStorage(const SessionDevices& devices) : pattern_blocks_(activations_) {
  for (const SessionDevice& device : devices) {
    Allocator* activations = device.memory.get();
    if (!device.is_host()) {
      arenas_.push_back(std::make_unique<BfcArena>(*device.memory, device.arena));
      activations = arenas_.back().get();
    }
    activations_.push_back(activations);
    scratch_.emplace_back(*activations);
  }
}

Result<RunQueues*> RunStorage::Queues(const SessionDevices& devices, const Executable& executable) {
  if (devices.size() == 1) return static_cast<RunQueues*>(nullptr);
  if (!queues_) {
    LAMINA_ASSIGN_OR_RETURN(queues_, RunQueues::Create(devices, executable.copies().copies));
  }
  return queues_.get();
}

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
  frame->planned.clear();
  frame->pattern = RunPattern();
  frames_[&executable].push_back(std::move(frame));
}

// An input that is not given (its past is in a KV cache) or that the caller has on the device needs nothing.
Status StartUpload(const Executable& executable, size_t upload, Frame& frame, RunContext& run) {
  const CopyTask& task = executable.copies().copies[upload];
  Value& value = frame.values[static_cast<size_t>(task.source)];
  const SessionDevice& device = run.devices[static_cast<size_t>(task.to)];
  if (!value.is_tensor() || value.tensor().device() == device.device()) return Status();
  const Tensor source = value.tensor();
  Result<Tensor> destination =
      IsPlanned(frame, task.to, task.destination)
          ? PlannedTensor(frame, task.to, task.destination, source.type(), source.shape(), device.device())
          : ArenaTensor(run, frame, task.to, task.destination, source.type(), source.shape(),
                        source.size_bytes());
  Status status = destination.status();
  if (status.ok()) status = run.queues->StartCopy(static_cast<int32_t>(upload), source, *destination);
  if (!status.ok()) {
    const ValueId id{task.source};
    return status.WithContext(fmt::format("input '{}'", executable.graph().value(id).name.view()));
  }
  value = Value(*std::move(destination));
  return Status();
}

Status RunStep(const Executable& executable, const Step& step, Frame& frame, RunContext& run) {
  if (run.options.cancel && run.options.cancel->cancelled()) {
    return CancelledError("the run was cancelled before {}", NodeLabel(*step.node));
  }
  ScratchSpace& scratch = run.storage.scratch(step.device);
  const ScratchSpace::Mark mark = scratch.mark();
  StepContext context(step, frame, run);
  const Status status =
      run.options.on_step ? ComputeProfiled(step, context, frame, run) : Compute(step, context, run);
  scratch.Rewind(mark);
  if (!status.ok()) return status.WithContext(NodeLabel(*step.node));
  if (run.node_stats) {
    run.node_stats->Record(executable.graph(), step.id, MemoryStatsOf(step, context, frame));
  }
  for (const int32_t dead : step.dead_after) frame.values[static_cast<size_t>(dead)] = Value();
  return Status();
}

Status RunExecutable(const Executable& executable, Frame& frame, RunContext& run) {
  for (size_t upload = 0; upload < executable.copies().num_uploads; ++upload) {
    LAMINA_RETURN_IF_ERROR(StartUpload(executable, upload, frame, run));
  }
  for (const Step& step : executable.steps()) LAMINA_RETURN_IF_ERROR(RunStep(executable, step, frame, run));
  return Status();
}

}  // namespace lamina
