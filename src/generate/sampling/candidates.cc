#include "generate/sampling/candidates.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "generate/sampling/portable_math.h"

namespace lamina {

Candidates::Candidates(int32_t vocab_size)
    : items_(static_cast<size_t>(vocab_size)),
      weights_(static_cast<size_t>(vocab_size)),
      scratch_(static_cast<size_t>(vocab_size)),
      indexes_(static_cast<size_t>(vocab_size)) {}

void Candidates::Assign(std::span<const float> logits) {
  size_ = items_.size();
  order_ = Order::kById;
  for (size_t i = 0; i < size_; ++i) {
    const float logit = logits[i];
    items_[i] = {static_cast<int32_t>(i), logit == logit ? logit : -std::numeric_limits<float>::infinity()};
  }
}

float Candidates::MaxLogit() const {
  float largest = -std::numeric_limits<float>::infinity();
  for (const Candidate& item : items()) largest = std::max(largest, item.logit);
  return largest;
}

void Candidates::Sort() {
  if (order_ == Order::kByLogit) return;
  std::sort(items().begin(), items().end(), MoreLikely);
  order_ = Order::kByLogit;
}

void Candidates::KeepMostLikely(size_t count) {
  if (count >= size_) return;
  if (order_ != Order::kByLogit) {
    std::partial_sort(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(count),
                      items_.begin() + static_cast<ptrdiff_t>(size_), MoreLikely);
    order_ = Order::kByLogit;
  }
  size_ = count;
}

std::span<const double> Candidates::Weights(double* sum) {
  const float largest = MaxLogit();
  *sum = 0;
  const bool possible = largest > -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < size_; ++i) {
    const float logit = items_[i].logit;
    // An infinite logit is as likely as the others like it and hides all finite ones.
    const double weight = !possible ? 0.0
                          : logit == largest
                              ? 1.0
                              : portable::Exp(static_cast<double>(logit) - static_cast<double>(largest));
    weights_[i] = weight;
    *sum += weight;
  }
  return std::span(weights_).first(size_);
}

void Candidates::KeepMass(double mass, size_t min_keep) {
  double sum = 0;
  Weights(&sum);
  const float largest = MaxLogit();
  const auto weight_of = [&](const Candidate& item) {
    return item.logit == largest
               ? 1.0
               : portable::Exp(static_cast<double>(item.logit) - static_cast<double>(largest));
  };
  // A heap gives the most likely tokens one by one: mostly few of many are needed.
  const auto heap_end = [&](size_t taken) { return items_.begin() + static_cast<ptrdiff_t>(size_ - taken); };
  const auto less_likely = [](const Candidate& a, const Candidate& b) { return MoreLikely(b, a); };
  const bool sorted = order_ == Order::kByLogit;
  if (!sorted) std::make_heap(items_.begin(), heap_end(0), less_likely);
  double reached = 0;
  size_t taken = 0;
  while (taken < size_ && (taken < min_keep || reached < mass * sum)) {
    if (sorted) {
      reached += weight_of(items_[taken]);
    } else {
      std::pop_heap(items_.begin(), heap_end(taken), less_likely);
      reached += weight_of(items_[size_ - taken - 1]);
    }
    ++taken;
  }
  if (!sorted) {
    // The taken ones lie at the end, the most likely last.
    std::reverse(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(size_));
    order_ = Order::kByLogit;
  }
  size_ = taken;
}

void Candidates::KeepSmallest(std::span<const double> keys, std::span<const double> weights, double mass,
                              size_t min_keep) {
  const auto order = std::span(indexes_).first(size_);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : MoreLikely(items_[a], items_[b]);
  });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double reached = 0;
  size_t taken = 0;
  while (taken < size_ && (taken < min_keep || reached < mass * sum)) reached += weights[order[taken++]];
  // Kept items move to the front in ascending order of their old places, which never overwrites one that is
  // still to be moved.
  std::sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(taken));
  for (size_t i = 0; i < taken; ++i) items_[i] = items_[order[i]];
  size_ = taken;
}

}  // namespace lamina
