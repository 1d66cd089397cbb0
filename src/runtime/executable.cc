#include "runtime/executable.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "provider/graph_node_info.h"

namespace lamina {
namespace {

constexpr uint64_t kPackedAlignment = 64;

// Constants of one node while a weight of it is packed.
class NodePrepackContext : public PrepackContext {
 public:
  NodePrepackContext(const Step& step, ThreadPool& threads) : step_(step), threads_(threads) {}
  const Tensor* Constant(int input) const override {
    if (input < 0 || input >= static_cast<int>(step_.inputs.size())) return nullptr;
    const Value* constant = step_.inputs[static_cast<size_t>(input)].constant;
    return constant ? &constant->tensor() : nullptr;
  }
  ThreadPool& threads() override { return threads_; }
  void* stream() const override { return nullptr; }

 private:
  const Step& step_;
  ThreadPool& threads_;
};

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

  Result<std::unique_ptr<Executable>> Build(const Graph& graph) {
    auto executable = std::make_unique<Executable>();
    executable->graph_ = &graph;
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.TopologicalOrder());
    executable->steps_.reserve(order.size());
    for (const NodeId id : order) {
      LAMINA_ASSIGN_OR_RETURN(Step step, MakeStep(graph, id));
      executable->steps_.push_back(std::move(step));
    }
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      if (graph.value(id).outer.valid() && !options_.constants->Find(graph, id)) {
        executable->captures_.push_back({id.index, graph.value(id).outer.index});
      }
    }
    for (const ValueId id : graph.outputs()) executable->outputs_.push_back(OperandOf(graph, id));
    MarkLastUses(*executable);
    return executable;
  }

 private:
  Operand OperandOf(const Graph& graph, ValueId id) const {
    if (!id.valid()) return {};
    if (const Value* constant = options_.constants->Find(graph, id)) return {constant, -1};
    return {nullptr, id.index};
  }

  Result<Step> MakeStep(const Graph& graph, NodeId id) {
    Step step;
    step.id = id;
    step.node = &graph.node(id);
    const GraphNodeInfo info(graph, id, *options_.constants, *options_.device, options_.symbols);
    LAMINA_ASSIGN_OR_RETURN(step.info, options_.provider->kernel_registry().Lookup(info));
    Result<std::unique_ptr<Kernel>> kernel = step.info->create(info);
    if (!kernel.ok()) return kernel.status().WithContext(NodeLabel(*step.node));
    step.kernel = *std::move(kernel);
    for (const ValueId input : step.node->inputs) step.inputs.push_back(OperandOf(graph, input));
    for (const ValueId output : step.node->outputs) {
      step.outputs.push_back(output.index);
      step.output_types.push_back(output.valid() ? graph.value(output).type : ValueType());
      step.output_dims.push_back(output.valid() ? ConstantDims(graph.value(output).shape)
                                                : std::vector<int64_t>());
    }
    step.packed.resize(step.inputs.size());
    step.released_inputs.resize(step.inputs.size());
    for (const Attribute& attribute : step.node->attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Executable> compiled, Build(**body));
        step.subgraphs.emplace_back(attribute.name, std::move(compiled));
      }
    }
    LAMINA_RETURN_IF_ERROR(Prepack(info, step).WithContext(NodeLabel(*step.node)));
    return step;
  }

  Status Prepack(const NodeInfo& info, Step& step) {
    for (int input = 0; input < info.num_inputs(); ++input) {
      const auto index = static_cast<size_t>(input);
      if (!info.is_constant_input(input) || step.released_inputs[index]) continue;
      PrepackDeclaration declaration;
      LAMINA_RETURN_IF_ERROR(step.kernel->DeclarePrepack(info, input, declaration));
      if (!declaration.prepack || !(options_.prepack || declaration.required)) continue;
      LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<void> packed, AllocateHost(declaration.packed_bytes));
      LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch, AllocateHost(declaration.scratch_bytes));
      NodePrepackContext context(step, *options_.threads);
      LAMINA_RETURN_IF_ERROR(step.kernel->PrePackWeight(input, context, packed.get(), scratch.get()));
      step.packed[index] = {packed.get(), declaration.packed_bytes};
      uint64_t weight_bytes = 0;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const bool absorbed = i == index || (i < 32 && (declaration.absorbed_inputs >> i & 1) != 0);
        if (!absorbed || !step.inputs[i].constant) continue;
        step.released_inputs[i] = true;
        weight_bytes += step.inputs[i].constant->tensor().size_bytes();
      }
      prepacked_.buffers_.push_back(std::move(packed));
      prepacked_.total_bytes_ += declaration.packed_bytes;
      if (options_.on_prepacked) LAMINA_RETURN_IF_ERROR(options_.on_prepacked(weight_bytes));
    }
    return Status();
  }

  Result<std::shared_ptr<void>> AllocateHost(uint64_t bytes) {
    Allocator* allocator = options_.allocator;
    LAMINA_ASSIGN_OR_RETURN(void* memory, allocator->Reserve(bytes + kPackedAlignment));
    return std::shared_ptr<void>(memory, [allocator](void* p) { allocator->Free(p); });
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
    for (size_t v = 0; v < graph.values().size(); ++v) {
      if (last_step[v] < 0 || graph.values()[v].is_graph_output) continue;
      executable.steps_[static_cast<size_t>(last_step[v])].dead_after.push_back(static_cast<int32_t>(v));
    }
  }

  const ExecutableOptions& options_;
  PrepackedWeights& prepacked_;
};

std::string NodeLabel(const Node& node) {
  return fmt::format("node '{}' ({})", node.name.view(), node.op_type.view());
}

Result<std::unique_ptr<Executable>> BuildExecutable(const Graph& graph, const ExecutableOptions& options,
                                                    PrepackedWeights& prepacked) {
  return ExecutableBuilder(options, prepacked).Build(graph);
}

}  // namespace lamina
