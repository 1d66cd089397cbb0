// Pairs of DequantizeLinear and QuantizeLinear around operators become operators on the quantised tensors,
// and weights that are dequantised in blocks become those of MatMulNBits.
#include <algorithm>
#include <cmath>

#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

bool IsByte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

bool IsQuantizer(const GraphEditor& editor, NodeId id, std::string_view op_type) {
  return (editor.Is(id, op_type) || editor.Is(id, op_type, kMicrosoftDomain)) &&
         editor.Int(id, "block_size", 0) == 0;
}

// A quantised tensor: real = scale * (data - zero).
struct Quantized {
  ValueId data;
  ValueId scale;  // fp32, one element or one for each index of `axis`
  ValueId zero;   // of data's type; invalid: 0
  int64_t axis = 0;
};

bool HasOneScale(const GraphEditor& editor, const Quantized& quantized) {
  return editor.Scalar(quantized.scale).has_value();
}

// The scale and zero point of a DequantizeLinear or QuantizeLinear, where they are constants that operators
// on bytes take.
std::optional<Quantized> ParametersOf(const GraphEditor& editor, NodeId node, ValueId data) {
  constexpr int64_t kDefaultAxis = 1;
  Quantized quantized{data, editor.Input(node, 1), editor.Input(node, 2),
                      editor.Int(node, "axis", kDefaultAxis)};
  if (!editor.IsConstant(quantized.scale) || editor.Type(quantized.scale) != DataType::kFloat) return {};
  if (!quantized.zero.valid()) return quantized;
  const bool fits = editor.IsConstant(quantized.zero) && editor.SameShape(quantized.zero, quantized.scale);
  return fits ? std::optional(quantized) : std::nullopt;
}

std::optional<Quantized> DequantizedFrom(const GraphEditor& editor, ValueId value) {
  const NodeId node = editor.Producer(value);
  if (!IsQuantizer(editor, node, "DequantizeLinear") || editor.Type(value) != DataType::kFloat) return {};
  return ParametersOf(editor, node, editor.Input(node, 0));
}

// The zero point, as operators need it that have no default.
ValueId ZeroOf(GraphEditor& editor, const Quantized& quantized) {
  if (quantized.zero.valid()) return quantized.zero;
  const SymbolicShape* shape = editor.ShapeOf(quantized.scale);
  Result<Tensor> zeros = Tensor::Allocate(editor.Type(quantized.data), *shape->constant());
  if (!zeros.ok()) return {};
  std::fill_n(static_cast<std::byte*>(zeros->mutable_raw_data()), zeros->size_bytes(), std::byte{0});
  return editor.AddConstant(editor.value(quantized.scale).name.str() + "/zero", *std::move(zeros));
}

// QuantizeLinear(op(DequantizeLinear, DequantizeLinear, ..)): op on bytes. The result is that of the original
// but for a real number that lies between two bytes, which may be rounded to the other one.
class QuantizedOperator : public Rewrite {
 public:
  std::string_view name() const override { return "quantized-operators"; }
  std::vector<std::string_view> roots() const override { return {"QuantizeLinear"}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (!IsQuantizer(editor, root, "QuantizeLinear")) return false;
    std::optional<Quantized> result = ParametersOf(editor, root, editor.Output(root));
    const ValueId real = editor.Input(root, 0);
    if (!result || !HasOneScale(editor, *result) || !IsByte(editor.Type(result->data))) return false;
    NodeId node = editor.Producer(real);
    if (!node.valid() || !editor.OnlyUsedBy(real, root)) return false;
    // Negative numbers become the lowest byte anyway where that is the zero point.
    if (editor.Is(node, "Relu")) {
      if (!IsLowest(editor, *result)) return false;
      const ValueId before = editor.Input(node, 0);
      if (!editor.OnlyUsedBy(before, node)) return false;
      node = editor.Producer(before);
    }
    if (!node.valid() || editor.node(node).outputs.size() != 1) return false;
    std::vector<Quantized> operands;
    for (const ValueId input : editor.node(node).inputs) {
      const std::optional<Quantized> operand = DequantizedFrom(editor, input);
      if (!operand) return false;
      operands.push_back(*operand);
    }
    if (editor.Is(node, "MatMul")) return ReplaceMatMul(editor, root, *result, operands);
    if (editor.Is(node, "Conv")) return ReplaceConv(editor, root, node, *result, operands);
    for (const auto& [op_type, quantized] :
         {std::pair("Add", "QLinearAdd"), std::pair("Mul", "QLinearMul")}) {
      if (editor.Is(node, op_type)) return ReplaceBinary(editor, root, quantized, *result, operands);
    }
    return false;
  }

 private:
  static bool IsLowest(const GraphEditor& editor, const Quantized& result) {
    const double lowest = editor.Type(result.data) == DataType::kInt8 ? -128 : 0;
    return (result.zero.valid() ? editor.Scalar(result.zero) : std::optional(0.0)) == lowest;
  }

  static bool AreBytes(const GraphEditor& editor, const std::vector<Quantized>& operands) {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Quantized& operand) { return IsByte(editor.Type(operand.data)); });
  }

  static bool ReplaceMatMul(GraphEditor& editor, NodeId root, const Quantized& result,
                            const std::vector<Quantized>& operands) {
    const Quantized& a = operands[0];
    const Quantized& b = operands[1];
    if (!AreBytes(editor, operands) || !HasOneScale(editor, a) || editor.Opset(kOnnxDomain) < 10)
      return false;
    const SymbolicShape* b_shape = editor.ShapeOf(b.data);
    if (!HasOneScale(editor, b)) {
      const SymbolicShape* scales = editor.ShapeOf(b.scale);
      if (!b_shape || b_shape->rank() != 2 || !scales || scales->rank() != 1 ||
          (b.axis != 1 && b.axis != -1)) {
        return false;
      }
    }
    editor.Replace(root, "QLinearMatMul",
                   {"QLinearMatMul",
                    kOnnxDomain,
                    {a.data, a.scale, ZeroOf(editor, a), b.data, b.scale, ZeroOf(editor, b), result.scale,
                     ZeroOf(editor, result)}});
    return true;
  }

  static bool ReplaceConv(GraphEditor& editor, NodeId root, NodeId conv, const Quantized& result,
                          const std::vector<Quantized>& operands) {
    if (operands.size() < 2 || editor.Opset(kOnnxDomain) < 10) return false;
    const Quantized& x = operands[0];
    const Quantized& weights = operands[1];
    if (!AreBytes(editor, {x, weights}) || !HasOneScale(editor, x)) return false;
    if (!HasOneScale(editor, weights) && weights.axis != 0) return false;
    std::vector<ValueId> inputs = {x.data,
                                   x.scale,
                                   ZeroOf(editor, x),
                                   weights.data,
                                   weights.scale,
                                   ZeroOf(editor, weights),
                                   result.scale,
                                   ZeroOf(editor, result)};
    if (operands.size() > 2) {
      if (!IsProductOfScales(editor, operands[2], x, weights)) return false;
      inputs.push_back(operands[2].data);
    }
    std::vector<Attribute> attributes = editor.node(conv).attributes;
    editor.Replace(root, "QLinearConv",
                   {"QLinearConv", kOnnxDomain, std::move(inputs), std::move(attributes)});
    return true;
  }

  // Whether the bias is in units of the products: int32 with scale x times weights, and no zero point.
  static bool IsProductOfScales(const GraphEditor& editor, const Quantized& bias, const Quantized& x,
                                const Quantized& weights) {
    const std::optional<Tensor> bias_scales = editor.SmallConstant(bias.scale);
    const std::optional<Tensor> weight_scales = editor.SmallConstant(weights.scale);
    const std::optional<double> x_scale = editor.Scalar(x.scale);
    if (editor.Type(bias.data) != DataType::kInt32 || !bias_scales || !weight_scales || !x_scale)
      return false;
    if (bias.zero.valid()) {
      const std::optional<std::vector<int64_t>> zeros = editor.Integers(bias.zero);
      if (!zeros || std::any_of(zeros->begin(), zeros->end(), [](int64_t zero) { return zero != 0; })) {
        return false;
      }
    }
    const auto scales = weight_scales->elements<float>();
    const auto products = bias_scales->elements<float>();
    if (products.size() != scales.size() && products.size() != 1 && scales.size() != 1) return false;
    for (size_t i = 0; i < std::max(scales.size(), products.size()); ++i) {
      const double expected = *x_scale * static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
      const double found = static_cast<double>(products[products.size() == 1 ? 0 : i]);
      if (!(std::abs(found - expected) <= 1e-6 * std::abs(expected))) return false;
    }
    return true;
  }

  static bool ReplaceBinary(GraphEditor& editor, NodeId root, const char* op_type, const Quantized& result,
                            const std::vector<Quantized>& operands) {
    const Quantized& a = operands[0];
    const Quantized& b = operands[1];
    const DataType type = editor.Type(result.data);
    if (!HasOneScale(editor, a) || !HasOneScale(editor, b) || editor.Type(a.data) != type ||
        editor.Type(b.data) != type) {
      return false;
    }
    editor.Replace(root, op_type,
                   {op_type,
                    kMicrosoftDomain,
                    {a.data, a.scale, a.zero, b.data, b.scale, b.zero, result.scale, result.zero}});
    return true;
  }
};

// x times weights of 4 or 8 bits that are dequantised in blocks along k: MatMulNBits.
class DequantizedMatMul : public Rewrite {
 public:
  DequantizedMatMul() : pattern_(Picture()) {}
  std::string_view name() const override { return "dequantized-matmul"; }
  std::vector<std::string_view> roots() const override { return {"MatMul"}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const NodeId dequantize = match->node(editor, "dequantized");
    const ValueId x = (*match)["x"];
    const DerivedTensorPtr weights = editor.ExpressionOf((*match)["weights"]);
    DerivedTensorPtr scales = editor.ExpressionOf((*match)["scales"]);
    const int bits = BitsOf(weights->type);
    const int64_t block = editor.Int(dequantize, "block_size", 0);
    const SymbolicShape* x_shape = editor.ShapeOf(x);
    // [k, n], or [n, k] before a transposition
    const bool is_transposed = (*match)["transposed"].valid();
    const int k_axis = is_transposed ? 1 : 0;
    int64_t axis = editor.Int(dequantize, "axis", 1);
    if (axis < 0) axis += 2;
    if (bits == 0 || weights->shape.rank() != 2 || axis != k_axis || !x_shape || x_shape->rank() < 2 ||
        scales->type != editor.Type(x) || scales->shape.rank() != 2) {
      return false;
    }
    const int64_t k = weights->shape[k_axis];
    const int64_t n = weights->shape[1 - k_axis];
    if (block < 16 || (block & (block - 1)) != 0 || k % block != 0 || scales->shape[k_axis] != k / block) {
      return false;
    }
    const ValueId zero = editor.Input(dequantize, 2);
    // Without zero points MatMulNBits takes the middle of the range: that of signed numbers.
    const bool is_signed = weights->type == DataType::kInt4 || weights->type == DataType::kInt8;
    if (!zero.valid() && !is_signed) return false;
    Result<DerivedTensorPtr> packed = DerivePackedIntegers(weights, k_axis);
    if (packed.ok()) packed = DeriveReshape(*packed, Shape{n, k / block, block * bits / 8});
    Result<DerivedTensorPtr> rows = is_transposed ? scales : DeriveTranspose(scales, {1, 0});
    if (!packed.ok() || !rows.ok()) return false;
    DerivedTensorPtr zero_points;
    if (zero.valid()) {
      const DerivedTensorPtr zeros = editor.ExpressionOf(zero);
      if (!zeros || zeros->type != weights->type || !(zeros->shape == scales->shape)) return false;
      const Result<DerivedTensorPtr> packed_zeros = DerivePackedIntegers(zeros, k_axis);
      if (!packed_zeros.ok()) return false;
      zero_points = *packed_zeros;
    }
    const std::string name = editor.value((*match)["weights"]).name.str();
    std::vector<ValueId> inputs = {x, editor.AddDerived(name + "/packed", *packed),
                                   editor.AddDerived(name + "/scales", *rows)};
    if (zero_points) inputs.push_back(editor.AddDerived(name + "/zero_points", zero_points));
    editor.Replace(
        root, "MatMulNBits",
        {"MatMulNBits",
         kMicrosoftDomain,
         std::move(inputs),
         {editor.MakeAttribute("K", k), editor.MakeAttribute("N", n),
          editor.MakeAttribute("bits", int64_t{bits}), editor.MakeAttribute("block_size", block)}});
    return true;
  }

 private:
  static Pattern Picture() {
    const Pattern weights =
        Op("DequantizeLinear", {Constant("weights"), Constant("scales")}).Open().Named("dequantized");
    return Op("MatMul", {Any("x"), OneOf({Op("Transpose", {weights}).Named("transposed"), weights})});
  }
  static int BitsOf(DataType type) {
    if (type == DataType::kInt4 || type == DataType::kUint4) return 4;
    return IsByte(type) ? 8 : 0;
  }

  Pattern pattern_;
};

}  // namespace

void AddQuantizedRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<QuantizedOperator>());
  table.push_back(std::make_unique<DequantizedMatMul>());
}

}  // namespace lamina
