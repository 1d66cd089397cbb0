// Small things that most CPU kernels need: required inputs, axes, integer lists read from inputs, and how
// loops are cut into chunks.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <span>

#include "base/element_type.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "lamina/types.h"
#include "provider/kernel.h"
#include "provider/kernel_context.h"
#include "provider/kernel_registry.h"
#include "provider/node_info.h"

namespace lamina {

// Integers held inline: axes, pads, starts and the like.
class IntList {
 public:
  static constexpr int kCapacity = 2 * Shape::kMaxRank;

  IntList() = default;
  // REQUIRES: at most kCapacity values.
  explicit IntList(std::span<const int64_t> values) : size_(static_cast<int>(values.size())) {
    assert(values.size() <= kCapacity);
    std::copy(values.begin(), values.end(), values_.begin());
  }
  IntList(int size, int64_t value) : size_(size) { std::fill_n(values_.begin(), size, value); }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  // REQUIRES: size() < kCapacity.
  void Append(int64_t value) { values_[static_cast<size_t>(size_++)] = value; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  std::span<const int64_t> span() const { return {values_.data(), static_cast<size_t>(size_)}; }

 private:
  std::array<int64_t, kCapacity> values_{};
  int size_ = 0;
};

// The attribute as a list; INVALID_MODEL where it is longer than any list of axes can be.
Result<IntList> IntsAttribute(const NodeInfo& node, std::string_view attribute);

// The tensor input; INVALID_ARGUMENT where it is absent.
Result<const Tensor*> RequireInput(const KernelContext& context, int index);

// An axis in [-rank, rank) counted from the front.
Result<int> NormalizeAxis(int64_t axis, int rank);
// Bit `axis` is set for every axis of the list; INVALID_ARGUMENT for one that is out of range or named twice.
Result<uint32_t> AxisMask(std::span<const int64_t> axes, int rank);

// The elements of a scalar or 1-D tensor of int32 or int64.
Result<IntList> ReadInts(const Tensor& tensor);
// The single element of a tensor of int32 or int64.
Result<int64_t> ReadInt(const Tensor& tensor);
// The single element of a floating-point or integer tensor.
Result<double> ReadNumber(const Tensor& tensor);

// Row-major strides in elements.
IntList ContiguousStrides(const Shape& shape);

// Items of a loop one thread takes at a time, where an item costs about `work` simple operations. A chunk is
// worth some 10 us; it depends on the work alone, so that results cannot depend on the number of threads.
inline int64_t GrainOf(int64_t work) {
  constexpr int64_t kChunkWork = 32 * 1024;
  return std::max<int64_t>(1, kChunkWork / std::max<int64_t>(1, work));
}

// Copies `count` elements of a whole-byte type or of strings.
void CopyElements(DataType type, const void* source, void* target, int64_t count);
inline int64_t ElementBytes(DataType type) { return DataTypeBits(type) / 8; }

}  // namespace lamina
