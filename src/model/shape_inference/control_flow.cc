// If, Loop and Scan.
#include <algorithm>

#include "model/shape_inference/sequence.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

bool TypesAgree(const ValueType& a, const ValueType& b) {
  return a.kind == ValueKind::kUndefined || b.kind == ValueKind::kUndefined || a == b;
}

SymbolicElements CommonElements(const SymbolicElements& a, const SymbolicElements& b) {
  if (!a || !b || a->size() != b->size()) return nullptr;
  std::vector<DimExpr> common = *a;
  for (size_t i = 0; i < common.size(); ++i) {
    if (common[i] != (*b)[i]) common[i] = DimExpr::Unknown();
  }
  return std::make_shared<const std::vector<DimExpr>>(std::move(common));
}

// An element that is known to be 0 or 1.
std::optional<bool> KnownTruth(const std::vector<DimExpr>* elements) {
  if (elements == nullptr || elements->size() != 1 || !(*elements)[0].is_constant()) return std::nullopt;
  return !(*elements)[0].Is(0);
}

Status InferIf(InferenceContext& context) {
  context.Require("then_branch");
  context.Require("else_branch");
  Graph* then_branch = context.Subgraph("then_branch");
  Graph* else_branch = context.Subgraph("else_branch");
  if (then_branch == nullptr || else_branch == nullptr) return {};
  const std::optional<bool> condition = KnownTruth(context.InputElements(0));
  LAMINA_ASSIGN_OR_RETURN(std::vector<InferredValue> then_values,
                          context.InferBody(*then_branch, {}, condition.value_or(false)));
  LAMINA_ASSIGN_OR_RETURN(std::vector<InferredValue> else_values,
                          context.InferBody(*else_branch, {}, !condition.value_or(true)));
  const auto num_outputs = static_cast<size_t>(context.num_outputs());
  for (const std::vector<InferredValue>* values : {&then_values, &else_values}) {
    if (values->size() != num_outputs) {
      return context.Error("a branch has {} outputs, the node {}", values->size(), num_outputs);
    }
  }
  if (condition) {
    std::vector<InferredValue>& taken = *condition ? then_values : else_values;
    for (size_t i = 0; i < num_outputs; ++i) context.SetOutput(static_cast<int>(i), std::move(taken[i]));
    return {};
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    const InferredValue& a = then_values[i];
    const InferredValue& b = else_values[i];
    if (!TypesAgree(a.type, b.type)) {
      return context.Error("output {} is {} in the then_branch and {} in the else_branch", i,
                           a.type.ToString(), b.type.ToString());
    }
    InferredValue merged;
    merged.type = a.type.kind == ValueKind::kUndefined ? b.type : a.type;
    merged.shape = CommonElementShape(a.shape, b.shape);
    merged.elements = CommonElements(a.elements, b.elements);
    context.SetOutput(static_cast<int>(i), std::move(merged));
  }
  return {};
}

// A carried value that the body changes: what holds before and after every trip.
// Returns whether `carried` lost something.
bool Generalize(InferredValue& carried, const InferredValue& after) {
  bool changed = false;
  if (carried.shape) {
    auto common = CommonElementShape(carried.shape, after.shape);
    // Unknown dimensions stay as they are.
    if (!common || common->dims != carried.shape->dims) {
      changed = true;
      carried.shape = std::move(common);
    }
  }
  if (carried.elements) {
    const SymbolicElements common = CommonElements(carried.elements, after.elements);
    if (!common || *common != *carried.elements) {
      changed = true;
      carried.elements = common;
    }
  }
  return changed;
}

// Infers a body whose inputs [first, first + count) carry state from trip to trip into outputs [first_out,
// first_out + count).
Result<std::vector<InferredValue>> InferCarrying(InferenceContext& context, Graph& body,
                                                 std::vector<InferredValue>& inputs, size_t first,
                                                 size_t first_out, size_t count) {
  constexpr int kMaxPasses = 4;
  if (!context.MayRepeatBodies()) {
    for (size_t i = first; i < first + count; ++i) {
      inputs[i].shape.reset();
      inputs[i].elements = nullptr;
    }
  }
  for (int pass = 0;; ++pass) {
    LAMINA_ASSIGN_OR_RETURN(std::vector<InferredValue> outputs, context.InferBody(body, inputs));
    if (outputs.size() < first_out + count) {
      return context.Error("the body has {} outputs for {} carried values", outputs.size(), count);
    }
    bool changed = false;
    for (size_t i = 0; i < count; ++i) {
      InferredValue& carried = inputs[first + i];
      const InferredValue& after = outputs[first_out + i];
      if (!TypesAgree(carried.type, after.type) && carried.type.kind != ValueKind::kOptional) {
        return context.Error("a carried value is {} before and {} after the body", carried.type.ToString(),
                             after.type.ToString());
      }
      changed = Generalize(carried, after) || changed;
      if (pass + 1 == kMaxPasses) {
        // Shapes that keep changing are not told at all.
        carried.shape.reset();
        carried.elements = nullptr;
      }
    }
    if (!changed || pass == kMaxPasses) return outputs;
  }
}

// A scan output: the results of all trips stacked along an axis.
void SetStackedOutput(InferenceContext& context, int output, const InferredValue& result,
                      const DimExpr& trips, int64_t axis) {
  context.SetOutputType(output, result.type);
  if (!result.shape) return;
  SymbolicShape stacked = *result.shape;
  const int64_t rank = stacked.rank() + 1;
  const int64_t position = axis < 0 ? axis + rank : axis;
  if (position < 0 || position >= rank) return;
  stacked.dims.insert(stacked.dims.begin() + position, trips);
  context.SetOutputShape(output, std::move(stacked));
}

Status InferLoop(InferenceContext& context) {
  context.Require("body");
  Graph* body = context.Subgraph("body");
  if (body == nullptr) return {};
  constexpr size_t kFirstCarried = 2;  // after trip count and condition
  const size_t num_carried = static_cast<size_t>(std::max(context.num_inputs(), 2)) - kFirstCarried;
  if (body->inputs().size() != kFirstCarried + num_carried) {
    return context.Error("the body has {} inputs, expected {}", body->inputs().size(),
                         kFirstCarried + num_carried);
  }
  if (body->outputs().size() != 1 + static_cast<size_t>(context.num_outputs())) {
    return context.Error("the body has {} outputs, expected {}", body->outputs().size(),
                         1 + context.num_outputs());
  }
  std::vector<InferredValue> inputs;
  inputs.push_back({ValueType::Tensor(DataType::kInt64), SymbolicShape()});
  inputs.push_back({ValueType::Tensor(DataType::kBool), SymbolicShape()});
  // Within the body the condition holds.
  inputs[1].elements = std::make_shared<const std::vector<DimExpr>>(1, DimExpr(1));
  for (size_t i = 0; i < num_carried; ++i) {
    inputs.push_back(context.Input(static_cast<int>(kFirstCarried + i)));
  }
  LAMINA_ASSIGN_OR_RETURN(const std::vector<InferredValue> results,
                          InferCarrying(context, *body, inputs, kFirstCarried, 1, num_carried));
  // The loop runs its trip count where the condition never becomes false.
  DimExpr trips = DimExpr::Unknown();
  const std::vector<DimExpr>* trip_count = context.InputElements(0);
  const bool starts = !context.HasInput(1) || KnownTruth(context.InputElements(1)).value_or(false);
  const bool goes_on = KnownTruth(results[0].elements.get()).value_or(false);
  if (trip_count != nullptr && trip_count->size() == 1 && starts && goes_on) {
    trips = DimExpr::Max(0, (*trip_count)[0]);
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    const InferredValue& result = results[static_cast<size_t>(i) + 1];
    if (i >= static_cast<int>(num_carried)) {
      SetStackedOutput(context, i, result, trips, 0);
      continue;
    }
    // Without a trip the value before the loop is the result.
    InferredValue carried = inputs[kFirstCarried + static_cast<size_t>(i)];
    if (carried.type.kind == ValueKind::kUndefined || carried.type.kind == ValueKind::kOptional) {
      carried.type = result.type;
    }
    context.SetOutput(i, std::move(carried));
  }
  return {};
}

// One value per scan input or output from an attribute, 0 where absent.
Result<std::vector<int64_t>> ScanList(InferenceContext& context, std::string_view name, size_t size) {
  const std::vector<int64_t>* values = context.Ints(name);
  if (values == nullptr) return std::vector<int64_t>(size, 0);
  if (values->size() != size) {
    return context.Error("attribute '{}' has {} values, expected {}", name, values->size(), size);
  }
  return *values;
}

// Version 8 has a batch axis in front of everything, and an input of sequence lengths.
Status InferScanFrom(InferenceContext& context, int first_input, bool batched) {
  context.Require("body");
  Graph* body = context.Subgraph("body");
  const int64_t num_scanned = context.RequiredInt("num_scan_inputs");
  if (body == nullptr) return {};
  const int64_t num_carried = context.num_inputs() - first_input - num_scanned;
  if (num_scanned < 1 || num_carried < 0 ||
      static_cast<int64_t>(body->inputs().size()) != num_carried + num_scanned ||
      static_cast<int64_t>(body->outputs().size()) != context.num_outputs() ||
      context.num_outputs() < num_carried) {
    return context.Error(
        "{} scan inputs of {} inputs and {} outputs do not fit a body of {} inputs and {} "
        "outputs",
        num_scanned, context.num_inputs(), context.num_outputs(), body->inputs().size(),
        body->outputs().size());
  }
  const auto carried_count = static_cast<size_t>(num_carried);
  const size_t num_stacked = static_cast<size_t>(context.num_outputs()) - carried_count;
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> input_axes,
                          ScanList(context, "scan_input_axes", static_cast<size_t>(num_scanned)));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> output_axes,
                          ScanList(context, "scan_output_axes", num_stacked));
  DimExpr batch = DimExpr::Unknown();
  DimExpr trips = DimExpr::Unknown();
  std::vector<InferredValue> inputs;
  for (int64_t i = 0; i < num_carried + num_scanned; ++i) {
    InferredValue input = context.Input(first_input + static_cast<int>(i));
    input.elements = nullptr;
    if (input.shape && batched) {
      if (input.shape->rank() == 0) return context.Error("input {} has no batch axis", first_input + i);
      LAMINA_ASSIGN_OR_RETURN(batch, context.Unify(batch, input.shape->dims[0], "the batch"));
      input.shape->dims.erase(input.shape->dims.begin());
    }
    if (input.shape && i >= num_carried) {
      LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(input_axes[static_cast<size_t>(i - num_carried)],
                                                           input.shape->rank()));
      const DimExpr length = input.shape->dims[static_cast<size_t>(axis)];
      LAMINA_ASSIGN_OR_RETURN(trips, context.Unify(trips, length, "the length of the scan"));
      input.shape->dims.erase(input.shape->dims.begin() + axis);
    }
    inputs.push_back(std::move(input));
  }
  LAMINA_ASSIGN_OR_RETURN(std::vector<InferredValue> results,
                          InferCarrying(context, *body, inputs, 0, 0, carried_count));
  for (size_t i = 0; i < results.size(); ++i) {
    const int output = static_cast<int>(i);
    if (i < carried_count) {
      context.SetOutputType(output, results[i].type);
      if (inputs[i].shape) context.SetOutputShape(output, *inputs[i].shape);
    } else {
      SetStackedOutput(context, output, results[i], trips, output_axes[i - carried_count]);
    }
    if (batched && context.output(output).shape) {
      SymbolicShape with_batch = *context.output(output).shape;
      with_batch.dims.insert(with_batch.dims.begin(), batch);
      context.SetOutputShape(output, std::move(with_batch));
    }
  }
  return {};
}

Status InferScan8(InferenceContext& context) { return InferScanFrom(context, 1, true); }
Status InferScan(InferenceContext& context) { return InferScanFrom(context, 0, false); }

constexpr OperatorEntry kOperators[] = {
    {"If", 1, "bool -> V+ | V=~value", InferIf},
    {"Loop", 1, "i64? bool? V* -> V+ | V=~value", InferLoop},
    {"Scan", 8, "i64? V+ -> V+ | V=~any", InferScan8},
    {"Scan", 9, "V+ -> V+ | V=~any", InferScan},
};

}  // namespace

std::span<const OperatorEntry> ControlFlowOperators() { return kOperators; }

}  // namespace lamina
