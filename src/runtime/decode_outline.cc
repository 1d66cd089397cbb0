#include "runtime/decode_outline.h"

#include <algorithm>

#include "provider/recordable_kernel.h"

namespace lamina {
namespace {

class Outliner {
 public:
  explicit Outliner(const DecodeOutlineRequest& request)
      : request_(request),
        executable_(*request.executable),
        graph_(executable_.graph()),
        needed_(graph_.values().size(), false),
        carried_(graph_.values().size(), false) {}

  DecodeOutline Outline() {
    outline_.batch = request_.batch;
    FindCarried();
    FindNeeded();
    MakeParts();
    FindResults();
    DivideUploads();
    return std::move(outline_);
  }

 private:
  const Step& StepAt(int32_t position) const { return executable_.steps()[static_cast<size_t>(position)]; }

  // State that the cache keeps in two buffers, which change places after every run.
  void FindCarried() {
    const auto mark = [&](std::span<const ValueId> ids, const std::vector<bool>& in_cache) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (in_cache[i]) carried_[static_cast<size_t>(ids[i].index)] = true;
      }
    };
    mark(graph_.inputs(), *request_.inputs_in_cache);
    mark(graph_.outputs(), *request_.outputs_in_cache);
  }

  static bool IsOf(const KernelDef::KvIndices& kv, int input) {
    return input == kv.past_key || input == kv.past_value;
  }

  // Whether the step reads its input in a run with a cache.
  static bool Reads(const Step& step, size_t input) {
    const Operand& operand = step.inputs[input];
    if (operand.constant || operand.value < 0) return false;
    if (step.kv_layer < 0) return true;
    if (IsOf(step.info->def.kv_cache(), static_cast<int>(input))) return false;
    const auto* recordable = dynamic_cast<const RecordableKernel*>(step.kernel.get());
    return !recordable || recordable->NeedsWithCache(static_cast<int>(input));
  }

  void FindNeeded() {
    const std::span<const ValueId> outputs = graph_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Operand& operand = executable_.outputs()[i];
      if (operand.value >= 0) needed_[static_cast<size_t>(operand.value)] = true;
    }
    const std::span<const Step> steps = executable_.steps();
    is_needed_.assign(steps.size(), false);
    for (size_t i = steps.size(); i-- > 0;) {
      const Step& step = steps[i];
      const bool is_needed =
          step.kv_layer >= 0 || std::any_of(step.outputs.begin(), step.outputs.end(), [&](int32_t output) {
            return output >= 0 && needed_[static_cast<size_t>(output)];
          });
      if (!is_needed) continue;
      is_needed_[i] = true;
      for (size_t input = 0; input < step.inputs.size(); ++input) {
        if (Reads(step, input)) needed_[static_cast<size_t>(step.inputs[input].value)] = true;
      }
      for (const Graph* body : step.node->Subgraphs()) {
        for (const ValueInfo& value : body->values()) {
          if (value.outer.valid()) needed_[static_cast<size_t>(value.outer.index)] = true;
        }
      }
    }
  }

  // Whether the value has one shape in all runs.
  bool IsFixed(int32_t value) const {
    const std::optional<SymbolicShape>& shape = graph_.value(ValueId{value}).shape;
    if (!shape || carried_[static_cast<size_t>(value)]) return false;
    return std::all_of(shape->dims.begin(), shape->dims.end(), [&](const DimExpr& dim) {
      const DimBounds bounds = dim.Bounds(request_.bounds);
      return dim.known() && bounds.min == bounds.max;
    });
  }

  bool IsRecordable(const Step& step) const {
    if (step.device == executable_.host() || step.copy >= 0 || !step.subgraphs.empty()) return false;
    if (!dynamic_cast<const RecordableKernel*>(step.kernel.get())) return false;
    const KernelDef& def = step.info->def;
    for (size_t input = 0; input < step.inputs.size(); ++input) {
      if (!Reads(step, input)) continue;
      const int32_t value = step.inputs[input].value;
      if (def.is_host_input(static_cast<int>(input)) || !IsFixed(value) ||
          executable_.DeviceOf(ValueId{value}) != step.device) {
        return false;
      }
    }
    const KernelDef::KvIndices& kv = def.kv_cache();
    for (size_t output = 0; output < step.outputs.size(); ++output) {
      const auto index = static_cast<int>(output);
      const bool is_present = step.kv_layer >= 0 && (index == kv.present_key || index == kv.present_value);
      if (step.outputs[output] < 0 || is_present) continue;
      if (step.output_devices[output] != step.device || !IsFixed(step.outputs[output])) return false;
    }
    return true;
  }

  void MakeParts() {
    std::vector<DecodePart>& parts = outline_.parts;
    // Memory is planned for waits where they are, so those of steps that are left out stay there.
    std::vector<int32_t> waits;
    for (size_t i = 0; i < executable_.steps().size(); ++i) {
      const Step& step = executable_.steps()[i];
      waits.insert(waits.end(), step.waits.begin(), step.waits.end());
      if (!is_needed_[i]) continue;
      const bool is_recorded = IsRecordable(step);
      const bool continues =
          is_recorded && !parts.empty() && parts.back().is_recorded && parts.back().device == step.device;
      if (!continues) parts.push_back({is_recorded, step.device, {}, {}, {}});
      DecodePart& part = parts.back();
      part.steps.push_back(static_cast<int32_t>(i));
      part.waits.insert(part.waits.end(), waits.begin(), waits.end());
      waits.clear();
    }
  }

  void FindResults() {
    std::vector<int32_t> made_by(graph_.values().size(), -1);  // recorded part
    for (size_t p = 0; p < outline_.parts.size(); ++p) {
      if (!outline_.parts[p].is_recorded) continue;
      for (const int32_t position : outline_.parts[p].steps) {
        for (const int32_t output : StepAt(position).outputs) {
          if (output >= 0) made_by[static_cast<size_t>(output)] = static_cast<int32_t>(p);
        }
      }
    }
    const auto add = [&](int32_t value, int32_t reader) {
      const int32_t maker = value < 0 ? -1 : made_by[static_cast<size_t>(value)];
      if (maker < 0 || maker == reader) return;
      std::vector<int32_t>& results = outline_.parts[static_cast<size_t>(maker)].results;
      if (std::find(results.begin(), results.end(), value) == results.end()) results.push_back(value);
    };
    for (size_t p = 0; p < outline_.parts.size(); ++p) {
      for (const int32_t position : outline_.parts[p].steps) {
        const Step& step = StepAt(position);
        for (const Operand& input : step.inputs) add(input.value, static_cast<int32_t>(p));
        for (const Graph* body : step.node->Subgraphs()) {
          for (const ValueInfo& value : body->values()) add(value.outer.index, static_cast<int32_t>(p));
        }
      }
    }
    for (const Operand& output : executable_.outputs()) add(output.value, -1);
  }

  void DivideUploads() {
    std::vector<bool>& begins_recorded = outline_.begins_recorded;
    begins_recorded.assign(static_cast<size_t>(request_.num_devices), false);
    std::vector<bool> was_seen(static_cast<size_t>(request_.num_devices), false);
    const CopySchedule& schedule = executable_.copies();
    for (const DecodePart& part : outline_.parts) {
      // A copy reads what is on the device that it comes from.
      const int32_t copy = StepAt(part.steps.front()).copy;
      const auto device =
          static_cast<size_t>(copy < 0 ? part.device : schedule.copies[static_cast<size_t>(copy)].from);
      if (!was_seen[device]) begins_recorded[device] = part.is_recorded;
      was_seen[device] = true;
    }
    for (size_t copy = 0; copy < schedule.num_uploads; ++copy) {
      const CopyTask& task = schedule.copies[copy];
      if (!needed_[static_cast<size_t>(task.source)] || carried_[static_cast<size_t>(task.source)]) continue;
      const bool is_staged = begins_recorded[static_cast<size_t>(task.to)] && IsFixed(task.source);
      (is_staged ? outline_.staged_uploads : outline_.other_uploads).push_back(static_cast<int32_t>(copy));
    }
  }

  const DecodeOutlineRequest& request_;
  const Executable& executable_;
  const Graph& graph_;
  DecodeOutline outline_;
  std::vector<bool> needed_;     // by value
  std::vector<bool> carried_;    // by value
  std::vector<bool> is_needed_;  // by step
};

}  // namespace

int64_t DecodeOutline::num_recorded_steps() const {
  int64_t count = 0;
  for (const DecodePart& part : parts)
    count += part.is_recorded ? static_cast<int64_t>(part.steps.size()) : 0;
  return count;
}

int64_t DecodeOutline::num_steps() const {
  int64_t count = 0;
  for (const DecodePart& part : parts) count += static_cast<int64_t>(part.steps.size());
  return count;
}

int64_t DecodeOutline::num_recorded_parts() const {
  return std::count_if(parts.begin(), parts.end(), [](const DecodePart& part) { return part.is_recorded; });
}

DecodeOutline OutlineDecode(const DecodeOutlineRequest& request) { return Outliner(request).Outline(); }

}  // namespace lamina
