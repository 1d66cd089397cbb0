// ai.onnx.ml TreeEnsemble: decision trees whose leaves add to targets.
#include <cmath>
#include <limits>
#include <vector>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// The numbers are ONNX's.
enum class BranchMode : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember };
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };
enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

struct Branch {
  struct Next {
    bool leaf = false;
    size_t index = 0;  // of a leaf or a branch
  };
  BranchMode mode = BranchMode::kLessEqual;
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members;   // kMember
  bool missing_is_true = false;  // where the feature is NaN
  Next if_true;
  Next if_false;

  bool Decide(double value) const {
    if (std::isnan(value) && missing_is_true) return true;
    switch (mode) {
      case BranchMode::kLessEqual:
        return value <= split;
      case BranchMode::kLess:
        return value < split;
      case BranchMode::kGreaterEqual:
        return value >= split;
      case BranchMode::kGreater:
        return value > split;
      case BranchMode::kEqual:
        return value == split;
      case BranchMode::kNotEqual:
        return value != split;
      case BranchMode::kMember:
        return std::find(members.begin(), members.end(), value) != members.end();
    }
    return false;
  }
};

struct Leaf {
  size_t target = 0;
  double weight = 0;
};

struct Ensemble {
  std::vector<Branch> branches;
  std::vector<Leaf> leaves;
  std::vector<size_t> roots;
  size_t targets = 1;
  Aggregate aggregate = Aggregate::kSum;
  PostTransform post_transform = PostTransform::kNone;
};

// The elements of a float tensor attribute as doubles.
std::vector<double> NumbersOf(const NodeInfo& node, std::string_view name) {
  std::vector<double> numbers;
  const std::optional<Tensor> tensor = node.TensorAttribute(name);
  if (!tensor) return numbers;
  const Result<Tensor> aligned = tensor->Clone();  // a view of the file may be unaligned
  if (!aligned.ok()) return numbers;
  DispatchType<float, double, Float16, uint8_t>(aligned->type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const T value : aligned->elements<T>())
      numbers.push_back(static_cast<double>(static_cast<ComputeType<T>>(value)));
  });
  return numbers;
}

Result<Ensemble> ParseEnsemble(const NodeInfo& node) {
  Ensemble ensemble;
  const auto features = node.Ints("nodes_featureids");
  const auto true_ids = node.Ints("nodes_truenodeids");
  const auto false_ids = node.Ints("nodes_falsenodeids");
  const auto true_leaves = node.Ints("nodes_trueleafs");
  const auto false_leaves = node.Ints("nodes_falseleafs");
  const auto missing = node.Ints("nodes_missing_value_tracks_true");
  const auto targets = node.Ints("leaf_targetids");
  const std::vector<double> modes = NumbersOf(node, "nodes_modes");
  const std::vector<double> splits = NumbersOf(node, "nodes_splits");
  const std::vector<double> weights = NumbersOf(node, "leaf_weights");
  const std::vector<double> members = NumbersOf(node, "membership_values");
  const size_t count = features.size();
  if (true_ids.size() != count || false_ids.size() != count || true_leaves.size() != count ||
      false_leaves.size() != count || modes.size() != count || splits.size() != count ||
      (!missing.empty() && missing.size() != count) || targets.size() != weights.size()) {
    return InvalidModelError("the attributes of the tree's nodes or leaves differ in length");
  }
  const int64_t target_count = node.Int("n_targets", 1);
  const int64_t aggregate = node.Int("aggregate_function", 1);
  const int64_t post_transform = node.Int("post_transform", 0);
  if (target_count < 1 || target_count > 1'000'000 || aggregate < 0 || aggregate > 3 || post_transform < 0 ||
      post_transform > 4) {
    return InvalidModelError("n_targets {}, aggregate_function {} or post_transform {} is out of range",
                             target_count, aggregate, post_transform);
  }
  ensemble.targets = static_cast<size_t>(target_count);
  ensemble.aggregate = static_cast<Aggregate>(aggregate);
  ensemble.post_transform = static_cast<PostTransform>(post_transform);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= target_count)
      return InvalidModelError("a leaf of target {}", targets[i]);
    ensemble.leaves.push_back({static_cast<size_t>(targets[i]), weights[i]});
  }
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    Branch branch;
    if (!(modes[i] >= 0 && modes[i] <= 6) || features[i] < 0)
      return InvalidModelError("node {} is malformed", i);
    branch.mode = static_cast<BranchMode>(static_cast<int>(modes[i]));
    branch.feature = features[i];
    branch.split = splits[i];
    branch.missing_is_true = !missing.empty() && missing[i] != 0;
    // Sets of members follow each other, each ended by a NaN.
    if (branch.mode == BranchMode::kMember) {
      for (; member < members.size() && !std::isnan(members[member]); ++member)
        branch.members.push_back(members[member]);
      ++member;
    }
    const auto next = [&](int64_t id, bool leaf) -> Result<Branch::Next> {
      const size_t limit = leaf ? ensemble.leaves.size() : count;
      // Children come after their parents, so that no tree has a cycle.
      if (id < 0 || static_cast<size_t>(id) >= limit || (!leaf && static_cast<size_t>(id) <= i)) {
        return InvalidModelError("node {} goes on to {} {}", i, leaf ? "leaf" : "node", id);
      }
      return Branch::Next{leaf, static_cast<size_t>(id)};
    };
    LAMINA_ASSIGN_OR_RETURN(branch.if_true, next(true_ids[i], true_leaves[i] != 0));
    LAMINA_ASSIGN_OR_RETURN(branch.if_false, next(false_ids[i], false_leaves[i] != 0));
    ensemble.branches.push_back(std::move(branch));
  }
  for (const int64_t root : node.Ints("tree_roots")) {
    if (root < 0 || static_cast<size_t>(root) >= count) return InvalidModelError("a root at node {}", root);
    ensemble.roots.push_back(static_cast<size_t>(root));
  }
  return ensemble;
}

// The inverse of the standard normal distribution function, by Winitzki's approximation of the inverse of
// erf, as the operator's definition has it.
double Probit(double p) {
  const double x = 2 * p - 1;
  const double sign = x < 0 ? -1 : 1;
  const double log = std::log((1 - x) * (1 + x));
  const double v = 2 / (3.14159 * 0.147) + 0.5 * log;
  return 1.41421356 * sign * std::sqrt(std::sqrt(v * v - log / 0.147) - v);
}

void Transform(PostTransform transform, double* values, size_t count) {
  switch (transform) {
    case PostTransform::kNone:
      return;
    case PostTransform::kLogistic:
      for (size_t i = 0; i < count; ++i) values[i] = 1 / (1 + std::exp(-values[i]));
      return;
    case PostTransform::kProbit:
      for (size_t i = 0; i < count; ++i) values[i] = Probit(values[i]);
      return;
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero: {
      const double largest = *std::max_element(values, values + count);
      double sum = 0;
      for (size_t i = 0; i < count; ++i) {
        // The variant leaves scores of zero out.
        if (transform == PostTransform::kSoftmaxZero && std::abs(values[i]) <= 1e-7) continue;
        values[i] = std::exp(values[i] - largest);
        sum += values[i];
      }
      for (size_t i = 0; sum != 0 && i < count; ++i) values[i] /= sum;
      return;
    }
  }
}

constexpr int kScores = 0;  // scratch slot: a row of targets

class TreeEnsemble : public Kernel {
 public:
  explicit TreeEnsemble(Ensemble ensemble) : ensemble_(std::move(ensemble)) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    return requirements.Add(
        kScores, static_cast<size_t>(std::max<int64_t>(1, node.Int("n_targets", 1))) * sizeof(double));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    if (shape.rank() != 2)
      return InvalidArgumentError("[rows, features] expected, found {}", shape.ToString());
    for (const Branch& branch : ensemble_.branches) {
      if (branch.feature >= shape[1])
        return InvalidArgumentError("feature {} of {}", branch.feature, shape[1]);
    }
    const auto targets = static_cast<int64_t>(ensemble_.targets);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {shape[0], targets}));
    if (!y) return Status();
    LAMINA_ASSIGN_OR_RETURN(double* scores, GetScratch<double>(context, kScores, targets));
    DispatchType<float, double, Float16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t row = 0; row < shape[0]; ++row) {
        ScoreRow(x->data<T>() + row * shape[1], scores);
        for (int64_t i = 0; i < targets; ++i) {
          y->mutable_data<T>()[row * targets + i] = static_cast<T>(static_cast<ComputeType<T>>(scores[i]));
        }
      }
    });
    return Status();
  }

 private:
  template <typename T>
  void ScoreRow(const T* features, double* scores) const {
    const double neutral = ensemble_.aggregate == Aggregate::kMin   ? std::numeric_limits<double>::infinity()
                           : ensemble_.aggregate == Aggregate::kMax ? -std::numeric_limits<double>::infinity()
                                                                    : 0;
    std::fill_n(scores, ensemble_.targets, neutral);
    for (const size_t root : ensemble_.roots) {
      Branch::Next next{false, root};
      while (!next.leaf) {
        const Branch& branch = ensemble_.branches[next.index];
        const double value = static_cast<double>(static_cast<ComputeType<T>>(features[branch.feature]));
        next = branch.Decide(value) ? branch.if_true : branch.if_false;
      }
      const Leaf& leaf = ensemble_.leaves[next.index];
      double& score = scores[leaf.target];
      if (ensemble_.aggregate == Aggregate::kMin) {
        score = std::min(score, leaf.weight);
      } else if (ensemble_.aggregate == Aggregate::kMax) {
        score = std::max(score, leaf.weight);
      } else {
        score += leaf.weight;
      }
    }
    for (size_t i = 0; i < ensemble_.targets; ++i) {
      if (ensemble_.aggregate == Aggregate::kAverage)
        scores[i] /= static_cast<double>(ensemble_.roots.size());
      if (std::isinf(scores[i]) && scores[i] == neutral) scores[i] = 0;  // no leaf of this target
    }
    Transform(ensemble_.post_transform, scores, ensemble_.targets);
  }

  Ensemble ensemble_;
};

Result<std::unique_ptr<Kernel>> CreateTreeEnsemble(const NodeInfo& node) {
  LAMINA_ASSIGN_OR_RETURN(Ensemble ensemble, ParseEnsemble(node));
  return std::unique_ptr<Kernel>(std::make_unique<TreeEnsemble>(std::move(ensemble)));
}

}  // namespace

void RegisterTreeEnsembleKernels(KernelRegistry& registry) {
  const TypeSet types{DataType::kFloat, DataType::kDouble, DataType::kFloat16};
  registry.Add(KernelDef("TreeEnsemble", kMlDomain).Since(5).Input(0, types).Output(0, types),
               CreateTreeEnsemble, EstimateWorkspace<TreeEnsemble>);
}

}  // namespace lamina
