#include "plan/budget_fit.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "base/byte_size.h"
#include "base/error.h"

namespace lamina {
namespace {

using Kind = PlacementUnit::Kind;
using UnitSet = std::vector<bool>;  // by unit

constexpr size_t kMaxLayersForAllBlocks = 16;
constexpr size_t kMaxUnitsForUsefulBudget = 64;
constexpr size_t kMaxContributors = 5;
constexpr size_t kNoPosition = std::numeric_limits<size_t>::max();

// What units cost on one device as far as it adds up.
class UnitCosts {
 public:
  // Costs of all units; weights of fixed nodes and of units placed elsewhere do not count.
  static Result<UnitCosts> Make(const BudgetFitRequest& request, int32_t device) {
    UnitCosts costs;
    const Placement& placement = request.all_on[static_cast<size_t>(device)];
    const MemoryModel& memory = *request.memory;
    const size_t num_units = request.units.size();
    costs.weights_.assign(num_units, 0);
    costs.kv_.assign(num_units, 0);
    costs.step_.assign(num_units, 0);
    std::map<int32_t, size_t> unit_of_node;
    for (size_t unit = 0; unit < num_units; ++unit) {
      for (const NodeId id : request.units[unit].nodes) {
        unit_of_node[id.index] = unit;
        if (placement.DeviceOf(id) != device) continue;
        LAMINA_ASSIGN_OR_RETURN(const uint64_t step_bytes, memory.StepBytes(placement, id));
        costs.step_[unit] = std::max(costs.step_[unit], step_bytes);
      }
    }
    const Graph& graph = *memory.request().graph;
    LAMINA_ASSIGN_OR_RETURN(const std::vector<WeightPiece> pieces, memory.Weights(placement, device));
    for (const WeightPiece& piece : pieces) {
      const uint64_t bytes = RoundUpBytes(piece.bytes, kBlockAlignment);
      std::set<size_t> readers;
      const auto add_reader = [&](NodeId id) {
        const auto unit = unit_of_node.find(id.index);
        if (unit != unit_of_node.end() && placement.DeviceOf(id) == device) readers.insert(unit->second);
      };
      add_reader(piece.reader);
      if (!piece.packed_for.valid() && !piece.body) {
        const ValueId value = graph.FindValue(graph.initializer(piece.initializer).name.view());
        for (const Use& use : graph.value(value).uses) add_reader(use.node);
      }
      if (readers.size() == 1) costs.weights_[*readers.begin()] += bytes;
      if (readers.size() > 1) costs.shared_.push_back({{readers.begin(), readers.end()}, bytes});
    }
    for (const auto& [node, bytes] : memory.kv_bytes()) {
      const auto unit = unit_of_node.find(node.index);
      if (unit != unit_of_node.end() && placement.DeviceOf(node) == device) costs.kv_[unit->second] += bytes;
    }
    return costs;
  }

  uint64_t Weights(const UnitSet& set) const {
    uint64_t bytes = 0;
    for (size_t unit = 0; unit < set.size(); ++unit) bytes += set[unit] ? weights_[unit] : 0;
    for (const Shared& shared : shared_) {
      const bool read =
          std::any_of(shared.units.begin(), shared.units.end(), [&](size_t unit) { return set[unit]; });
      bytes += read ? shared.bytes : 0;
    }
    return bytes;
  }
  uint64_t Kv(const UnitSet& set) const {
    uint64_t bytes = 0;
    for (size_t unit = 0; unit < set.size(); ++unit) bytes += set[unit] ? kv_[unit] : 0;
    return bytes;
  }
  uint64_t LargestStep(const UnitSet& set) const {
    uint64_t bytes = 0;
    for (size_t unit = 0; unit < set.size(); ++unit) bytes = std::max(bytes, set[unit] ? step_[unit] : 0);
    return bytes;
  }
  // Of one unit by itself.
  uint64_t Resident(size_t unit) const {
    uint64_t bytes = weights_[unit] + kv_[unit];
    for (const Shared& shared : shared_) {
      const bool read = std::find(shared.units.begin(), shared.units.end(), unit) != shared.units.end();
      bytes += read ? shared.bytes : 0;
    }
    return bytes;
  }
  // All units by their resident bytes; equal ones in order.
  std::vector<size_t> SmallestFirst() const {
    std::vector<std::pair<uint64_t, size_t>> keyed;
    for (size_t unit = 0; unit < weights_.size(); ++unit) keyed.emplace_back(Resident(unit), unit);
    std::sort(keyed.begin(), keyed.end());
    std::vector<size_t> units;
    units.reserve(keyed.size());
    for (const auto& [bytes, unit] : keyed) units.push_back(unit);
    return units;
  }

 private:
  struct Shared {
    std::vector<size_t> units;
    uint64_t bytes = 0;
  };
  std::vector<uint64_t> weights_;  // that no other unit reads
  std::vector<uint64_t> kv_;
  std::vector<uint64_t> step_;
  std::vector<Shared> shared_;
};

// A choice: a base set and the first `extra` of the units it leaves out, smallest first.
struct Choice {
  UnitSet base;
  std::vector<size_t> left_out;
  size_t extra = 0;
  uint64_t resident_bytes = 0;
  int cuts = 0;
  size_t number = 0;  // of the base

  UnitSet Units() const {
    UnitSet set = base;
    for (size_t i = 0; i < extra; ++i) set[left_out[i]] = true;
    return set;
  }
};

struct TriedLater {
  bool operator()(const Choice& a, const Choice& b) const {
    if (a.resident_bytes != b.resident_bytes) return a.resident_bytes < b.resident_bytes;
    if (a.cuts != b.cuts) return a.cuts > b.cuts;
    return a.number > b.number;
  }
};

class DeviceFit {
 public:
  DeviceFit(const BudgetFitRequest& request, int32_t device, const UnitCosts& costs,
            std::vector<int32_t>& device_of_unit, const UnitSet& available)
      : request_(request),
        device_(device),
        costs_(costs),
        device_of_unit_(device_of_unit),
        available_(available),
        smallest_first_(costs.SmallestFirst()) {}

  // Gives units to the device. The unit that was left out last, with what it would need more.
  Status Run(BudgetFit& fit) {
    const uint64_t budget_bytes = request_.budget_bytes[static_cast<size_t>(device_)];
    UnitSet none(request_.units.size(), false);
    LAMINA_ASSIGN_OR_RETURN(const DeviceNeed fixed, NeedOf(none));
    if (fixed.allocated_bytes > budget_bytes) {
      return Shortage(fixed, budget_bytes).WithContext("what layer rules place there does not fit");
    }
    std::set<UnitSet> refused;
    LAMINA_ASSIGN_OR_RETURN(const bool all_fit, Fits(available_, budget_bytes, refused));
    if (all_fit) {
      fit.unplaced.reset();
      device_of_unit_ = With(available_);
      return Status();
    }
    Fill();
    while (!choices_.empty()) {
      Choice choice = choices_.top();
      choices_.pop();
      const UnitSet set = choice.Units();
      LAMINA_ASSIGN_OR_RETURN(const bool fits, Fits(set, budget_bytes, refused));
      if (fits) return Take(choice, set, fit);
      if (choice.extra == 0) continue;
      --choice.extra;
      Push(std::move(choice));
    }
    return Status();  // not reached: the empty choice fits
  }

 private:
  Result<DeviceNeed> NeedOf(const UnitSet& set) const {
    return request_.memory->Need(ComposePlacement(request_, With(set)), device_);
  }

  std::vector<int32_t> With(const UnitSet& set) const {
    std::vector<int32_t> devices = device_of_unit_;
    for (size_t unit = 0; unit < set.size(); ++unit) {
      if (set[unit]) devices[unit] = device_;
    }
    return devices;
  }

  Status Shortage(const DeviceNeed& need, uint64_t budget_bytes) const {
    const MemoryModelRequest& memory = request_.memory->request();
    return MemoryShortageError(*memory.graph, memory.devices[static_cast<size_t>(device_)].description, need,
                               budget_bytes, memory.kv_caches, memory.frames);
  }

  Result<bool> Fits(const UnitSet& set, uint64_t budget_bytes, std::set<UnitSet>& refused) const {
    const uint64_t weights_bytes = costs_.Weights(set);
    if (request_.memory->Allocated(device_, weights_bytes, costs_.Kv(set), costs_.LargestStep(set)) >
        budget_bytes) {
      return false;
    }
    if (refused.count(set) > 0) return false;
    const Placement placement = ComposePlacement(request_, With(set));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t at_least_bytes, request_.memory->LowerBound(placement, device_));
    bool fits = at_least_bytes <= budget_bytes;
    if (fits) {
      LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need, request_.memory->Need(placement, device_));
      fits = need.allocated_bytes <= budget_bytes;
    }
    if (!fits) refused.insert(set);
    return fits;
  }

  Status Take(const Choice& choice, const UnitSet& set, BudgetFit& fit) {
    const auto next =
        std::find_if(choice.left_out.begin() + static_cast<std::ptrdiff_t>(choice.extra),
                     choice.left_out.end(), [&](size_t unit) { return costs_.Resident(unit) > 0; });
    fit.unplaced.reset();
    if (next != choice.left_out.end()) {
      UnitSet more = set;
      more[*next] = true;
      LAMINA_ASSIGN_OR_RETURN(const DeviceNeed with, NeedOf(more));
      fit.unplaced = {request_.units[*next].name, device_, with.allocated_bytes};
    }
    device_of_unit_ = With(set);
    return Status();
  }

  void Push(Choice choice) {
    const UnitSet set = choice.Units();
    choice.resident_bytes = costs_.Weights(set) + costs_.Kv(set);
    choice.cuts = 0;
    for (size_t unit = 1; unit < set.size(); ++unit) choice.cuts += set[unit] != set[unit - 1] ? 1 : 0;
    choices_.push(std::move(choice));
  }

  void AddBase(UnitSet set) {
    if (!bases_.insert(set).second) return;
    Choice choice;
    choice.number = bases_.size();
    for (const size_t unit : smallest_first_) {
      if (available_[unit] && !set[unit]) choice.left_out.push_back(unit);
    }
    choice.base = std::move(set);
    // Extras that cannot fit by their weights alone are not tried one by one.
    const uint64_t budget_bytes = request_.budget_bytes[static_cast<size_t>(device_)];
    size_t too_many = choice.left_out.size() + 1;
    while (choice.extra + 1 < too_many) {
      const size_t fewest = choice.extra;
      const size_t middle = fewest + (too_many - fewest) / 2;
      choice.extra = middle;
      const UnitSet with = choice.Units();
      if (request_.memory->Allocated(device_, costs_.Weights(with), costs_.Kv(with), 0) <= budget_bytes)
        continue;
      too_many = middle;
      choice.extra = fewest;
    }
    Push(std::move(choice));
  }

  void Fill() {
    size_t count = 0;
    position_.assign(request_.units.size(), kNoPosition);
    int last_layer = 0;
    for (size_t unit = 0; unit < request_.units.size(); ++unit) {
      const PlacementUnit& of = request_.units[unit];
      const bool inside = of.kind == Kind::kLayer || of.kind == Kind::kExperts;
      if (!inside || !available_[unit]) continue;
      if (count == 0 || last_layer != of.layer) ++count;
      last_layer = of.layer;
      position_[unit] = count - 1;
    }
    const bool has_experts =
        std::any_of(request_.units.begin(), request_.units.end(),
                    [](const PlacementUnit& unit) { return unit.kind == Kind::kExperts; });
    AddBlocks(count, count, has_experts);
    for (size_t begin = 0; begin < count; ++begin) {
      for (size_t end = count; end > begin; --end) {
        const bool at_an_end = begin == 0 || end == count;
        if (at_an_end || count <= kMaxLayersForAllBlocks) AddBlocks(begin, end, has_experts);
      }
    }
  }

  // The available layers at [begin, end) with and without embedding, head and experts.
  void AddBlocks(size_t begin, size_t end, bool has_experts) {
    enum class Experts { kWithLayers, kNowhere, kInBlockOnly };
    for (const Experts experts : {Experts::kWithLayers, Experts::kNowhere, Experts::kInBlockOnly}) {
      if (!has_experts && experts != Experts::kWithLayers) break;
      for (const bool embedding : {true, false}) {
        for (const bool head : {true, false}) {
          UnitSet set(request_.units.size(), false);
          for (size_t unit = 0; unit < set.size(); ++unit) {
            const PlacementUnit& of = request_.units[unit];
            const bool in_block = position_[unit] >= begin && position_[unit] < end;
            bool chosen = false;
            switch (of.kind) {
              case Kind::kEmbedding:
                chosen = embedding;
                break;
              case Kind::kHead:
                chosen = head;
                break;
              case Kind::kLayer:  // kInBlockOnly: the attention of all layers, experts of the block
                chosen = in_block || experts == Experts::kInBlockOnly;
                break;
              case Kind::kExperts:
                chosen = in_block && experts != Experts::kNowhere;
                break;
            }
            set[unit] = chosen && available_[unit];
          }
          AddBase(std::move(set));
        }
      }
    }
  }

  const BudgetFitRequest& request_;
  const int32_t device_;
  const UnitCosts& costs_;
  std::vector<int32_t>& device_of_unit_;
  const UnitSet available_;
  const std::vector<size_t> smallest_first_;  // units by their resident bytes
  std::vector<size_t> position_;              // by unit: of its layer among those available, or kNoPosition
  std::set<UnitSet> bases_;
  std::priority_queue<Choice, std::vector<Choice>, TriedLater> choices_;
};

UnitSet UnitsAskedFor(const BudgetFitRequest& request) {
  UnitSet asked(request.units.size(), true);
  if (!request.gpu_layers || request.gpu_layers->all) return asked;
  const int count = request.gpu_layers->count;
  for (size_t unit = 0; unit < asked.size(); ++unit) {
    const PlacementUnit& of = request.units[unit];
    switch (of.kind) {
      case Kind::kEmbedding:
        asked[unit] = false;
        break;
      case Kind::kHead:
        asked[unit] = count > request.num_layers;
        break;
      case Kind::kLayer:
      case Kind::kExperts:
        asked[unit] = of.layer >= request.num_layers - count;
        break;
    }
  }
  return asked;
}

// The least budget with which something would be placed on the device.
Result<uint64_t> SmallestUsefulBudget(const BudgetFitRequest& request, int32_t device,
                                      const UnitCosts& costs) {
  std::vector<size_t> units;
  for (const size_t unit : costs.SmallestFirst()) {
    if (costs.Resident(unit) > 0) units.push_back(unit);
  }
  units.resize(std::min(units.size(), kMaxUnitsForUsefulBudget));
  std::optional<uint64_t> smallest_bytes;
  for (const size_t unit : units) {
    std::vector<int32_t> devices(request.units.size(), static_cast<int32_t>(request.all_on.size()) - 1);
    devices[unit] = device;
    const Placement placement = ComposePlacement(request, devices);
    LAMINA_ASSIGN_OR_RETURN(const uint64_t at_least_bytes, request.memory->LowerBound(placement, device));
    if (smallest_bytes && at_least_bytes >= *smallest_bytes) continue;
    LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need, request.memory->Need(placement, device));
    smallest_bytes = std::min(smallest_bytes.value_or(need.allocated_bytes), need.allocated_bytes);
  }
  return smallest_bytes.value_or(0);
}

}  // namespace

Result<GpuLayers> GpuLayers::Parse(std::string_view text) {
  GpuLayers layers;
  if (text == "all") {
    layers.all = true;
    return layers;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layers.count);
  if (error != std::errc() || end != text.data() + text.size() || layers.count < 0) {
    return InvalidArgumentError("expected a number of layers or 'all', found '{}'", text);
  }
  return layers;
}

Placement ComposePlacement(const BudgetFitRequest& request, std::span<const int32_t> device_of_unit) {
  Placement placement = request.all_on.back();
  const auto host = static_cast<int32_t>(request.all_on.size()) - 1;
  std::vector<int32_t> taken_from(placement.nodes.size(), host);  // by node: position in all_on
  for (size_t unit = 0; unit < request.units.size(); ++unit) {
    for (const NodeId id : request.units[unit].nodes) {
      const auto node = static_cast<size_t>(id.index);
      taken_from[node] = device_of_unit[unit];
      placement.nodes[node] = request.all_on[static_cast<size_t>(device_of_unit[unit])].nodes[node];
    }
  }
  placement.fused_groups.clear();
  for (int32_t source = 0; source <= host; ++source) {
    for (const FusedGroup& group : request.all_on[static_cast<size_t>(source)].fused_groups) {
      const auto is_here = [&](NodeId id) { return taken_from[static_cast<size_t>(id.index)] == source; };
      const bool whole = std::all_of(group.nodes.begin(), group.nodes.end(), is_here);
      for (const NodeId id : group.nodes) {
        if (!is_here(id)) continue;
        NodePlacement& node = placement.nodes[static_cast<size_t>(id.index)];
        // What its group was cut off from cannot run there.
        if (!whole) node = request.all_on.back().nodes[static_cast<size_t>(id.index)];
        if (whole) node.fused_group = static_cast<int32_t>(placement.fused_groups.size());
      }
      if (whole) placement.fused_groups.push_back(group);
    }
  }
  return placement;
}

Status MemoryShortageError(const Graph& graph, const DeviceDescription& device, const DeviceNeed& need,
                           uint64_t available_bytes, int kv_caches, int frames) {
  MemoryShortage shortage;
  shortage.device = device.device.ToString();
  shortage.needed_bytes = need.allocated_bytes;
  shortage.available_bytes = available_bytes;
  auto& contributors = shortage.largest_contributors;
  if (need.kv_cache_bytes > 0) {
    contributors.push_back({"KV cache", static_cast<uint64_t>(kv_caches) * need.kv_cache_bytes});
  }
  if (need.execution_bytes > 0) {
    contributors.push_back({"execution", static_cast<uint64_t>(frames) * need.execution_bytes});
  }
  for (const WeightPiece& piece : need.weights) {
    const Graph& owner = piece.body ? *piece.body : graph;
    contributors.push_back({owner.initializer(piece.initializer).name.str(), piece.bytes});
  }
  std::stable_sort(contributors.begin(), contributors.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  contributors.resize(std::min(contributors.size(), kMaxContributors));
  std::string largest;
  for (const MemoryShortage::Contributor& contributor : contributors) {
    largest += fmt::format("{}{} {} bytes", largest.empty() ? "" : ", ", contributor.name, contributor.bytes);
  }
  const uint64_t missing_bytes = need.allocated_bytes - std::min(need.allocated_bytes, available_bytes);
  return Status::OutOfMemory(
      fmt::format("{}: the plan needs {} bytes ({}), {} bytes are available, {} are missing; largest: {}",
                  shortage.device, need.allocated_bytes, ApproximateByteSize(need.allocated_bytes),
                  available_bytes, missing_bytes, largest),
      shortage);
}

Result<BudgetFit> FitBudget(const BudgetFitRequest& request) {
  BudgetFit fit;
  const auto host = static_cast<int32_t>(request.all_on.size()) - 1;
  fit.device_of_unit.assign(request.units.size(), host);
  UnitSet available = UnitsAskedFor(request);
  for (int32_t device = 0; device < host; ++device) {
    LAMINA_ASSIGN_OR_RETURN(const UnitCosts costs, UnitCosts::Make(request, device));
    LAMINA_RETURN_IF_ERROR(DeviceFit(request, device, costs, fit.device_of_unit, available).Run(fit));
    for (size_t unit = 0; unit < available.size(); ++unit) {
      available[unit] = available[unit] && fit.device_of_unit[unit] == host;
    }
    const bool last = device == host - 1;
    const bool left_over = std::find(available.begin(), available.end(), true) != available.end();
    if (last && left_over && request.gpu_layers) {
      std::vector<int32_t> wanted = fit.device_of_unit;
      for (size_t unit = 0; unit < available.size(); ++unit) {
        if (available[unit]) wanted[unit] = device;
      }
      LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need,
                              request.memory->Need(ComposePlacement(request, wanted), device));
      const MemoryModelRequest& memory = request.memory->request();
      return MemoryShortageError(*memory.graph, memory.devices[static_cast<size_t>(device)].description, need,
                                 request.budget_bytes[static_cast<size_t>(device)], memory.kv_caches,
                                 memory.frames)
          .WithContext("the layers that are asked for do not fit");
    }
    const bool nothing = std::all_of(fit.device_of_unit.begin(), fit.device_of_unit.end(),
                                     [&](int32_t at) { return at == host; });
    if (last && nothing && !request.units.empty() && !request.gpu_layers) {
      LAMINA_ASSIGN_OR_RETURN(fit.smallest_useful_budget_bytes, SmallestUsefulBudget(request, device, costs));
    }
  }
  return fit;
}

}  // namespace lamina
