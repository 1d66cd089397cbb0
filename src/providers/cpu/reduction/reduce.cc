#include "providers/cpu/reduction/reduce.h"

#include <algorithm>
#include <array>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr int64_t kTile = 256;

// Axes of one kind with their strides in elements, outermost first.
struct AxisGroup {
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::array<int64_t, Shape::kMaxRank> strides{};
  int rank = 0;

  void Append(int64_t extent, int64_t stride) {
    extents[static_cast<size_t>(rank)] = extent;
    strides[static_cast<size_t>(rank)] = stride;
    ++rank;
  }
  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extents[static_cast<size_t>(i)];
    return product;
  }
  int64_t Offset(int64_t position) const {
    int64_t offset = 0;
    for (auto i = static_cast<size_t>(rank); i-- > 0;) {
      offset += position % extents[i] * strides[i];
      position /= extents[i];
    }
    return offset;
  }
};

// Axes after merging neighbours of one kind, the innermost apart.
struct Layout {
  AxisGroup kept;
  AxisGroup reduced;
  int64_t inner = 1;  // extent of the innermost merged axis
  bool inner_reduced = true;
};

Layout MakeLayout(const Shape& shape, uint32_t axes_mask) {
  Layout layout;
  AxisGroup merged;
  std::array<bool, Shape::kMaxRank> is_reduced{};
  int64_t stride = shape.num_elements();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    stride /= shape[axis];
    const bool reduced = (axes_mask >> axis & 1u) != 0;
    if (merged.rank > 0 && is_reduced[static_cast<size_t>(merged.rank - 1)] == reduced) {
      const auto last = static_cast<size_t>(merged.rank - 1);
      merged.extents[last] *= shape[axis];
      merged.strides[last] = stride;
    } else {
      is_reduced[static_cast<size_t>(merged.rank)] = reduced;
      merged.Append(shape[axis], stride);
    }
  }
  for (int i = 0; i + 1 < merged.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    (is_reduced[axis] ? layout.reduced : layout.kept).Append(merged.extents[axis], merged.strides[axis]);
  }
  if (merged.rank > 0) {
    layout.inner = merged.extents[static_cast<size_t>(merged.rank - 1)];
    layout.inner_reduced = is_reduced[static_cast<size_t>(merged.rank - 1)];
  }
  return layout;
}

// Reads elements of the tensor's type as the reduction's, and writes results the same way.
class Reducer {
 public:
  Reducer(const Reduction& reduction, DataType type)
      : reduction_(reduction),
        type_(type),
        half_(type == DataType::kFloat16 || type == DataType::kBfloat16),
        bytes_(ElementBytes(type)) {}

  int64_t bytes() const { return bytes_; }

  void AddRun(void* accumulator, const std::byte* elements, int64_t count) const {
    if (!half_) {
      reduction_.add_run(accumulator, elements, count);
      return;
    }
    float tile[kTile];
    for (int64_t done = 0; done < count; done += kTile) {
      const int64_t length = std::min(kTile, count - done);
      ConvertToFloat(type_, elements + done * bytes_, tile, length);
      reduction_.add_run(accumulator, tile, length);
    }
  }

  // At most kTile elements.
  void AddRow(void* accumulators, const std::byte* elements, int64_t count) const {
    if (!half_) {
      reduction_.add_row(accumulators, elements, count);
      return;
    }
    float tile[kTile];
    ConvertToFloat(type_, elements, tile, count);
    reduction_.add_row(accumulators, tile, count);
  }

  // At most kTile results.
  void Finish(const void* accumulators, std::byte* results, int64_t count, int64_t reduced) const {
    if (!half_) {
      reduction_.finish(accumulators, results, count, reduced);
      return;
    }
    float tile[kTile];
    reduction_.finish(accumulators, tile, count, reduced);
    ConvertFromFloat(type_, tile, results, count);
  }

 private:
  const Reduction& reduction_;
  DataType type_;
  bool half_;
  int64_t bytes_;
};

using AccumulatorMemory = std::array<std::byte, kTile * Reduction::kMaxAccumulatorBytes>;

// The innermost axis is reduced: one accumulator for each result.
void ReduceRuns(ThreadPool& threads, const Reduction& reduction, const Reducer& reducer, const Layout& layout,
                const std::byte* input, std::byte* output) {
  const int64_t reduced_rows = layout.reduced.count();
  const int64_t work = reduced_rows * layout.inner;
  threads.ParallelFor(layout.kept.count(), GrainOf(work), [&](int64_t begin, int64_t end, int) {
    alignas(16) std::byte accumulator[Reduction::kMaxAccumulatorBytes];
    for (int64_t i = begin; i < end; ++i) {
      reduction.init(accumulator, 1);
      const std::byte* base = input + layout.kept.Offset(i) * reducer.bytes();
      for (int64_t row = 0; row < reduced_rows; ++row) {
        reducer.AddRun(accumulator, base + layout.reduced.Offset(row) * reducer.bytes(), layout.inner);
      }
      reducer.Finish(accumulator, output + i * reducer.bytes(), 1, work);
    }
  });
}

// Few results of very long runs: the runs are cut into a fixed number of parts.
void ReduceLongRuns(ThreadPool& threads, const Reduction& reduction, const Reducer& reducer,
                    const Layout& layout, const std::byte* input, std::byte* output) {
  constexpr int64_t kParts = 64;
  const int64_t part_length = (layout.inner + kParts - 1) / kParts;
  const int64_t parts = (layout.inner + part_length - 1) / part_length;
  for (int64_t i = 0; i < layout.kept.count(); ++i) {
    const std::byte* base = input + layout.kept.Offset(i) * reducer.bytes();
    alignas(16) AccumulatorMemory accumulators;
    reduction.init(accumulators.data(), parts);
    threads.ParallelFor(parts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = part * part_length;
        reducer.AddRun(accumulators.data() + static_cast<size_t>(part) * reduction.accumulator_bytes,
                       base + first * reducer.bytes(), std::min(part_length, layout.inner - first));
      }
    });
    for (int64_t part = 1; part < parts; ++part) {
      reduction.merge(accumulators.data(),
                      accumulators.data() + static_cast<size_t>(part) * reduction.accumulator_bytes);
    }
    reducer.Finish(accumulators.data(), output + i * reducer.bytes(), 1, layout.inner);
  }
}

// The innermost axis is kept: tiles of it are accumulated row by row.
void ReduceRows(ThreadPool& threads, const Reduction& reduction, const Reducer& reducer, const Layout& layout,
                const std::byte* input, std::byte* output) {
  const int64_t rows = layout.reduced.count();
  const int64_t tiles = (layout.inner + kTile - 1) / kTile;
  threads.ParallelFor(
      layout.kept.count() * tiles, GrainOf(rows * std::min(kTile, layout.inner)),
      [&](int64_t begin, int64_t end, int) {
        alignas(16) AccumulatorMemory accumulators;
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t first = unit % tiles * kTile;
          const int64_t count = std::min(kTile, layout.inner - first);
          const int64_t kept = unit / tiles;
          const std::byte* base = input + (layout.kept.Offset(kept) + first) * reducer.bytes();
          reduction.init(accumulators.data(), count);
          for (int64_t row = 0; row < rows; ++row) {
            reducer.AddRow(accumulators.data(), base + layout.reduced.Offset(row) * reducer.bytes(), count);
          }
          reducer.Finish(accumulators.data(), output + (kept * layout.inner + first) * reducer.bytes(), count,
                         rows);
        }
      });
}

}  // namespace

void Reduce(ThreadPool& threads, const Reduction& reduction, DataType type, const void* input,
            const Shape& shape, uint32_t axes_mask, void* output) {
  const Reducer reducer(reduction, type);
  const auto* source = static_cast<const std::byte*>(input);
  auto* target = static_cast<std::byte*>(output);
  if (shape.num_elements() == 0) {
    int64_t results = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if ((axes_mask >> axis & 1u) == 0) results *= shape[axis];
    }
    alignas(16) std::byte accumulator[Reduction::kMaxAccumulatorBytes];
    reduction.init(accumulator, 1);
    for (int64_t i = 0; i < results; ++i) reducer.Finish(accumulator, target + i * reducer.bytes(), 1, 0);
    return;
  }
  constexpr int64_t kLongRun = 64 * 1024;
  const Layout layout = MakeLayout(shape, axes_mask);
  if (!layout.inner_reduced) {
    ReduceRows(threads, reduction, reducer, layout, source, target);
  } else if (layout.reduced.rank == 0 && layout.inner >= kLongRun && layout.kept.count() <= 8) {
    ReduceLongRuns(threads, reduction, reducer, layout, source, target);
  } else {
    ReduceRuns(threads, reduction, reducer, layout, source, target);
  }
}

}  // namespace lamina
