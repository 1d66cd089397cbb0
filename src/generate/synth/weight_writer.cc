#include "generate/synth/weight_writer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/half.h"

namespace lamina {
namespace {

constexpr int64_t kChunkElements = 1 << 16;

}  // namespace

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t WeightWriter::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

float WeightWriter::NextUnit() { return static_cast<float>(static_cast<int32_t>(Next() >> 32)) * 0x1p-31f; }

Result<ValueId> WeightWriter::Write(const std::string& name, DataType type, const Shape& shape,
                                    const std::function<float(int64_t index)>& draw) {
  LAMINA_RETURN_IF_ERROR(data_.Begin());
  const int64_t count = shape.num_elements();
  std::vector<float> floats;
  std::vector<uint16_t> halves;
  for (int64_t first = 0; first < count; first += kChunkElements) {
    const int64_t chunk = std::min(kChunkElements, count - first);
    floats.resize(static_cast<size_t>(chunk));
    for (int64_t i = 0; i < chunk; ++i) floats[static_cast<size_t>(i)] = draw(first + i);
    std::span<const std::byte> bytes = std::as_bytes(std::span(floats));
    if (type == DataType::kFloat16) {
      halves.resize(floats.size());
      std::transform(floats.begin(), floats.end(), halves.begin(), FloatToHalfBits);
      bytes = std::as_bytes(std::span(halves));
    }
    LAMINA_RETURN_IF_ERROR(data_.Append(bytes));
    if (progress_) LAMINA_RETURN_IF_ERROR(progress_(data_.bytes_written()));
  }
  return Finish(name, type, shape);
}

Result<ValueId> WeightWriter::Finish(const std::string& name, DataType type, const Shape& shape) {
  SymbolicShape symbolic;
  for (const int64_t dim : shape) symbolic.dims.emplace_back(dim);
  const ValueId id = graph_.MakeValue(name, ValueType::Tensor(type), std::move(symbolic));
  graph_.AddInitializer(id, Initializer{graph_.value(id).name, type, shape, data_.End()});
  return id;
}

Result<ValueId> WeightWriter::Uniform(const std::string& name, DataType type, const Shape& shape,
                                      float bound) {
  return Write(name, type, shape, [&](int64_t) { return bound * NextUnit(); });
}

Result<ValueId> WeightWriter::AroundOne(const std::string& name, DataType type, const Shape& shape) {
  return Write(name, type, shape, [&](int64_t) { return 1.0f + 0.1f * NextUnit(); });
}

Result<ValueId> WeightWriter::Rotary(const std::string& name, DataType type, int64_t positions,
                                     int64_t half_size, bool sine) {
  constexpr double kBase = 10000.0;
  return Write(name, type, Shape{positions, half_size}, [&](int64_t index) {
    const auto position = static_cast<double>(index / half_size);
    const double exponent = static_cast<double>(index % half_size) / static_cast<double>(half_size);
    const double angle = position / std::pow(kBase, exponent);
    return static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
  });
}

Result<ValueId> WeightWriter::Scales(const std::string& name, DataType type, const Shape& shape,
                                     float scale) {
  return Write(name, type, shape, [&](int64_t) { return scale * (1.0f + 0.25f * NextUnit()); });
}

Result<ValueId> WeightWriter::Bits(const std::string& name, const Shape& shape) {
  LAMINA_RETURN_IF_ERROR(data_.Begin());
  std::vector<uint64_t> words(kChunkElements);
  for (int64_t left = shape.num_elements(); left > 0;) {
    const int64_t bytes = std::min<int64_t>(left, kChunkElements * 8);
    for (int64_t i = 0; i < (bytes + 7) / 8; ++i) words[static_cast<size_t>(i)] = Next();
    LAMINA_RETURN_IF_ERROR(data_.Append(std::as_bytes(std::span(words)).first(static_cast<size_t>(bytes))));
    if (progress_) LAMINA_RETURN_IF_ERROR(progress_(data_.bytes_written()));
    left -= bytes;
  }
  return Finish(name, DataType::kUint8, shape);
}

}  // namespace lamina
