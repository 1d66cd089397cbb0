// The tokens that can still be chosen, with their logits, while the chain of samplers works on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lamina {

struct Candidate {
  int32_t token = 0;
  float logit = 0;
};

// More likely first; ties go to the lower id, so that the order is the same everywhere.
inline bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Allocates only when made.
class Candidates {
 public:
  explicit Candidates(int32_t vocab_size);

  // All tokens in the order of their ids. NaN becomes -infinity.
  void Assign(std::span<const float> logits);

  std::span<Candidate> items() { return std::span(items_).first(size_); }
  std::span<const Candidate> items() const { return std::span(items_).first(size_); }
  size_t size() const { return size_; }
  // Whether items()[i].token == i for all tokens of the vocabulary.
  bool all_by_id() const { return order_ == Order::kById && size_ == items_.size(); }
  // To be called after logits were changed in place.
  void LogitsChanged() {
    if (order_ == Order::kByLogit) order_ = Order::kNone;
  }

  float MaxLogit() const;
  // Sorts the most likely `count` to the front and drops the rest.
  void KeepMostLikely(size_t count);
  // Keeps the shortest run of most likely tokens whose probabilities add up to `mass`, at least `min_keep`.
  void KeepMass(double mass, size_t min_keep);
  // Keeps what `keep(candidate)` accepts, in order.
  template <typename Keep>
  void KeepIf(Keep keep) {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (keep(items_[i])) items_[kept++] = items_[i];
    }
    size_ = kept;
  }
  // All in the order of likelihood.
  void Sort();
  // Gives them an order that does not depend on what was done before: by id or by likelihood.
  void Settle() {
    if (order_ == Order::kNone) Sort();
  }

  // exp(logit - largest) for each item, in order, and their sum. The sum is 0 where no token is possible.
  // Valid until the next call.
  std::span<const double> Weights(double* sum);
  // Room for one number an item, for samplers that rank by something else than likelihood.
  std::span<double> Scratch() { return std::span(scratch_).first(size_); }
  // Keeps, in their present order, the items with the smallest keys (ties: the more likely) whose weights add
  // up to `mass` of all, at least `min_keep`.
  void KeepSmallest(std::span<const double> keys, std::span<const double> weights, double mass,
                    size_t min_keep);

 private:
  enum class Order { kById, kByLogit, kNone };

  std::vector<Candidate> items_;
  size_t size_ = 0;
  Order order_ = Order::kById;
  std::vector<double> weights_;
  std::vector<double> scratch_;
  std::vector<uint32_t> indexes_;
};

}  // namespace lamina
