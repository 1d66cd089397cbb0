// Options that are text keys with text values: `--option session.max_batch=4`, entries of SessionOptions,
// keys in a model's configuration. An OptionTable describes the keys once; parsing, validation, help and
// docs/options.md come from it.
//
//   const OptionTable table({{.key = "session.max_batch", .type = OptionType::kInt, .default_text = "1",
//                             .range = {1, 4096}, .meaning = "Most sequences in one step"}});
//   OptionValues values(table);
//   LAMINA_RETURN_IF_ERROR(values.Set("session.max_batch", "4"));
//   values.Int("session.max_batch");  // 4
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lamina/status.h"

namespace lamina {

enum class OptionType : uint8_t {
  kBool,    // 1 or 0, true or false
  kInt,     // decimal
  kFloat,   // decimal, finite
  kBytes,   // as ParseByteSize reads it
  kString,  // anything
  kEnum,    // one of `choices`
};

struct OptionSpec {
  struct Range {  // inclusive; of the number, or of the bytes
    double low = std::numeric_limits<double>::lowest();
    double high = std::numeric_limits<double>::max();
  };

  std::string key;
  OptionType type = OptionType::kString;
  std::string default_text;  // as a user would write it; empty: the option is unset until it is given
  std::string unit;          // of kInt and kFloat, for documentation: "tokens", "threads"
  Range range;
  std::vector<std::string> choices;  // of kEnum
  std::string meaning;               // a sentence or two without a full stop at the end
  // What an unset option means where default_text is empty, for documentation: "all physical cores".
  std::string when_unset;
};

// Immutable after construction; thread-safe.
class OptionTable {
 public:
  // `ignored_keys`: keys that mean something to ONNX Runtime and nothing here; a model's files may carry
  // them. REQUIRES: keys are unique and every default is valid (tests call CheckConsistent).
  explicit OptionTable(std::vector<OptionSpec> specs, std::vector<std::string> ignored_keys = {});

  const std::vector<OptionSpec>& specs() const { return specs_; }
  const OptionSpec* Find(std::string_view key) const;
  bool IsIgnored(std::string_view key) const;
  // INTERNAL naming the first key that is there twice, has a default outside its own range or no meaning.
  Status CheckConsistent() const;

  // INVALID_ARGUMENT for a key that the table lacks, with the nearest one if any is near.
  Status UnknownKey(std::string_view key) const;

  // A Markdown document: a heading and a table of all options, in the order of the table.
  std::string ToMarkdown() const;

 private:
  std::vector<OptionSpec> specs_;
  std::vector<std::string> ignored_keys_;
  std::map<std::string, size_t, std::less<>> index_;
};

// Where an option was given; decides what an unknown key is.
enum class OptionSource : uint8_t {
  kUser,       // unknown keys are errors
  kModelFile,  // keys of ONNX Runtime without meaning here give a notice, other unknown keys a warning
};

// What came of giving an option.
enum class OptionOutcome : uint8_t { kSet, kIgnoredWithNotice, kUnknownWithWarning };

// The values of one table's options. Reading is thread-safe.
class OptionValues {
 public:
  // `table` must outlive this.
  explicit OptionValues(const OptionTable& table) : table_(&table) {}

  // Parses and checks. INVALID_ARGUMENT names the key, what was expected and what was found, also for an
  // unknown key from the user; nothing changes then. The user's value wins over the model file's in whichever
  // order they come.
  Result<OptionOutcome> Give(std::string_view key, std::string_view value, OptionSource source);
  // Give from the user.
  Status Set(std::string_view key, std::string_view value);
  // "KEY=VALUE", as --option takes it.
  Status SetFromFlag(std::string_view key_and_value);

  // Given, not only defaulted.
  bool IsGiven(std::string_view key) const;
  // Given or with a default.
  bool HasValue(std::string_view key) const;

  // REQUIRES: the table has the key with that type (kEnum and kString: Text) and HasValue(key).
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Float(std::string_view key) const;
  uint64_t Bytes(std::string_view key) const;
  std::string Text(std::string_view key) const;

  // Given options as (key, text as given), by key: for printing and for plans.
  std::vector<std::pair<std::string, std::string>> Given() const;

 private:
  using Value = std::variant<bool, int64_t, double, uint64_t, std::string>;
  struct Entry {
    std::string text;
    Value value;
    OptionSource source;
  };
  static Result<Value> Parse(const OptionSpec& spec, std::string_view text);
  friend class OptionTable;  // parses defaults
  template <typename T>
  T Get(std::string_view key) const;

  const OptionTable* table_;
  std::map<std::string, Entry, std::less<>> given_;
};

}  // namespace lamina
