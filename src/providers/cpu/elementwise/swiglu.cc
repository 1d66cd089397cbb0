// SwiGLU: swish(a) * b; of ai.onnx, and of the domain of rewrites (model/shape_inference/lamina_ops.cc),
// where a and b may also be the halves of one tensor's rows.
#include <type_traits>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

class SwiGlu : public Kernel {
 public:
  explicit SwiGlu(const NodeInfo& node) : alpha_(node.Float("alpha", 1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    const Tensor* b = context.num_inputs() > 1 ? context.Input(1) : nullptr;
    if (!b) return ComputeHalves(context, *a);
    if (a->type() != b->type()) return InvalidArgumentError("the operands' types differ");
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(a->shape(), b->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const int64_t bytes = ElementBytes(a->type());
    const BroadcastOperand operands[] = {{a->raw_data(), a->shape(), bytes},
                                         {b->raw_data(), b->shape(), bytes}};
    ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), bytes, /*work=*/32,
                        [&](const BroadcastRow& row) {
                          DispatchType<float, double, Float16, Bfloat16>(
                              a->type(), [&](auto tag) { Run<typename decltype(tag)::type>(row); });
                        });
    return Status();
  }

 private:
  Status ComputeHalves(KernelContext& context, const Tensor& packed) const {
    const int last = packed.shape().rank() - 1;
    if (last < 0 || packed.shape()[last] % 2 != 0) {
      return InvalidArgumentError("rows of an even size are needed, found {}", packed.shape().ToString());
    }
    Shape shape = packed.shape();
    const int64_t width = shape[last] /= 2;
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || out->num_elements() == 0) return Status();
    const int64_t bytes = ElementBytes(packed.type());
    const auto* source = static_cast<const std::byte*>(packed.raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    // Rows in pieces: one row of a decode step is shared by the threads.
    constexpr int64_t kPiece = 512;
    const int64_t pieces = (width + kPiece - 1) / kPiece;
    context.threads().ParallelFor(
        shape.num_elements() / width * pieces, GrainOf(32 * std::min(width, kPiece)),
        [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / pieces;
            const int64_t first = i % pieces * kPiece;
            const std::byte* gate = source + (2 * row * width + first) * bytes;
            BroadcastRow piece;
            piece.count = std::min(kPiece, width - first);
            piece.inputs[0] = gate;
            piece.inputs[1] = gate + width * bytes;
            piece.output = target + (row * width + first) * bytes;
            DispatchType<float, double, Float16, Bfloat16>(
                packed.type(), [&](auto tag) { Run<typename decltype(tag)::type>(piece); });
          }
        });
    return Status();
  }

  template <typename T>
  void Run(const BroadcastRow& row) const {
    if constexpr (std::is_same_v<T, float>) {
      const float* value = row.input<float>(1);
      float* out = row.out<float>();
      if (!row.repeated[0] && !row.repeated[1] && value != out) {
        ActiveVecMath().quick_gelu(row.input<float>(0), out, row.count, alpha_);
        for (int64_t i = 0; i < row.count; ++i) out[i] *= value[i];
        return;
      }
    }
    using C = ComputeType<T>;
    const C alpha = static_cast<C>(alpha_);
    for (int64_t i = 0; i < row.count; ++i) {
      const C gate = static_cast<C>(row.input<T>(0)[row.repeated[0] ? 0 : i]);
      const C value = static_cast<C>(row.input<T>(1)[row.repeated[1] ? 0 : i]);
      row.out<T>()[i] = static_cast<T>(gate / (C(1) + std::exp(-alpha * gate)) * value);
    }
  }

  float alpha_;
};

}  // namespace

void RegisterSwiGluKernels(KernelRegistry& registry) {
  for (KernelDef def : {KernelDef("SwiGLU").Since(28), KernelDef("SwiGLU", "lamina")}) {
    def.Input(0, kFloatTypes).Input(1, kFloatTypes).Output(0, kFloatTypes).MayInplace(0, 0);
    registry.Add(std::move(def), CreateKernel<SwiGlu>);
  }
}

}  // namespace lamina
