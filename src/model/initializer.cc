#include "model/initializer.h"

namespace lamina {

uint64_t Initializer::size_bytes() const {
  const Result<uint64_t> bytes = TensorBytes(type, shape);
  return bytes.ok() ? *bytes : 0;
}

std::optional<Tensor> Initializer::InMemory() const {
  if (const auto* tensor = std::get_if<Tensor>(&source)) return *tensor;
  if (const auto* view = std::get_if<TensorBytesView>(&source)) {
    // Tensors have one pointer type for reading and writing; the mapping itself is read-only.
    auto* data = const_cast<std::byte*>(view->bytes.data());
    return Tensor::View(type, shape, data, view->bytes.size());
  }
  return std::nullopt;
}

}  // namespace lamina
