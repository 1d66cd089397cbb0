#include "text/byte_trie.h"

#include <algorithm>

namespace lamina::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Each node stands for the entries [begin, end) that share its first `depth` bytes.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> nodes = {{0, entries.size(), 0}};
  labels_.push_back('\0');
  values_.push_back(kNoValue);
  for (size_t node = 0; node < nodes.size(); ++node) {
    first_child_.push_back(static_cast<uint32_t>(nodes.size()));
    auto [begin, end, depth] = nodes[node];
    while (begin < end && entries[begin].first.size() == depth) values_[node] = entries[begin++].second;
    while (begin < end) {
      const char label = entries[begin].first[depth];
      size_t next = begin + 1;
      while (next < end && entries[next].first[depth] == label) ++next;
      nodes.push_back({begin, next, depth + 1});
      labels_.push_back(label);
      values_.push_back(kNoValue);
      begin = next;
    }
  }
  first_child_.push_back(static_cast<uint32_t>(nodes.size()));
}

}  // namespace lamina::text
