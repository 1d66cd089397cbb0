// Operators on strings.
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Stop words may go: how many strings stay is not known, and at least one stays.
Status InferStringNormalizer(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, 2));
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  SymbolicShape result = *input;
  const std::vector<std::string>* stop_words = context.Strings("stopwords");
  if (stop_words != nullptr && !stop_words->empty()) result.dims.back() = DimExpr::Unknown();
  context.SetOutputShape(0, std::move(result));
  return {};
}

// [...] -> the parts [..., longest], and how many [...]
Status InferStringSplit(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  SymbolicShape parts = *input;
  parts.dims.push_back(DimExpr::Unknown());
  context.SetOutputShape(0, std::move(parts));
  context.SetOutputShape(1, *input);
  return {};
}

// [C] -> [length], [N, C] -> [N, length], with length from the largest index of an n-gram.
Status InferTfIdfVectorizer(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, 2));
  for (const char* name :
       {"max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes"}) {
    context.Require(name);
  }
  const SymbolicShape* input = context.InputShape(0);
  const std::vector<int64_t>* indexes = context.Ints("ngram_indexes");
  if (input == nullptr || indexes == nullptr) return {};
  int64_t length = 0;
  for (const int64_t index : *indexes) {
    if (index < 0 || index == std::numeric_limits<int64_t>::max()) {
      return context.Error("ngram_indexes contains {}", index);
    }
    length = std::max(length, index + 1);
  }
  SymbolicShape result = *input;
  result.dims.back() = length;
  context.SetOutputShape(0, std::move(result));
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"RegexFullMatch", 20, "string -> bool", InferSameShape},
    {"StringConcat", 20, "string string -> string", InferBroadcast},
    {"StringNormalizer", 10, "string -> string", InferStringNormalizer},
    {"StringSplit", 20, "string -> string i64", InferStringSplit},
    {"TfIdfVectorizer", 9, "T -> f32 | T=string,i32,i64", InferTfIdfVectorizer},
};

}  // namespace

std::span<const OperatorEntry> TextOperators() { return kOperators; }

}  // namespace lamina
