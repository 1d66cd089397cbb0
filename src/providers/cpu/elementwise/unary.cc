#include "providers/cpu/elementwise/unary.h"

#include "providers/cpu/simd/vec_math.h"

namespace lamina {

Status UnaryKernel::Compute(KernelContext& context) const {
  LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
  LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
  if (!out) return Status();
  const DataType type = input->type();
  const int64_t in_bytes = ElementBytes(type);
  const int64_t out_bytes = ElementBytes(out->type());
  const auto* source = static_cast<const std::byte*>(input->raw_data());
  auto* target = static_cast<std::byte*>(out->mutable_raw_data());
  context.threads().ParallelFor(input->num_elements(), GrainOf(work_), [&](int64_t begin, int64_t end, int) {
    if (!through_float_) {
      function_(source + begin * in_bytes, target + begin * out_bytes, end - begin, params_);
      return;
    }
    constexpr int64_t kTile = 512;
    float tile[kTile];
    for (int64_t done = begin; done < end; done += kTile) {
      const int64_t count = std::min(kTile, end - done);
      ConvertToFloat(type, source + done * in_bytes, tile, count);
      function_(tile, tile, count, params_);
      ConvertFromFloat(type, tile, target + done * out_bytes, count);
    }
  });
  return Status();
}

Result<std::unique_ptr<Kernel>> CreateFloatUnary(const NodeInfo& node, UnaryFunction of_float,
                                                 UnaryFunction of_double, UnaryParams params, int64_t work) {
  const DataType type = node.input_type(0).element;
  return std::unique_ptr<Kernel>(
      std::make_unique<UnaryKernel>(type == DataType::kDouble ? of_double : of_float, params,
                                    type == DataType::kFloat16 || type == DataType::kBfloat16, work));
}

}  // namespace lamina
