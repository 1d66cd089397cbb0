#include "model/shape_inference/operator_registry.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "model/shape_inference/lamina_ops.h"

namespace lamina {
namespace {

constexpr std::string_view kOnnx = "";
constexpr std::string_view kMl = "ai.onnx.ml";
constexpr std::string_view kPreview = "ai.onnx.preview";
constexpr std::string_view kTraining = "ai.onnx.preview.training";
constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::string_view kLamina = "lamina";

struct Table {
  std::string_view domain;
  std::span<const OperatorEntry> (*entries)();
};
constexpr Table kTables[] = {
    {kOnnx, ElementwiseOperators},
    {kOnnx, GeneratorOperators},
    {kOnnx, ShapeOperators},
    {kOnnx, IndexingOperators},
    {kOnnx, ReductionOperators},
    {kOnnx, MatMulOperators},
    {kOnnx, ConvolutionOperators},
    {kOnnx, ResizeOperators},
    {kOnnx, RecurrentOperators},
    {kOnnx, NormalizationOperators},
    {kOnnx, AttentionOperators},
    {kOnnx, QuantizationOperators},
    {kOnnx, SequenceOperators},
    {kOnnx, ControlFlowOperators},
    {kOnnx, SignalOperators},
    {kOnnx, LossOperators},
    {kOnnx, TextOperators},
    {kMl, MlOperators},
    {kPreview, PreviewOperators},
    {kTraining, TrainingOperators},
    {kMicrosoft, ContribAttentionOperators},
    {kMicrosoft, ContribQuantizationOperators},
    {kMicrosoft, ContribFusedOperators},
    {kLamina, LaminaOperators},
};

auto SortKey(const OperatorDef& def) { return std::tie(def.domain, def.op_type, def.since_version); }

const std::vector<OperatorDef>& Registry() {
  static const std::vector<OperatorDef> registry = [] {
    std::vector<OperatorDef> defs;
    for (const Table& table : kTables) {
      for (const OperatorEntry& entry : table.entries()) {
        defs.push_back({table.domain, entry.op_type, entry.since_version, Signature::Parse(entry.signature),
                        entry.infer});
      }
    }
    std::sort(defs.begin(), defs.end(),
              [](const OperatorDef& a, const OperatorDef& b) { return SortKey(a) < SortKey(b); });
    return defs;
  }();
  return registry;
}

}  // namespace

const OperatorDef* FindOperator(std::string_view domain, std::string_view op_type, int version) {
  const std::vector<OperatorDef>& registry = Registry();
  const auto key = std::tie(domain, op_type, version);
  const auto after = std::upper_bound(registry.begin(), registry.end(), key,
                                      [](const auto& k, const OperatorDef& def) { return k < SortKey(def); });
  if (after == registry.begin()) return nullptr;
  const OperatorDef& def = *std::prev(after);
  return def.domain == domain && def.op_type == op_type ? &def : nullptr;
}

std::span<const OperatorDef> AllOperators() { return Registry(); }

}  // namespace lamina
