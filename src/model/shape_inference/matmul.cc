#include "model/shape_inference/matmul.h"

#include <algorithm>
#include <map>
#include <string>

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

Status InferMatMul(InferenceContext& context) { return InferMatMulOf(context, 0, 1); }
Status InferQLinearMatMul(InferenceContext& context) { return InferMatMulOf(context, 0, 3); }

Status InferGemm(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2));
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(1);
  if (a == nullptr || b == nullptr) return {};
  const size_t inner_a = context.Int("transA", 0) != 0 ? 0 : 1;
  const size_t inner_b = context.Int("transB", 0) != 0 ? 1 : 0;
  LAMINA_RETURN_IF_ERROR(context.Unify(a->dims[inner_a], b->dims[inner_b], "the inner dimensions").status());
  SymbolicShape result{{a->dims[1 - inner_a], b->dims[1 - inner_b]}};
  if (const SymbolicShape* c = context.InputShape(2)) {
    LAMINA_ASSIGN_OR_RETURN(const SymbolicShape sum, BroadcastShapes(context, result, *c));
    if (sum.rank() != 2) return context.Error("input 2 of shape {} does not fit the product", c->ToString());
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// --- Einsum ---

struct EinsumEquation {
  std::vector<std::string> operands;
  std::string output;
};

// Terms of letters, with '.' for an ellipsis.
Result<EinsumEquation> ParseEquation(const InferenceContext& context, std::string_view text) {
  EinsumEquation equation;
  std::string term;
  bool after_arrow = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',' && !after_arrow) {
      equation.operands.push_back(std::move(term));
      term.clear();
    } else if (text.substr(i, 2) == "->" && !after_arrow) {
      equation.operands.push_back(std::move(term));
      term.clear();
      after_arrow = true;
      ++i;
    } else if (text.substr(i, 3) == "..." && term.find('.') == std::string::npos) {
      term += '.';
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      term += c;
    } else {
      return context.Error("the equation '{}' cannot be read", text);
    }
  }
  if (after_arrow) {
    equation.output = std::move(term);
    return equation;
  }
  equation.operands.push_back(std::move(term));
  // Without an output term: the ellipsis, then every letter that occurs once, in alphabetical order.
  std::map<char, int> counts;
  for (const std::string& operand : equation.operands) {
    for (const char c : operand) ++counts[c];
  }
  if (counts.count('.') > 0) equation.output += '.';
  for (const auto& [letter, count] : counts) {
    if (letter != '.' && count == 1) equation.output += letter;
  }
  return equation;
}

Status InferEinsum(InferenceContext& context) {
  context.Require("equation");
  const std::string_view text = context.String("equation", "");
  LAMINA_ASSIGN_OR_RETURN(const EinsumEquation equation, ParseEquation(context, text));
  if (static_cast<int>(equation.operands.size()) != context.num_inputs()) {
    return context.Error("the equation '{}' has {} terms for {} inputs", text, equation.operands.size(),
                         context.num_inputs());
  }
  std::map<char, DimExpr> dims;
  SymbolicShape ellipsis;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const SymbolicShape* shape = context.InputShape(i);
    if (shape == nullptr) return {};
    const std::string& operand = equation.operands[static_cast<size_t>(i)];
    const auto letters = static_cast<int>(
        operand.size() - static_cast<size_t>(std::count(operand.begin(), operand.end(), '.')));
    const int extra = shape->rank() - letters;
    if (extra < 0 || (extra > 0 && operand.find('.') == std::string::npos)) {
      return context.Error("input {} of shape {} does not fit its term of '{}'", i, shape->ToString(), text);
    }
    auto dim = shape->dims.begin();
    for (const char c : operand) {
      if (c == '.') {
        LAMINA_ASSIGN_OR_RETURN(ellipsis,
                                BroadcastShapes(context, ellipsis, {std::vector<DimExpr>(dim, dim + extra)}));
        dim += extra;
        continue;
      }
      const auto [entry, is_new] = dims.emplace(c, *dim);
      if (!is_new) {
        LAMINA_ASSIGN_OR_RETURN(entry->second, BroadcastDims(context, entry->second, *dim));
      }
      ++dim;
    }
  }
  SymbolicShape result;
  for (const char c : equation.output) {
    if (c == '.') {
      result.dims.insert(result.dims.end(), ellipsis.dims.begin(), ellipsis.dims.end());
    } else if (const auto found = dims.find(c); found != dims.end()) {
      result.dims.push_back(found->second);
    } else {
      return context.Error("'{}' in the output of '{}' is in no input", c, text);
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferDet(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(
      context.Unify(input->dims.end()[-1], input->dims.end()[-2], "the sides of the matrix").status());
  context.SetOutputShape(0, {std::vector<DimExpr>(input->dims.begin(), input->dims.end() - 2)});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"Det", 11, "T -> T | T=float", InferDet},
    {"Einsum", 12, "T+ -> T | T=numeric", InferEinsum},
    {"Gemm", 1, "T T T -> T | T=numeric", InferGemm},
    {"Gemm", 11, "T T T? -> T | T=numeric", InferGemm},
    {"MatMul", 1, "T T -> T | T=numeric", InferMatMul},
    {"MatMulInteger", 10, "T1 T2 T1? T2? -> i32 | T1=i8,u8 T2=i8,u8", InferMatMul},
    {"QLinearMatMul", 10, "T1 S T1 T2 S T2 S T3 -> T3 | T1=i8,u8,f8 T2=i8,u8,f8 T3=i8,u8,f8 S=~float",
     InferQLinearMatMul},
};

}  // namespace

Result<SymbolicShape> MatMulShape(InferenceContext& context, const SymbolicShape& a, const SymbolicShape& b) {
  if (a.rank() == 0 || b.rank() == 0) {
    return context.Error("shapes {} and {} cannot be multiplied", a.ToString(), b.ToString());
  }
  const auto split = [](const SymbolicShape& shape, std::ptrdiff_t matrix_rank) {
    return SymbolicShape{std::vector<DimExpr>(shape.dims.begin(), shape.dims.end() - matrix_rank)};
  };
  const DimExpr& inner_a = a.dims.back();
  const DimExpr& inner_b = b.rank() == 1 ? b.dims[0] : b.dims.end()[-2];
  LAMINA_RETURN_IF_ERROR(context.Unify(inner_a, inner_b, "the inner dimensions").status());
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, BroadcastShapes(context, split(a, std::min(a.rank(), 2)),
                                                                split(b, std::min(b.rank(), 2))));
  if (a.rank() > 1) result.dims.push_back(a.dims.end()[-2]);
  if (b.rank() > 1) result.dims.push_back(b.dims.back());
  return result;
}

Status InferMatMulOf(InferenceContext& context, int a, int b) {
  const SymbolicShape* left = context.InputShape(a);
  const SymbolicShape* right = context.InputShape(b);
  if (left == nullptr || right == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, MatMulShape(context, *left, *right));
  context.SetOutputShape(0, std::move(result));
  return {};
}

std::span<const OperatorEntry> MatMulOperators() { return kOperators; }

}  // namespace lamina
