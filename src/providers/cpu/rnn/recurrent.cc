// RNN, GRU, LSTM of fp32, fp16 and bf16 (computed in fp32), and fp64. The products with W are made for all
// steps at once, those with R step by step; both weights are packed at load where they are constant (not
// those of fp64).
#include <array>
#include <string>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/gemm/plain_gemm.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/rnn/recurrent_cell.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

// Scratch slots, of the type that is computed in: C, float or double.
constexpr int kInputProducts = 0;  // [steps * batch, gates * hidden]
constexpr int kStepBuffers = 1;    // see StepBuffers
constexpr int kInputRows = 2;      // [steps * batch, features]: fp16 and bf16, or batch-first layout

// Buffers of a step, each for every sequence of the batch.
template <typename C>
struct StepBuffers {
  C* hidden;     // [batch, hidden]
  C* cell;       // [batch, hidden]
  C* reset;      // [batch, hidden]
  C* recurrent;  // [batch, gates * hidden]
  C* scratch;    // [batch, gates * hidden]
  C* bias;       // [2 * gates * hidden] input and recurrent
  C* peephole;   // [3 * hidden]
  static int64_t Count(int64_t batch, int64_t hidden, int64_t gates) {
    return batch * hidden * (3 + 2 * gates) + hidden * (2 * gates + 3);
  }
  static StepBuffers Carve(C* memory, int64_t batch, int64_t hidden, int64_t gates) {
    StepBuffers buffers{};
    const auto take = [&](int64_t count) {
      C* taken = memory;
      memory += count;
      return taken;
    };
    buffers.hidden = take(batch * hidden);
    buffers.cell = take(batch * hidden);
    buffers.reset = take(batch * hidden);
    buffers.recurrent = take(batch * gates * hidden);
    buffers.scratch = take(batch * gates * hidden);
    buffers.bias = take(2 * gates * hidden);
    buffers.peephole = take(3 * hidden);
    return buffers;
  }
};

// The transposed weights [n, k] of one direction, packed or as they lie.
struct WeightMatrix {
  DataType type = DataType::kFloat;
  const void* packed = nullptr;
  const void* plain = nullptr;
  int64_t k = 0;
  int64_t n = 0;
};

// c [m, n] (rows ldc apart) = a [m, k] weights^T + bias [n]
void Multiply(ThreadPool& threads, const WeightMatrix& weights, const double* a, int64_t m,
              const double* bias, double* c, int64_t ldc) {
  const StridedMatrix<double> transposed{static_cast<const double*>(weights.plain), 1, weights.k};
  threads.ParallelFor(
      m, GrainFor(static_cast<double>(weights.n * weights.k)), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          double* values = c + row * ldc;
          PlainGemmRow<double>({a, weights.k, 1}, transposed, row, weights.n, weights.k, values);
          for (int64_t j = 0; j < weights.n; ++j) values[j] += bias[j];
        }
      });
}
void Multiply(ThreadPool& threads, const WeightMatrix& weights, const float* a, int64_t m, const float* bias,
              float* c, int64_t ldc) {
  const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
  RunGemm(
      threads, kernels, {1, m, weights.n, weights.k}, [&](int64_t) { return a; }, weights.k,
      [&](const GemmPanelRequest& request) {
        if (weights.packed) return PackedPanel(kernels, weights.type, weights.packed, weights.k, request);
        return PlainPanel(kernels, {weights.plain, weights.type, weights.k, weights.n, true}, m, request);
      },
      [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
        for (int64_t j = 0; j < count; ++j) c[row * ldc + column + j] = values[j] + bias[column + j];
      });
}

struct Direction {
  bool reverse = false;
  CellParams params;
};

Result<std::vector<Direction>> ParseDirections(const NodeInfo& node) {
  const std::string_view name = node.String("direction", "forward");
  std::vector<Direction> directions(name == "bidirectional" ? 2 : 1);
  if (name == "bidirectional") {
    directions[1].reverse = true;
  } else if (name == "reverse") {
    directions[0].reverse = true;
  } else if (name != "forward") {
    return InvalidModelError("unknown direction '{}'", name);
  }
  const RecurrentCell cell = node.op_type() == "LSTM"  ? RecurrentCell::kLstm
                             : node.op_type() == "GRU" ? RecurrentCell::kGru
                                                       : RecurrentCell::kRnn;
  const size_t functions = cell == RecurrentCell::kLstm ? 3 : (cell == RecurrentCell::kGru ? 2 : 1);
  std::vector<std::string> names(node.Strings("activations").begin(), node.Strings("activations").end());
  for (size_t d = names.empty() ? 0 : directions.size(); d < directions.size(); ++d) {
    if (cell != RecurrentCell::kRnn) names.emplace_back("Sigmoid");
    names.emplace_back("Tanh");
    if (cell == RecurrentCell::kLstm) names.emplace_back("Tanh");
  }
  if (names.size() != functions * directions.size()) {
    return InvalidModelError("{} activations, {} are needed", names.size(), functions * directions.size());
  }
  // Values of alpha and beta belong to the activations that have such a parameter, in order.
  constexpr std::string_view kWithAlpha[] = {"affine",     "leakyrelu",   "thresholdedrelu",
                                             "scaledtanh", "hardsigmoid", "elu"};
  constexpr std::string_view kWithBeta[] = {"affine", "scaledtanh", "hardsigmoid"};
  const auto alphas = node.Floats("activation_alpha");
  const auto betas = node.Floats("activation_beta");
  size_t alpha = 0;
  size_t beta = 0;
  std::vector<Activation> activations;
  for (const std::string& activation : names) {
    std::string lower = activation;
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const auto has = [&](auto& list) {
      return std::find(std::begin(list), std::end(list), lower) != std::end(list);
    };
    float values[2];
    size_t count = 0;
    if (has(kWithAlpha) && alpha < alphas.size()) values[count++] = alphas[alpha++];
    if (has(kWithBeta) && count == 1 && beta < betas.size()) values[count++] = betas[beta++];
    LAMINA_ASSIGN_OR_RETURN(const Activation found, FindActivation(activation, {values, count}));
    activations.push_back(found);
  }
  for (size_t d = 0; d < directions.size(); ++d) {
    CellParams& params = directions[d].params;
    params.cell = cell;
    params.hidden = node.Int("hidden_size", 0);
    params.clip = node.Float("clip", 0);
    params.input_forget = node.Int("input_forget", 0) != 0;
    params.linear_before_reset = node.Int("linear_before_reset", 0) != 0;
    params.f = activations[d * functions];
    if (functions > 1) params.g = activations[d * functions + 1];
    if (functions > 2) params.h = activations[d * functions + 2];
  }
  return directions;
}

class Recurrent : public Kernel {
 public:
  explicit Recurrent(const NodeInfo& node)
      : directions_(*ParseDirections(node)),
        gates_(GateCount(directions_[0].params.cell)),
        batch_first_(node.Int("layout", 0) != 0) {
    for (const int input : {1, 2}) {
      const ShapeBounds* bounds = node.input_bounds(input);
      if (bounds && bounds->bounded()) weight_shapes_[static_cast<size_t>(input)] = bounds->Max();
    }
  }
  static Status Validate(const NodeInfo& node) { return ParseDirections(node).status(); }

  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInputShape(node, 0));
    LAMINA_ASSIGN_OR_RETURN(const Shape r, LargestInputShape(node, 2));
    if (x.rank() != 3 || r.rank() != 3) return InvalidModelError("X and R must have three axes");
    const int64_t rows = r[1];  // gates * hidden
    const int64_t hidden = r[2];
    const int64_t gates = hidden == 0 ? 0 : rows / hidden;
    const int64_t batch = std::max(x[0], x[1]);  // whichever the layout makes it
    const size_t bytes = node.input_type(0).element == DataType::kDouble ? sizeof(double) : sizeof(float);
    const auto add = [&](int slot, int64_t count) {
      return requirements.Add(slot, static_cast<size_t>(count) * bytes);
    };
    LAMINA_RETURN_IF_ERROR(add(kInputProducts, x[0] * x[1] * rows));
    LAMINA_RETURN_IF_ERROR(add(kStepBuffers, StepBuffers<float>::Count(batch, hidden, gates)));
    return add(kInputRows, x.num_elements());
  }

  // W and R are packed one direction after the other. A GRU that resets the state first has two products with
  // R, of its gates z and r and of h.
  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override {
    if ((input != 1 && input != 2) || node.input_type(input).element == DataType::kDouble) return Status();
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, LargestInputShape(node, input));
    if (shape.rank() != 3) return InvalidModelError("input {} must have three axes", input);
    declaration.prepack = true;
    declaration.packed_bytes =
        static_cast<uint64_t>(shape[0]) * PackedBytes(node.input_type(input).element, input, shape);
    return Status();
  }
  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const Tensor* weights = context.Constant(input);
    if (!weights) return InternalError("the weight to prepack is no constant");
    const Shape& shape = weights->shape();
    const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
    const int64_t bytes = ElementBytes(weights->type());
    for (int64_t d = 0; d < shape[0]; ++d) {
      auto* target = static_cast<std::byte*>(packed) +
                     d * static_cast<int64_t>(PackedBytes(weights->type(), input, shape));
      const auto* source =
          static_cast<const std::byte*>(weights->raw_data()) + d * shape[1] * shape[2] * bytes;
      int64_t row = 0;
      for (const int64_t rows : Parts(input, shape[1])) {
        PackMatrix(context.threads(), kernels,
                   {source + row * shape[2] * bytes, weights->type(), shape[2], rows, true}, target);
        target += PackedMatrixBytes(weights->type(), shape[2], rows);
        row += rows;
      }
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    return x->type() == DataType::kDouble ? ComputeIn<double>(context, *x) : ComputeIn<float>(context, *x);
  }

 private:
  // C: the type that is computed in.
  template <typename C>
  Status ComputeIn(KernelContext& context, const Tensor& input_tensor) const;

  // Rows of the products that are made apart.
  std::vector<int64_t> Parts(int input, int64_t rows) const {
    const bool two = input == 2 && ResetsFirst();
    return two ? std::vector<int64_t>{rows / 3 * 2, rows / 3} : std::vector<int64_t>{rows};
  }
  bool ResetsFirst() const {
    return directions_[0].params.cell == RecurrentCell::kGru && !directions_[0].params.linear_before_reset;
  }
  uint64_t PackedBytes(DataType type, int input, const Shape& shape) const {
    if (input == 2 && ResetsFirst()) {
      return PackedMatrixBytes(type, shape[2], shape[1] / 3 * 2) +
             PackedMatrixBytes(type, shape[2], shape[1] / 3);
    }
    return PackedMatrixBytes(type, shape[2], shape[1]);
  }
  // Rows [row, row + rows) of the weights of direction `d`; they begin a part.
  WeightMatrix Weights(const KernelContext& context, int input, DataType type, int64_t d, int64_t row,
                       int64_t rows) const {
    const Shape shape = WeightShape(context, input);
    WeightMatrix matrix{type, nullptr, nullptr, shape[2], rows};
    if (const PackedWeight packed = context.Packed(input); packed.data) {
      matrix.packed = static_cast<const std::byte*>(packed.data) +
                      d * static_cast<int64_t>(PackedBytes(type, input, shape)) +
                      (row == 0 ? 0 : static_cast<int64_t>(PackedMatrixBytes(type, shape[2], row)));
    } else {
      matrix.plain = static_cast<const std::byte*>(context.Input(input)->raw_data()) +
                     (d * shape[1] + row) * shape[2] * ElementBytes(type);
    }
    return matrix;
  }
  Shape WeightShape(const KernelContext& context, int input) const {
    const Tensor* weights = context.Input(input);
    return weights ? weights->shape() : weight_shapes_[static_cast<size_t>(input)];
  }
  Status CheckShapes(const KernelContext& context, const Tensor& x, int64_t batch, int64_t hidden) const;

  std::vector<Direction> directions_;
  int gates_;
  bool batch_first_;
  std::array<Shape, 3> weight_shapes_;  // of constants
};

Status Recurrent::CheckShapes(const KernelContext& context, const Tensor& x, int64_t batch,
                              int64_t hidden) const {
  const auto directions = static_cast<int64_t>(directions_.size());
  const auto expect = [&](int input, int64_t elements) {
    const Tensor* tensor = context.Input(input);
    if (!tensor || tensor->num_elements() == elements) return Status();
    return InvalidArgumentError("input {} has shape {}, {} elements are expected", input,
                                tensor->shape().ToString(), elements);
  };
  const Shape w = WeightShape(context, 1);
  const Shape r = WeightShape(context, 2);
  if (x.shape().rank() != 3 || w.rank() != 3 || r.rank() != 3 || w[0] != directions || r[0] != directions ||
      w[1] != gates_ * hidden || r[1] != gates_ * hidden || w[2] != x.shape()[2]) {
    return InvalidArgumentError("X {}, W {} and R {} do not fit together", x.shape().ToString(), w.ToString(),
                                r.ToString());
  }
  LAMINA_RETURN_IF_ERROR(expect(3, directions * 2 * gates_ * hidden));
  LAMINA_RETURN_IF_ERROR(expect(4, batch));
  LAMINA_RETURN_IF_ERROR(expect(5, directions * batch * hidden));
  LAMINA_RETURN_IF_ERROR(expect(6, directions * batch * hidden));
  return expect(7, directions * 3 * hidden);
}

template <typename C>
Status Recurrent::ComputeIn(KernelContext& context, const Tensor& input_tensor) const {
  const Tensor* x = &input_tensor;
  if ((!context.Input(1) && !context.Packed(1).data) || (!context.Input(2) && !context.Packed(2).data)) {
    return InvalidArgumentError("the weights are missing");
  }
  const int64_t hidden = WeightShape(context, 2).rank() == 3 ? WeightShape(context, 2)[2] : 0;
  const int64_t batch = x->shape().rank() == 3 ? x->shape()[batch_first_ ? 0 : 1] : 0;
  LAMINA_RETURN_IF_ERROR(CheckShapes(context, *x, batch, hidden));
  const int64_t steps = x->shape()[batch_first_ ? 1 : 0];
  const int64_t features = x->shape()[2];
  const auto directions = static_cast<int64_t>(directions_.size());
  const int64_t rows = gates_ * hidden;
  const DataType type = x->type();
  const int64_t bytes = ElementBytes(type);
  const Tensor* lengths = context.Input(4);
  for (int64_t b = 0; lengths && b < batch; ++b) {
    const int32_t length = lengths->data<int32_t>()[b];
    if (length < 0 || length > steps)
      return InvalidArgumentError("a sequence length of {} of {}", length, steps);
  }

  LAMINA_ASSIGN_OR_RETURN(Tensor * y,
                          context.Output(0, batch_first_ ? Shape{batch, steps, directions, hidden}
                                                         : Shape{steps, directions, batch, hidden}));
  const Shape last_shape = batch_first_ ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  LAMINA_ASSIGN_OR_RETURN(Tensor * y_h, context.Output(1, last_shape));
  LAMINA_ASSIGN_OR_RETURN(Tensor * y_c, context.Output(2, last_shape));
  // Place of (direction, sequence) in the outputs of last states and the initial states.
  const auto state_at = [&](int64_t d, int64_t b) {
    return (batch_first_ ? b * directions + d : d * batch + b) * hidden;
  };
  const auto read = [&](const Tensor* tensor, int64_t first, int64_t count, C* target) {
    if (!tensor) {
      std::fill_n(target, count, C(0));
    } else if constexpr (std::is_same_v<C, double>) {
      std::copy_n(tensor->data<double>() + first, count, target);
    } else {
      ConvertToFloat(type, static_cast<const std::byte*>(tensor->raw_data()) + first * bytes, target, count);
    }
  };
  const auto write = [&](Tensor* tensor, int64_t first, int64_t count, const C* source) {
    if constexpr (std::is_same_v<C, double>) {
      std::copy_n(source, count, tensor->mutable_data<double>() + first);
    } else {
      ConvertFromFloat(type, source, static_cast<std::byte*>(tensor->mutable_raw_data()) + first * bytes,
                       count);
    }
  };

  // Input rows in the order (step, sequence).
  const C* input = x->data<C>();
  if (type != DataTypeOf<C> || batch_first_) {
    LAMINA_ASSIGN_OR_RETURN(C * converted, GetScratch<C>(context, kInputRows, x->num_elements()));
    for (int64_t t = 0; t < steps; ++t) {
      for (int64_t b = 0; b < batch; ++b) {
        read(x, (batch_first_ ? b * steps + t : t * batch + b) * features, features,
             converted + (t * batch + b) * features);
      }
    }
    input = converted;
  }
  LAMINA_ASSIGN_OR_RETURN(C * products, GetScratch<C>(context, kInputProducts, steps * batch * rows));
  LAMINA_ASSIGN_OR_RETURN(C * memory,
                          GetScratch<C>(context, kStepBuffers, StepBuffers<C>::Count(batch, hidden, gates_)));
  const StepBuffers<C> buffers = StepBuffers<C>::Carve(memory, batch, hidden, gates_);

  for (int64_t d = 0; d < directions; ++d) {
    const Direction& direction = directions_[static_cast<size_t>(d)];
    CellParams params = direction.params;
    params.hidden = hidden;
    const bool lstm = params.cell == RecurrentCell::kLstm;
    read(context.Input(3), d * 2 * rows, 2 * rows, buffers.bias);
    if (lstm) read(context.Input(7), d * 3 * hidden, 3 * hidden, buffers.peephole);
    for (int64_t b = 0; b < batch; ++b) {
      read(context.Input(5), state_at(d, b), hidden, buffers.hidden + b * hidden);
      if (lstm) read(context.Input(6), state_at(d, b), hidden, buffers.cell + b * hidden);
    }
    Multiply(context.threads(), Weights(context, 1, type, d, 0, rows), input, steps * batch, buffers.bias,
             products, rows);
    const bool resets_first = ResetsFirst();
    const int64_t first_rows = resets_first ? 2 * hidden : rows;
    const WeightMatrix recurrent = Weights(context, 2, type, d, 0, first_rows);
    const C* recurrent_bias = buffers.bias + rows;
    for (int64_t step = 0; step < steps; ++step) {
      Multiply(context.threads(), recurrent, buffers.hidden, batch, recurrent_bias, buffers.recurrent, rows);
      const auto length_of = [&](int64_t b) {
        return lengths ? int64_t{lengths->data<int32_t>()[b]} : steps;
      };
      // The step of sequence b that is due, or -1 past its end.
      const auto due = [&](int64_t b) {
        if (step >= length_of(b)) return int64_t{-1};
        return direction.reverse ? length_of(b) - 1 - step : step;
      };
      const auto state_of = [&](int64_t b) {
        CellState<C> state;
        state.input = products + (due(b) * batch + b) * rows;
        state.recurrent = buffers.recurrent + b * rows;
        state.peephole = context.Input(7) ? buffers.peephole : nullptr;
        state.hidden = buffers.hidden + b * hidden;
        state.cell = buffers.cell + b * hidden;
        state.scratch = buffers.scratch + b * rows;
        return state;
      };
      if (params.cell == RecurrentCell::kGru) {
        for (int64_t b = 0; b < batch; ++b) {
          if (due(b) >= 0)
            StartGru<C>(params, state_of(b), resets_first ? buffers.reset + b * hidden : nullptr);
        }
        if (resets_first) {
          Multiply(context.threads(), Weights(context, 2, type, d, 2 * hidden, hidden), buffers.reset, batch,
                   recurrent_bias + 2 * hidden, buffers.recurrent + 2 * hidden, rows);
        }
      }
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t t = due(b);
        if (t < 0) continue;
        const CellState<C> state = state_of(b);
        if (params.cell == RecurrentCell::kGru) {
          FinishGru<C>(params, state, state.recurrent + 2 * hidden);
        } else if (lstm) {
          StepLstm(params, state);
        } else {
          StepRnn(params, state);
        }
        if (y) {
          const int64_t place =
              batch_first_ ? (b * steps + t) * directions + d : (t * directions + d) * batch + b;
          write(y, place * hidden, hidden, state.hidden);
        }
      }
    }
    for (int64_t b = 0; b < batch; ++b) {
      // Steps past the end of a sequence are zero.
      for (int64_t t = lengths ? lengths->data<int32_t>()[b] : steps; y && t < steps; ++t) {
        const int64_t place =
            batch_first_ ? (b * steps + t) * directions + d : (t * directions + d) * batch + b;
        std::fill_n(static_cast<std::byte*>(y->mutable_raw_data()) + place * hidden * bytes, hidden * bytes,
                    std::byte{0});
      }
      if (y_h) write(y_h, state_at(d, b), hidden, buffers.hidden + b * hidden);
      if (y_c) write(y_c, state_at(d, b), hidden, buffers.cell + b * hidden);
    }
  }
  return Status();
}

}  // namespace

void RegisterRecurrentKernels(KernelRegistry& registry) {
  for (const char* name : {"RNN", "GRU", "LSTM"}) {
    registry.Add(KernelDef(name)
                     .Since(7)
                     .Input(0, kFloatTypes)
                     .Input(1, kFloatTypes)
                     .Input(2, kFloatTypes)
                     .Output(0, kFloatTypes),
                 CreateKernel<Recurrent>, EstimateWorkspace<Recurrent>);
  }
}

}  // namespace lamina
