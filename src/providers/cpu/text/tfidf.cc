// TfIdfVectorizer: counts the n-grams of a pool in sequences of integers or strings.
#include <string>
#include <unordered_map>
#include <vector>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

enum class Weighting : uint8_t { kTf, kIdf, kTfIdf };

Result<Weighting> ParseWeighting(std::string_view name) {
  if (name == "TF") return Weighting::kTf;
  if (name == "IDF") return Weighting::kIdf;
  if (name == "TFIDF") return Weighting::kTfIdf;
  return InvalidModelError("unknown mode '{}'", name);
}

// A trie over the tokens of all n-grams. Tokens are numbers: an index into the pool's distinct ones.
class GramTrie {
 public:
  static constexpr int64_t kNone = -1;
  struct Node {
    std::unordered_map<int64_t, size_t> next;
    int64_t gram = kNone;  // the n-gram that ends here
  };
  void Add(std::span<const int64_t> tokens, int64_t gram) {
    size_t at = 0;
    for (const int64_t token : tokens) {
      const auto [entry, added] = nodes_[at].next.try_emplace(token, nodes_.size());
      at = entry->second;
      if (added) nodes_.emplace_back();
    }
    nodes_[at].gram = gram;
  }
  // The node after `token`, or null.
  const Node* Next(const Node& node, int64_t token) const {
    const auto found = node.next.find(token);
    return found == node.next.end() ? nullptr : &nodes_[found->second];
  }
  const Node& root() const { return nodes_[0]; }

 private:
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

class TfIdfVectorizer : public Kernel {
 public:
  explicit TfIdfVectorizer(const NodeInfo& node)
      : weighting_(*ParseWeighting(node.String("mode", "TF"))),
        min_length_(node.Int("min_gram_length", 1)),
        max_length_(node.Int("max_gram_length", 1)),
        max_skip_(node.Int("max_skip_count", 0)),
        indexes_(node.Ints("ngram_indexes").begin(), node.Ints("ngram_indexes").end()),
        weights_(node.Floats("weights").begin(), node.Floats("weights").end()) {
    for (const int64_t index : indexes_) width_ = std::max(width_, index + 1);
    std::vector<int64_t> pool(node.Ints("pool_int64s").begin(), node.Ints("pool_int64s").end());
    for (const std::string& text : node.Strings("pool_strings")) {
      pool.push_back(
          string_tokens_.try_emplace(text, static_cast<int64_t>(string_tokens_.size())).first->second);
    }
    // Where the n-grams of each length begin in the pool.
    const auto starts = node.Ints("ngram_counts");
    size_t gram = 0;
    for (size_t n = 1; n <= starts.size(); ++n) {
      const auto end = n < starts.size() ? static_cast<size_t>(starts[n]) : pool.size();
      for (auto at = static_cast<size_t>(starts[n - 1]); at + n <= end && gram < indexes_.size();
           at += n, ++gram) {
        const auto length = static_cast<int64_t>(n);
        if (length < min_length_ || length > max_length_) continue;
        trie_.Add({pool.data() + at, n}, static_cast<int64_t>(gram));
      }
    }
  }
  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(ParseWeighting(node.String("mode", "TF")).status());
    const auto pool_size =
        static_cast<int64_t>(std::max(node.Ints("pool_int64s").size(), node.Strings("pool_strings").size()));
    int64_t previous = 0;
    for (const int64_t start : node.Ints("ngram_counts")) {
      if (start < previous || start > pool_size) return InvalidModelError("ngram_counts are out of order");
      previous = start;
    }
    for (const int64_t index : node.Ints("ngram_indexes")) {
      if (index < 0 || index > 100'000'000) return InvalidModelError("an n-gram index of {}", index);
    }
    const auto weights = node.Floats("weights");
    if (!weights.empty() && weights.size() != node.Ints("ngram_indexes").size()) {
      return InvalidModelError("{} weights for {} n-grams", weights.size(),
                               node.Ints("ngram_indexes").size());
    }
    if (node.Int("max_skip_count", 0) < 0 || node.Int("max_gram_length", 1) > 64) {
      return InvalidModelError("max_skip_count or max_gram_length is out of range");
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() != 1 && shape.rank() != 2)
      return InvalidArgumentError("[C] or [N, C] expected, found {}", shape.ToString());
    const int64_t rows = shape.rank() == 2 ? shape[0] : 1;
    const int64_t length = shape[shape.rank() - 1];
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, shape.rank() == 2 ? Shape{rows, width_} : Shape{width_}));
    if (!out) return Status();
    float* counts = out->mutable_data<float>();
    std::fill_n(counts, rows * width_, 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t start = 0; start < length; ++start) {
        CountFrom(*input, row * length, start, length, counts + row * width_);
      }
      for (size_t gram = 0; gram < indexes_.size(); ++gram) Weigh(gram, counts + row * width_);
    }
    return Status();
  }

 private:
  // Counts the n-grams that begin at `start`, for every distance between their tokens. Single tokens have
  // none, so they count once.
  void CountFrom(const Tensor& input, int64_t first, int64_t start, int64_t length, float* counts) const {
    for (int64_t skip = 0; skip <= max_skip_; ++skip) {
      const GramTrie::Node* node = &trie_.root();
      int64_t at = start;
      for (int64_t n = 1; n <= max_length_ && at < length; ++n, at += skip + 1) {
        node = trie_.Next(*node, TokenAt(input, first + at));
        if (!node) break;
        if (node->gram != GramTrie::kNone && (n > 1 || skip == 0))
          ++counts[indexes_[static_cast<size_t>(node->gram)]];
      }
      if (start + skip + 1 >= length) break;
    }
  }
  int64_t TokenAt(const Tensor& input, int64_t index) const {
    if (input.type() == DataType::kInt64) return input.data<int64_t>()[index];
    if (input.type() == DataType::kInt32) return input.data<int32_t>()[index];
    const auto found = string_tokens_.find(input.data<std::string>()[index]);
    return found == string_tokens_.end() ? -1 : found->second;
  }
  void Weigh(size_t gram, float* counts) const {
    float& count = counts[indexes_[gram]];
    const float weight = weights_.empty() ? 1.0f : weights_[gram];
    if (weighting_ == Weighting::kIdf) {
      count = count > 0 ? weight : 0.0f;
    } else if (weighting_ == Weighting::kTfIdf) {
      count *= weight;
    }
  }

  Weighting weighting_;
  int64_t min_length_;
  int64_t max_length_;
  int64_t max_skip_;
  std::vector<int64_t> indexes_;  // of n-grams: their place in the output
  std::vector<float> weights_;
  int64_t width_ = 0;
  std::unordered_map<std::string, int64_t> string_tokens_;
  GramTrie trie_;
};

}  // namespace

void RegisterTfIdfKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("TfIdfVectorizer")
                   .Since(9)
                   .Input(0, kIndexTypes | DataType::kString)
                   .Output(0, DataType::kFloat),
               CreateKernel<TfIdfVectorizer>);
}

}  // namespace lamina
