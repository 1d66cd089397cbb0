// MatMulInteger, QLinearMatMul, and com.microsoft's QGemm, MatMulIntegerToFloat and DynamicQuantizeMatMul:
// products of 8-bit integers in int32, whose rows are then passed on, scaled or quantised.
#include <cmath>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/quant/quant_params.h"

namespace lamina {
namespace {

constexpr int64_t kTile = 256;

// An operand of 8-bit integers with its zero points: none, one, or one for each row of A or column of B.
struct IntegerMatrix {
  DataType type = DataType::kUint8;
  const void* data = nullptr;
  const Tensor* zero_point = nullptr;

  int32_t At(int64_t index) const {
    return type == DataType::kUint8 ? int32_t{static_cast<const uint8_t*>(data)[index]}
                                    : int32_t{static_cast<const int8_t*>(data)[index]};
  }
  // `line`: row of A or column of B, counted over all batches for zero points of full shape.
  int32_t ZeroPoint(int64_t line) const {
    if (!zero_point) return 0;
    return IntAt(*zero_point, zero_point->num_elements() == 1 ? 0 : line % zero_point->num_elements());
  }
};

// Extents of a batched product, after numpy's rules for 1-D operands.
struct ProductShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  Shape batch;    // common batch axes
  Shape a_batch;  // of the operands
  Shape b_batch;
  Shape output;

  // Matrix of an operand for batch `index`.
  static int64_t OperandBatch(const Shape& common, const Shape& own, int64_t index) {
    int64_t place = 0;
    int64_t stride = 1;
    for (int axis = common.rank() - 1, own_axis = own.rank() - 1; axis >= 0; --axis, --own_axis) {
      const int64_t at = index % common[axis];
      index /= common[axis];
      if (own_axis < 0) continue;
      place += (own[own_axis] == 1 ? 0 : at) * stride;
      stride *= own[own_axis];
    }
    return place;
  }
};

Result<ProductShape> ShapeOfProduct(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0) return InvalidArgumentError("a product of scalars");
  ProductShape product;
  product.m = a.rank() == 1 ? 1 : a[a.rank() - 2];
  product.k = a[a.rank() - 1];
  product.n = b.rank() == 1 ? 1 : b[b.rank() - 1];
  if ((b.rank() == 1 ? b[0] : b[b.rank() - 2]) != product.k) {
    return InvalidArgumentError("{} and {} cannot be multiplied", a.ToString(), b.ToString());
  }
  for (int axis = 0; axis < a.rank() - 2; ++axis) product.a_batch.Append(a[axis]);
  for (int axis = 0; axis < b.rank() - 2; ++axis) product.b_batch.Append(b[axis]);
  LAMINA_ASSIGN_OR_RETURN(product.batch, BroadcastShapes(product.a_batch, product.b_batch));
  product.output = product.batch;
  if (a.rank() > 1) product.output.Append(product.m);
  if (b.rank() > 1) product.output.Append(product.n);
  return product;
}

// Calls store(row over all batches, first column, count, sums) for tiles of the product. `b_transposed`: B is
// [n, k].
template <typename Store>
void MultiplyIntegers(ThreadPool& threads, const ProductShape& shape, const IntegerMatrix& a,
                      const IntegerMatrix& b, bool a_transposed, bool b_transposed, const Store& store) {
  const int64_t tiles = (shape.n + kTile - 1) / kTile;
  threads.ParallelFor(
      shape.batch.num_elements() * shape.m * tiles, GrainOf(std::min(kTile, shape.n) * shape.k),
      [&](int64_t begin, int64_t end, int) {
        int32_t sums[kTile];
        int32_t b_zero[kTile];
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t first = unit % tiles * kTile;
          const int64_t count = std::min(kTile, shape.n - first);
          const int64_t row = unit / tiles;
          const int64_t batch = row / shape.m;
          const int64_t m = row % shape.m;
          const int64_t a_matrix = ProductShape::OperandBatch(shape.batch, shape.a_batch, batch);
          const int64_t b_matrix = ProductShape::OperandBatch(shape.batch, shape.b_batch, batch);
          const int32_t a_zero = a.ZeroPoint(a_matrix * shape.m + m);
          for (int64_t j = 0; j < count; ++j) {
            sums[j] = 0;
            b_zero[j] = b.ZeroPoint(b_matrix * shape.n + first + j);
          }
          for (int64_t k = 0; k < shape.k; ++k) {
            const int64_t a_at =
                a_matrix * shape.m * shape.k + (a_transposed ? k * shape.m + m : m * shape.k + k);
            const int32_t factor = a.At(a_at) - a_zero;
            const int64_t b_first = b_matrix * shape.k * shape.n;
            if (b_transposed) {
              for (int64_t j = 0; j < count; ++j) {
                sums[j] += factor * (b.At(b_first + (first + j) * shape.k + k) - b_zero[j]);
              }
            } else if (b.type == DataType::kUint8) {
              const auto* values = static_cast<const uint8_t*>(b.data) + b_first + k * shape.n + first;
              for (int64_t j = 0; j < count; ++j) sums[j] += factor * (values[j] - b_zero[j]);
            } else {
              const auto* values = static_cast<const int8_t*>(b.data) + b_first + k * shape.n + first;
              for (int64_t j = 0; j < count; ++j) sums[j] += factor * (values[j] - b_zero[j]);
            }
          }
          store(row, first, count, sums);
        }
      });
}

// A zero point must be one element, or one for each of `lines`, alone or for each batch.
Status CheckZeroPoint(const Tensor* zero_point, DataType type, int64_t lines) {
  if (!zero_point) return Status();
  if (zero_point->type() != type ||
      (zero_point->num_elements() != 1 && zero_point->num_elements() % lines != 0)) {
    return InvalidArgumentError("a zero point {}{} for {} lines of {}", DataTypeName(zero_point->type()),
                                zero_point->shape().ToString(), lines, DataTypeName(type));
  }
  return Status();
}

class MatMulInteger : public Kernel {
 public:
  explicit MatMulInteger(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const ProductShape shape, ShapeOfProduct(a->shape(), b->shape()));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(context.Input(2), a->type(), shape.m));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(context.Input(3), b->type(), shape.n));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape.output));
    if (!y) return Status();
    int32_t* target = y->mutable_data<int32_t>();
    MultiplyIntegers(context.threads(), shape, {a->type(), a->raw_data(), context.Input(2)},
                     {b->type(), b->raw_data(), context.Input(3)}, false, false,
                     [&](int64_t row, int64_t first, int64_t count, const int32_t* sums) {
                       std::copy_n(sums, count, target + row * shape.n + first);
                     });
    return Status();
  }
};

// The scale of a row or column: one, or one for each.
float ScaleOf(const Tensor& scale, int64_t line) {
  return FloatAt(scale, scale.num_elements() == 1 ? 0 : line % scale.num_elements());
}

class QLinearMatMul : public Kernel {
 public:
  explicit QLinearMatMul(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    const Tensor* in[8] = {};
    for (int i = 0; i < 8; ++i) {
      LAMINA_ASSIGN_OR_RETURN(in[i], RequireInput(context, i));
    }
    const Tensor& a = *in[0];
    const Tensor& b = *in[3];
    LAMINA_ASSIGN_OR_RETURN(const ProductShape shape, ShapeOfProduct(a.shape(), b.shape()));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(in[2], a.type(), shape.m));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(in[5], b.type(), shape.n));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape.output));
    if (!y) return Status();
    const IntegerRange range = RangeOf(y->type());
    MultiplyIntegers(
        context.threads(), shape, {a.type(), a.raw_data(), in[2]}, {b.type(), b.raw_data(), in[5]}, false,
        false, [&](int64_t row, int64_t first, int64_t count, const int32_t* sums) {
          for (int64_t j = 0; j < count; ++j) {
            const double scale = static_cast<double>(ScaleOf(*in[1], row % shape.m)) *
                                 ScaleOf(*in[4], first + j) / ScaleOf(*in[6], row % shape.m);
            const int32_t zero = IntAt(*in[7], in[7]->num_elements() == 1 ? 0 : row % in[7]->num_elements());
            const int32_t value = QuantizeToInt(sums[j] * scale, zero, range);
            static_cast<uint8_t*>(y->mutable_raw_data())[row * shape.n + first + j] =
                static_cast<uint8_t>(value);
          }
        });
    return Status();
  }
};

// com.microsoft MatMulIntegerToFloat: inputs A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias.
class MatMulIntegerToFloat : public Kernel {
 public:
  explicit MatMulIntegerToFloat(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a_scale, RequireInput(context, 2));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b_scale, RequireInput(context, 3));
    const Tensor* bias = context.Input(6);
    LAMINA_ASSIGN_OR_RETURN(const ProductShape shape, ShapeOfProduct(a->shape(), b->shape()));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(context.Input(4), a->type(), shape.m));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(context.Input(5), b->type(), shape.n));
    if (bias && bias->num_elements() != shape.n)
      return InvalidArgumentError("the bias does not fit {} columns", shape.n);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape.output));
    if (!y) return Status();
    MultiplyIntegers(context.threads(), shape, {a->type(), a->raw_data(), context.Input(4)},
                     {b->type(), b->raw_data(), context.Input(5)}, false, false,
                     [&](int64_t row, int64_t first, int64_t count, const int32_t* sums) {
                       float values[kTile];
                       for (int64_t j = 0; j < count; ++j) {
                         values[j] = static_cast<float>(sums[j]) * ScaleOf(*a_scale, row % shape.m) *
                                         ScaleOf(*b_scale, first + j) +
                                     (bias ? FloatAt(*bias, first + j) : 0.0f);
                       }
                       WriteFloats(y->type(), values, y->mutable_raw_data(), row * shape.n + first, count);
                     });
    return Status();
  }
};

// com.microsoft DynamicQuantizeMatMul: A is quantised to uint8 as DynamicQuantizeLinear does. Inputs A, B,
// b_scale, b_zero_point, bias. Scratch: the quantised A.
class DynamicQuantizeMatMul : public Kernel {
 public:
  explicit DynamicQuantizeMatMul(const NodeInfo&) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const ShapeBounds* bounds = node.input_bounds(0);
    if (!bounds || !bounds->bounded()) return UnsupportedError("the input has no bounds");
    return requirements.Add(0, static_cast<size_t>(bounds->Max().num_elements()));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b_scale, RequireInput(context, 2));
    const Tensor* bias = context.Input(4);
    LAMINA_ASSIGN_OR_RETURN(const ProductShape shape, ShapeOfProduct(a->shape(), b->shape()));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(context.Input(3), b->type(), shape.n));
    if (bias && bias->num_elements() != shape.n)
      return InvalidArgumentError("the bias does not fit {} columns", shape.n);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape.output));
    if (!y) return Status();
    const int64_t count_a = a->num_elements();
    LAMINA_ASSIGN_OR_RETURN(uint8_t * quantised, GetScratch<uint8_t>(context, 0, count_a));
    float low = 0;
    float high = 0;
    for (int64_t i = 0; i < count_a; ++i) {
      low = std::min(low, a->data<float>()[i]);
      high = std::max(high, a->data<float>()[i]);
    }
    const float a_scale = high == low ? 1.0f : (high - low) / 255.0f;
    uint8_t zero = static_cast<uint8_t>(std::nearbyint(std::clamp(-low / a_scale, 0.0f, 255.0f)));
    for (int64_t i = 0; i < count_a; ++i) {
      quantised[i] = static_cast<uint8_t>(QuantizeToInt(a->data<float>()[i] / a_scale, zero, {0, 255}));
    }
    const Tensor zero_point = Tensor::View(DataType::kUint8, {}, &zero, 1);
    MultiplyIntegers(context.threads(), shape, {DataType::kUint8, quantised, &zero_point},
                     {b->type(), b->raw_data(), context.Input(3)}, false, false,
                     [&](int64_t row, int64_t first, int64_t count, const int32_t* sums) {
                       float* target = y->mutable_data<float>() + row * shape.n + first;
                       for (int64_t j = 0; j < count; ++j) {
                         target[j] = static_cast<float>(sums[j]) * a_scale * ScaleOf(*b_scale, first + j) +
                                     (bias ? FloatAt(*bias, first + j) : 0.0f);
                       }
                     });
    return Status();
  }
};

// com.microsoft QGemm: A, a_scale, a_zero_point, B, b_scale, b_zero_point, C (int32), y_scale, y_zero_point;
// without y_scale the result is float.
class QGemm : public Kernel {
 public:
  explicit QGemm(const NodeInfo& node)
      : alpha_(node.Float("alpha", 1)),
        a_transposed_(node.Int("transA", 0) != 0),
        b_transposed_(node.Int("transB", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    const Tensor* in[6] = {};
    for (int i = 0; i < 6; ++i) {
      LAMINA_ASSIGN_OR_RETURN(in[i], RequireInput(context, i));
    }
    const Shape& a = in[0]->shape();
    const Shape& b = in[3]->shape();
    if (a.rank() != 2 || b.rank() != 2) return InvalidArgumentError("two matrices expected");
    const auto oriented = [](const Shape& s, bool transposed) { return transposed ? Shape{s[1], s[0]} : s; };
    LAMINA_ASSIGN_OR_RETURN(const ProductShape shape,
                            ShapeOfProduct(oriented(a, a_transposed_), oriented(b, b_transposed_)));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(in[2], in[0]->type(), shape.m));
    LAMINA_RETURN_IF_ERROR(CheckZeroPoint(in[5], in[3]->type(), shape.n));
    const Tensor* c = context.Input(6);
    if (c) {
      LAMINA_ASSIGN_OR_RETURN(const Shape common, BroadcastShapes(c->shape(), shape.output));
      if (!(common == shape.output)) return InvalidArgumentError("C {} does not fit", c->shape().ToString());
    }
    const Tensor* y_scale = context.Input(7);
    const Tensor* y_zero = context.Input(8);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape.output));
    if (!y) return Status();
    MultiplyIntegers(
        context.threads(), shape, {in[0]->type(), in[0]->raw_data(), in[2]},
        {in[3]->type(), in[3]->raw_data(), in[5]}, a_transposed_, b_transposed_,
        [&](int64_t row, int64_t first, int64_t count, const int32_t* sums) {
          for (int64_t j = 0; j < count; ++j) {
            const int64_t column = first + j;
            int64_t c_at = 0;
            if (c && c->num_elements() > 1) {
              const Shape& s = c->shape();
              const int64_t columns = s[s.rank() - 1];
              const bool rows = s.rank() > 1 && s[0] > 1;
              c_at = (rows ? row * columns : 0) + (columns > 1 ? column : 0);
            }
            const double value = (static_cast<double>(sums[j]) + (c ? IntAt(*c, c_at) : 0)) * alpha_ *
                                 ScaleOf(*in[1], row) * ScaleOf(*in[4], column);
            const int64_t at = row * shape.n + column;
            if (y_scale) {
              static_cast<uint8_t*>(y->mutable_raw_data())[at] = static_cast<uint8_t>(QuantizeToInt(
                  value / FloatAt(*y_scale, 0), y_zero ? IntAt(*y_zero, 0) : 0, RangeOf(y->type())));
            } else {
              y->mutable_data<float>()[at] = static_cast<float>(value);
            }
          }
        });
    return Status();
  }

 private:
  double alpha_;
  bool a_transposed_;
  bool b_transposed_;
};

}  // namespace

void RegisterIntegerMatMulKernels(KernelRegistry& registry) {
  constexpr TypeSet kBytes{DataType::kInt8, DataType::kUint8};
  const auto matmul = [&](const char* name, std::string_view domain, TypeSet output) {
    return KernelDef(name, domain).Input(0, kBytes).Input(1, kBytes).Output(0, output);
  };
  registry.Add(matmul("MatMulInteger", "", DataType::kInt32).Since(10), CreateKernel<MatMulInteger>);
  registry.Add(matmul("MatMulIntegerToFloat", kMsDomain, kHalfAndFloatTypes),
               CreateKernel<MatMulIntegerToFloat>);
  registry.Add(KernelDef("QLinearMatMul").Since(10).Input(0, kBytes).Input(3, kBytes).Output(0, kBytes),
               CreateKernel<QLinearMatMul>);
  registry.Add(KernelDef("DynamicQuantizeMatMul", kMsDomain)
                   .Input(0, DataType::kFloat)
                   .Input(1, kBytes)
                   .Output(0, DataType::kFloat),
               CreateKernel<DynamicQuantizeMatMul>, EstimateWorkspace<DynamicQuantizeMatMul>);
  registry.Add(
      KernelDef("QGemm", kMsDomain).Input(0, kBytes).Input(3, kBytes).Output(0, kBytes | DataType::kFloat),
      CreateKernel<QGemm>);
}

}  // namespace lamina
