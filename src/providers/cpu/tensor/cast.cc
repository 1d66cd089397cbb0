// Cast and CastLike between all element types.
#include <charconv>
#include <cmath>
#include <string>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

// The shortest text that reads back as the number; NaN, INF and -INF as ONNX writes them.
std::string NumberToText(double value, bool single) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  char text[64];
  const auto end = single ? std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr
                          : std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

Status ToText(const Tensor& input, std::string* texts) {
  const int64_t count = input.num_elements();
  if (DispatchType<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          input.type(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            for (int64_t i = 0; i < count; ++i) texts[i] = std::to_string(input.data<T>()[i]);
          })) {
    return Status();
  }
  if (input.type() == DataType::kBool) {
    for (int64_t i = 0; i < count; ++i) texts[i] = input.data<bool>()[i] ? "1" : "0";
    return Status();
  }
  if (input.type() == DataType::kDouble) {
    for (int64_t i = 0; i < count; ++i) texts[i] = NumberToText(input.data<double>()[i], /*single=*/false);
    return Status();
  }
  if (!IsConvertible(input.type())) {
    return UnsupportedError("a cast from {} to string", DataTypeName(input.type()));
  }
  for (int64_t i = 0; i < count; ++i) {
    float value = 0;
    ReadFloats(input.type(), input.raw_data(), i, 1, &value);
    texts[i] = NumberToText(value, /*single=*/true);
  }
  return Status();
}

// A number in plain or scientific notation, NaN and infinities in any case; spaces around it are allowed.
template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  const size_t begin = text.find_first_not_of(" \t\n\r");
  if (begin == std::string_view::npos) return false;
  text = text.substr(begin, text.find_last_not_of(" \t\n\r") + 1 - begin);
  if (text.front() == '+') text.remove_prefix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (parsed.ec == std::errc::result_out_of_range && std::is_floating_point_v<T>) {
    *value = static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));  // rounds to 0 or infinity
    return true;
  }
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

Status FromText(const Tensor& input, Tensor& out, const ConvertOptions& options) {
  const std::string* texts = input.data<std::string>();
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    bool parsed = false;
    if (kIntTypes.Contains(out.type()) || out.type() == DataType::kBool) {
      DispatchType<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>(
          out.type(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            int64_t integer = 0;
            uint64_t natural = 0;
            double number = 0;
            T& target = out.mutable_data<T>()[i];
            if (ParseNumber(texts[i], &integer)) {
              target = ConvertNumber<T>(integer);
              parsed = true;
            } else if (ParseNumber(texts[i], &natural)) {
              target = ConvertNumber<T>(natural);
              parsed = true;
            } else if (ParseNumber(texts[i], &number)) {
              target = ConvertNumber<T>(number);
              parsed = true;
            }
          });
    } else if (out.type() == DataType::kDouble) {
      parsed = ParseNumber(texts[i], &out.mutable_data<double>()[i]);
    } else if (IsConvertible(out.type())) {
      float value = 0;
      parsed = ParseNumber(texts[i], &value);
      WriteFloats(out.type(), &value, out.mutable_raw_data(), i, 1, options);
    }
    if (!parsed)
      return InvalidArgumentError("'{}' (element {}) is no {}", texts[i], i, DataTypeName(out.type()));
  }
  return Status();
}

class Cast : public Kernel {
 public:
  explicit Cast(const NodeInfo& node) {
    options_.saturate = node.Int("saturate", 1) != 0 ? Saturate::kYes : Saturate::kNo;
    const std::string_view mode = node.String("round_mode", "up");
    options_.e8m0_rounding = mode == "down"      ? E8M0Rounding::kDown
                             : mode == "nearest" ? E8M0Rounding::kNearest
                                                 : E8M0Rounding::kUp;
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    const DataType from = input->type();
    const DataType to = out->type();
    if (from == to && DataTypeBits(from) >= 8) {
      if (out->raw_data() != input->raw_data()) {
        CopyElements(from, input->raw_data(), out->mutable_raw_data(), input->num_elements());
      }
      return Status();
    }
    if (to == DataType::kString) return ToText(*input, out->mutable_data<std::string>());
    if (from == DataType::kString) return FromText(*input, *out, options_);
    if (!IsConvertible(from) || !IsConvertible(to)) {
      return UnsupportedError("a cast from {} to {}", DataTypeName(from), DataTypeName(to));
    }
    context.threads().ParallelFor(
        input->num_elements(), /*grain=*/16 * 1024, [&](int64_t begin, int64_t end, int) {
          ConvertElements(from, input->raw_data(), to, out->mutable_raw_data(), begin, end - begin, options_);
        });
    return Status();
  }

 private:
  ConvertOptions options_;
};

}  // namespace

void RegisterCastKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Cast").MayInplace(0, 0), CreateKernel<Cast>);
  registry.Add(KernelDef("CastLike").Since(15), CreateKernel<Cast>);
}

}  // namespace lamina
