#include "weights/block_quantizer.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace lamina {

BlockQuantizer::BlockQuantizer(int bits, int64_t block_size, int64_t k, DataType scale_type)
    : bits_(bits),
      block_size_(block_size),
      k_(k),
      blocks_((k + block_size - 1) / block_size),
      block_bytes_(block_size * bits / 8),
      scale_type_(scale_type) {}

float BlockQuantizer::AsStored(float scale) const {
  if (scale_type_ == DataType::kFloat16) return Float16(scale);
  if (scale_type_ == DataType::kBfloat16) return Bfloat16(scale);
  return scale;
}

void BlockQuantizer::Quantize(std::span<const float> columns, int64_t count) {
  // What fills a last block up to its size stands for the weight 0.
  const uint8_t zero = bits_ == 4 ? 0x88 : 0x80;
  packed_.assign(static_cast<size_t>(count * blocks_ * block_bytes_), zero);
  scales_.assign(static_cast<size_t>(count * blocks_), 0.0f);
  for (int64_t column = 0; column < count; ++column) {
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t first = block * block_size_;
      const auto weights = columns.subspan(static_cast<size_t>(column * k_ + first),
                                           static_cast<size_t>(std::min(block_size_, k_ - first)));
      QuantizeBlock(weights, static_cast<size_t>(column * blocks_ + block));
    }
  }
}

void BlockQuantizer::QuantizeBlock(std::span<const float> weights, size_t block) {
  const int middle = 1 << (bits_ - 1);
  const float extreme = *std::max_element(weights.begin(), weights.end(),
                                          [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float scale = AsStored(extreme / static_cast<float>(-middle));
  scales_[block] = scale;
  if (scale == 0.0f || !std::isfinite(scale)) return;
  uint8_t* packed = packed_.data() + block * static_cast<size_t>(block_bytes_);
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto nearest = static_cast<int>(std::clamp(
        std::nearbyint(weights[i] / scale), static_cast<float>(-middle), static_cast<float>(middle)));
    const auto code = static_cast<uint8_t>(std::min(nearest + middle, 2 * middle - 1));
    if (bits_ == 8) {
      packed[i] = code;
    } else {
      const unsigned shift = i % 2 == 0 ? 0 : 4;
      packed[i / 2] = static_cast<uint8_t>((packed[i / 2] & ~(0xfu << shift)) | (unsigned{code} << shift));
    }
  }
}

int BlockQuantizer::Code(size_t block, int64_t position) const {
  const uint8_t* packed = packed_.data() + block * static_cast<size_t>(block_bytes_);
  if (bits_ == 8) return packed[position];
  return packed[position / 2] >> (position % 2 == 0 ? 0 : 4) & 0xf;
}

float BlockQuantizer::Restored(size_t index) const {
  const int64_t column = static_cast<int64_t>(index) / k_;
  const int64_t row = static_cast<int64_t>(index) % k_;
  const auto block = static_cast<size_t>(column * blocks_ + row / block_size_);
  return static_cast<float>(Code(block, row % block_size_) - (1 << (bits_ - 1))) * scales_[block];
}

}  // namespace lamina
