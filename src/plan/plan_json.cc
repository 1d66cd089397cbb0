#include "plan/plan_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lamina {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json DeviceAsJson(const Plan::DeviceMemory& device) {
  Json slots = Json::array();
  for (const Plan::Slot& slot : device.slots) slots.push_back({{"name", slot.name}, {"bytes", slot.bytes}});
  Json json = {{"name", device.name},
               {"provider", device.provider},
               {"description", device.description},
               {"budget_bytes", OrNull(device.budget_bytes)},
               {"budget", device.budget_text},
               {"memory_bytes", device.memory_bytes},
               {"weights_bytes", device.weights_bytes},
               {"kv_cache_bytes", device.kv_cache_bytes},
               {"execution_bytes", device.execution_bytes},
               {"activations_bytes", device.activations_bytes},
               {"workspace_bytes", device.workspace_bytes},
               {"staging_bytes", device.staging_bytes},
               {"slots", std::move(slots)},
               {"total_bytes", device.total_bytes},
               {"granularity_bytes", device.granularity_bytes},
               {"allocated_bytes", device.allocated_bytes}};
  if (device.name == "cpu") {
    json["mapped_bytes"] = device.mapped_bytes;
    json["private_bytes"] = device.private_bytes;
    json["pinned_bytes"] = device.pinned_bytes;
  }
  return json;
}

// A list of one JSON object for each element.
template <typename T, typename Function>
Json ListOf(const std::vector<T>& elements, Function as_json) {
  Json list = Json::array();
  for (const T& element : elements) list.push_back(as_json(element));
  return list;
}

}  // namespace

std::string PlanAsJson(const Plan& plan) {
  Json json;
  json["devices"] = ListOf(plan.devices, DeviceAsJson);
  json["layers"] = ListOf(plan.layers, [](const Plan::Layer& layer) {
    return Json{
        {"name", layer.name}, {"device", layer.device}, {"bytes", layer.bytes}, {"reason", layer.reason}};
  });
  json["layers_from"] = plan.layers_from;
  json["weights"] = ListOf(plan.weights, [](const Plan::Weight& weight) {
    return Json{{"name", weight.name},
                {"residency", ResidencyName(weight.residency)},
                {"device", weight.device},
                {"bytes", weight.bytes}};
  });
  json["cut_edges"] = ListOf(plan.cut_edges, [](const Plan::CutEdge& edge) {
    return Json{
        {"value", edge.value}, {"from", edge.from}, {"to", edge.to}, {"bytes_per_step", edge.bytes_per_step}};
  });
  json["fallbacks"] = ListOf(plan.fallbacks, [](const Plan::Fallback& fallback) {
    return Json{{"node", fallback.node}, {"provider", fallback.provider}, {"reason", fallback.reason}};
  });
  json["rules"] = ListOf(plan.rules, [](const Plan::Rule& rule) {
    return Json{{"text", rule.text}, {"nodes", rule.nodes}, {"note", rule.note}};
  });
  json["offsets"] = ListOf(plan.offsets, [](const Plan::PhaseLayout& layout) {
    return Json{{"device", layout.device},
                {"phase", layout.phase},
                {"peak_bytes", layout.peak_bytes},
                {"lower_bound_bytes", layout.lower_bound_bytes},
                {"ratio", std::round(layout.ratio() * 1e6) / 1e6}};
  });
  json["bounds"] = {{"context", plan.bounds.context_tokens},
                    {"batch", plan.bounds.batch},
                    {"prefill_chunk", plan.bounds.prefill_chunk_tokens}};
  json["estimates"] = ListOf(plan.estimates, [](const Plan::Estimate& estimate) {
    return Json{
        {"node", estimate.node}, {"source", EstimateSourceName(estimate.source)}, {"bytes", estimate.bytes}};
  });
  json["unplaced"] =
      plan.unplaced ? Json{{"name", plan.unplaced->name}, {"bytes", plan.unplaced->bytes}} : Json();
  json["smallest_useful_budget_bytes"] = OrNull(plan.smallest_useful_budget_bytes);
  json["planned"] = plan.planned;
  json["not_planned_because"] = plan.not_planned_because;
  json["frames"] = plan.frames;
  json["kv_caches"] = plan.kv_caches;
  json["outlook"] = ListOf(plan.outlook, [](const Plan::Outlook& outlook) {
    return Json{{"budget_bytes", outlook.budget_bytes},
                {"resident_bytes", outlook.resident_bytes},
                {"resident_layers", outlook.resident_layers}};
  });
  json["warnings"] = plan.warnings;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lamina
