// StringConcat, StringSplit, StringNormalizer, RegexFullMatch. Strings are objects of the heap, so these
// kernels allocate.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

class StringConcat : public Kernel {
 public:
  explicit StringConcat(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(a->shape(), b->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    constexpr int64_t kBytes = sizeof(std::string);
    const BroadcastOperand operands[] = {{a->raw_data(), a->shape(), kBytes},
                                         {b->raw_data(), b->shape(), kBytes}};
    ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), kBytes, /*work=*/64,
                        [](const BroadcastRow& row) {
                          const auto* x = row.input<std::string>(0);
                          const auto* y = row.input<std::string>(1);
                          for (int64_t i = 0; i < row.count; ++i) {
                            row.out<std::string>()[i] =
                                x[row.repeated[0] ? 0 : i] + y[row.repeated[1] ? 0 : i];
                          }
                        });
    return Status();
  }
};

// Splits at a delimiter, or at runs of white space where it is empty. Output [..., most parts], filled up
// with empty strings, and the number of parts of each.
class StringSplit : public Kernel {
 public:
  explicit StringSplit(const NodeInfo& node)
      : delimiter_(node.String("delimiter", "")),
        max_splits_(node.Int("maxsplit", std::numeric_limits<int64_t>::max())) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    if (input->shape().rank() == Shape::kMaxRank) return InvalidArgumentError("too many dimensions");
    std::vector<std::vector<std::string>> parts;
    size_t most = 0;
    for (const std::string& text : input->elements<std::string>()) {
      parts.push_back(delimiter_.empty() ? SplitAtSpaces(text) : SplitAtDelimiter(text));
      most = std::max(most, parts.back().size());
    }
    Shape shape = input->shape();
    shape.Append(static_cast<int64_t>(most));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * counts, context.Output(1, input->shape()));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (counts) counts->mutable_data<int64_t>()[i] = static_cast<int64_t>(parts[i].size());
      for (size_t k = 0; out && k < most; ++k) {
        out->mutable_data<std::string>()[i * most + k] = k < parts[i].size() ? std::move(parts[i][k]) : "";
      }
    }
    return Status();
  }

 private:
  std::vector<std::string> SplitAtDelimiter(const std::string& text) const {
    std::vector<std::string> parts;
    if (text.empty()) return parts;
    size_t begin = 0;
    for (int64_t splits = 0; splits < max_splits_; ++splits) {
      const size_t end = text.find(delimiter_, begin);
      if (end == std::string::npos) break;
      parts.push_back(text.substr(begin, end - begin));
      begin = end + delimiter_.size();
    }
    parts.push_back(text.substr(begin));
    return parts;
  }
  std::vector<std::string> SplitAtSpaces(const std::string& text) const {
    constexpr const char* kSpaces = " \t\n\r\f\v";
    std::vector<std::string> parts;
    size_t begin = text.find_first_not_of(kSpaces);
    while (begin != std::string::npos) {
      const size_t end = text.find_first_of(kSpaces, begin);
      if (static_cast<int64_t>(parts.size()) == max_splits_) {
        parts.push_back(text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin));
        break;
      }
      parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
      begin = text.find_first_not_of(kSpaces, end);
    }
    return parts;
  }

  std::string delimiter_;
  int64_t max_splits_;
};

enum class CaseChange : uint8_t { kNone, kLower, kUpper };

// The text with the case of every character changed (simple mapping); bytes that are no UTF-8 stay.
std::string ChangeCase(const std::string& text, CaseChange change) {
  if (change == CaseChange::kNone) return text;
  std::string changed;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (length <= 0) {
      changed += text[at++];
      continue;
    }
    at += static_cast<size_t>(length);
    utf8proc_uint8_t encoded[4];
    point = change == CaseChange::kLower ? utf8proc_tolower(point) : utf8proc_toupper(point);
    const utf8proc_ssize_t size = utf8proc_encode_char(point, encoded);
    changed.append(reinterpret_cast<const char*>(encoded), static_cast<size_t>(size));
  }
  return changed;
}

Result<CaseChange> ParseCaseChange(std::string_view name) {
  if (name == "NONE") return CaseChange::kNone;
  if (name == "LOWER") return CaseChange::kLower;
  if (name == "UPPER") return CaseChange::kUpper;
  return InvalidModelError("unknown case_change_action '{}'", name);
}

// Removes stop words from [C] or [1, C] and changes the case. Where nothing is left there is one empty
// string.
class StringNormalizer : public Kernel {
 public:
  explicit StringNormalizer(const NodeInfo& node)
      : change_(*ParseCaseChange(node.String("case_change_action", "NONE"))),
        sensitive_(node.Int("is_case_sensitive", 0) != 0) {
    for (const std::string& word : node.Strings("stopwords")) {
      stop_words_.push_back(sensitive_ ? word : ChangeCase(word, CaseChange::kLower));
    }
  }
  static Status Validate(const NodeInfo& node) {
    return ParseCaseChange(node.String("case_change_action", "NONE")).status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (!(shape.rank() == 1 || (shape.rank() == 2 && shape[0] == 1))) {
      return InvalidArgumentError("a shape [C] or [1, C] expected, found {}", shape.ToString());
    }
    std::vector<std::string> kept;
    for (const std::string& text : input->elements<std::string>()) {
      const std::string compared = sensitive_ ? text : ChangeCase(text, CaseChange::kLower);
      if (std::find(stop_words_.begin(), stop_words_.end(), compared) != stop_words_.end()) continue;
      kept.push_back(ChangeCase(text, change_));
    }
    if (kept.empty()) kept.emplace_back();
    const auto count = static_cast<int64_t>(kept.size());
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, shape.rank() == 1 ? Shape{count} : Shape{1, count}));
    if (out) std::move(kept.begin(), kept.end(), out->mutable_data<std::string>());
    return Status();
  }

 private:
  CaseChange change_;
  bool sensitive_;
  std::vector<std::string> stop_words_;
};

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// Whether the whole text matches. The operator's syntax is RE2's, of which PCRE2 knows all that is regular;
// limits on backtracking stand for RE2's linear time.
class RegexFullMatch : public Kernel {
 public:
  explicit RegexFullMatch(std::unique_ptr<pcre2_code, CodeDeleter> code) : code_(std::move(code)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    const std::unique_ptr<pcre2_match_data, MatchDeleter> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, MatchContextDeleter> limits(
        pcre2_match_context_create(nullptr));
    if (!match || !limits) return ResourceExhaustedError("no memory for a match");
    pcre2_set_match_limit(limits.get(), 1'000'000);
    for (int64_t i = 0; i < input->num_elements(); ++i) {
      const std::string& text = input->data<std::string>()[i];
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                    match.get(), limits.get());
      if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        return InvalidArgumentError("matching element {} failed with PCRE2 error {}", i, found);
      }
      out->mutable_data<bool>()[i] = found >= 0;
    }
    return Status();
  }

 private:
  std::unique_ptr<pcre2_code, CodeDeleter> code_;
};

Result<std::unique_ptr<Kernel>> CreateRegexFullMatch(const NodeInfo& node) {
  const std::string pattern(node.String("pattern", ""));
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, CodeDeleter> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &error, &offset, nullptr));
  if (!code) {
    return InvalidModelError("the pattern '{}' is malformed at byte {} (PCRE2 error {})", pattern, offset,
                             error);
  }
  return std::unique_ptr<Kernel>(std::make_unique<RegexFullMatch>(std::move(code)));
}

}  // namespace

void RegisterStringKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("StringConcat")
                   .Since(20)
                   .Input(0, DataType::kString)
                   .Input(1, DataType::kString)
                   .Output(0, DataType::kString),
               CreateKernel<StringConcat>);
  registry.Add(KernelDef("StringSplit")
                   .Since(20)
                   .Input(0, DataType::kString)
                   .Output(0, DataType::kString)
                   .Output(1, DataType::kInt64),
               CreateKernel<StringSplit>);
  registry.Add(
      KernelDef("StringNormalizer").Since(10).Input(0, DataType::kString).Output(0, DataType::kString),
      CreateKernel<StringNormalizer>);
  registry.Add(KernelDef("RegexFullMatch").Since(20).Input(0, DataType::kString).Output(0, DataType::kBool),
               CreateRegexFullMatch);
}

}  // namespace lamina
