// Operators of ai.onnx.ml: ArrayFeatureExtractor, Binarizer, LabelEncoder.
#include <cmath>
#include <map>
#include <string>
#include <variant>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Picks columns of the last axis.
class ArrayFeatureExtractor : public Kernel {
 public:
  explicit ArrayFeatureExtractor(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* columns, RequireInput(context, 1));
    const Shape& shape = x->shape();
    if (shape.rank() < 1) return InvalidArgumentError("a scalar has no columns");
    const int64_t width = shape[shape.rank() - 1];
    const int64_t count = columns->num_elements();
    for (const int64_t column : columns->elements<int64_t>()) {
      if (column < 0 || column >= width) return InvalidArgumentError("column {} of {}", column, width);
    }
    Shape out_shape = shape.rank() == 1 ? Shape{1, count} : shape;
    out_shape[out_shape.rank() - 1] = count;
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const int64_t bytes = ElementBytes(x->type());
    for (int64_t row = 0; row < shape.num_elements(0, shape.rank() - 1); ++row) {
      for (int64_t i = 0; i < count; ++i) {
        CopyElements(x->type(),
                     static_cast<const std::byte*>(x->raw_data()) +
                         (row * width + columns->data<int64_t>()[i]) * bytes,
                     static_cast<std::byte*>(out->mutable_raw_data()) + (row * count + i) * bytes, 1);
      }
    }
    return Status();
  }
};

// 1 above the threshold, else 0.
class Binarizer : public Kernel {
 public:
  explicit Binarizer(const NodeInfo& node) : threshold_(node.Float("threshold", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, x->shape()));
    if (!out) return Status();
    DispatchType<float, double, int32_t, int64_t>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* source = x->data<T>();
      T* target = out->mutable_data<T>();
      for (int64_t i = 0; i < x->num_elements(); ++i)
        target[i] = static_cast<double>(source[i]) > threshold_ ? T(1) : T(0);
    });
    return Status();
  }

 private:
  double threshold_;
};

// A key or value of a label encoder.
using Label = std::variant<int64_t, double, std::string>;

struct LabelLess {
  // NaN is a key like any other: equal to itself, before all numbers.
  bool operator()(const Label& a, const Label& b) const {
    if (a.index() != b.index()) return a.index() < b.index();
    if (a.index() == 1) {
      const double x = std::get<double>(a);
      const double y = std::get<double>(b);
      if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
      return x < y;
    }
    return a < b;
  }
};

Label LabelAt(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DataType::kString:
      return tensor.data<std::string>()[index];
    case DataType::kFloat:
      return static_cast<double>(tensor.data<float>()[index]);
    case DataType::kDouble:
      return tensor.data<double>()[index];
    case DataType::kInt32:
      return int64_t{tensor.data<int32_t>()[index]};
    case DataType::kInt16:
      return int64_t{tensor.data<int16_t>()[index]};
    default:
      return tensor.data<int64_t>()[index];
  }
}

void SetLabel(Tensor& tensor, int64_t index, const Label& label) {
  if (const auto* text = std::get_if<std::string>(&label)) {
    tensor.mutable_data<std::string>()[index] = *text;
    return;
  }
  DispatchType<float, double, int16_t, int32_t, int64_t>(tensor.type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* integer = std::get_if<int64_t>(&label);
    tensor.mutable_data<T>()[index] =
        integer ? static_cast<T>(*integer) : static_cast<T>(std::get<double>(label));
  });
}

// Labels from an attribute list (keys_int64s, ...) or, since version 4, a tensor attribute.
std::vector<Label> LabelsOf(const NodeInfo& node, const std::string& name) {
  std::vector<Label> labels;
  for (const int64_t value : node.Ints(name + "_int64s")) labels.emplace_back(value);
  for (const float value : node.Floats(name + "_floats")) labels.emplace_back(static_cast<double>(value));
  for (const std::string& value : node.Strings(name + "_strings")) labels.emplace_back(value);
  if (const std::optional<Tensor> tensor = node.TensorAttribute(name + "_tensor")) {
    const Result<Tensor> aligned = tensor->Clone();  // a view of the file may be unaligned
    for (int64_t i = 0; aligned.ok() && i < aligned->num_elements(); ++i)
      labels.push_back(LabelAt(*aligned, i));
  }
  return labels;
}

Label DefaultLabel(const NodeInfo& node) {
  if (const std::optional<Tensor> tensor = node.TensorAttribute("default_tensor")) {
    const Result<Tensor> aligned = tensor->Clone();
    if (aligned.ok() && aligned->num_elements() > 0) return LabelAt(*aligned, 0);
  }
  const DataType type = node.output_type(0).element;
  if (type == DataType::kString) return std::string(node.String("default_string", "_Unused"));
  if (kFloatTypes.Contains(type)) return static_cast<double>(node.Float("default_float", -0.0f));
  return node.Int("default_int64", -1);
}

class LabelEncoder : public Kernel {
 public:
  explicit LabelEncoder(const NodeInfo& node) : default_(DefaultLabel(node)) {
    if (node.opset_version() < 2) {
      // The first version numbers the classes, or names their numbers.
      const auto classes = node.Strings("classes_strings");
      for (size_t i = 0; i < classes.size(); ++i) {
        const auto number = static_cast<int64_t>(i);
        if (node.input_type(0).element == DataType::kString) {
          map_.try_emplace(classes[i], number);
        } else {
          map_.try_emplace(number, classes[i]);
        }
      }
      return;
    }
    const std::vector<Label> keys = LabelsOf(node, "keys");
    const std::vector<Label> values = LabelsOf(node, "values");
    for (size_t i = 0; i < keys.size() && i < values.size(); ++i) map_.try_emplace(keys[i], values[i]);
  }
  static Status Validate(const NodeInfo& node) {
    const size_t keys = LabelsOf(node, "keys").size();
    const size_t values = LabelsOf(node, "values").size();
    return keys == values ? Status() : InvalidModelError("{} keys for {} values", keys, values);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, x->shape()));
    if (!out) return Status();
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      const auto found = map_.find(LabelAt(*x, i));
      const Label& label = found == map_.end() ? default_ : found->second;
      const bool text = std::holds_alternative<std::string>(label);
      if (text != (out->type() == DataType::kString)) {
        return InvalidArgumentError("a value of the map is not of type {}", DataTypeName(out->type()));
      }
      SetLabel(*out, i, label);
    }
    return Status();
  }

 private:
  std::map<Label, Label, LabelLess> map_;
  Label default_;
};

}  // namespace

void RegisterMlKernels(KernelRegistry& registry) {
  const TypeSet numbers{DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64};
  registry.Add(KernelDef("ArrayFeatureExtractor", kMlDomain)
                   .Input(0, numbers | DataType::kString)
                   .Input(1, DataType::kInt64)
                   .Output(0, numbers | DataType::kString),
               CreateKernel<ArrayFeatureExtractor>);
  registry.Add(KernelDef("Binarizer", kMlDomain).Input(0, numbers).Output(0, numbers),
               CreateKernel<Binarizer>);
  const TypeSet labels = numbers | TypeSet{DataType::kString, DataType::kInt16};
  registry.Add(KernelDef("LabelEncoder", kMlDomain).Input(0, labels).Output(0, labels),
               CreateKernel<LabelEncoder>);
}

}  // namespace lamina
