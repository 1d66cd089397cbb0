// Einsum: sums of products over named axes.
#include <array>
#include <cctype>
#include <string>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

constexpr int kMaxInputs = 8;
// Labels as numbers: the letters, then the axes that an ellipsis stands for, counted from the last.
constexpr int kLetters = 52;
constexpr int kLabels = kLetters + Shape::kMaxRank;
constexpr char kEllipsis = '.';

size_t LabelOf(char letter) { return static_cast<size_t>(letter >= 'a' ? letter - 'a' + 26 : letter - 'A'); }

// "ij,jk->ik": the letters of each term, with kEllipsis for "...".
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

Result<Equation> ParseEquation(std::string_view text) {
  Equation equation;
  equation.inputs.emplace_back();
  bool arrow = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& term = arrow ? equation.output : equation.inputs.back();
    const char c = text[i];
    if (c == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      term += c;
    } else if (text.substr(i, 3) == "..." && term.find(kEllipsis) == std::string::npos) {
      term += kEllipsis;
      i += 2;
    } else if (c == ',' && !arrow) {
      equation.inputs.emplace_back();
    } else if (text.substr(i, 2) == "->" && !arrow) {
      arrow = true;
      ++i;
    } else {
      return InvalidModelError("the equation '{}' is malformed at character {}", text, i);
    }
  }
  if (equation.inputs.size() > kMaxInputs) return UnsupportedError("more than {} operands", kMaxInputs);
  if (!arrow) {  // the ellipsis, then the letters that appear once, in alphabetical order
    std::string all;
    for (const std::string& term : equation.inputs) all += term;
    if (all.find(kEllipsis) != std::string::npos) equation.output = kEllipsis;
    for (int c = 'A'; c <= 'z'; ++c) {
      if (std::isalpha(c) != 0 && std::count(all.begin(), all.end(), static_cast<char>(c)) == 1) {
        equation.output += static_cast<char>(c);
      }
    }
  }
  return equation;
}

// Nested loops over the labels: those of the output, then those that are summed.
struct Loops {
  int outputs = 0;
  int count = 0;
  std::array<int64_t, kLabels> extents{};
  std::array<std::array<int64_t, kMaxInputs>, kLabels> strides{};  // of each input, in elements
};

class Einsum : public Kernel {
 public:
  explicit Einsum(const NodeInfo& node) : equation_(*ParseEquation(node.String("equation", ""))) {}
  static Status Validate(const NodeInfo& node) { return ParseEquation(node.String("equation", "")).status(); }

  Status Compute(KernelContext& context) const override {
    if (context.num_inputs() != static_cast<int>(equation_.inputs.size())) {
      return InvalidArgumentError("{} inputs for an equation of {}", context.num_inputs(),
                                  equation_.inputs.size());
    }
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Loops loops, MakeLoops(context));
    if (loops.outputs > Shape::kMaxRank) return InvalidArgumentError("the result has too many dimensions");
    Shape shape;
    for (int loop = 0; loop < loops.outputs; ++loop) shape.Append(loops.extents[static_cast<size_t>(loop)]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    DispatchType<float, double, Float16, Bfloat16, int32_t, int64_t, uint32_t, uint64_t>(
        first->type(), [&](auto tag) { Run<typename decltype(tag)::type>(context, loops, *out); });
    return Status();
  }

 private:
  Result<Loops> MakeLoops(const KernelContext& context) const {
    std::array<int64_t, kLabels> extents;
    extents.fill(-1);  // labels that do not appear
    std::array<std::array<int64_t, kMaxInputs>, kLabels> strides{};
    int ellipsis_axes = 0;
    for (size_t i = 0; i < equation_.inputs.size(); ++i) {
      const Tensor* input = context.Input(static_cast<int>(i));
      if (!input || input->type() != context.Input(0)->type()) {
        return InvalidArgumentError("the inputs' types differ");
      }
      const std::string& term = equation_.inputs[i];
      const Shape& shape = input->shape();
      const bool has_ellipsis = term.find(kEllipsis) != std::string::npos;
      const int own_axes = shape.rank() - static_cast<int>(term.size()) + (has_ellipsis ? 1 : 0);
      if (own_axes < 0 || (!has_ellipsis && own_axes != 0)) {
        return InvalidArgumentError("input {} of shape {} does not fit '{}'", i, shape.ToString(), term);
      }
      if (has_ellipsis) ellipsis_axes = std::max(ellipsis_axes, own_axes);
      const IntList own_strides = ContiguousStrides(shape);
      int axis = 0;
      for (const char c : term) {
        const int repeat = c == kEllipsis ? own_axes : 1;
        for (int k = 0; k < repeat; ++k, ++axis) {
          const size_t label = c == kEllipsis ? static_cast<size_t>(kLetters + own_axes - 1 - k) : LabelOf(c);
          int64_t& extent = extents[label];
          if (extent > 1 && shape[axis] != 1 && extent != shape[axis]) {
            return InvalidArgumentError("a label of '{}' has extents {} and {}", term, extent, shape[axis]);
          }
          if (extent < 0 || extent == 1) extent = shape[axis];
          // A label that is repeated in a term walks its diagonal.
          if (shape[axis] != 1) strides[label][i] += own_strides[axis];
        }
      }
    }
    Loops loops;
    std::array<bool, kLabels> used{};
    const auto add = [&](size_t label) {
      if (used[label]) return;
      used[label] = true;
      loops.extents[static_cast<size_t>(loops.count)] = extents[label];
      loops.strides[static_cast<size_t>(loops.count)] = strides[label];
      ++loops.count;
    };
    for (const char c : equation_.output) {
      if (c == kEllipsis) {
        for (int k = ellipsis_axes - 1; k >= 0; --k) add(static_cast<size_t>(kLetters + k));
      } else if (extents[LabelOf(c)] < 0 || used[LabelOf(c)]) {
        return InvalidArgumentError("label '{}' of the result is in no operand, or twice in the result", c);
      } else {
        add(LabelOf(c));
      }
    }
    loops.outputs = loops.count;
    for (size_t label = 0; label < kLabels; ++label) {
      if (extents[label] >= 0) add(label);
    }
    return loops;
  }

  template <typename T>
  void Run(KernelContext& context, const Loops& loops, Tensor& out) const {
    using C = ComputeType<T>;
    const size_t operands = equation_.inputs.size();
    std::array<const T*, kMaxInputs> data{};
    for (size_t i = 0; i < operands; ++i) data[i] = context.Input(static_cast<int>(i))->data<T>();
    int64_t summed = 1;
    for (int loop = loops.outputs; loop < loops.count; ++loop)
      summed *= loops.extents[static_cast<size_t>(loop)];
    T* target = out.mutable_data<T>();
    context.threads().ParallelFor(
        out.num_elements(), GrainOf(4 * summed), [&](int64_t begin, int64_t end, int) {
          for (int64_t position = begin; position < end; ++position) {
            std::array<int64_t, kMaxInputs> offsets{};
            int64_t rest = position;
            for (auto loop = static_cast<size_t>(loops.outputs); loop-- > 0;) {
              const int64_t index = rest % loops.extents[loop];
              rest /= loops.extents[loop];
              for (size_t i = 0; i < operands; ++i) offsets[i] += index * loops.strides[loop][i];
            }
            target[position] = static_cast<T>(Sum<T, C>(loops, operands, data, offsets, summed));
          }
        });
  }

  // The sum over the labels that are not in the output, at given offsets of the operands.
  template <typename T, typename C>
  static C Sum(const Loops& loops, size_t operands, const std::array<const T*, kMaxInputs>& data,
               std::array<int64_t, kMaxInputs> offsets, int64_t count) {
    std::array<int64_t, kLabels> index{};
    C sum = 0;
    for (int64_t step = 0; step < count; ++step) {
      C product = static_cast<C>(data[0][offsets[0]]);
      for (size_t i = 1; i < operands; ++i)
        product = MulOp::Apply(product, static_cast<C>(data[i][offsets[i]]));
      sum = AddOp::Apply(sum, product);
      for (int loop = loops.count - 1; loop >= loops.outputs; --loop) {
        const auto at = static_cast<size_t>(loop);
        for (size_t i = 0; i < operands; ++i) offsets[i] += loops.strides[at][i];
        if (++index[at] < loops.extents[at]) break;
        index[at] = 0;
        for (size_t i = 0; i < operands; ++i) offsets[i] -= loops.strides[at][i] * loops.extents[at];
      }
    }
    return sum;
  }

  Equation equation_;
};

}  // namespace

void RegisterEinsumKernels(KernelRegistry& registry) {
  const TypeSet types =
      kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
  registry.Add(KernelDef("Einsum").Since(12).Input(0, types).VariadicInputs().Output(0, types),
               CreateKernel<Einsum>);
}

}  // namespace lamina
