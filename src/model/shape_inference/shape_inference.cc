#include "model/shape_inference/shape_inference.h"

#include <utility>

#include "model/shape_inference/graph_inference.h"

namespace lamina {

Status InferShapes(Model& model, const InferenceOptions& options) {
  // Every round may learn symbols, which the next one puts in; chains of them are short.
  constexpr int kMaxRounds = 4;
  InferenceState state;
  state.options = &options;
  state.inputs_with_defaults_are_constant = model.ir_version < 4;
  for (const ValueId input : model.graph->inputs()) {
    const ValueInfo& info = model.graph->value(input);
    if (!info.shape) continue;
    for (const DimExpr& dim : info.shape->dims) {
      for (std::string& symbol : dim.Symbols()) state.input_symbols.insert(std::move(symbol));
    }
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    const size_t learned_before = state.learned.size();
    GraphInference inference(state, *model.graph, nullptr);
    LAMINA_RETURN_IF_ERROR(inference.Run());
    if (state.learned.size() == learned_before) break;
  }
  return {};
}

}  // namespace lamina
