// Signal processing: Fourier transforms, windows, the mel matrix.
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// The single known element of an input.
std::optional<DimExpr> Scalar(const InferenceContext& context, int input) {
  const std::vector<DimExpr>* elements = context.InputElements(input);
  if (elements == nullptr || elements->size() != 1 || !(*elements)[0].known()) return std::nullopt;
  return (*elements)[0];
}

// Bins of a real transform of `length` points: half of them, since they are symmetric.
DimExpr OneSidedBins(const DimExpr& length) { return DimExpr::FloorDiv(length, 2) + 1; }

// [..., length, ..., 1 | 2] -> [..., bins, ..., 2]; version 20 has the axis as an input.
Status InferDft(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  constexpr int kAxisInputOpset = 20;
  std::optional<int64_t> given_axis;
  if (context.opset() < kAxisInputOpset) {
    given_axis = context.Int("axis", 1);
  } else if (!context.HasInput(2)) {
    given_axis = -2;
  } else if (const auto axis = context.InputInts(2); axis && axis->size() == 1) {
    given_axis = (*axis)[0];
  }
  const bool one_sided = context.Int("onesided", 0) != 0;
  const bool inverse = context.Int("inverse", 0) != 0;
  SymbolicShape result = *input;
  if (given_axis) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(*given_axis, input->rank()));
    DimExpr& length = result.dims[static_cast<size_t>(axis)];
    // The inverse of a one-sided transform has the points that its bins come from.
    if (one_sided && inverse) length = (length - 1) * 2;
    if (context.HasInput(1)) length = Scalar(context, 1).value_or(DimExpr::Unknown());
    if (one_sided && !inverse) length = OneSidedBins(length);
  } else {
    result = UnknownShape(input->rank());
  }
  // A one-sided inverse gives real values.
  result.dims.back() = one_sided && inverse ? 1 : 2;
  context.SetOutputShape(0, std::move(result));
  return {};
}

// signal [batch, length(, 1 | 2)], step, window, frame length -> [batch, frames, bins, 2]
Status InferStft(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, 3));
  const SymbolicShape* signal = context.InputShape(0);
  const SymbolicShape* window = context.InputShape(2);
  if (signal == nullptr) return {};
  std::optional<DimExpr> frame_length = Scalar(context, 3);
  if (!context.HasInput(3) && window != nullptr) frame_length = window->dims[0];
  const std::optional<DimExpr> step = Scalar(context, 1);
  SymbolicShape result = UnknownShape(4);
  result.dims[0] = signal->dims[0];
  result.dims[3] = 2;
  if (frame_length) {
    result.dims[2] = context.Int("onesided", 1) != 0 ? OneSidedBins(*frame_length) : *frame_length;
    if (step && !step->Is(0)) {
      result.dims[1] = DimExpr::FloorDiv(signal->dims[1] - *frame_length, *step) + 1;
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferWindow(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 0, 1));
  LAMINA_ASSIGN_OR_RETURN(
      const DataType type,
      DataTypeFromNumber(context, context.Int("output_datatype", static_cast<int64_t>(DataType::kFloat))));
  context.SetOutputElement(0, type);
  context.SetOutputShape(0, {{Scalar(context, 0).value_or(DimExpr::Unknown())}});
  return {};
}

Status InferMelWeightMatrix(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(
      const DataType type,
      DataTypeFromNumber(context, context.Int("output_datatype", static_cast<int64_t>(DataType::kFloat))));
  context.SetOutputElement(0, type);
  const std::optional<DimExpr> bins = Scalar(context, 0);
  const std::optional<DimExpr> length = Scalar(context, 1);
  context.SetOutputShape(
      0, {{length ? OneSidedBins(*length) : DimExpr::Unknown(), bins.value_or(DimExpr::Unknown())}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"BlackmanWindow", 17, "I -> T | I=i32,i64 T=numeric", InferWindow},
    {"DFT", 17, "T I? -> T | T=float I=i32,i64", InferDft},
    {"DFT", 20, "T I? i64? -> T | T=float I=i32,i64", InferDft},
    {"HammingWindow", 17, "I -> T | I=i32,i64 T=numeric", InferWindow},
    {"HannWindow", 17, "I -> T | I=i32,i64 T=numeric", InferWindow},
    {"MelWeightMatrix", 17, "I I I F F -> T | I=i32,i64 F=float T=numeric", InferMelWeightMatrix},
    {"STFT", 17, "T I T? I? -> T | T=float I=i32,i64", InferStft},
};

}  // namespace

std::span<const OperatorEntry> SignalOperators() { return kOperators; }

}  // namespace lamina
