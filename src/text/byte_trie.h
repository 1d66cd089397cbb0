// A trie over bytes: which of many strings begin a text. Built once, then only read.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace lamina::text {

class ByteTrie {
 public:
  static constexpr int32_t kNoValue = -1;

  ByteTrie() = default;
  // Maps each string to its value (not negative). Of equal strings the last counts; empty strings are left
  // out.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  // Calls visit(length_bytes, value) for each string that begins `text`, shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (labels_.empty()) return;
    uint32_t node = 0;
    for (size_t pos = 0; pos < text.size(); ++pos) {
      node = Child(node, text[pos]);
      if (node == kNoNode) return;
      if (values_[node] != kNoValue) visit(pos + 1, values_[node]);
    }
  }
  // The longest string that begins `text`: {length_bytes, value}, or {0, kNoValue}.
  std::pair<size_t, int32_t> LongestPrefix(std::string_view text) const {
    std::pair<size_t, int32_t> longest = {0, kNoValue};
    ForEachPrefix(text, [&](size_t length, int32_t value) { longest = {length, value}; });
    return longest;
  }
  bool StartsWith(char first) const { return !labels_.empty() && Child(0, first) != kNoNode; }
  bool empty() const { return labels_.size() <= 1; }

 private:
  static constexpr uint32_t kNoNode = 0;  // the root is nobody's child

  uint32_t Child(uint32_t node, char label) const {
    const uint32_t begin = first_child_[node];
    const uint32_t end = first_child_[node + 1];
    if (begin == end) return kNoNode;
    const void* found = std::memchr(labels_.data() + begin, label, end - begin);
    return found == nullptr ? kNoNode
                            : static_cast<uint32_t>(static_cast<const char*>(found) - labels_.data());
  }

  // Nodes in breadth-first order; the children of node n are [first_child_[n], first_child_[n + 1]).
  std::vector<char> labels_;  // by which a node is entered
  std::vector<uint32_t> first_child_;
  std::vector<int32_t> values_;
};

}  // namespace lamina::text
