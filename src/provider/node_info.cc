#include "provider/node_info.h"

namespace lamina {
namespace {

// The attribute's value as T, or null.
template <typename T>
const T* ValueOf(const NodeInfo& node, std::string_view attribute) {
  const Attribute* found = node.FindAttribute(attribute);
  return found ? std::get_if<T>(&found->value) : nullptr;
}

}  // namespace

int64_t NodeInfo::Int(std::string_view attribute, int64_t default_value) const {
  const auto* value = ValueOf<int64_t>(*this, attribute);
  return value ? *value : default_value;
}

float NodeInfo::Float(std::string_view attribute, float default_value) const {
  const auto* value = ValueOf<float>(*this, attribute);
  return value ? *value : default_value;
}

std::string_view NodeInfo::String(std::string_view attribute, std::string_view default_value) const {
  const auto* value = ValueOf<std::string>(*this, attribute);
  return value ? std::string_view(*value) : default_value;
}

std::span<const int64_t> NodeInfo::Ints(std::string_view attribute) const {
  const auto* value = ValueOf<std::vector<int64_t>>(*this, attribute);
  return value ? std::span<const int64_t>(*value) : std::span<const int64_t>();
}

std::span<const float> NodeInfo::Floats(std::string_view attribute) const {
  const auto* value = ValueOf<std::vector<float>>(*this, attribute);
  return value ? std::span<const float>(*value) : std::span<const float>();
}

std::span<const std::string> NodeInfo::Strings(std::string_view attribute) const {
  const auto* value = ValueOf<std::vector<std::string>>(*this, attribute);
  return value ? std::span<const std::string>(*value) : std::span<const std::string>();
}

std::optional<Tensor> NodeInfo::TensorAttribute(std::string_view attribute) const {
  const auto* value = ValueOf<std::shared_ptr<const Initializer>>(*this, attribute);
  return value && *value ? (*value)->InMemory() : std::nullopt;
}

}  // namespace lamina
