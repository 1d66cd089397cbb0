#include "providers/cpu/nn/conv.h"

#include <cstring>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

// Scratch slots.
constexpr int kWeightsAsFloat = 0;

bool IsHalfType(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// Everything about one call that the loops need.
struct ConvCall {
  DataType type = DataType::kFloat;
  const void* x = nullptr;         // [batch, groups * channels, input...]
  const float* weights = nullptr;  // [groups * filters, channels, kernel...]
  const void* bias = nullptr;      // [groups * filters] or null
  const void* sum = nullptr;       // the output's shape, or null
  void* y = nullptr;               // [batch, groups * filters, output...]
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t filters = 0;   // of a group
  WindowGeometry window;
  const ConvEpilogue* epilogue = nullptr;

  float BiasOf(int64_t filter) const {
    float value = 0;
    if (bias)
      ConvertToFloat(type, static_cast<const std::byte*>(bias) + filter * ElementBytes(type), &value, 1);
    return value;
  }

  // Stores `count` (at most kTile) results of plane `plane` ([batch * groups * filters]) from `position` on.
  static constexpr int64_t kTile = 256;
  void Store(int64_t plane, int64_t position, int64_t count, const float* values) const {
    float tile[kTile];
    const int64_t first = plane * window.output_size() + position;
    const float offset = BiasOf(plane % (groups * filters));
    for (int64_t i = 0; i < count; ++i) tile[i] = values[i] + offset;
    if (sum) {
      float other[kTile];
      ConvertToFloat(type, static_cast<const std::byte*>(sum) + first * ElementBytes(type), other, count);
      for (int64_t i = 0; i < count; ++i) tile[i] += other[i];
    }
    if (epilogue->activation) epilogue->activation->Apply(tile, count);
    ConvertFromFloat(type, tile, static_cast<std::byte*>(y) + first * ElementBytes(type), count);
  }
};

void ConvAsProduct(ThreadPool& threads, const ConvCall& call) {
  const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
  const int64_t k = call.channels * call.window.kernel_size();
  const int64_t plane = call.window.input_size();
  const GemmShape shape{call.batch * call.groups, call.filters, call.window.output_size(), k};
  const bool pointwise = IsPointwise(call.window);
  const auto input_of = [&](int64_t product) {
    return static_cast<const std::byte*>(call.x) + product * call.channels * plane * ElementBytes(call.type);
  };
  RunGemm(
      threads, kernels, shape,
      [&](int64_t product) { return call.weights + product % call.groups * call.filters * k; }, k,
      [&](const GemmPanelRequest& request) -> GemmPanel {
        if (pointwise) {
          const PlainMatrix windows{input_of(request.batch), call.type, k, shape.n, false};
          return PlainPanel(kernels, windows, shape.m, request);
        }
        const WindowPanel panel{request.column,
                                std::min<int64_t>(kernels.panel_columns, shape.n - request.column),
                                kernels.panel_columns, request.k_begin, request.k_count};
        FillWindowPanel(call.window, call.type, input_of(request.batch), panel, request.buffer);
        return {request.buffer, kernels.panel_columns, DataType::kFloat};
      },
      [&](int64_t product, int64_t filter, int64_t column, int64_t count, const float* values) {
        call.Store(product * call.filters + filter, column, count, values);
      });
}

// One input channel for each group: output rows accumulate the taps of their window.
void ConvDepthwise(ThreadPool& threads, const ConvCall& call) {
  const WindowGeometry& window = call.window;
  const int last = window.rank - 1;
  const int64_t width = window.output[last];
  const int64_t rows = window.output_size() / width;
  const int64_t kernel = window.kernel_size();
  const int64_t bytes = ElementBytes(call.type);
  threads.ParallelFor(call.batch * call.groups * call.filters * rows, GrainOf(width * kernel),
                      [&](int64_t begin, int64_t end, int) {
                        float sums[ConvCall::kTile];
                        for (int64_t unit = begin; unit < end; ++unit) {
                          const int64_t row = unit % rows;
                          const int64_t plane = unit / rows;
                          const int64_t filter = plane % (call.groups * call.filters);
                          const std::byte* x = static_cast<const std::byte*>(call.x) +
                                               plane / call.filters * window.input_size() * bytes;
                          for (int64_t first = 0; first < width; first += ConvCall::kTile) {
                            const int64_t count = std::min(ConvCall::kTile, width - first);
                            std::fill_n(sums, count, 0.0f);
                            AccumulateWindowRow(window, call.type, x, row, first, count,
                                                call.weights + filter * kernel, sums);
                            call.Store(plane, row * width + first, count, sums);
                          }
                        }
                      });
}

// fp64, by definition of the operator.
void ConvDouble(ThreadPool& threads, const ConvCall& call, const double* weights) {
  const WindowGeometry& window = call.window;
  const int64_t outputs = window.output_size();
  const int64_t kernel = window.kernel_size();
  const int64_t k = call.channels * kernel;
  const auto* x = static_cast<const double*>(call.x);
  const auto* bias = static_cast<const double*>(call.bias);
  auto* y = static_cast<double*>(call.y);
  threads.ParallelFor(
      call.batch * call.groups * call.filters, GrainOf(outputs * k), [&](int64_t begin, int64_t end, int) {
        for (int64_t plane = begin; plane < end; ++plane) {
          const int64_t filter = plane % (call.groups * call.filters);
          const double* input = x + plane / call.filters * call.channels * window.input_size();
          for (int64_t position = 0; position < outputs; ++position) {
            double total = bias ? bias[filter] : 0;
            for (int64_t i = 0; i < k; ++i) {
              const int64_t place = WindowTap(window, position, i % kernel);
              if (place >= 0)
                total += weights[filter * k + i] * input[i / kernel * window.input_size() + place];
            }
            y[plane * outputs + position] = total;
          }
        }
      });
}

}  // namespace

Result<ConvEpilogue> ParseConvEpilogue(const NodeInfo& node) {
  ConvEpilogue epilogue;
  if (node.domain() != kMsDomain) return epilogue;
  epilogue.sum_input = 3;
  if (const std::string_view name = node.String("activation", ""); !name.empty()) {
    LAMINA_ASSIGN_OR_RETURN(epilogue.activation, FindActivation(name, node.Floats("activation_params")));
  }
  return epilogue;
}

Status Conv::Validate(const NodeInfo& node) {
  LAMINA_RETURN_IF_ERROR(WindowAttributes::Validate(node));
  if (node.Int("group", 1) < 1) return InvalidModelError("group must be positive");
  return ParseConvEpilogue(node).status();
}

Conv::Conv(const NodeInfo& node)
    : window_(node), groups_(node.Int("group", 1)), epilogue_(*ParseConvEpilogue(node)) {
  const ShapeBounds* weights = node.input_bounds(1);
  if (weights && weights->bounded()) packed_weight_shape_ = weights->Max();
}

Status Conv::Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
  if (!IsHalfType(node.input_type(0).element) || node.is_constant_input(1)) return Status();
  LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestInputElements(node, 1));
  return requirements.Add(kWeightsAsFloat, static_cast<size_t>(elements) * sizeof(float));
}

Status Conv::DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const {
  if (input != 1 || !IsHalfType(node.input_type(0).element)) return Status();
  LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestInputElements(node, 1));
  declaration.prepack = true;
  declaration.packed_bytes = static_cast<uint64_t>(elements) * sizeof(float);
  return Status();
}

Status Conv::PrePackWeight(int input, PrepackContext& context, void* packed, void*) const {
  const Tensor* weights = context.Constant(input);
  if (!weights) return InternalError("the weight to prepack is no constant");
  ConvertToFloat(weights->type(), weights->raw_data(), static_cast<float*>(packed), weights->num_elements());
  return Status();
}

Status Conv::Compute(KernelContext& context) const {
  LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
  const Tensor* weights = context.Input(1);
  const PackedWeight packed = context.Packed(1);
  if (!weights && !packed.data) return InvalidArgumentError("the weights are missing");
  const Shape weight_shape = weights ? weights->shape() : packed_weight_shape_;
  const Tensor* bias = context.Input(2);
  const Shape& shape = x->shape();
  if (shape.rank() < 3 || weight_shape.rank() != shape.rank() || weight_shape[0] % groups_ != 0 ||
      shape[1] != weight_shape[1] * groups_ || (weights && weights->type() != x->type())) {
    return InvalidArgumentError("weights {} with {} groups do not fit input {}", weight_shape.ToString(),
                                groups_, shape.ToString());
  }
  if (bias && (bias->num_elements() != weight_shape[0] || bias->type() != x->type())) {
    return InvalidArgumentError("bias {} does not fit {} filters", bias->shape().ToString(), weight_shape[0]);
  }
  ConvCall call;
  LAMINA_ASSIGN_OR_RETURN(call.window,
                          window_.Resolve(shape.dims().subspan(2), weight_shape.dims().subspan(2)));
  const Shape out_shape = call.window.OutputShape(shape[0], weight_shape[0]);
  if (epilogue_.sum_input >= 0) {
    const Tensor* sum = context.Input(epilogue_.sum_input);
    if (sum && (!(sum->shape() == out_shape) || sum->type() != x->type())) {
      return InvalidArgumentError("the sum {} does not fit the output {}", sum->shape().ToString(),
                                  out_shape.ToString());
    }
    call.sum = sum ? sum->raw_data() : nullptr;
  }
  LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
  if (!y || y->num_elements() == 0) return Status();
  call.type = x->type();
  call.x = x->raw_data();
  call.bias = bias ? bias->raw_data() : nullptr;
  call.y = y->mutable_raw_data();
  call.batch = shape[0];
  call.groups = groups_;
  call.channels = weight_shape[1];
  call.filters = weight_shape[0] / groups_;
  call.epilogue = &epilogue_;
  if (call.type == DataType::kDouble) {
    ConvDouble(context.threads(), call, weights->data<double>());
    return Status();
  }
  if (packed.data) {
    call.weights = static_cast<const float*>(packed.data);
  } else if (IsHalfType(call.type)) {
    LAMINA_ASSIGN_OR_RETURN(float* converted,
                            GetScratch<float>(context, kWeightsAsFloat, weights->num_elements()));
    ConvertToFloat(call.type, weights->raw_data(), converted, weights->num_elements());
    call.weights = converted;
  } else {
    call.weights = weights->data<float>();
  }
  if (call.channels == 1 && call.groups > 1) {
    ConvDepthwise(context.threads(), call);
  } else {
    ConvAsProduct(context.threads(), call);
  }
  return Status();
}

void RegisterConvKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Conv").Input(0, kFloatTypes).Input(1, kFloatTypes).Output(0, kFloatTypes),
               CreateKernel<Conv>, EstimateWorkspace<Conv>);
  registry.Add(KernelDef("FusedConv", kMsDomain)
                   .Input(0, kHalfAndFloatTypes)
                   .Input(1, kHalfAndFloatTypes)
                   .Output(0, kHalfAndFloatTypes),
               CreateKernel<Conv>, EstimateWorkspace<Conv>);
}

}  // namespace lamina
