#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/byte_size.h"
#include "cli/text_table.h"

namespace lamina::cli {
namespace {

constexpr size_t kMostEdges = 24;
constexpr size_t kMostEstimates = 10;

std::string Bytes(uint64_t bytes) { return bytes == 0 ? "0" : ApproximateByteSize(bytes); }

std::string Heading(std::string_view text) { return fmt::format("\n{}\n", text); }

std::string Bounds(const Plan& plan) {
  std::string text;
  if (plan.bounds.context_tokens > 0) {
    text += fmt::format("context {} tokens, prefill chunk {}, ", plan.bounds.context_tokens,
                        plan.bounds.prefill_chunk_tokens);
  }
  text += fmt::format("batch {}, {} run{} at a time", plan.bounds.batch, plan.frames,
                      plan.frames == 1 ? "" : "s");
  return text + (plan.planned ? "\nplanned: nothing is allocated after loading\n"
                              : "\nnot planned: runs take memory from an arena, sizes are estimates\n");
}

std::string Devices(const Plan& plan) {
  TextTable table({"device", "weights", "KV cache", "activations", "workspace", "staging", "total",
                   "allocated", "budget", "left"});
  for (const Plan::DeviceMemory& device : plan.devices) {
    std::string budget;
    std::string left;
    if (device.budget_bytes) {
      budget = Bytes(*device.budget_bytes);
      if (!device.budget_text.empty()) budget += fmt::format(" ({})", device.budget_text);
      left = device.allocated_bytes <= *device.budget_bytes
                 ? Bytes(*device.budget_bytes - device.allocated_bytes)
                 : "-" + Bytes(device.allocated_bytes - *device.budget_bytes);
    }
    table.AddRow({device.name, Bytes(device.weights_bytes), Bytes(device.kv_cache_bytes),
                  Bytes(device.activations_bytes), Bytes(device.workspace_bytes), Bytes(device.staging_bytes),
                  Bytes(device.total_bytes), Bytes(device.allocated_bytes), budget, left});
  }
  std::string text = table.ToText();
  for (const Plan::DeviceMemory& device : plan.devices) {
    if (device.name == "cpu") {
      text += fmt::format("cpu: {} mapped from files, {} private, {} pinned\n", Bytes(device.mapped_bytes),
                          Bytes(device.private_bytes), Bytes(device.pinned_bytes));
    } else {
      text += fmt::format("{}: {}, provider {}\n", device.name, device.description, device.provider);
    }
  }
  return text;
}

std::string Layers(const Plan& plan) {
  TextTable table({"layer", "bytes", "<device", "<why"});
  for (const Plan::Layer& layer : plan.layers) {
    table.AddRow({layer.name, Bytes(layer.bytes), layer.device, layer.reason});
  }
  return Heading("layers, from " + plan.layers_from) + table.ToText();
}

std::string LeftOut(const Plan& plan) {
  std::string text;
  if (plan.unplaced) {
    text += fmt::format("\nthe smallest unit left out is {}: it needs {} more ({} bytes)\n",
                        plan.unplaced->name, Bytes(plan.unplaced->bytes), plan.unplaced->bytes);
  }
  if (plan.outlook.empty()) return text;
  TextTable table({"with a budget of", "resident", "layers"});
  for (const Plan::Outlook& outlook : plan.outlook) {
    table.AddRow({Bytes(outlook.budget_bytes), Bytes(outlook.resident_bytes),
                  std::to_string(outlook.resident_layers)});
  }
  return text + Heading("what more memory would hold") + table.ToText();
}

std::string CutEdges(const Plan& plan) {
  if (plan.cut_edges.empty()) return "";
  TextTable table({"value", "<from", "<to", "bytes a step"});
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < plan.cut_edges.size(); ++i) {
    const Plan::CutEdge& edge = plan.cut_edges[i];
    total_bytes += edge.bytes_per_step;
    if (i < kMostEdges) table.AddRow({edge.value, edge.from, edge.to, Bytes(edge.bytes_per_step)});
  }
  std::string text = Heading("values that cross between devices") + table.ToText();
  if (plan.cut_edges.size() > kMostEdges) {
    text += fmt::format("and {} more\n", plan.cut_edges.size() - kMostEdges);
  }
  return text + fmt::format("{} values, {} a step\n", plan.cut_edges.size(), Bytes(total_bytes));
}

std::string Placement(const Plan& plan) {
  std::string text;
  if (!plan.rules.empty()) {
    TextTable table({"rule", "nodes", "<note"});
    for (const Plan::Rule& rule : plan.rules)
      table.AddRow({rule.text, std::to_string(rule.nodes), rule.note});
    text += Heading("layer rules") + table.ToText();
  }
  if (plan.fallbacks.empty()) return text;
  // Nodes with one reason are told together.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> reasons;
  for (const Plan::Fallback& fallback : plan.fallbacks) {
    reasons[{fallback.provider, fallback.reason}].push_back(fallback.node);
  }
  text += Heading("nodes that another provider runs");
  for (const auto& [key, nodes] : reasons) {
    text += fmt::format("{}{}: not {}: {}\n", nodes.front(),
                        nodes.size() > 1 ? fmt::format(" and {} more", nodes.size() - 1) : "", key.first,
                        key.second);
  }
  return text;
}

std::string Estimates(const Plan& plan) {
  if (plan.estimates.empty()) return "";
  std::map<EstimateSource, std::pair<uint64_t, uint64_t>> by_source;  // nodes, largest bytes
  for (const Plan::Estimate& estimate : plan.estimates) {
    auto& [nodes, largest_bytes] = by_source[estimate.source];
    ++nodes;
    largest_bytes = std::max(largest_bytes, estimate.bytes);
  }
  std::string text = Heading("workspace of nodes");
  for (const auto& [source, counts] : by_source) {
    text +=
        fmt::format("{} {}, at most {}\n", counts.first, EstimateSourceName(source), Bytes(counts.second));
  }
  std::vector<Plan::Estimate> largest = plan.estimates;
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Plan::Estimate& a, const Plan::Estimate& b) { return a.bytes > b.bytes; });
  largest.resize(std::min(largest.size(), kMostEstimates));
  TextTable table({"largest", "bytes", "<source"});
  for (const Plan::Estimate& estimate : largest) {
    table.AddRow({estimate.node, Bytes(estimate.bytes), std::string(EstimateSourceName(estimate.source))});
  }
  return text + table.ToText();
}

std::string Offsets(const Plan& plan) {
  if (plan.offsets.empty()) return "";
  TextTable table({"frame", "<phase", "peak", "lower bound", "ratio"});
  for (const Plan::PhaseLayout& layout : plan.offsets) {
    table.AddRow({layout.device, layout.phase, Bytes(layout.peak_bytes), Bytes(layout.lower_bound_bytes),
                  fmt::format("{:.3f}", layout.ratio())});
  }
  return Heading("layout of execution buffers") + table.ToText();
}

}  // namespace

std::string PlanAsText(const Plan& plan) {
  std::string text = Bounds(plan) + "\n" + Devices(plan) + Layers(plan) + LeftOut(plan) + Placement(plan) +
                     CutEdges(plan) + Estimates(plan) + Offsets(plan);
  if (!plan.warnings.empty()) text += "\n";
  for (const std::string& warning : plan.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace lamina::cli
