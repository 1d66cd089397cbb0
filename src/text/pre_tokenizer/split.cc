#include "text/pre_tokenizer/split.h"

#include <algorithm>

#include "base/error.h"

namespace lamina::text {

Result<DelimiterBehavior> ParseDelimiterBehavior(const std::string& name, const std::string& what) {
  if (name == "Removed") return DelimiterBehavior::kRemoved;
  if (name == "Isolated") return DelimiterBehavior::kIsolated;
  if (name == "MergedWithPrevious") return DelimiterBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return DelimiterBehavior::kMergedWithNext;
  if (name == "Contiguous") return DelimiterBehavior::kContiguous;
  return InvalidModelError(
      "{}: behavior '{}': expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", what,
      name);
}

void AppendPieces(std::vector<Stretch>& stretches, DelimiterBehavior behavior,
                  std::vector<PieceRange>& pieces) {
  const auto append = [&pieces](const Stretch& stretch) {
    if (stretch.begin < stretch.end) pieces.push_back({stretch.begin, stretch.end});
  };
  switch (behavior) {
    case DelimiterBehavior::kIsolated:
      std::for_each(stretches.begin(), stretches.end(), append);
      return;
    case DelimiterBehavior::kRemoved:
      for (const Stretch& stretch : stretches) {
        if (!stretch.is_delimiter) append(stretch);
      }
      return;
    default:
      break;
  }
  // The others join a stretch with its neighbour. MergedWithNext is MergedWithPrevious read from the end.
  const bool backwards = behavior == DelimiterBehavior::kMergedWithNext;
  if (backwards) std::reverse(stretches.begin(), stretches.end());
  std::vector<Stretch> joined;
  bool after_delimiter = false;
  for (const Stretch& stretch : stretches) {
    const bool join = behavior == DelimiterBehavior::kContiguous ? stretch.is_delimiter == after_delimiter
                                                                 : stretch.is_delimiter && !after_delimiter;
    if (join && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, stretch.begin);
      joined.back().end = std::max(joined.back().end, stretch.end);
    } else {
      joined.push_back(stretch);
    }
    after_delimiter = stretch.is_delimiter;
  }
  if (backwards) std::reverse(joined.begin(), joined.end());
  std::for_each(joined.begin(), joined.end(), append);
}

}  // namespace lamina::text
