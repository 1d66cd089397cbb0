#include "runtime/executable.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "model/derived_tensor.h"
#include "placement/apply_placement.h"
#include "provider/graph_node_info.h"
#include "runtime/device_packing.h"
#include "runtime/node_prepack_context.h"

namespace lamina {
namespace {

constexpr uint64_t kPackedAlignment = 64;

// What stands for a kernel in copy steps.
const KernelCreateInfo& CopyInfo() {
  static const KernelCreateInfo info{KernelDef(kCopyOperator, kCopyDomain), nullptr, nullptr};
  return info;
}

std::vector<int64_t> ConstantDims(const std::optional<SymbolicShape>& shape) {
  std::vector<int64_t> dims;
  if (!shape) return dims;
  for (const DimExpr& dim : shape->dims) dims.push_back(dim.constant().value_or(-1));
  return dims;
}

}  // namespace

bool Step::Dies(int32_t value) const {
  return std::find(dead_after.begin(), dead_after.end(), value) != dead_after.end();
}

class ExecutableBuilder {
 public:
  ExecutableBuilder(const ExecutableOptions& options, PrepackedWeights& prepacked)
      : options_(options), prepacked_(prepacked) {}

  Result<std::unique_ptr<Executable>> BuildMain(const Graph& graph) {
    LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, Build(graph, options_.placed));
    LAMINA_RETURN_IF_ERROR(PackOnDevices(*executable));
    return executable;
  }

 private:
  int32_t host() const { return static_cast<int32_t>(options_.devices->size()) - 1; }
  const SessionDevice& DeviceAt(int32_t device) const {
    return (*options_.devices)[static_cast<size_t>(device)];
  }

  Result<std::unique_ptr<Executable>> Build(const Graph& graph, const PlacedGraph* placed) {
    auto executable = std::make_unique<Executable>();
    executable->graph_ = &graph;
    executable->host_ = host();
    if (placed) executable->value_device_ = placed->value_device;
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, ExecutionOrder(graph));
    if (placed) executable->copies_ = ScheduleCopies(graph, order, *placed, host());
    executable->steps_.reserve(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(Step step, MakeStep(graph, order[i], placed, i));
      if (placed) {
        step.copy = executable->copies_.copy_of_step[i];
        step.waits = executable->copies_.waits[i];
      }
      executable->steps_.push_back(std::move(step));
    }
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      if (graph.value(id).outer.valid() && !options_.constants->Find(graph, id)) {
        executable->captures_.push_back({id.index, graph.value(id).outer.index});
      }
    }
    for (const ValueId id : graph.outputs()) executable->outputs_.push_back(OperandOf(graph, id, host()));
    MarkLastUses(*executable);
    return executable;
  }

  // `device`: where it is read.
  Operand OperandOf(const Graph& graph, ValueId id, int32_t device) const {
    if (!id.valid()) return {};
    const Value* constant = options_.constants->Find(graph, id);
    if (!constant) return {nullptr, id.index};
    if (device == host()) return {constant, -1};
    return {options_.device_constants->Use(device, *constant, *graph.ConstantOf(id)), -1};
  }

  // The registry's entry for the node: the placement has it for nodes of the main graph.
  Result<const KernelCreateInfo*> FindKernel(const NodeInfo& info, NodeId id,
                                             const PlacedGraph* placed) const {
    if (placed && placed->kernels[static_cast<size_t>(id.index)]) {
      return placed->kernels[static_cast<size_t>(id.index)];
    }
    return DeviceAt(host()).provider->kernel_registry().Lookup(info);
  }

  Result<std::unique_ptr<Kernel>> MakeKernel(const NodeInfo& info, NodeId id, const PlacedGraph* placed,
                                             const Step& step) const {
    if (placed) {
      const auto fused = placed->fused.find(id.index);
      if (fused != placed->fused.end()) {
        return DeviceAt(step.device).provider->Compile(info, *fused->second.body);
      }
    }
    return step.info->create(info);
  }

  Result<Step> MakeStep(const Graph& graph, NodeId id, const PlacedGraph* placed, size_t position) {
    Step step;
    step.id = id;
    step.node = &graph.node(id);
    step.device = placed ? placed->DeviceOf(id) : host();
    const GraphNodeInfo info(graph, id, *options_.constants, DeviceAt(step.device).description,
                             options_.symbols);
    if (IsCopy(*step.node)) {
      step.info = &CopyInfo();
    } else {
      LAMINA_ASSIGN_OR_RETURN(step.info, FindKernel(info, id, placed));
      Result<std::unique_ptr<Kernel>> kernel = MakeKernel(info, id, placed, step);
      if (!kernel.ok()) return kernel.status().WithContext(NodeLabel(*step.node));
      step.kernel = *std::move(kernel);
    }
    for (size_t i = 0; i < step.node->inputs.size(); ++i) {
      const bool read_on_host = step.info->def.is_host_input(static_cast<int>(i));
      step.inputs.push_back(OperandOf(graph, step.node->inputs[i], read_on_host ? host() : step.device));
    }
    for (const ValueId output : step.node->outputs) {
      step.outputs.push_back(output.index);
      step.output_devices.push_back(placed && output.valid() ? placed->DeviceOf(output) : host());
      step.output_types.push_back(output.valid() ? graph.value(output).type : ValueType());
      step.output_dims.push_back(output.valid() ? ConstantDims(graph.value(output).shape)
                                                : std::vector<int64_t>());
    }
    step.packed.resize(step.inputs.size());
    step.released_inputs.resize(step.inputs.size());
    for (const Attribute& attribute : step.node->attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Executable> compiled, Build(**body, nullptr));
        step.subgraphs.emplace_back(attribute.name, std::move(compiled));
      }
    }
    if (step.kernel) LAMINA_RETURN_IF_ERROR(Prepack(info, step, position).WithContext(NodeLabel(*step.node)));
    DropAbsorbed(graph, step);
    return step;
  }

  // A derived weight that is packed on the host is not kept beside its packed form where nobody else reads
  // it.
  void DropAbsorbed(const Graph& graph, const Step& step) {
    for (size_t i = 0; i < step.inputs.size() && step.device == host(); ++i) {
      if (!step.released_inputs[i] || !step.node->inputs[i].valid()) continue;
      const ValueInfo& value = graph.value(step.node->inputs[i]);
      if (value.initializer.valid() && value.uses.size() == 1 && !value.is_graph_output &&
          DerivedTensors::IsDerived(graph.initializer(value.initializer))) {
        options_.constants->Release(step.inputs[i].constant);
      }
    }
  }

  // Packs the weights of a step on the host; those of one on a device are packed by PackOnDevices.
  Status Prepack(const NodeInfo& info, Step& step, size_t position) {
    for (int input = 0; input < info.num_inputs(); ++input) {
      const auto index = static_cast<size_t>(input);
      if (!info.is_constant_input(input) || step.released_inputs[index]) continue;
      PrepackDeclaration declaration;
      LAMINA_RETURN_IF_ERROR(step.kernel->DeclarePrepack(info, input, declaration));
      if (!declaration.prepack || !(options_.prepack || declaration.required)) continue;
      if (step.device != host()) {
        const size_t room = options_.device_constants->ReservePacked(step.device, declaration.packed_bytes);
        packings_.push_back({position, input, declaration, room});
        ReleaseInputs(step, input, declaration);
        continue;
      }
      Allocator& allocator = *DeviceAt(host()).memory;
      LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<void> packed, Allocate(allocator, declaration.packed_bytes));
      LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch,
                              Allocate(allocator, declaration.scratch_bytes));
      NodePrepackContext context(step, *options_.threads, nullptr);
      LAMINA_RETURN_IF_ERROR(step.kernel->PrePackWeight(input, context, packed.get(), scratch.get()));
      step.packed[index] = {packed.get(), declaration.packed_bytes};
      const uint64_t weight_bytes = ReleaseInputs(step, input, declaration);
      prepacked_.buffers_.push_back(std::move(packed));
      prepacked_.total_bytes_ += declaration.packed_bytes;
      if (options_.on_prepacked) LAMINA_RETURN_IF_ERROR(options_.on_prepacked(weight_bytes));
    }
    return Status();
  }

  // The originals are not passed to the kernel any more. Their bytes.
  uint64_t ReleaseInputs(Step& step, int input, const PrepackDeclaration& declaration) {
    uint64_t weight_bytes = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Value* constant = step.inputs[i].constant;
      if (!constant || step.released_inputs[i] || !IsAbsorbedByPacking(i, input, declaration)) continue;
      step.released_inputs[i] = true;
      const bool on_host = step.device == host() || step.info->def.is_host_input(static_cast<int>(i));
      if (on_host) {
        weight_bytes += constant->tensor().size_bytes();
      } else {
        options_.device_constants->EndUse(constant);
      }
    }
    return weight_bytes;
  }

  // Brings constants to their devices, then packs there what kernels want packed.
  Status PackOnDevices(Executable& executable) {
    if (!options_.placed) return Status();
    LAMINA_RETURN_IF_ERROR(options_.device_constants->Load(options_.on_prepacked));
    for (const DevicePacking& packing : packings_) {
      prepacked_.total_bytes_ += packing.declaration.packed_bytes;
    }
    return PackWeightsOnDevices(
        {*options_.devices, *options_.device_constants, *options_.threads, options_.on_prepacked}, packings_,
        executable.steps_);
  }

  // Kernels of the host may read a vector past the end.
  static Result<std::shared_ptr<void>> Allocate(Allocator& allocator, uint64_t bytes) {
    LAMINA_ASSIGN_OR_RETURN(void* memory, allocator.Reserve(bytes + kPackedAlignment));
    return std::shared_ptr<void>(memory, [&allocator](void* p) { allocator.Free(p); });
  }

  // Values die with the step that reads them last, or that makes them where nobody reads them.
  static void MarkLastUses(Executable& executable) {
    const Graph& graph = *executable.graph_;
    std::vector<int32_t> last_step(graph.values().size(), -1);
    const auto reads = [&](ValueId id, size_t step) {
      if (id.valid()) last_step[static_cast<size_t>(id.index)] = static_cast<int32_t>(step);
    };
    std::unordered_map<int32_t, size_t> step_of_node;
    for (size_t i = 0; i < executable.steps_.size(); ++i) step_of_node[executable.steps_[i].id.index] = i;
    for (size_t i = 0; i < executable.steps_.size(); ++i) {
      for (const ValueId id : executable.steps_[i].node->outputs) reads(id, i);
    }
    for (size_t i = 0; i < executable.steps_.size(); ++i) {
      for (const ValueId id : executable.steps_[i].node->inputs) reads(id, i);
    }
    for (size_t v = 0; v < graph.values().size(); ++v) {
      for (const Use& use : graph.values()[v].uses) {
        if (use.input_index != Use::kCapture) continue;
        const auto step = step_of_node.find(use.node.index);
        if (step != step_of_node.end()) {
          last_step[v] = std::max(last_step[v], static_cast<int32_t>(step->second));
        }
      }
    }
    const std::vector<int64_t>& live_until = executable.copies_.live_until;
    const auto num_steps = static_cast<int32_t>(executable.steps_.size());
    for (size_t v = 0; v < live_until.size(); ++v) {
      last_step[v] = std::max(last_step[v], static_cast<int32_t>(live_until[v]));
      if (live_until[v] >= num_steps) last_step[v] = -1;
    }
    for (size_t v = 0; v < graph.values().size(); ++v) {
      if (last_step[v] < 0 || graph.values()[v].is_graph_output) continue;
      executable.steps_[static_cast<size_t>(last_step[v])].dead_after.push_back(static_cast<int32_t>(v));
    }
  }

  const ExecutableOptions& options_;
  PrepackedWeights& prepacked_;
  std::vector<DevicePacking> packings_;
};

std::string NodeLabel(const Node& node) {
  return fmt::format("node '{}' ({})", node.name.view(), node.op_type.view());
}

Result<std::unique_ptr<Executable>> BuildExecutable(const Graph& graph, const ExecutableOptions& options,
                                                    PrepackedWeights& prepacked) {
  return ExecutableBuilder(options, prepacked).BuildMain(graph);
}

}  // namespace lamina
