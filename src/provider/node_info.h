// What a kernel may know of its node before any run: at creation, in workspace functions and in prepacking.
// An abstract class, so that the same kernel source serves in the tree (graph nodes) and in a plugin (the C
// ABI).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "lamina/status.h"
#include "lamina/value.h"
#include "model/attribute.h"
#include "model/dim_expr.h"
#include "provider/device_description.h"

namespace lamina {

class NodeInfo {
 public:
  virtual ~NodeInfo() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view op_type() const = 0;
  virtual std::string_view domain() const = 0;
  // The opset version the model imports for the domain.
  virtual int opset_version() const = 0;

  // Counts include absent optional ones before the last present one.
  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  // kUndefined for an absent optional input or output.
  virtual ValueType input_type(int index) const = 0;
  virtual ValueType output_type(int index) const = 0;
  bool HasInput(int index) const {
    return index < num_inputs() && input_type(index).kind != ValueKind::kUndefined;
  }
  bool HasOutput(int index) const {
    return index < num_outputs() && output_type(index).kind != ValueKind::kUndefined;
  }

  // Bounds of the dimensions over everything the session admits; null where the rank is unknown or the input
  // is absent. A static shape has min == max everywhere. Valid until the callback it was passed to returns.
  virtual const ShapeBounds* input_bounds(int index) const = 0;
  virtual const ShapeBounds* output_bounds(int index) const = 0;
  // The constant where the input is one and is at most 64 KiB, else null: planning reads no weights.
  virtual const Tensor* constant_input(int index) const = 0;
  // Whether the input is a constant of any size.
  virtual bool is_constant_input(int index) const = 0;

  virtual const Attribute* FindAttribute(std::string_view attribute) const = 0;
  virtual const DeviceDescription& device() const = 0;

  // The attribute's value, or the default where it is absent or of another type (types are checked by shape
  // inference before a kernel is made).
  int64_t Int(std::string_view attribute, int64_t default_value) const;
  float Float(std::string_view attribute, float default_value) const;
  std::string_view String(std::string_view attribute, std::string_view default_value) const;
  // Empty where absent.
  std::span<const int64_t> Ints(std::string_view attribute) const;
  std::span<const float> Floats(std::string_view attribute) const;
  std::span<const std::string> Strings(std::string_view attribute) const;
  // The tensor attribute where its bytes are in memory, else nothing.
  std::optional<Tensor> TensorAttribute(std::string_view attribute) const;
};

}  // namespace lamina
