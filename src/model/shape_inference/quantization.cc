// Quantisation operators of ai.onnx.
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// The type of the zero point, else of the attribute output_dtype, else uint8.
Status InferQuantizeLinear(InferenceContext& context) {
  DataType type = context.HasInput(2) ? context.InputElement(2) : DataType::kUint8;
  if (const int64_t number = context.Int("output_dtype", 0); number != 0) {
    LAMINA_ASSIGN_OR_RETURN(const DataType attribute_type, DataTypeFromNumber(context, number));
    if (context.HasInput(2) && type != DataType::kUndefined && type != attribute_type) {
      return context.Error("output_dtype is {} where the zero point is {}", DataTypeName(attribute_type),
                           DataTypeName(type));
    }
    type = attribute_type;
  }
  context.SetOutputElement(0, type);
  return InferSameShape(context);
}

// The type of the scale, unless the attribute output_dtype names another.
Status InferDequantizeLinear(InferenceContext& context) {
  DataType type = context.InputElement(1);
  if (const int64_t number = context.Int("output_dtype", 0); number != 0) {
    LAMINA_ASSIGN_OR_RETURN(type, DataTypeFromNumber(context, number));
  }
  context.SetOutputElement(0, type);
  return InferSameShape(context);
}

Status InferDynamicQuantizeLinear(InferenceContext& context) {
  if (const SymbolicShape* x = context.InputShape(0)) context.SetOutputShape(0, *x);
  context.SetOutputShape(1, {});
  context.SetOutputShape(2, {});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"DequantizeLinear", 10, "Q S Q? -> T | Q=i8,u8,i16,u16,i32,i4,u4,i2,u2,f8,f4 S=float,f8 T=float",
     InferDequantizeLinear},
    {"DynamicQuantizeLinear", 11, "f32 -> u8 f32 u8", InferDynamicQuantizeLinear},
    {"QuantizeLinear", 10, "T S Z? -> Q | T=float,i32 S=float,i32,f8 Z=i8,u8,i16,u16,i4,u4,i2,u2,f8,f4",
     InferQuantizeLinear},
};

}  // namespace

std::span<const OperatorEntry> QuantizationOperators() { return kOperators; }

}  // namespace lamina
