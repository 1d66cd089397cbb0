// The operators that shape inference knows: for each version what it takes and gives, and the function that
// infers the shapes of its outputs.
#pragma once

#include <span>
#include <string_view>

#include "lamina/status.h"
#include "model/shape_inference/signature.h"

namespace lamina {

class InferenceContext;

// Infers types and shapes of the outputs of one node. Runs after the inputs were checked against the
// signature. Output types that the signature determines need not be set.
using InferFunction = Status (*)(InferenceContext& context);

// One version of an operator, as the tables of the operator files list it.
struct OperatorEntry {
  std::string_view op_type;
  int since_version = 1;
  std::string_view signature;  // see signature.h
  InferFunction infer = nullptr;
};

struct OperatorDef {
  std::string_view domain;
  std::string_view op_type;
  int since_version = 1;
  Signature signature;
  InferFunction infer = nullptr;
};

// The definition in force for a model that imports `version` of the domain; null where there is none.
const OperatorDef* FindOperator(std::string_view domain, std::string_view op_type, int version);
// All definitions, sorted by domain, operator and version.
std::span<const OperatorDef> AllOperators();

// The tables, one per file.
std::span<const OperatorEntry> ElementwiseOperators();
std::span<const OperatorEntry> GeneratorOperators();
std::span<const OperatorEntry> ShapeOperators();
std::span<const OperatorEntry> IndexingOperators();
std::span<const OperatorEntry> ReductionOperators();
std::span<const OperatorEntry> MatMulOperators();
std::span<const OperatorEntry> ConvolutionOperators();
std::span<const OperatorEntry> ResizeOperators();
std::span<const OperatorEntry> RecurrentOperators();
std::span<const OperatorEntry> NormalizationOperators();
std::span<const OperatorEntry> AttentionOperators();
std::span<const OperatorEntry> QuantizationOperators();
std::span<const OperatorEntry> SequenceOperators();
std::span<const OperatorEntry> ControlFlowOperators();
std::span<const OperatorEntry> SignalOperators();
std::span<const OperatorEntry> LossOperators();
std::span<const OperatorEntry> TextOperators();
std::span<const OperatorEntry> MlOperators();                // ai.onnx.ml
std::span<const OperatorEntry> PreviewOperators();           // ai.onnx.preview
std::span<const OperatorEntry> TrainingOperators();          // ai.onnx.preview.training
std::span<const OperatorEntry> ContribAttentionOperators();  // com.microsoft, as all that follow
std::span<const OperatorEntry> ContribQuantizationOperators();
std::span<const OperatorEntry> ContribFusedOperators();

}  // namespace lamina
