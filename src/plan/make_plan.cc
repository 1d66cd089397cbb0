#include "plan/make_plan.h"

#include <algorithm>
#include <set>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "placement/apply_placement.h"
#include "placement/copy_schedule.h"
#include "placement/cut_edges.h"
#include "placement/designator.h"
#include "placement/layers.h"
#include "placement/partitioner.h"
#include "plan/layout_validator.h"
#include "plan/placed_rewrites.h"
#include "plan/plan_report.h"
#include "provider/provider.h"

namespace lamina {
namespace {

constexpr int64_t kContextStepTokens = 256;

std::vector<DeviceDescription> DescriptionsOf(std::span<const PlacementDevice> devices) {
  std::vector<DeviceDescription> descriptions;
  for (const PlacementDevice& device : devices) descriptions.push_back(device.description);
  return descriptions;
}

// A past, its present, and so on (PartitionRequest::cached_values).
std::vector<ValueId> CachedValues(const Graph& graph, const std::vector<StatePair>& pairs) {
  std::vector<ValueId> values;
  for (const StatePair& pair : pairs) {
    values.push_back(graph.inputs()[static_cast<size_t>(pair.input)]);
    values.push_back(graph.outputs()[static_cast<size_t>(pair.output)]);
  }
  return values;
}

class PlanMaker {
 public:
  explicit PlanMaker(const PlanRequest& request)
      : request_(request), settings_(request.settings), graph_(*request.graph) {}

  Result<PlannedGraph> Make() {
    LAMINA_RETURN_IF_ERROR(ResolveBudgets());
    LAMINA_ASSIGN_OR_RETURN(result_.order, ExecutionOrder(graph_));
    LAMINA_ASSIGN_OR_RETURN(layers_, AssignLayers(graph_));
    LAMINA_RETURN_IF_ERROR(FindPhases());
    LAMINA_RETURN_IF_ERROR(Partition());
    LAMINA_RETURN_IF_ERROR(FindKvLayout(all_on_.front()));
    demands_ = std::make_unique<NodeDemands>(graph_, request_.devices, *request_.constants, sizes_,
                                             settings_.prepack);
    bool estimate = false;
    Status status = Fit(estimate);
    if (status.code() == StatusCode::kUnsupported) {
      // Something has no bound: the same with estimates in place of what is not known.
      result_.plan.not_planned_because = status.message();
      estimate = true;
      status = Fit(estimate);
    }
    LAMINA_RETURN_IF_ERROR(status);
    result_.plan.planned = !estimate;
    if (request_.applied && host() > 0) LAMINA_RETURN_IF_ERROR(Apply());
    LAMINA_RETURN_IF_ERROR(CheckLayouts());
    LAMINA_RETURN_IF_ERROR(Report());
    return std::move(result_);
  }

 private:
  int32_t host() const { return static_cast<int32_t>(request_.devices.size()) - 1; }
  const DeviceDescription& DescriptionAt(size_t device) const { return request_.devices[device].description; }

  Status ResolveBudgets() {
    if (!settings_.budgets.empty() && settings_.partitioning) {
      return InvalidArgumentError(
          "session.device_memory_budget and session.resource_cuda_partitioning_settings are both set: they "
          "are "
          "two ways to bound memory, choose one");
    }
    const std::vector<DeviceDescription> descriptions = DescriptionsOf(request_.devices);
    budget_texts_.assign(request_.devices.size(), "");
    for (size_t device = 0; device < request_.devices.size(); ++device) {
      budgets_.push_back(request_.free_bytes[device]);
    }
    for (const DeviceBudget& budget : settings_.budgets) {
      const auto set = [&](size_t device) -> Status {
        const Result<uint64_t> bytes =
            budget.amount.Resolve(DescriptionAt(device).memory_bytes, request_.free_bytes[device]);
        if (!bytes.ok()) return bytes.status().WithContext(DescriptionAt(device).device.ToString());
        budgets_[device] = *bytes;
        budget_texts_[device] = budget.amount.text();
        return Status();
      };
      if (!budget.designator.empty()) {
        const std::optional<size_t> device = FindDevice(budget.designator, descriptions);
        if (!device) return UnknownDeviceError(budget.designator, descriptions);
        if (*device == static_cast<size_t>(host())) {
          return InvalidArgumentError("the memory of the CPU has no budget: '{}={}'", budget.designator,
                                      budget.amount.text());
        }
        LAMINA_RETURN_IF_ERROR(set(*device));
        continue;
      }
      for (size_t device = 0; device < request_.devices.size(); ++device) {
        // A budget of its own goes before that of every GPU.
        const bool is_gpu = DescriptionAt(device).device.kind == DeviceKind::kGpu;
        if (is_gpu && budget_texts_[device].empty()) LAMINA_RETURN_IF_ERROR(set(device));
      }
    }
    return Status();
  }

  Status FindPhases() {
    if (request_.decoder && settings_.kv_caches > 0) {
      DecoderBounds bounds;
      bounds.batch_symbol = request_.decoder->batch.symbol();
      bounds.sequence_symbol = request_.decoder->sequence.symbol();
      bounds.past_symbol = request_.decoder->past.symbol();
      bounds.max_batch = settings_.max_batch;
      bounds.prefill_chunk_tokens = settings_.prefill_chunk_tokens;
      bounds.context_length_tokens = settings_.context_tokens;
      result_.phases = DecoderPhases(bounds);
    } else {
      Phase run;
      run.name = "run";
      result_.phases.push_back(std::move(run));
    }
    LAMINA_ASSIGN_OR_RETURN(const SymbolBounds overrides, BoundsOfOverrides(graph_, settings_.max_shapes));
    for (Phase& phase : result_.phases) {
      for (const auto& [symbol, bounds] : overrides) phase.bounds.try_emplace(symbol, bounds);
      sizes_.emplace_back(graph_, phase.bounds);
    }
    return Status();
  }

  Result<Placement> PartitionOnto(int32_t device, std::span<IResourceAccountant* const> accountants) const {
    PartitionRequest partition;
    partition.graph = &graph_;
    partition.devices = request_.devices;
    partition.constants = request_.constants;
    partition.bounds = result_.phases.front().bounds;
    partition.rules = settings_.rules.get();
    partition.allow_unmatched_devices = settings_.allow_unmatched_devices;
    partition.disable_cpu_fallback = settings_.disable_cpu_fallback;
    partition.cached_values = cached_values_;
    partition.accountants = accountants;
    const std::vector<int32_t> requested(
        accountants.empty() && host() > 0 ? graph_.nodes().size() : size_t{0}, device);
    partition.requested = requested;
    return PartitionGraph(partition);
  }

  Status Partition() {
    if (request_.decoder && settings_.kv_caches > 0) {
      state_pairs_ = StatePairsOf(graph_, *request_.decoder);
      cached_values_ = CachedValues(graph_, state_pairs_);
    }
    if (settings_.partitioning) return PartitionWithAccountant();
    for (int32_t device = 0; device <= host(); ++device) {
      LAMINA_ASSIGN_OR_RETURN(Placement placement, PartitionOnto(device, {}));
      all_on_.push_back(std::move(placement));
    }
    return Status();
  }

  // The seed's way: nodes in order until the accountant of the device stops.
  Status PartitionWithAccountant() {
    std::vector<std::unique_ptr<SizeBasedAccountant>> owned;
    std::vector<IResourceAccountant*> accountants;
    for (size_t device = 0; device < request_.devices.size(); ++device) {
      accountants.push_back(nullptr);
      if (request_.devices[device].provider->name() != settings_.accounted_provider) continue;
      const uint64_t limit_bytes = settings_.partitioning->limit_bytes.value_or(request_.free_bytes[device]);
      owned.push_back(std::make_unique<SizeBasedAccountant>(limit_bytes, settings_.node_stats));
      accountants.back() = owned.back().get();
      budgets_[device] = limit_bytes;
      budget_texts_[device] = fmt::format("{} KiB", limit_bytes / 1024);
    }
    if (owned.empty()) {
      result_.plan.warnings.push_back(
          fmt::format("session.resource_cuda_partitioning_settings bounds nothing: there is no device of {}",
                      settings_.accounted_provider));
    }
    LAMINA_ASSIGN_OR_RETURN(Placement placement, PartitionOnto(0, accountants));
    ChargePlacement(graph_, placement, accountants);
    all_on_.push_back(std::move(placement));
    return Status();
  }

  Status FindKvLayout(const Placement& placement) {
    if (state_pairs_.empty()) return Status();
    static const KernelDef no_kernel("");
    LAMINA_ASSIGN_OR_RETURN(
        result_.kv,
        MakeKvLayout(graph_, result_.order, state_pairs_, std::string(request_.decoder->batch.symbol()),
                     std::string(request_.decoder->past.symbol()), [&](NodeId id) -> const KernelDef& {
                       const KernelCreateInfo* kernel = placement.nodes[static_cast<size_t>(id.index)].kernel;
                       return kernel ? kernel->def : no_kernel;
                     }));
    return Status();
  }

  MemoryModelRequest MemoryRequest(bool estimate) const {
    MemoryModelRequest memory;
    memory.graph = &graph_;
    memory.order = result_.order;
    memory.devices = request_.devices;
    memory.phases = result_.phases;
    memory.sizes = sizes_;
    memory.demands = demands_.get();
    memory.kv = &result_.kv;
    memory.cached_values = cached_values_;
    memory.max_batch = settings_.max_batch;
    memory.context_tokens = settings_.context_tokens;
    memory.frames = settings_.frames;
    memory.kv_caches = settings_.kv_caches;
    memory.skip_unbounded = estimate;
    memory.planner = settings_.offsets;
    return memory;
  }

  // Chooses the placement and works out what every device needs.
  Status Fit(bool estimate) {
    const MemoryModel model(MemoryRequest(estimate));
    if (host() == 0 || settings_.partitioning) {
      result_.placement = all_on_.front();
    } else {
      LAMINA_RETURN_IF_ERROR(FitUnits(model));
    }
    // What Apply lays out is another graph: here it only matters that everything has a bound.
    if (request_.applied && host() > 0) return model.LowerBound(result_.placement, host()).status();
    return FindNeeds(model, result_.placement);
  }

  Status FindNeeds(const MemoryModel& model, const Placement& placement) {
    result_.needs.clear();
    for (int32_t device = 0; device <= host(); ++device) {
      LAMINA_ASSIGN_OR_RETURN(DeviceNeed need, model.Need(placement, device));
      result_.needs.push_back(std::move(need));
    }
    return Status();
  }

  Status RewritePlaced() {
    PlacedRewriteRequest rewrite;
    rewrite.model = request_.rewrites.model;
    rewrite.devices = request_.devices;
    rewrite.constants = request_.constants;
    rewrite.bounds = result_.phases.front().bounds;
    rewrite.disabled = request_.rewrites.disabled;
    rewrite.on_rewritten = request_.rewrites.on_rewritten;
    LAMINA_ASSIGN_OR_RETURN(const bool changed, RewritePlacedNodes(rewrite, result_.placement));
    if (!changed) return Status();
    LAMINA_ASSIGN_OR_RETURN(layers_, AssignLayers(graph_));
    return Status();
  }

  // Makes the graph ready to run where it was placed, and plans what it has become.
  Status Apply() {
    if (request_.rewrites.model) LAMINA_RETURN_IF_ERROR(RewritePlaced());
    const bool has_casts = TellCasts();
    LAMINA_ASSIGN_OR_RETURN(result_.placed,
                            ApplyPlacement(*request_.applied, *request_.derived, result_.placement,
                                           request_.devices, *request_.constants, cached_values_));
    LAMINA_ASSIGN_OR_RETURN(result_.order, ExecutionOrder(graph_));
    const PlacedGraph& placed = *result_.placed;
    const CopySchedule copies = ScheduleCopies(graph_, result_.order, placed, host());
    sizes_.clear();
    for (const Phase& phase : result_.phases) sizes_.emplace_back(graph_, phase.bounds);
    demands_ = std::make_unique<NodeDemands>(graph_, request_.devices, *request_.constants, sizes_,
                                             settings_.prepack);
    result_.placement.nodes.resize(graph_.nodes().size());
    for (size_t i = 0; i < result_.placement.nodes.size(); ++i) {
      result_.placement.nodes[i].device = placed.node_device[i];
      result_.placement.nodes[i].kernel = placed.kernels[i];
      result_.placement.nodes[i].with_casts = false;
    }
    if (has_casts) {  // they change what crosses
      result_.placement.cut_edges = FindCutEdges(graph_, result_.placement, request_.devices, cached_values_,
                                                 result_.phases.back().bounds);
    }
    LAMINA_RETURN_IF_ERROR(FindKvLayout(result_.placement));
    for (InPlaceKv& layer : result_.kv.in_place) layer.device = placed.DeviceOf(layer.node);
    for (CarriedState& state : result_.kv.carried) {
      state.device = placed.DeviceOf(graph_.inputs()[static_cast<size_t>(state.input)]);
      const ValueId output = graph_.outputs()[static_cast<size_t>(state.output)];
      if (placed.DeviceOf(output) != state.device) state.device = host();
    }
    MemoryModelRequest memory = MemoryRequest(!result_.plan.planned);
    memory.placed = &placed;
    memory.copies = &copies;
    LAMINA_RETURN_IF_ERROR(FindNeeds(MemoryModel(memory), result_.placement));
    for (int32_t device = 0; device < host(); ++device) {
      const auto index = static_cast<size_t>(device);
      if (settings_.partitioning || result_.needs[index].allocated_bytes <= budgets_[index]) continue;
      return MemoryShortageError(graph_, DescriptionAt(index), result_.needs[index], budgets_[index],
                                 settings_.kv_caches, settings_.frames);
    }
    return Status();
  }

  // Whether nodes are computed in float between casts; a warning for each device that has such.
  bool TellCasts() {
    std::vector<size_t> nodes_on(request_.devices.size(), 0);
    for (const NodePlacement& node : result_.placement.nodes) {
      if (node.with_casts) ++nodes_on[static_cast<size_t>(node.device)];
    }
    bool any = false;
    for (size_t device = 0; device < nodes_on.size(); ++device) {
      if (nodes_on[device] == 0) continue;
      any = true;
      result_.plan.warnings.push_back(
          fmt::format("{}: {} nodes are computed in float, with casts: provider {} lacks their type",
                      DescriptionAt(device).device.ToString(), nodes_on[device],
                      request_.devices[device].provider->name()));
    }
    return any;
  }

  Status FitUnits(const MemoryModel& model) {
    std::vector<bool> fixed(graph_.nodes().size(), false);
    for (size_t i = 0; i < fixed.size(); ++i) {
      fixed[i] = all_on_.front().nodes[i].reason == PlacementReason::kRule;
    }
    units_ = FindPlacementUnits(graph_, result_.order, layers_, fixed);
    BudgetFitRequest fit_request;
    fit_request.memory = &model;
    fit_request.units = units_;
    fit_request.num_layers = layers_.count();
    fit_request.all_on = all_on_;
    std::vector<uint64_t> fitted_bytes(budgets_.begin(), budgets_.begin() + host());
    for (size_t device = 0; device < fitted_bytes.size() && device < request_.withheld_bytes.size();
         ++device) {
      fitted_bytes[device] -= std::min(fitted_bytes[device], request_.withheld_bytes[device]);
    }
    fit_request.budget_bytes = fitted_bytes;
    fit_request.gpu_layers = settings_.gpu_layers;
    LAMINA_ASSIGN_OR_RETURN(fit_, FitBudget(fit_request));
    result_.placement = ComposePlacement(fit_request, fit_.device_of_unit);
    result_.placement.rules = all_on_.front().rules;
    result_.placement.fallbacks = FallbacksOf(result_.placement);
    result_.placement.cut_edges = FindCutEdges(graph_, result_.placement, request_.devices, cached_values_,
                                               result_.phases.back().bounds);
    return Outlook(fit_request);
  }

  // Fallbacks of the nodes whose unit is on the device that refused them.
  std::vector<PlacementFallback> FallbacksOf(const Placement& placement) const {
    std::vector<PlacementFallback> fallbacks;
    const auto add = [&](int32_t device, NodeId id) {
      for (const PlacementFallback& fallback : all_on_[static_cast<size_t>(device)].fallbacks) {
        if (fallback.node == id) fallbacks.push_back(fallback);
      }
    };
    std::set<int32_t> in_units;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      for (const NodeId id : units_[unit].nodes) {
        in_units.insert(id.index);
        if (placement.nodes[static_cast<size_t>(id.index)].reason == PlacementReason::kFallback) {
          add(fit_.device_of_unit[unit], id);
        }
      }
    }
    for (const PlacementFallback& fallback : all_on_.back().fallbacks) {
      if (in_units.count(fallback.node.index) == 0) fallbacks.push_back(fallback);
    }
    std::sort(fallbacks.begin(), fallbacks.end(),
              [](const PlacementFallback& a, const PlacementFallback& b) { return a.node < b.node; });
    return fallbacks;
  }

  // What each further GiB on the first accelerator would buy, while something is left out.
  Status Outlook(BudgetFitRequest fit_request) {
    constexpr int kSteps = 4;
    result_.plan.outlook.clear();
    if (!fit_.unplaced && !fit_.smallest_useful_budget_bytes) return Status();
    if (fit_request.gpu_layers) return Status();
    std::vector<uint64_t> budgets(fit_request.budget_bytes.begin(), fit_request.budget_bytes.end());
    fit_request.budget_bytes = budgets;
    for (int step = 0; step < kSteps; ++step) {
      budgets.front() += kGiB;
      LAMINA_ASSIGN_OR_RETURN(const BudgetFit fit, FitBudget(fit_request));
      Plan::Outlook outlook;
      outlook.budget_bytes = budgets_.front() + (static_cast<uint64_t>(step) + 1) * kGiB;
      const Placement placement = ComposePlacement(fit_request, fit.device_of_unit);
      std::set<int> resident_layers;
      for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (fit.device_of_unit[unit] != host() && units_[unit].kind == PlacementUnit::Kind::kLayer) {
          resident_layers.insert(units_[unit].layer);
        }
      }
      outlook.resident_layers = static_cast<int>(resident_layers.size());
      for (int32_t device = 0; device < host(); ++device) {
        LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need, fit_request.memory->Need(placement, device));
        outlook.resident_bytes +=
            need.weights_bytes + static_cast<uint64_t>(settings_.kv_caches) * need.kv_cache_bytes;
      }
      result_.plan.outlook.push_back(outlook);
      if (!fit.unplaced && !fit.smallest_useful_budget_bytes) break;
    }
    return Status();
  }

  // Every frame, judged by code that shares nothing with the planner.
  Status CheckLayouts() const {
    for (const DeviceNeed& need : result_.needs) {
      for (const FramePlan& frame : need.frames) {
        const Result<LayoutReport> report = ValidateLayout(PlacedBuffersOf(frame));
        if (!report.ok()) return InternalError("a planned frame is wrong: {}", report.status().message());
        if (report->peak_bytes != frame.peak_bytes || report->lower_bound_bytes != frame.lower_bound_bytes) {
          return InternalError(
              "a planned frame has a peak of {} and a bound of {} bytes, the validator finds "
              "{} and {}",
              frame.peak_bytes, frame.lower_bound_bytes, report->peak_bytes, report->lower_bound_bytes);
        }
      }
    }
    return Status();
  }

  Status Report() {
    Plan& plan = result_.plan;
    plan.bounds = {request_.decoder ? settings_.context_tokens : 0, settings_.max_batch,
                   request_.decoder ? settings_.prefill_chunk_tokens : 0};
    plan.frames = settings_.frames;
    plan.kv_caches = state_pairs_.empty() ? 0 : settings_.kv_caches;
    if (fit_.unplaced) {
      const uint64_t now_bytes = result_.needs[static_cast<size_t>(fit_.unplaced->device)].allocated_bytes;
      plan.unplaced = {fit_.unplaced->name,
                       fit_.unplaced->allocated_bytes - std::min(now_bytes, fit_.unplaced->allocated_bytes)};
    }
    plan.smallest_useful_budget_bytes = fit_.smallest_useful_budget_bytes;
    PlanReportRequest report;
    report.graph = &graph_;
    report.devices = request_.devices;
    report.layers = &layers_;
    report.units = units_;
    report.budget_bytes = budgets_;
    report.budget_texts = budget_texts_;
    report.loading = request_.loading;
    report.sizes = sizes_;
    report.demands = demands_.get();
    LAMINA_RETURN_IF_ERROR(FillPlan(report, result_));
    for (int32_t device = 0; device < host(); ++device) {
      const auto index = static_cast<size_t>(device);
      plan.devices[index].is_bounded_by_user = !settings_.partitioning && !budget_texts_[index].empty();
    }
    return Status();
  }

  const PlanRequest& request_;
  const PlanSettings& settings_;
  const Graph& graph_;
  PlannedGraph result_;
  LayerAssignment layers_;
  std::vector<uint64_t> budgets_;          // by device
  std::vector<std::string> budget_texts_;  // by device
  std::vector<ValueSizes> sizes_;          // by phase
  std::vector<StatePair> state_pairs_;
  std::vector<ValueId> cached_values_;
  std::vector<Placement> all_on_;  // by device; with an accountant one alone
  std::unique_ptr<NodeDemands> demands_;
  std::vector<PlacementUnit> units_;
  BudgetFit fit_;
};

}  // namespace

Result<PlannedGraph> MakePlan(const PlanRequest& request) { return PlanMaker(request).Make(); }

Result<int64_t> LargestContext(const PlanRequest& request, int64_t max_tokens) {
  const auto devices_with = [&](int64_t tokens) -> Result<std::vector<int32_t>> {
    PlanRequest changed = request;
    changed.settings.context_tokens = tokens;
    LAMINA_ASSIGN_OR_RETURN(const PlannedGraph planned, MakePlan(changed));
    std::vector<int32_t> devices;
    for (const NodePlacement& node : planned.placement.nodes) devices.push_back(node.device);
    return devices;
  };
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int32_t> wanted, devices_with(request.settings.context_tokens));
  // The caches grow with the context, so what keeps the placement is an interval.
  int64_t kept = request.settings.context_tokens / kContextStepTokens;
  int64_t lost = max_tokens / kContextStepTokens + 1;
  while (kept + 1 < lost) {
    const int64_t middle = kept + (lost - kept) / 2;
    const Result<std::vector<int32_t>> devices = devices_with(middle * kContextStepTokens);
    if (!devices.ok() && devices.status().code() != StatusCode::kResourceExhausted) return devices.status();
    (devices.ok() && *devices == wanted ? kept : lost) = middle;
  }
  return std::max(kept * kContextStepTokens, request.settings.context_tokens);
}

}  // namespace lamina
