#include "providers/cpu/nn/conv.h"

#include "providers/cpu/nn/conv_call.h"
#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

// Scratch slots.
constexpr int kWeightsAsFloat = 0;

bool IsHalfType(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

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
  LAMINA_ASSIGN_OR_RETURN(epilogue.activation, FusedActivation(node));
  epilogue.is_relu = node.String("activation", "") == "Relu";
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
