// ai.onnx.ml and the optimizers of ai.onnx.preview.training.
#include <array>

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Rows of an input [N, C]; a vector is one row.
DimExpr Rows(const InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return DimExpr::Unknown();
  return x->rank() >= 2 ? x->dims[0] : DimExpr(1);
}

// [..., C] and indices [K] -> [..., K]
Status InferArrayFeatureExtractor(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  if (x == nullptr || indices == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, Shape::kMaxRank));
  SymbolicShape result = *x;
  if (x->rank() == 1) result.dims.insert(result.dims.begin(), DimExpr(1));
  result.dims.back() = indices->num_elements();
  context.SetOutputShape(0, std::move(result));
  return {};
}

// The type of a LabelEncoder's values: the one attribute of several that is set.
Status InferLabelEncoder(InferenceContext& context) {
  DataType type = DataType::kUndefined;
  if (context.HasAttribute("values_strings")) type = DataType::kString;
  if (context.HasAttribute("values_int64s")) type = DataType::kInt64;
  if (context.HasAttribute("values_floats")) type = DataType::kFloat;
  if (const Initializer* values = context.TensorAttribute("values_tensor")) type = values->type;
  if (context.HasAttribute("classes_strings")) {
    // Version 1 maps between strings and their positions.
    type = context.InputElement(0) == DataType::kString ? DataType::kInt64 : DataType::kString;
  }
  if (type == DataType::kUndefined) return context.Error("no attribute holds the values");
  context.SetOutputElement(0, type);
  return InferSameShape(context);
}

// The type of labels of a classifier.
DataType LabelType(const InferenceContext& context) {
  for (const char* name : {"classlabels_strings", "classlabels_strings_int64s", "class_labels_strings"}) {
    const Attribute* attribute = context.node().FindAttribute(name);
    if (attribute == nullptr) continue;
    const auto* strings = std::get_if<std::vector<std::string>>(&attribute->value);
    if (strings != nullptr && !strings->empty()) return DataType::kString;
  }
  return DataType::kInt64;
}

// labels [N], scores [N, classes]
Status InferClassifier(InferenceContext& context) {
  context.SetOutputElement(0, LabelType(context));
  const DimExpr rows = Rows(context);
  DimExpr classes = DimExpr::Unknown();
  if (const auto* strings = context.Strings("classlabels_strings"); strings && !strings->empty()) {
    classes = static_cast<int64_t>(strings->size());
  }
  for (const char* name : {"classlabels_int64s", "classlabels_ints"}) {
    if (const auto* ints = context.Ints(name); ints && !ints->empty()) {
      classes = static_cast<int64_t>(ints->size());
    }
  }
  context.SetOutputShape(0, {{rows}});
  context.SetOutputShape(1, {{rows, classes}});
  return {};
}

Status InferRegressor(InferenceContext& context) {
  const bool is_linear = context.HasAttribute("targets");
  context.SetOutputShape(0, {{Rows(context), context.Int(is_linear ? "targets" : "n_targets", 1)}});
  return {};
}

Status InferTreeEnsemble(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  context.SetOutputShape(0, {{Rows(context), context.Int("n_targets", 1)}});
  return {};
}

Status InferSvmRegressor(InferenceContext& context) {
  context.SetOutputShape(0, {{Rows(context), 1}});
  return {};
}

Status InferFloatResult(InferenceContext& context) { return InferSameShape(context); }

// Every value becomes a vector over the categories.
Status InferOneHotEncoder(InferenceContext& context) {
  DimExpr categories = DimExpr::Unknown();
  if (const auto* ints = context.Ints("cats_int64s"); ints && !ints->empty()) {
    categories = static_cast<int64_t>(ints->size());
  } else if (const auto* strings = context.Strings("cats_strings"); strings && !strings->empty()) {
    categories = static_cast<int64_t>(strings->size());
  }
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  SymbolicShape result = *x;
  result.dims.push_back(categories);
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferFeatureVectorizer(InferenceContext& context) {
  DimExpr total = 0;
  if (const auto* sizes = context.Ints("inputdimensions")) {
    for (const int64_t size : *sizes) total = total + size;
  } else {
    total = DimExpr::Unknown();
  }
  context.SetOutputShape(0, {{Rows(context), total}});
  return {};
}

Status InferCategoryMapper(InferenceContext& context) {
  const bool from_string = context.InputElement(0) == DataType::kString;
  context.SetOutputElement(0, from_string ? DataType::kInt64 : DataType::kString);
  return InferSameShape(context);
}

Status InferZipMap(InferenceContext& context) {
  ValueType type{ValueKind::kSequence, DataType::kFloat, ValueKind::kMap, DataType::kInt64};
  if (context.HasAttribute("classlabels_strings")) type.map_key = DataType::kString;
  context.SetOutputType(0, type);
  return {};
}

constexpr OperatorEntry kMlOperators[] = {
    {"ArrayFeatureExtractor", 1, "T i64 -> T", InferArrayFeatureExtractor},
    {"Binarizer", 1, "T -> T | T=numeric", InferSameShape},
    {"CastMap", 1, "M -> T | M=map", InferNothing},
    {"CategoryMapper", 1, "T1 -> T2 | T1=string,i64 T2=string,i64", InferCategoryMapper},
    {"DictVectorizer", 1, "M -> T | M=map", InferNothing},
    {"FeatureVectorizer", 1, "T+ -> f32 | T=numeric", InferFeatureVectorizer},
    {"Imputer", 1, "T -> T | T=numeric", InferSameShape},
    {"LabelEncoder", 1, "T1 -> T2", InferLabelEncoder},
    {"LinearClassifier", 1, "T -> L f32 | T=numeric L=string,i64", InferClassifier},
    {"LinearRegressor", 1, "T -> f32 | T=numeric", InferRegressor},
    {"Normalizer", 1, "T -> f32 | T=numeric", InferFloatResult},
    {"OneHotEncoder", 1, "T -> f32", InferOneHotEncoder},
    {"SVMClassifier", 1, "T -> L f32 | T=numeric L=string,i64", InferClassifier},
    {"SVMRegressor", 1, "T -> f32 | T=numeric", InferSvmRegressor},
    {"Scaler", 1, "T -> f32 | T=numeric", InferFloatResult},
    {"TreeEnsemble", 5, "T -> T | T=float", InferTreeEnsemble},
    {"TreeEnsembleClassifier", 1, "T -> L f32 | T=numeric L=string,i64", InferClassifier},
    {"TreeEnsembleRegressor", 1, "T -> f32 | T=numeric", InferRegressor},
    {"ZipMap", 1, "T -> S | T=f32 S=seq", InferZipMap},
};

// Inputs: learning rate, step, then `groups` lists of tensors (parameters, gradients, state). Outputs: the
// updated parameters, then the updated state.
Status InferOptimizer(InferenceContext& context, int groups) {
  constexpr int kFirstTensor = 2;
  const int tensors = context.num_inputs() - kFirstTensor;
  if (tensors % groups != 0) {
    return context.Error("{} tensors are not {} lists of equal length", tensors, groups);
  }
  const int per_group = tensors / groups;
  if (context.num_outputs() != per_group * (groups - 1)) {
    return context.Error("expected {} outputs, found {}", per_group * (groups - 1), context.num_outputs());
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    // Everything but the gradients, which come second, is updated.
    const int input = kFirstTensor + (i < per_group ? i : i + per_group);
    context.SetOutputType(i, context.InputType(input));
    if (const SymbolicShape* shape = context.InputShape(input)) context.SetOutputShape(i, *shape);
  }
  return {};
}

Status InferThreeGroups(InferenceContext& context) { return InferOptimizer(context, 3); }
Status InferFourGroups(InferenceContext& context) { return InferOptimizer(context, 4); }

constexpr OperatorEntry kTrainingOperators[] = {
    {"Adagrad", 1, "R i64 T+ -> T+ | R=float T=~float", InferThreeGroups},
    {"Adam", 1, "R i64 T+ -> T+ | R=float T=~float", InferFourGroups},
    {"Momentum", 1, "R i64 T+ -> T+ | R=float T=~float", InferThreeGroups},
};

}  // namespace

std::span<const OperatorEntry> MlOperators() { return kMlOperators; }
std::span<const OperatorEntry> TrainingOperators() { return kTrainingOperators; }

}  // namespace lamina
