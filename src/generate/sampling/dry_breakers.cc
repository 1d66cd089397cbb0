#include "generate/sampling/dry_breakers.h"

#include <algorithm>
#include <string_view>

namespace lamina {
namespace {

// Lengths of the beginnings of `breaker`, shorter than it, that `text` ends in.
std::vector<size_t> BegunLengths(std::string_view text, std::string_view breaker) {
  std::vector<size_t> lengths;
  for (size_t length = 1; length < breaker.size() && length <= text.size(); ++length) {
    if (text.substr(text.size() - length) == breaker.substr(0, length)) lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> DrySequenceBreakers(const Tokenizer& tokenizer,
                                                              std::span<const std::string> breakers) {
  std::vector<std::vector<int32_t>> sequences;
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.id_limit()); ++id) {
    if (!tokenizer.IdToToken(id)) continue;
    LAMINA_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode({&id, 1}));
    for (const std::string& breaker : breakers) {
      if (breaker.empty()) continue;
      if (text.find(breaker) != std::string::npos) {
        sequences.push_back({id});
        continue;
      }
      for (const size_t length : BegunLengths(text, breaker)) {
        LAMINA_ASSIGN_OR_RETURN(const std::vector<TokenId> rest,
                                tokenizer.Encode(std::string_view(breaker).substr(length)));
        sequences.push_back({id});
        sequences.back().insert(sequences.back().end(), rest.begin(), rest.end());
      }
    }
  }
  std::sort(sequences.begin(), sequences.end());
  sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
  return sequences;
}

}  // namespace lamina
