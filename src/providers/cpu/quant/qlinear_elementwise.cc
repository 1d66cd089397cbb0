// com.microsoft operators on 8-bit tensors with one scale each: QLinearAdd, QLinearMul, QLinearSigmoid,
// QLinearLeakyRelu, QLinearWhere, QLinearSoftmax, QLinearReduceMean.
#include <cmath>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/quant/quant_params.h"

namespace lamina {
namespace {

constexpr TypeSet kBytes{DataType::kInt8, DataType::kUint8};

// Scale and zero point of a tensor, from two inputs; an absent zero point is 0.
struct TensorQuant {
  float scale = 1;
  int32_t zero_point = 0;

  static Result<TensorQuant> Read(const KernelContext& context, int scale_input, int zero_input) {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scale, RequireInput(context, scale_input));
    const Tensor* zero = context.Input(zero_input);
    if (scale->num_elements() != 1 ||
        (zero && (zero->num_elements() != 1 || !kBytes.Contains(zero->type())))) {
      return InvalidArgumentError("inputs {} and {} must be one scale and one zero point", scale_input,
                                  zero_input);
    }
    return TensorQuant{FloatAt(*scale, 0), zero ? IntAt(*zero, 0) : 0};
  }
  double Real(int32_t value) const { return static_cast<double>(scale) * (value - zero_point); }
  // The bits of the quantised value.
  uint8_t Quantize(double value, IntegerRange range) const {
    return static_cast<uint8_t>(QuantizeToInt(value / scale, zero_point, range));
  }
};

int32_t ByteAt(DataType type, const std::byte* data, int64_t index) {
  return type == DataType::kUint8 ? int32_t{reinterpret_cast<const uint8_t*>(data)[index]}
                                  : int32_t{reinterpret_cast<const int8_t*>(data)[index]};
}

class QLinearBinary : public Kernel {
 public:
  explicit QLinearBinary(const NodeInfo& node) : multiply_(node.op_type() == "QLinearMul") {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 3));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant a_quant, TensorQuant::Read(context, 1, 2));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant b_quant, TensorQuant::Read(context, 4, 5));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant c_quant, TensorQuant::Read(context, 6, 7));
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(a->shape(), b->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const IntegerRange range = RangeOf(out->type());
    const BroadcastOperand operands[] = {{a->raw_data(), a->shape(), 1}, {b->raw_data(), b->shape(), 1}};
    ForEachBroadcastRow(
        context.threads(), operands, shape, out->mutable_raw_data(), 1, /*work=*/8,
        [&](const BroadcastRow& row) {
          for (int64_t i = 0; i < row.count; ++i) {
            const double x = a_quant.Real(ByteAt(a->type(), row.inputs[0], row.repeated[0] ? 0 : i));
            const double y = b_quant.Real(ByteAt(b->type(), row.inputs[1], row.repeated[1] ? 0 : i));
            row.out<uint8_t>()[i] = c_quant.Quantize(multiply_ ? x * y : x + y, range);
          }
        });
    return Status();
  }

 private:
  bool multiply_;
};

// Functions of one element: a table of the 256 results.
class QLinearUnary : public Kernel {
 public:
  explicit QLinearUnary(const NodeInfo& node)
      : sigmoid_(node.op_type() == "QLinearSigmoid"), alpha_(node.Float("alpha", 0.01f)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant x_quant, TensorQuant::Read(context, 1, 2));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant y_quant, TensorQuant::Read(context, 3, 4));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, x->shape()));
    if (!out) return Status();
    uint8_t table[256];
    for (int bits = 0; bits < 256; ++bits) {
      const auto byte = static_cast<uint8_t>(bits);
      const double value = x_quant.Real(x->type() == DataType::kUint8 ? bits : static_cast<int8_t>(byte));
      const double result = sigmoid_ ? 1 / (1 + std::exp(-value)) : (value < 0 ? alpha_ * value : value);
      table[bits] = y_quant.Quantize(result, RangeOf(out->type()));
    }
    const auto* source = static_cast<const uint8_t*>(x->raw_data());
    auto* target = static_cast<uint8_t*>(out->mutable_raw_data());
    context.threads().ParallelFor(x->num_elements(), GrainOf(1), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) target[i] = table[source[i]];
    });
    return Status();
  }

 private:
  bool sigmoid_;
  double alpha_;
};

class QLinearWhere : public Kernel {
 public:
  explicit QLinearWhere(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* condition, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y, RequireInput(context, 4));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant x_quant, TensorQuant::Read(context, 2, 3));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant y_quant, TensorQuant::Read(context, 5, 6));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant z_quant, TensorQuant::Read(context, 7, 8));
    LAMINA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(x->shape(), y->shape()));
    LAMINA_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, condition->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const IntegerRange range = RangeOf(out->type());
    const BroadcastOperand operands[] = {{condition->raw_data(), condition->shape(), 1},
                                         {x->raw_data(), x->shape(), 1},
                                         {y->raw_data(), y->shape(), 1}};
    ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), 1, /*work=*/8,
                        [&](const BroadcastRow& row) {
                          for (int64_t i = 0; i < row.count; ++i) {
                            const bool first = row.input<bool>(0)[row.repeated[0] ? 0 : i];
                            const double value =
                                first
                                    ? x_quant.Real(ByteAt(x->type(), row.inputs[1], row.repeated[1] ? 0 : i))
                                    : y_quant.Real(ByteAt(y->type(), row.inputs[2], row.repeated[2] ? 0 : i));
                            row.out<uint8_t>()[i] = z_quant.Quantize(value, range);
                          }
                        });
    return Status();
  }
};

// Before opset 13 (attribute `opset`) everything from the axis on is one vector.
class QLinearSoftmax : public Kernel {
 public:
  explicit QLinearSoftmax(const NodeInfo& node)
      : axis_(node.Int("axis", -1)), flatten_(node.Int("opset", 13) < 13) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant x_quant, TensorQuant::Read(context, 1, 2));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant y_quant, TensorQuant::Read(context, 3, 4));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || out->num_elements() == 0) return Status();
    const int64_t extent = flatten_ ? shape.num_elements(axis, shape.rank()) : shape[axis];
    const int64_t stride = flatten_ ? 1 : shape.num_elements(axis + 1, shape.rank());
    const auto* source = static_cast<const std::byte*>(x->raw_data());
    auto* target = static_cast<uint8_t*>(out->mutable_raw_data());
    const IntegerRange range = RangeOf(out->type());
    context.threads().ParallelFor(
        x->num_elements() / extent, GrainOf(64 * extent), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i / stride * extent * stride + i % stride;
            const auto value = [&](int64_t k) {
              return x_quant.Real(ByteAt(x->type(), source, first + k * stride));
            };
            double largest = value(0);
            for (int64_t k = 1; k < extent; ++k) largest = std::max(largest, value(k));
            double sum = 0;
            for (int64_t k = 0; k < extent; ++k) sum += std::exp(value(k) - largest);
            for (int64_t k = 0; k < extent; ++k) {
              target[first + k * stride] = y_quant.Quantize(std::exp(value(k) - largest) / sum, range);
            }
          }
        });
    return Status();
  }

 private:
  int64_t axis_;
  bool flatten_;
};

class QLinearReduceMean : public Kernel {
 public:
  explicit QLinearReduceMean(const NodeInfo& node)
      : axes_(node.Ints("axes")), keep_dims_(node.Int("keepdims", 1) != 0) {}
  static Status Validate(const NodeInfo& node) { return IntsAttribute(node, "axes").status(); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant x_quant, TensorQuant::Read(context, 1, 2));
    LAMINA_ASSIGN_OR_RETURN(const TensorQuant y_quant, TensorQuant::Read(context, 3, 4));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(uint32_t mask, AxisMask(axes_.span(), shape.rank()));
    if (axes_.empty()) mask = (1u << shape.rank()) - 1;
    Shape out_shape;
    Shape kept;
    Shape reduced;
    IntList kept_strides;
    IntList reduced_strides;
    const IntList strides = ContiguousStrides(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool is_reduced = (mask >> axis & 1u) != 0;
      (is_reduced ? reduced : kept).Append(shape[axis]);
      (is_reduced ? reduced_strides : kept_strides).Append(strides[axis]);
      if (!is_reduced || keep_dims_) out_shape.Append(is_reduced ? 1 : shape[axis]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const auto offset = [](const Shape& extents, const IntList& steps, int64_t position) {
      int64_t place = 0;
      for (int axis = extents.rank() - 1; axis >= 0; --axis) {
        place += position % extents[axis] * steps[axis];
        position /= extents[axis];
      }
      return place;
    };
    const int64_t count = reduced.num_elements();
    const auto* source = static_cast<const std::byte*>(x->raw_data());
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      double sum = 0;
      const int64_t first = offset(kept, kept_strides, i);
      for (int64_t k = 0; k < count; ++k) {
        sum += x_quant.Real(ByteAt(x->type(), source, first + offset(reduced, reduced_strides, k)));
      }
      static_cast<uint8_t*>(out->mutable_raw_data())[i] =
          y_quant.Quantize(sum / static_cast<double>(count), RangeOf(out->type()));
    }
    return Status();
  }

 private:
  IntList axes_;
  bool keep_dims_;
};

}  // namespace

void RegisterQLinearElementwiseKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, int data_input, KernelCreateFunc create) {
    registry.Add(KernelDef(name, kMsDomain).Input(data_input, kBytes).Output(0, kBytes), create);
  };
  add("QLinearAdd", 0, CreateKernel<QLinearBinary>);
  add("QLinearMul", 0, CreateKernel<QLinearBinary>);
  add("QLinearSigmoid", 0, CreateKernel<QLinearUnary>);
  add("QLinearLeakyRelu", 0, CreateKernel<QLinearUnary>);
  add("QLinearWhere", 1, CreateKernel<QLinearWhere>);
  add("QLinearSoftmax", 0, CreateKernel<QLinearSoftmax>);
  add("QLinearReduceMean", 0, CreateKernel<QLinearReduceMean>);
}

}  // namespace lamina
