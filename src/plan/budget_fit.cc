#include "plan/budget_fit.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <queue>
#include <unordered_set>

#include "base/byte_size.h"
#include "base/error.h"
#include "plan/unit_costs.h"

namespace lamina {
namespace {

using Kind = PlacementUnit::Kind;
using UnitSet = std::vector<bool>;  // by unit

constexpr size_t kMaxLayersForAllBlocks = 16;
constexpr size_t kMaxBlocksAtAnEnd = 128;
constexpr size_t kMaxUnitsForUsefulBudget = 64;
constexpr size_t kMaxContributors = 5;
constexpr size_t kNoPosition = std::numeric_limits<size_t>::max();

// A base set, and after it the first `extra` of the units it leaves out, smallest first.
struct Choice {
  enum class Experts : uint8_t { kWithLayers, kNowhere, kInBlockOnly };
  // The base: the available layers at [begin, end), with or without embedding, head and experts.
  size_t begin = 0;
  size_t end = 0;
  Experts experts = Experts::kWithLayers;
  bool embedding = false;
  bool head = false;

  size_t extra = 0;
  uint64_t resident_bytes = 0;
  int cuts = 0;
  size_t number = 0;  // of the base
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
        budget_bytes_(request.budget_bytes[static_cast<size_t>(device)]),
        costs_(costs),
        device_of_unit_(device_of_unit),
        available_(available) {}

  // Gives units to the device. The unit that was left out last, with what it would need more.
  Status Run(BudgetFit& fit) {
    LAMINA_RETURN_IF_ERROR(CheckFixed());
    LAMINA_ASSIGN_OR_RETURN(const bool all_fit, Fits(available_));
    if (all_fit) {
      fit.unplaced.reset();
      device_of_unit_ = With(available_);
      return Status();
    }
    FindPositions();
    AddBases();
    while (!choices_.empty()) {
      Choice choice = choices_.top();
      choices_.pop();
      const UnitSet set = UnitsOf(choice);
      LAMINA_ASSIGN_OR_RETURN(const bool fits, Fits(set));
      if (fits) return Take(set, fit);
      if (choice.extra == 0) continue;
      Push(choice, choice.extra - 1);
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

  // What layer rules place on the device has to fit.
  Status CheckFixed() const {
    const UnitSet none(request_.units.size(), false);
    const Placement placement = ComposePlacement(request_, With(none));
    const auto is_here = [&](const NodePlacement& node) { return node.device == device_; };
    if (std::none_of(placement.nodes.begin(), placement.nodes.end(), is_here)) return Status();
    LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need, request_.memory->Need(placement, device_));
    if (need.allocated_bytes <= budget_bytes_) return Status();
    const MemoryModelRequest& memory = request_.memory->request();
    return MemoryShortageError(*memory.graph, memory.devices[static_cast<size_t>(device_)].description, need,
                               budget_bytes_, memory.kv_caches, memory.frames)
        .WithContext("what layer rules place there does not fit");
  }

  Result<bool> Fits(const UnitSet& set) {
    UnitCosts::Sum sum(costs_);
    for (size_t unit = 0; unit < set.size(); ++unit) {
      if (set[unit]) sum.Add(unit);
    }
    if (sum.least_allocated_bytes() > budget_bytes_ || refused_.count(set) > 0) return false;
    const Placement placement = ComposePlacement(request_, With(set));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t at_least_bytes, request_.memory->LowerBound(placement, device_));
    bool fits = at_least_bytes <= budget_bytes_;
    if (fits) {
      LAMINA_ASSIGN_OR_RETURN(const DeviceNeed need, request_.memory->Need(placement, device_));
      fits = need.allocated_bytes <= budget_bytes_;
    }
    if (!fits) refused_.insert(set);
    return fits;
  }

  Status Take(const UnitSet& set, BudgetFit& fit) {
    fit.unplaced.reset();
    for (const size_t unit : costs_.smallest_first()) {
      if (set[unit] || !available_[unit] || costs_.Resident(unit) == 0) continue;
      UnitSet more = set;
      more[unit] = true;
      LAMINA_ASSIGN_OR_RETURN(const DeviceNeed with, NeedOf(more));
      fit.unplaced = {request_.units[unit].name, device_, with.allocated_bytes};
      break;
    }
    device_of_unit_ = With(set);
    return Status();
  }

  bool IsInBase(const Choice& choice, size_t unit) const {
    if (!available_[unit]) return false;
    const bool in_block = position_[unit] >= choice.begin && position_[unit] < choice.end;
    switch (request_.units[unit].kind) {
      case Kind::kEmbedding:
        return choice.embedding;
      case Kind::kHead:
        return choice.head;
      case Kind::kLayer:  // kInBlockOnly: the attention of all layers, experts of the block
        return in_block || choice.experts == Choice::Experts::kInBlockOnly;
      case Kind::kExperts:
        return in_block && choice.experts != Choice::Experts::kNowhere;
    }
    return false;
  }

  // Calls `visit` with the units that the base leaves out, smallest first, until it returns false.
  template <typename Visit>
  void ForEachLeftOut(const UnitSet& base, const Visit& visit) const {
    for (const size_t unit : costs_.smallest_first()) {
      if (available_[unit] && !base[unit] && !visit(unit)) return;
    }
  }

  UnitSet BaseOf(const Choice& choice) const {
    UnitSet set(request_.units.size(), false);
    for (size_t unit = 0; unit < set.size(); ++unit) set[unit] = IsInBase(choice, unit);
    return set;
  }

  UnitSet UnitsOf(const Choice& choice) const {
    const UnitSet base = BaseOf(choice);
    UnitSet set = base;
    size_t added = 0;
    ForEachLeftOut(base, [&](size_t unit) {
      if (added++ == choice.extra) return false;
      set[unit] = true;
      return true;
    });
    return set;
  }

  // Pushes the base with as many extras as can fit by what adds up, at most `most_extra`. Nothing where not
  // even the base can.
  void Push(Choice choice, size_t most_extra) {
    const UnitSet base = BaseOf(choice);
    UnitCosts::Sum sum(costs_);
    for (size_t unit = 0; unit < base.size(); ++unit) {
      if (base[unit]) sum.Add(unit);
    }
    if (sum.least_allocated_bytes() > budget_bytes_) return;
    UnitSet set = base;
    choice.extra = 0;
    choice.resident_bytes = sum.resident_bytes();
    ForEachLeftOut(base, [&](size_t unit) {
      if (choice.extra == most_extra) return false;
      sum.Add(unit);
      if (sum.least_allocated_bytes() > budget_bytes_) return false;
      set[unit] = true;
      ++choice.extra;
      choice.resident_bytes = sum.resident_bytes();
      return true;
    });
    choice.cuts = 0;
    for (size_t unit = 1; unit < set.size(); ++unit) choice.cuts += set[unit] != set[unit - 1] ? 1 : 0;
    choices_.push(choice);
  }

  // Numbers the layers that are available.
  void FindPositions() {
    position_.assign(request_.units.size(), kNoPosition);
    int last_layer = 0;
    for (size_t unit = 0; unit < request_.units.size(); ++unit) {
      const PlacementUnit& of = request_.units[unit];
      const bool inside = of.kind == Kind::kLayer || of.kind == Kind::kExperts;
      if (!inside || !available_[unit]) continue;
      if (num_layers_ == 0 || last_layer != of.layer) ++num_layers_;
      last_layer = of.layer;
      position_[unit] = num_layers_ - 1;
    }
  }

  bool IsAvailable(Kind kind) const {
    for (size_t unit = 0; unit < request_.units.size(); ++unit) {
      if (request_.units[unit].kind == kind && available_[unit]) return true;
    }
    return false;
  }

  void AddBases() {
    const bool any_embedding = IsAvailable(Kind::kEmbedding);
    const bool any_head = IsAvailable(Kind::kHead);
    const bool any_experts = IsAvailable(Kind::kExperts);
    const auto add = [&](size_t begin, size_t end) {
      using Experts = Choice::Experts;
      for (const Experts experts : {Experts::kWithLayers, Experts::kNowhere, Experts::kInBlockOnly}) {
        if (!any_experts && experts != Experts::kWithLayers) break;
        for (const bool embedding : {true, false}) {
          for (const bool head : {true, false}) {
            if ((embedding && !any_embedding) || (head && !any_head)) continue;
            Choice choice;
            choice.begin = begin;
            choice.end = end;
            choice.experts = experts;
            choice.embedding = embedding;
            choice.head = head;
            choice.number = num_bases_++;
            Push(choice, request_.units.size());
          }
        }
      }
    };
    // Blocks in the middle only where there are few; of many at the ends every n-th.
    const size_t stride = num_layers_ / kMaxBlocksAtAnEnd + 1;
    add(0, num_layers_);
    for (size_t begin = 0; begin < num_layers_; ++begin) {
      for (size_t end = num_layers_ - (begin == 0 ? 1 : 0); end > begin; --end) {
        const bool at_an_end = begin == 0 ? end % stride == 0 : end == num_layers_ && begin % stride == 0;
        if (at_an_end || num_layers_ <= kMaxLayersForAllBlocks) {
          add(begin, end);
        } else if (begin > 0) {
          break;
        }
      }
    }
    if (num_layers_ > 0) add(0, 0);
  }

  const BudgetFitRequest& request_;
  const int32_t device_;
  const uint64_t budget_bytes_;
  const UnitCosts& costs_;
  std::vector<int32_t>& device_of_unit_;
  const UnitSet available_;
  std::vector<size_t> position_;  // by unit: of its layer among those available, or kNoPosition
  size_t num_layers_ = 0;         // available ones
  size_t num_bases_ = 0;
  std::unordered_set<UnitSet> refused_;
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
  for (const size_t unit : costs.smallest_first()) {
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
    LAMINA_ASSIGN_OR_RETURN(
        const UnitCosts costs,
        UnitCosts::Make(*request.memory, request.units, request.all_on[static_cast<size_t>(device)], device));
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
