// RNN, GRU and LSTM.
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// X [seq, batch, input] (layout 1: [batch, seq, input]); W [directions, gates * hidden, input].
Status InferRecurrent(InferenceContext& context, int64_t gates, bool has_cell) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 3));
  const std::string_view direction = context.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return context.Error("direction is '{}'", direction);
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  const SymbolicShape* r = context.InputShape(2);
  DimExpr hidden = DimExpr::Unknown();
  if (context.HasAttribute("hidden_size")) {
    hidden = context.Int("hidden_size", 0);
  } else if (r != nullptr) {
    hidden = r->dims[2];
  }
  if (w != nullptr) {
    LAMINA_RETURN_IF_ERROR(context.Unify(w->dims[0], directions, "the directions of the weights").status());
    LAMINA_RETURN_IF_ERROR(context.Unify(w->dims[1], hidden * gates, "the gates of the weights").status());
    if (x != nullptr) {
      LAMINA_RETURN_IF_ERROR(context.Unify(x->dims[2], w->dims[2], "the size of the input").status());
    }
  }
  constexpr int64_t kBatchFirst = 1;
  const bool batch_first = context.Int("layout", 0) == kBatchFirst;
  const DimExpr seq = x != nullptr ? x->dims[batch_first ? 1 : 0] : DimExpr::Unknown();
  const DimExpr batch = x != nullptr ? x->dims[batch_first ? 0 : 1] : DimExpr::Unknown();
  if (batch_first) {
    context.SetOutputShape(0, {{batch, seq, directions, hidden}});
  } else {
    context.SetOutputShape(0, {{seq, directions, batch, hidden}});
  }
  const SymbolicShape last =
      batch_first ? SymbolicShape{{batch, directions, hidden}} : SymbolicShape{{directions, batch, hidden}};
  context.SetOutputShape(1, last);
  if (has_cell) context.SetOutputShape(2, last);
  return {};
}

Status InferRnn(InferenceContext& context) { return InferRecurrent(context, 1, false); }
Status InferGru(InferenceContext& context) { return InferRecurrent(context, 3, false); }
Status InferLstm(InferenceContext& context) { return InferRecurrent(context, 4, true); }

constexpr OperatorEntry kOperators[] = {
    {"GRU", 1, "T T T T? i32? T? -> T? T? | T=float", InferGru},
    {"LSTM", 1, "T T T T? i32? T? T? T? -> T? T? T? | T=float", InferLstm},
    {"RNN", 1, "T T T T? i32? T? -> T? T? | T=float", InferRnn},
};

}  // namespace

std::span<const OperatorEntry> RecurrentOperators() { return kOperators; }

}  // namespace lamina
