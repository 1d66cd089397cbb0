#include "providers/cpu/attention/attention.h"

#include <algorithm>
#include <atomic>

#include "base/thread_pool.h"
#include "providers/cpu/attention/attention_kernels.h"
#include "providers/cpu/gemm/gemm_kernels.h"

namespace lamina {
namespace {

// Decode splits a sequence's keys at multiples of this many, or of a power of two times as many, into at most
// kMaxSplits runs.
constexpr int64_t kSplitKeys = 256;
constexpr int64_t kMaxSplits = 16;
// A sequence alone in a run decodes up to this many tokens: each gets what a run of its own would give it, to
// the bit. Tiles and splits therefore lie at fixed keys, wherever the first token begins to look.
constexpr int64_t kShortTokens = 16;
constexpr int64_t kAlignFloats = 16;

// Multiply-adds of one core in a nanosecond; below kForkNs of work the caller works alone.
constexpr double kMacsPerNs = 12;
constexpr double kForkNs = 6000;

int64_t SplitKeysFor(int64_t key_end) {
  int64_t split_keys = kSplitKeys;
  while (key_end > kMaxSplits * split_keys) split_keys *= 2;
  return split_keys;
}

int64_t PartialFloats(int64_t rows, int64_t head_size, int64_t value_size) {
  return RoundUpTo(rows * (head_size + value_size + 2), kAlignFloats);
}

struct Layout {
  size_t sequences_bytes = 0;
  int64_t partials_floats = 0;  // kMaxSplits partials for each pair of sequence and kv head
  int64_t lane_floats = 0;
};

Layout LayoutFor(const AttentionLimits& limits) {
  Layout layout;
  layout.sequences_bytes =
      static_cast<size_t>(RoundUpTo(limits.batch * static_cast<int64_t>(sizeof(AttentionSequence)), 64));
  const int64_t group = limits.kv_heads == 0 ? 0 : limits.heads / limits.kv_heads;
  const auto partials_floats = [&](int64_t batch, int64_t rows) {
    return batch * limits.kv_heads * kMaxSplits *
           PartialFloats(rows, limits.head_size, limits.value_head_size);
  };
  layout.partials_floats = partials_floats(limits.batch, std::min(kDecodeRows, group * limits.q_tokens));
  if (group <= kDecodeRows) {
    layout.partials_floats =
        std::max(layout.partials_floats, partials_floats(1, group * std::min(limits.q_tokens, kShortTokens)));
  }
  layout.lane_floats =
      RoundUpTo(PrefillScratchFloats(limits.head_size, limits.value_head_size), kAlignFloats);
  return layout;
}

// The work of one sequence and kv head, and how it is cut into tasks.
struct Unit {
  AttentionRows rows;  // all of them
  bool decode = false;
  int64_t key_begin = 0;  // decode: the keys that any row sees, from the beginning of a tile
  int64_t key_end = 0;
  int64_t split_keys = 0;
  int64_t first_split = 0;
  int64_t tasks = 0;
};

class Run {
 public:
  Run(CpuIsa isa, const AttentionParams& params, const AttentionLimits& limits, void* workspace)
      : kernels_(AttentionKernelsFor(isa)),
        gemm_(GemmKernelsFor(isa)),
        params_(params),
        layout_(LayoutFor(limits)),
        partials_(reinterpret_cast<float*>(static_cast<char*>(workspace) + layout_.sequences_bytes)),
        lanes_(partials_ + layout_.partials_floats) {
    int64_t rows = 0;
    for (int64_t b = 0; b < params.batch; ++b) {
      const Unit unit = UnitOf(b * params.kv.kv_heads);
      if (unit.decode) rows = std::max(rows, unit.rows.count);
    }
    partial_floats_ = PartialFloats(rows, params.kv.key.head_size, params.kv.value.head_size);
  }

  void Execute(ThreadPool& threads, int max_lanes) {
    int64_t tasks = 0;
    double macs = 0;
    bool merges = false;
    const int64_t kv_heads = params_.kv.kv_heads;
    const int64_t units = params_.batch * kv_heads;
    for (int64_t b = 0; b < params_.batch; ++b) {
      const Unit unit = UnitOf(b * kv_heads);
      tasks += unit.tasks * kv_heads;
      merges |= unit.decode && unit.tasks > 1;
      const int64_t keys = unit.decode ? unit.key_end - unit.key_begin : params_.sequences[b].kv_tokens;
      macs += static_cast<double>(unit.rows.count * keys * kv_heads) *
              (params_.kv.key.head_size + params_.kv.value.head_size);
    }
    const bool fork = macs / kMacsPerNs > kForkNs;
    const int64_t lanes = fork ? std::min<int64_t>(max_lanes, tasks) : 1;
    std::atomic<int64_t> next{0};
    threads.ParallelFor(lanes, 1, [&](int64_t lane, int64_t, int) {
      while (true) {
        const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks) return;
        RunTask(task, lanes_ + lane * layout_.lane_floats);
      }
    });
    if (!merges) return;
    threads.ParallelFor(units, fork ? 1 : units, [&](int64_t begin, int64_t end, int) {
      for (int64_t index = begin; index < end; ++index) {
        const Unit unit = UnitOf(index);
        if (unit.decode && unit.tasks > 1) MergeUnit(index, unit);
      }
    });
  }

 private:
  Unit UnitOf(int64_t index) const {
    Unit unit;
    unit.rows.sequence = index / params_.kv.kv_heads;
    unit.rows.kv_head = index % params_.kv.kv_heads;
    const AttentionSequence& sequence = params_.sequences[unit.rows.sequence];
    const int64_t group = params_.heads / params_.kv.kv_heads;
    unit.rows.count = sequence.q_tokens * group;
    unit.decode = unit.rows.count <= kDecodeRows ||
                  (params_.batch == 1 && sequence.q_tokens <= kShortTokens && group <= kDecodeRows);
    if (!unit.decode) {
      unit.tasks = (unit.rows.count + kAttentionBlockRows - 1) / kAttentionBlockRows;
      return unit;
    }
    if (unit.rows.count == 0) return unit;
    const int64_t last = sequence.query_offset + sequence.q_tokens - 1;
    unit.key_end = sequence.kv_tokens;
    if (params_.window_left >= 0) {
      unit.key_begin = std::clamp<int64_t>(sequence.query_offset - params_.window_left, 0, unit.key_end);
    }
    if (params_.window_right >= 0) {
      unit.key_end = std::clamp(last + params_.window_right + 1, unit.key_begin, unit.key_end);
    }
    unit.key_begin -= unit.key_begin % kAttentionKeyTile;
    unit.split_keys = SplitKeysFor(unit.key_end);
    unit.first_split = unit.key_begin / unit.split_keys;
    const int64_t end_split = (unit.key_end + unit.split_keys - 1) / unit.split_keys;
    unit.tasks = std::max<int64_t>(1, end_split - unit.first_split);
    return unit;
  }

  void RunTask(int64_t task, float* lane) {
    const int64_t kv_heads = params_.kv.kv_heads;
    int64_t index = 0;
    Unit unit;
    for (int64_t b = 0;; ++b) {
      unit = UnitOf(b * kv_heads);
      if (task < unit.tasks * kv_heads) {
        index = b * kv_heads + task / unit.tasks;
        task %= unit.tasks;
        unit.rows.kv_head = index % kv_heads;
        break;
      }
      task -= unit.tasks * kv_heads;
    }
    if (!unit.decode) {
      // Later rows see more keys: they come first, so that no long task is left for the end.
      AttentionRows rows = unit.rows;
      rows.first = (unit.tasks - 1 - task) * kAttentionBlockRows;
      rows.count = std::min(kAttentionBlockRows, unit.rows.count - rows.first);
      kernels_.prefill(params_, gemm_, rows, lane);
      return;
    }
    const AttentionPartial partial = PartialOf(index, unit, task);
    const int64_t split_begin = (unit.first_split + task) * unit.split_keys;
    const int64_t key_begin = std::max(split_begin, unit.key_begin);
    const int64_t key_end = std::min(split_begin + unit.split_keys, unit.key_end);
    for (AttentionRows rows = unit.rows; rows.first < unit.rows.count; rows.first += kDecodeRows) {
      rows.count = std::min(kDecodeRows, unit.rows.count - rows.first);
      kernels_.decode(params_, rows, key_begin, key_end, RowsOf(partial, rows.first));
    }
    if (unit.tasks == 1) kernels_.merge(params_, unit.rows, &partial, 1);
  }

  void MergeUnit(int64_t index, const Unit& unit) const {
    AttentionPartial partials[kMaxSplits];
    for (int64_t i = 0; i < unit.tasks; ++i) partials[i] = PartialOf(index, unit, i);
    kernels_.merge(params_, unit.rows, partials, unit.tasks);
  }

  AttentionPartial PartialOf(int64_t index, const Unit& unit, int64_t split) const {
    AttentionPartial partial;
    partial.query = partials_ + (index * kMaxSplits + split) * partial_floats_;
    partial.sum = partial.query + unit.rows.count * params_.kv.key.head_size;
    partial.maximum = partial.sum + unit.rows.count * params_.kv.value.head_size;
    partial.weight = partial.maximum + unit.rows.count;
    return partial;
  }

  // The part of a partial from a row on.
  AttentionPartial RowsOf(const AttentionPartial& partial, int64_t first) const {
    return {partial.query + first * params_.kv.key.head_size,
            partial.sum + first * params_.kv.value.head_size, partial.maximum + first,
            partial.weight + first};
  }

  const AttentionKernels& kernels_;
  const GemmKernels& gemm_;
  const AttentionParams& params_;
  Layout layout_;
  int64_t partial_floats_ = 0;  // of one split in this run
  float* partials_;
  float* lanes_;
};

}  // namespace

size_t AttentionWorkspaceBytes(const AttentionLimits& limits) {
  const Layout layout = LayoutFor(limits);
  const int64_t floats = layout.partials_floats + limits.lanes * layout.lane_floats;
  return layout.sequences_bytes + static_cast<size_t>(floats) * sizeof(float);
}

void RunAttention(ThreadPool& threads, CpuIsa isa, const AttentionParams& params,
                  const AttentionLimits& limits, void* workspace) {
  if (params.batch == 0 || params.heads == 0) return;
  Run(isa, params, limits, workspace).Execute(threads, limits.lanes);
}

}  // namespace lamina
