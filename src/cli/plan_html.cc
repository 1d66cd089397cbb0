#include "cli/plan_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"

namespace lamina::cli {
namespace {

constexpr double kWidth = 1080;
constexpr double kMapHeight = 320;
constexpr double kAxis = 70;  // left of bars and maps
constexpr double kBarHeight = 34;

// Colours by what fills the memory; devices have hues of their own in the strip of layers.
constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2430; background: #fff; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { margin: .3rem 0; color: #4a5264; } .warning { color: #8a3b00; background: #fff2e2; padding: .4rem .7rem; border-radius: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; fill: #4a5264; }
.weights { fill: #4c78a8; } .kv { fill: #72b7b2; } .activation { fill: #f2a541; } .workspace { fill: #d1495b; }
.staging { fill: #7a5195; } .free { fill: #eef0f4; } .frame { fill: none; stroke: #9aa3b5; }
.map rect { stroke: #fff; stroke-width: .4; } .map rect:hover, .strip rect:hover { stroke: #1f2430; stroke-width: 1.2; }
.d0 { fill: #4c78a8; } .d1 { fill: #54a24b; } .d2 { fill: #b279a2; } .d3 { fill: #e45756; } .host { fill: #c9ced8; } .mixed { fill: #f2c14e; }
.strip rect { stroke: #fff; } .key i { display: inline-block; width: 12px; height: 12px; margin: 0 .35rem 0 1rem; border-radius: 2px; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
)";

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // Control characters are not allowed in a page, whatever a model calls its values.
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

std::string Rect(double x, double y, double width, double height, std::string_view style,
                 std::string_view hover) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "class=\"{}\"><title>{}</title></rect>\n",
      x, y, std::max(width, 0.3), std::max(height, 0.3), style, Escaped(hover));
}

std::string Text(double x, double y, std::string_view text, std::string_view anchor = "start") {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     Escaped(text));
}

std::string Key(std::initializer_list<std::pair<const char*, const char*>> entries) {
  std::string text = "<p class=\"key\">";
  for (const auto& [style, name] : entries) {
    text += fmt::format(
        "<svg style=\"display:inline;width:12px;height:12px;margin:0 .35rem 0 1rem\" viewBox=\"0 0 12 "
        "12\"><rect width=\"12\" height=\"12\" class=\"{}\"/></svg>{}",
        style, name);
  }
  return text + "</p>\n";
}

// A bar for each device, drawn to one scale: what it holds, and up to its budget what is left.
std::string Bars(const Plan& plan) {
  uint64_t scale_bytes = 1;
  for (const Plan::DeviceMemory& device : plan.devices) {
    scale_bytes = std::max({scale_bytes, device.total_bytes, device.budget_bytes.value_or(0)});
  }
  constexpr double kLabelWidth = 150;
  const double width = kWidth - kAxis - kLabelWidth;
  const auto scaled = [&](uint64_t bytes) {
    return width * static_cast<double>(bytes) / static_cast<double>(scale_bytes);
  };
  const double height = static_cast<double>(plan.devices.size()) * (kBarHeight + 14) + 6;
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth, height);
  double y = 4;
  for (const Plan::DeviceMemory& device : plan.devices) {
    svg += Text(kAxis - 10, y + 22, device.name, "end");
    double x = kAxis;
    const auto part = [&](const char* style, const char* name, uint64_t bytes) {
      if (bytes == 0) return;
      svg += Rect(x, y, scaled(bytes), kBarHeight, style,
                  fmt::format("{}: {} {} ({} bytes)", device.name, name, ApproximateByteSize(bytes), bytes));
      x += scaled(bytes);
    };
    part("weights", "weights", device.weights_bytes);
    part("kv", "KV cache", device.kv_cache_bytes);
    part("activation", "activations", device.activations_bytes);
    part("workspace", "workspace", device.workspace_bytes);
    part("staging", "staging", device.staging_bytes);
    const uint64_t budget_bytes = device.budget_bytes.value_or(0);
    if (budget_bytes > device.total_bytes) part("free", "left", budget_bytes - device.total_bytes);
    std::string label = ApproximateByteSize(device.total_bytes);
    if (device.budget_bytes) label += " of " + ApproximateByteSize(budget_bytes);
    svg += Text(std::min(x + 8, kWidth - kLabelWidth + 2), y + 22, label);
    y += kBarHeight + 14;
  }
  return svg + "</svg>\n" +
         Key({{"weights", "weights"},
              {"kv", "KV cache"},
              {"activation", "activations"},
              {"workspace", "workspace"},
              {"staging", "staging"},
              {"free", "left in the budget"}});
}

std::string StyleOfDevice(const Plan& plan, const std::string& name) {
  if (name == "cpu") return "host";
  if (name.find('+') != std::string::npos) return "mixed";
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    if (plan.devices[i].name == name) return fmt::format("d{}", i % 4);
  }
  return "host";
}

// The layers in a row, as wide as their bytes.
std::string Strip(const Plan& plan) {
  uint64_t total_bytes = 0;
  for (const Plan::Layer& layer : plan.layers) total_bytes += layer.bytes;
  std::string svg = fmt::format("<svg class=\"strip\" viewBox=\"0 0 {} 74\" role=\"img\">\n", kWidth);
  const double smallest = 10;
  const double shared =
      std::max(0.0, kWidth - smallest * static_cast<double>(std::max<size_t>(plan.layers.size(), 1)));
  double x = 0;
  for (const Plan::Layer& layer : plan.layers) {
    const double width =
        smallest +
        (total_bytes == 0 ? 0 : shared * static_cast<double>(layer.bytes) / static_cast<double>(total_bytes));
    svg += Rect(x, 4, width, 46, StyleOfDevice(plan, layer.device),
                fmt::format("{}: {} on {}, {}", layer.name, ApproximateByteSize(layer.bytes), layer.device,
                            layer.reason));
    const size_t letters = static_cast<size_t>(std::max(0.0, (width - 6) / 6.6));
    if (letters >= layer.name.size()) svg += Text(x + width / 2, 66, layer.name, "middle");
    x += width;
  }
  svg += "</svg>\n<p class=\"key\">";
  std::string keys;
  for (const Plan::DeviceMemory& device : plan.devices) {
    keys += fmt::format(
        "<svg style=\"display:inline;width:12px;height:12px;margin:0 .35rem 0 1rem\" viewBox=\"0 0 12 "
        "12\"><rect width=\"12\" height=\"12\" class=\"{}\"/></svg>{}",
        StyleOfDevice(plan, device.name), Escaped(device.name));
  }
  return svg + keys + "</p>\n";
}

// Steps go to the right, offsets upwards; a rectangle is a buffer.
std::string Map(const Plan::PhaseLayout& layout) {
  int64_t last_step = 0;
  for (const PlanBuffer& buffer : layout.buffers) last_step = std::max(last_step, buffer.last_step);
  const double width = kWidth - kAxis;
  const auto steps = static_cast<double>(last_step + 1);
  const double peak = std::max(1.0, static_cast<double>(layout.peak_bytes));
  std::string svg =
      fmt::format("<svg class=\"map\" viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth, kMapHeight + 34);
  svg += fmt::format("<rect x=\"{}\" y=\"8\" width=\"{}\" height=\"{}\" class=\"free\"/>\n", kAxis, width,
                     kMapHeight);
  for (const PlanBuffer& buffer : layout.buffers) {
    if (buffer.size_bytes == 0) continue;
    const double x = kAxis + width * static_cast<double>(buffer.first_step) / steps;
    const double buffer_width = width * static_cast<double>(buffer.last_step - buffer.first_step + 1) / steps;
    const double height = kMapHeight * static_cast<double>(buffer.size_bytes) / peak;
    const double bottom = 8 + kMapHeight * (1 - static_cast<double>(buffer.offset_bytes) / peak);
    const char* style = buffer.kind == PlanBuffer::Kind::kActivation  ? "activation"
                        : buffer.kind == PlanBuffer::Kind::kWorkspace ? "workspace"
                                                                      : "staging";
    svg += Rect(x, bottom - height, buffer_width, height, style,
                fmt::format("{}\n{} at offset {}, steps {} to {}", buffer.name,
                            ApproximateByteSize(buffer.size_bytes), buffer.offset_bytes, buffer.first_step,
                            buffer.last_step));
  }
  svg += Text(kAxis - 8, 18, ApproximateByteSize(layout.peak_bytes), "end");
  svg += Text(kAxis - 8, 8 + kMapHeight, "0", "end");
  svg += Text(kAxis, kMapHeight + 26, "step 0");
  svg += Text(kWidth, kMapHeight + 26, fmt::format("step {}", last_step), "end");
  return svg + "</svg>\n";
}

std::string CutEdges(const Plan& plan) {
  if (plan.cut_edges.empty()) return "";
  std::string html =
      "<h2>Values that cross between devices</h2>\n<table><tr><th>value</th><th>from</th>"
      "<th>to</th><th>bytes a step</th></tr>\n";
  for (const Plan::CutEdge& edge : plan.cut_edges) {
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>\n",
                        Escaped(edge.value), Escaped(edge.from), Escaped(edge.to), edge.bytes_per_step);
  }
  return html + "</table>\n";
}

}  // namespace

std::string PlanAsHtml(const Plan& plan, const std::string& title) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>Plan of {0}</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<h1>Plan of {0}</h1>\n",
      Escaped(title), kStyle);
  if (plan.bounds.context_tokens > 0) {
    html += fmt::format("<p>Context {} tokens, batch {}, prefill chunk {} tokens.</p>\n",
                        plan.bounds.context_tokens, plan.bounds.batch, plan.bounds.prefill_chunk_tokens);
  }
  for (const std::string& warning : plan.warnings) {
    html += fmt::format("<p class=\"warning\">{}</p>\n", Escaped(warning));
  }
  html += "<h2>Memory of each device</h2>\n" + Bars(plan);
  html += "<h2>Layers</h2>\n" + Strip(plan);
  if (plan.unplaced) {
    html += fmt::format("<p>The smallest unit left out is {}, which needs {} more.</p>\n",
                        Escaped(plan.unplaced->name), ApproximateByteSize(plan.unplaced->bytes));
  }
  for (const Plan::PhaseLayout& layout : plan.offsets) {
    if (layout.buffers.empty()) continue;
    html += fmt::format(
        "<h2>Execution buffer of {}, {}</h2>\n<p>{} at its fullest, {:.3f} times the least "
        "that any layout needs.</p>\n",
        Escaped(layout.device), Escaped(layout.phase), ApproximateByteSize(layout.peak_bytes),
        layout.ratio());
    html += Map(layout);
  }
  if (!plan.offsets.empty()) {
    html += Key({{"activation", "activations"},
                 {"workspace", "workspace"},
                 {"staging", "copies from other devices"}});
  }
  return html + CutEdges(plan) + "</body>\n</html>\n";
}

}  // namespace lamina::cli
