// QuantizeLinear, DequantizeLinear (also of com.microsoft), DynamicQuantizeLinear.
#include <cmath>

#include "providers/cpu/quant/quant_params.h"

namespace lamina {
namespace {

constexpr int64_t kTile = 512;  // a multiple of 8: packed tiles begin at a byte
constexpr int64_t kGrain = 16 * kTile;

constexpr TypeSet kQuantIntTypes{DataType::kInt8,   DataType::kUint8, DataType::kInt16,
                                 DataType::kUint16, DataType::kInt32, DataType::kInt4,
                                 DataType::kUint4,  DataType::kInt2,  DataType::kUint2};
constexpr TypeSet kQuantFloatTypes{DataType::kFloat8E4M3Fn, DataType::kFloat8E4M3Fnuz, DataType::kFloat8E5M2,
                                   DataType::kFloat8E5M2Fnuz, DataType::kFloat4E2M1};

class QuantizeLinear : public Kernel {
 public:
  explicit QuantizeLinear(const NodeInfo& node)
      : axis_(node.Int("axis", 1)), block_size_(node.Int("block_size", 0)) {
    options_.saturate = node.Int("saturate", 1) != 0 ? Saturate::kYes : Saturate::kNo;
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scale, RequireInput(context, 1));
    const Tensor* zero_point = context.Input(2);
    LAMINA_ASSIGN_OR_RETURN(const QuantLayout layout,
                            QuantLayout::Make(x->shape(), *scale, zero_point, axis_, block_size_));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y) return Status();
    const DataType type = y->type();
    if (zero_point && zero_point->type() != type) {
      return InvalidArgumentError("the zero point's type {} is not the output's {}",
                                  DataTypeName(zero_point->type()), DataTypeName(type));
    }
    const bool to_integers = kQuantIntTypes.Contains(type);
    const IntegerRange range = to_integers ? RangeOf(type) : IntegerRange();
    context.threads().ParallelFor(x->num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      float values[kTile];
      int32_t integers[kTile];
      for (int64_t first = begin; first < end; first += kTile) {
        const int64_t count = std::min(kTile, end - first);
        ReadFloats(x->type(), x->raw_data(), first, count, values);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = layout.ScaleIndex(first + i);
          values[i] = values[i] / FloatAt(*scale, at);
          if (to_integers) {
            integers[i] = QuantizeToInt(values[i], zero_point ? IntAt(*zero_point, at) : 0, range);
          } else if (zero_point) {
            values[i] += FloatAt(*zero_point, at);
          }
        }
        auto* target = static_cast<std::byte*>(y->mutable_raw_data()) + first * DataTypeBits(type) / 8;
        if (to_integers) {
          ConvertElements(DataType::kInt32, integers, type, target, 0, count);
        } else {
          WriteFloats(type, values, target, 0, count, options_);
        }
      }
    });
    return Status();
  }

 private:
  int64_t axis_;
  int64_t block_size_;
  ConvertOptions options_;
};

class DequantizeLinear : public Kernel {
 public:
  explicit DequantizeLinear(const NodeInfo& node)
      : axis_(node.Int("axis", 1)), block_size_(node.Int("block_size", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scale, RequireInput(context, 1));
    const Tensor* zero_point = context.Input(2);
    LAMINA_ASSIGN_OR_RETURN(const QuantLayout layout,
                            QuantLayout::Make(x->shape(), *scale, zero_point, axis_, block_size_));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y) return Status();
    const DataType type = x->type();
    if (zero_point && zero_point->type() != type) {
      return InvalidArgumentError("the zero point's type {} is not the input's {}",
                                  DataTypeName(zero_point->type()), DataTypeName(type));
    }
    context.threads().ParallelFor(x->num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      float values[kTile];
      for (int64_t first = begin; first < end; first += kTile) {
        const int64_t count = std::min(kTile, end - first);
        const auto* source = static_cast<const std::byte*>(x->raw_data()) + first * DataTypeBits(type) / 8;
        if (type == DataType::kInt32) {  // differences of int32 do not fit a float
          for (int64_t i = 0; i < count; ++i) {
            const int64_t at = layout.ScaleIndex(first + i);
            const int64_t offset = zero_point ? IntAt(*zero_point, at) : 0;
            values[i] =
                static_cast<float>(static_cast<double>(reinterpret_cast<const int32_t*>(source)[i] - offset) *
                                   FloatAt(*scale, at));
          }
        } else {
          ReadFloats(type, source, 0, count, values);
          for (int64_t i = 0; i < count; ++i) {
            const int64_t at = layout.ScaleIndex(first + i);
            values[i] = (values[i] - (zero_point ? FloatAt(*zero_point, at) : 0.0f)) * FloatAt(*scale, at);
          }
        }
        WriteFloats(y->type(), values, y->mutable_raw_data(), first, count);
      }
    });
    return Status();
  }

 private:
  int64_t axis_;
  int64_t block_size_;
};

// Finds the uint8 scale and zero point that cover the input and 0, and quantises with them.
class DynamicQuantizeLinear : public Kernel {
 public:
  explicit DynamicQuantizeLinear(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * scale_out, context.Output(1, {}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * zero_out, context.Output(2, {}));
    float low = 0;
    float high = 0;
    const float* values = x->data<float>();
    const int64_t count = x->num_elements();
    for (int64_t i = 0; i < count; ++i) {
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
    const float scale = high == low ? 1.0f : (high - low) / 255.0f;
    const float zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
    if (scale_out) *scale_out->mutable_data<float>() = scale;
    if (zero_out) *zero_out->mutable_data<uint8_t>() = static_cast<uint8_t>(zero);
    if (!y) return Status();
    uint8_t* target = y->mutable_data<uint8_t>();
    context.threads().ParallelFor(count, GrainOf(4), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        target[i] =
            static_cast<uint8_t>(QuantizeToInt(values[i] / scale, static_cast<int32_t>(zero), {0, 255}));
      }
    });
    return Status();
  }
};

}  // namespace

void RegisterQuantizeLinearKernels(KernelRegistry& registry) {
  const TypeSet reals = kHalfAndFloatTypes | DataType::kInt32;
  const TypeSet scales = kHalfAndFloatTypes | DataType::kFloat8E8M0;
  for (const std::string_view domain : {std::string_view(), kMsDomain}) {
    registry.Add(KernelDef("QuantizeLinear", domain)
                     .Since(domain.empty() ? 10 : 1)
                     .Input(0, reals)
                     .Input(1, scales | DataType::kInt32)
                     .Output(0, kQuantIntTypes | kQuantFloatTypes),
                 CreateKernel<QuantizeLinear>);
    registry.Add(KernelDef("DequantizeLinear", domain)
                     .Since(domain.empty() ? 10 : 1)
                     .Input(0, kQuantIntTypes | kQuantFloatTypes)
                     .Input(1, scales)
                     .Output(0, kHalfAndFloatTypes),
                 CreateKernel<DequantizeLinear>);
  }
  registry.Add(KernelDef("DynamicQuantizeLinear")
                   .Since(11)
                   .Input(0, DataType::kFloat)
                   .Output(0, DataType::kUint8)
                   .Output(1, DataType::kFloat)
                   .Output(2, DataType::kUint8),
               CreateKernel<DynamicQuantizeLinear>);
}

}  // namespace lamina
