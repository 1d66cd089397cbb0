#include "providers/cpu/tensor/strided_copy.h"

#include <cstring>
#include <string>
#include <utility>

namespace lamina {
namespace {

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

struct Axes {
  IntList extents;
  IntList source;
  IntList target;

  int rank() const { return extents.size(); }
  void MoveToBack(int axis) {
    for (IntList* list : {&extents, &source, &target}) {
      const int64_t moved = (*list)[axis];
      for (int i = axis; i + 1 < list->size(); ++i) (*list)[i] = (*list)[i + 1];
      (*list)[list->size() - 1] = moved;
    }
  }
};

// Leaves out axes of one element and joins neighbours that both sides walk in one stride.
Axes Merge(const StridedCopy& copy) {
  Axes merged;
  for (int i = 0; i < copy.extents.size(); ++i) {
    const int64_t extent = copy.extents[i];
    if (extent == 1) continue;
    const int last = merged.rank() - 1;
    if (last >= 0 && merged.source[last] == copy.source_strides[i] * extent &&
        merged.target[last] == copy.target_strides[i] * extent) {
      merged.extents[last] *= extent;
      merged.source[last] = copy.source_strides[i];
      merged.target[last] = copy.target_strides[i];
    } else {
      merged.extents.Append(extent);
      merged.source.Append(copy.source_strides[i]);
      merged.target.Append(copy.target_strides[i]);
    }
  }
  if (merged.rank() == 0) {
    merged.extents.Append(1);
    merged.source.Append(1);
    merged.target.Append(1);
  }
  return merged;
}

// Walks the indices of the first `rank` axes in order and keeps the offsets they stand for.
class Odometer {
 public:
  Odometer(const Axes& axes, int rank, int64_t position) : axes_(axes), rank_(rank), index_(rank, 0) {
    for (int axis = rank - 1; axis >= 0; --axis) {
      index_[axis] = position % axes.extents[axis];
      position /= axes.extents[axis];
      source_ += index_[axis] * axes.source[axis];
      target_ += index_[axis] * axes.target[axis];
    }
  }
  void Next() {
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      source_ += axes_.source[axis];
      target_ += axes_.target[axis];
      if (++index_[axis] < axes_.extents[axis]) return;
      index_[axis] = 0;
      source_ -= axes_.source[axis] * axes_.extents[axis];
      target_ -= axes_.target[axis] * axes_.extents[axis];
    }
  }
  int64_t source() const { return source_; }
  int64_t target() const { return target_; }

 private:
  const Axes& axes_;
  int rank_;
  IntList index_;
  int64_t source_ = 0;
  int64_t target_ = 0;
};

template <typename T>
void CopyRun(const T* source, int64_t source_stride, T* target, int64_t target_stride, int64_t count) {
  if (target_stride == 1 && source_stride == 1) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      std::memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
    } else {
      std::copy_n(source, count, target);
    }
  } else if (target_stride == 1 && source_stride == 0) {
    std::fill_n(target, count, *source);
  } else if (target_stride == 1) {
    for (int64_t i = 0; i < count; ++i) target[i] = source[i * source_stride];
  } else {
    for (int64_t i = 0; i < count; ++i) target[i * target_stride] = source[i * source_stride];
  }
}

template <typename T>
void CopyRuns(ThreadPool& threads, const Axes& axes, const T* source, T* target) {
  const int last = axes.rank() - 1;
  const int64_t run = axes.extents[last];
  int64_t total = 1;
  for (const int64_t extent : axes.extents) total *= extent;
  threads.ParallelFor(total, GrainOf(1), [&](int64_t begin, int64_t end, int) {
    Odometer odometer(axes, last, begin / run);
    int64_t position = begin % run;
    for (int64_t done = begin; done < end; position = 0, odometer.Next()) {
      const int64_t count = std::min(run - position, end - done);
      CopyRun(source + odometer.source() + position * axes.source[last], axes.source[last],
              target + odometer.target() + position * axes.target[last], axes.target[last], count);
      done += count;
    }
  });
}

// The last axis is contiguous in the target and the one before it in the source: copies square blocks, so
// that both sides use whole cache lines.
template <typename T>
void CopyTransposed(ThreadPool& threads, const Axes& axes, const T* source, T* target) {
  constexpr int64_t kBlock = 16;
  const int column_axis = axes.rank() - 1;
  const int row_axis = axes.rank() - 2;
  const int64_t rows = axes.extents[row_axis];
  const int64_t columns = axes.extents[column_axis];
  const int64_t source_stride = axes.source[column_axis];
  const int64_t target_stride = axes.target[row_axis];
  const int64_t row_blocks = (rows + kBlock - 1) / kBlock;
  int64_t planes = 1;
  for (int axis = 0; axis < row_axis; ++axis) planes *= axes.extents[axis];
  threads.ParallelFor(planes * row_blocks, GrainOf(kBlock * columns), [&](int64_t begin, int64_t end, int) {
    Odometer odometer(axes, row_axis, begin / row_blocks);
    for (int64_t block = begin; block < end; ++block) {
      if (block > begin && block % row_blocks == 0) odometer.Next();
      const int64_t first_row = block % row_blocks * kBlock;
      const int64_t last_row = std::min(first_row + kBlock, rows);
      const T* from = source + odometer.source();
      T* to = target + odometer.target();
      for (int64_t first = 0; first < columns; first += kBlock) {
        const int64_t last = std::min(first + kBlock, columns);
        for (int64_t row = first_row; row < last_row; ++row) {
          for (int64_t column = first; column < last; ++column) {
            to[row * target_stride + column] = from[row + column * source_stride];
          }
        }
      }
    }
  });
}

template <typename T>
void RunTyped(ThreadPool& threads, Axes axes, const void* source, void* target) {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(target);
  const int last = axes.rank() - 1;
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (axes.target[last] == 1 && axes.source[last] != 1 && axes.source[last] != 0) {
      for (int axis = 0; axis < last; ++axis) {
        if (axes.source[axis] != 1) continue;
        axes.MoveToBack(axis);  // [.., last, axis]
        axes.MoveToBack(last - 1);
        CopyTransposed(threads, axes, from, to);
        return;
      }
    }
  }
  CopyRuns(threads, axes, from, to);
}

// Elements of 4 or 2 bits share bytes with their neighbours: one after the other.
void RunPacked(const Axes& axes, int bits, const StridedCopy& copy) {
  const auto* source = static_cast<const uint8_t*>(copy.source);
  auto* target = static_cast<uint8_t*>(copy.target);
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  int64_t total = 1;
  for (const int64_t extent : axes.extents) total *= extent;
  Odometer odometer(axes, axes.rank(), 0);
  for (int64_t i = 0; i < total; ++i, odometer.Next()) {
    const int64_t from = copy.source_offset + odometer.source();
    const int64_t to = copy.target_offset + odometer.target();
    const int value = source[from / per_byte] >> (from % per_byte * bits) & mask;
    const int shift = static_cast<int>(to % per_byte) * bits;
    uint8_t& byte = target[to / per_byte];
    byte = static_cast<uint8_t>((byte & ~(mask << shift)) | value << shift);
  }
}

}  // namespace

void StridedCopy::Run(ThreadPool& threads) const {
  for (const int64_t extent : extents) {
    if (extent == 0) return;
  }
  const Axes axes = Merge(*this);
  const int bits = DataTypeBits(type);
  if (bits < 8) {
    RunPacked(axes, bits, *this);
    return;
  }
  const int64_t bytes = bits / 8;
  const void* from = static_cast<const std::byte*>(source) + source_offset * bytes;
  void* to = static_cast<std::byte*>(target) + target_offset * bytes;
  if (type == DataType::kString) {
    RunTyped<std::string>(threads, axes, from, to);
  } else if (bytes == 1) {
    RunTyped<uint8_t>(threads, axes, from, to);
  } else if (bytes == 2) {
    RunTyped<uint16_t>(threads, axes, from, to);
  } else if (bytes == 4) {
    RunTyped<uint32_t>(threads, axes, from, to);
  } else if (bytes == 8) {
    RunTyped<uint64_t>(threads, axes, from, to);
  } else {
    RunTyped<Bytes16>(threads, axes, from, to);
  }
}

void FillElements(DataType type, const void* value, void* target, int64_t count) {
  const int64_t bytes = ElementBytes(type);
  if (type == DataType::kString) {
    std::fill_n(static_cast<std::string*>(target), count, *static_cast<const std::string*>(value));
  } else if (bytes == 1) {
    std::fill_n(static_cast<uint8_t*>(target), count, *static_cast<const uint8_t*>(value));
  } else if (bytes == 2) {
    std::fill_n(static_cast<uint16_t*>(target), count, *static_cast<const uint16_t*>(value));
  } else if (bytes == 4) {
    std::fill_n(static_cast<uint32_t*>(target), count, *static_cast<const uint32_t*>(value));
  } else if (bytes == 8) {
    std::fill_n(static_cast<uint64_t*>(target), count, *static_cast<const uint64_t*>(value));
  } else {
    std::fill_n(static_cast<Bytes16*>(target), count, *static_cast<const Bytes16*>(value));
  }
}

}  // namespace lamina
