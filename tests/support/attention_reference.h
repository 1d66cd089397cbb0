// Attention in double, straight from its formula, for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace lamina::testing {

struct AttentionReference {
  int64_t heads = 1, kv_heads = 1, head_size = 1, value_size = 1;
  double scale = 1, softcap = 0;
  int64_t window_left = -1, window_right = -1;
  bool has_sink = false;

  // Elements by (token, head, channel) of one sequence; bias by (head, query, key); sink by head.
  std::function<double(int64_t, int64_t, int64_t)> query, key, value;
  std::function<double(int64_t, int64_t, int64_t)> bias = [](int64_t, int64_t, int64_t) { return 0.0; };
  std::function<double(int64_t)> sink = [](int64_t) { return 0.0; };

  // The output of query `i` at key position `position`, among kv_tokens keys: [value_size].
  std::vector<double> Row(int64_t i, int64_t position, int64_t head, int64_t kv_tokens) const {
    const int64_t kv_head = head / (heads / kv_heads);
    std::vector<double> scores;
    double maximum = has_sink ? sink(head) : -INFINITY;
    for (int64_t j = 0; j < kv_tokens; ++j) {
      double score = 0;
      for (int64_t d = 0; d < head_size; ++d) score += query(i, head, d) * key(j, kv_head, d);
      score *= scale;
      if (softcap > 0) score = softcap * std::tanh(score / softcap);
      score += bias(head, i, j);
      if (window_left >= 0 && j < position - window_left) score = -INFINITY;
      if (window_right >= 0 && j > position + window_right) score = -INFINITY;
      scores.push_back(score);
      maximum = std::max(maximum, score);
    }
    std::vector<double> output(static_cast<size_t>(value_size), 0.0);
    if (maximum == -INFINITY) return output;
    double sum = has_sink ? std::exp(sink(head) - maximum) : 0;
    for (const double score : scores) sum += std::exp(score - maximum);
    for (int64_t j = 0; j < kv_tokens; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - maximum) / sum;
      if (weight == 0) continue;
      for (int64_t d = 0; d < value_size; ++d)
        output[static_cast<size_t>(d)] += weight * value(j, kv_head, d);
    }
    return output;
  }
};

}  // namespace lamina::testing
