// Col2Im: adds the columns of an im2col matrix back to the image they were taken from.
#include "providers/cpu/nn/conv_windows.h"

namespace lamina {
namespace {

class Col2Im : public Kernel {
 public:
  explicit Col2Im(const NodeInfo& node) : window_(node) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* image_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* block_input, RequireInput(context, 2));
    LAMINA_ASSIGN_OR_RETURN(const IntList image, ReadInts(*image_input));
    LAMINA_ASSIGN_OR_RETURN(const IntList block, ReadInts(*block_input));
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, window_.Resolve(image.span(), block.span()));
    const Shape& shape = x->shape();  // [batch, channels * block, positions]
    const int64_t taps = window.kernel_size();
    const int64_t positions = window.output_size();
    if (shape.rank() != 3 || taps == 0 || shape[1] % taps != 0 || shape[2] != positions) {
      return InvalidArgumentError("columns {} do not fit blocks of {} at {} positions", shape.ToString(),
                                  taps, positions);
    }
    const int64_t channels = shape[1] / taps;
    Shape out_shape{shape[0], channels};
    for (const int64_t extent : image) out_shape.Append(extent);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y) return Status();
    const int64_t pixels = window.input_size();
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      context.threads().ParallelFor(
          shape[0] * channels, GrainOf(8 * taps * positions), [&](int64_t begin, int64_t end, int) {
            for (int64_t plane = begin; plane < end; ++plane) {
              const T* columns = x->data<T>() + plane * taps * positions;
              T* target = y->mutable_data<T>() + plane * pixels;
              std::fill_n(target, pixels, static_cast<T>(C(0)));
              for (int64_t tap = 0; tap < taps; ++tap) {
                for (int64_t position = 0; position < positions; ++position) {
                  const int64_t place = WindowTap(window, position, tap);
                  if (place < 0) continue;
                  target[place] = static_cast<T>(static_cast<C>(target[place]) +
                                                 static_cast<C>(columns[tap * positions + position]));
                }
              }
            }
          });
    });
    return Status();
  }

 private:
  WindowAttributes window_;
};

}  // namespace

void RegisterCol2ImKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Col2Im")
                   .Since(18)
                   .Input(0, kNumericTypes)
                   .HostInput(1)
                   .HostInput(2)
                   .Output(0, kNumericTypes),
               CreateKernel<Col2Im>);
}

}  // namespace lamina
