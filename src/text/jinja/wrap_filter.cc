// The filter wordwrap: paragraphs broken into lines of at most `width` characters, as Python's textwrap does.
#include <algorithm>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_algorithms.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

bool IsAsciiSpace(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsLetter(char32_t c) { return IsWordCharacter(c) && !IsDecimal(c); }
// What may stand before a dash between words.
bool IsWordOrPunctuation(char32_t c) {
  return IsWordCharacter(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
         c == '?';
}

// A line cut into what may not be divided: runs of white space, words, parts of hyphenated words, dashes.
class WordSplitter {
 public:
  WordSplitter(std::string_view line, bool at_hyphens) : at_hyphens_(at_hyphens) {
    for (size_t i = 0; i < line.size();) {
      starts_.push_back(i);
      characters_.push_back(NextCodePoint(line, &i));
    }
    starts_.push_back(line.size());
  }

  std::vector<std::string_view> Split(std::string_view line) const {
    std::vector<std::string_view> chunks;
    for (size_t begin = 0; begin < characters_.size();) {
      const size_t end = EndOfChunk(begin);
      chunks.push_back(line.substr(starts_[begin], starts_[end] - starts_[begin]));
      begin = end;
    }
    return chunks;
  }

 private:
  char32_t At(size_t i) const { return i < characters_.size() ? characters_[i] : 0; }
  bool LetterBefore(size_t i, size_t back) const { return i >= back && IsLetter(characters_[i - back]); }

  size_t EndOfChunk(size_t begin) const {
    size_t end = begin;
    if (IsAsciiSpace(characters_[begin])) {
      while (end < characters_.size() && IsAsciiSpace(characters_[end])) ++end;
      return end;
    }
    if (at_hyphens_ && begin > 0 && IsWordOrPunctuation(characters_[begin - 1])) {
      if (const size_t dashes = DashesBeforeWord(begin); dashes > 0) return begin + dashes;
    }
    for (++end; end < characters_.size() && !IsAsciiSpace(characters_[end]); ++end) {
      if (!at_hyphens_) continue;
      if (IsHyphenInWord(end)) return end + 1;
      if (IsWordOrPunctuation(characters_[end - 1]) && DashesBeforeWord(end) > 0) return end;
    }
    return end;
  }

  // Two or more dashes with a word character behind them.
  size_t DashesBeforeWord(size_t begin) const {
    size_t end = begin;
    while (At(end) == '-') ++end;
    return end - begin >= 2 && end < characters_.size() && IsWordCharacter(characters_[end]) ? end - begin
                                                                                             : 0;
  }

  // Behind two letters (or a letter, a hyphen and a character) and before two letters, of which another
  // hyphen may stand between.
  bool IsHyphenInWord(size_t i) const {
    if (characters_[i] != '-') return false;
    const bool behind_letters = LetterBefore(i, 2) && LetterBefore(i, 1);
    const bool behind_hyphen =
        i >= 3 && LetterBefore(i, 3) && characters_[i - 2] == '-' && IsWordOrPunctuation(characters_[i - 1]);
    if (!behind_letters && !behind_hyphen) return false;
    const size_t second = At(i + 2) == '-' ? i + 3 : i + 2;
    return second < characters_.size() && IsLetter(characters_[i + 1]) && IsLetter(characters_[second]);
  }

  bool at_hyphens_;
  std::vector<char32_t> characters_;
  std::vector<size_t> starts_;  // bytes, by character, and the end
};

struct WrapStyle {
  size_t width = 79;
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

// How many characters of a word that is too long go into the room that is left, at least one. Cuts behind a
// hyphen where there is one.
size_t CharactersThatFit(std::string_view word, size_t room, const WrapStyle& style) {
  if (!style.break_on_hyphens || CountCodePoints(word) <= room) return room;
  const std::string_view fits = word.substr(0, ByteOffset(word, room));
  const size_t hyphen = fits.rfind('-');
  if (hyphen == std::string_view::npos || hyphen == 0) return room;
  const bool only_hyphens = fits.substr(0, hyphen).find_first_not_of('-') == std::string_view::npos;
  return only_hyphens ? room : CountCodePoints(fits.substr(0, hyphen)) + 1;
}

std::vector<std::string> WrapLine(Runtime& runtime, std::string_view line, const WrapStyle& style) {
  std::vector<std::string_view> chunks = WordSplitter(line, style.break_on_hyphens).Split(line);
  std::reverse(chunks.begin(), chunks.end());  // the next one is at the back
  std::vector<std::string> lines;
  while (!chunks.empty() && runtime.ChargeBytes(1)) {
    if (!lines.empty() && AllSpace(chunks.back())) chunks.pop_back();
    std::vector<std::string_view> taken;
    size_t length = 0;
    while (!chunks.empty() && length + CountCodePoints(chunks.back()) <= style.width) {
      length += CountCodePoints(chunks.back());
      taken.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && CountCodePoints(chunks.back()) > style.width) {
      if (style.break_long_words) {
        const size_t bytes =
            ByteOffset(chunks.back(), CharactersThatFit(chunks.back(), style.width - length, style));
        taken.push_back(chunks.back().substr(0, bytes));
        chunks.back().remove_prefix(bytes);
      } else if (taken.empty()) {
        taken.push_back(chunks.back());
        chunks.pop_back();
      }
    }
    if (!taken.empty() && AllSpace(taken.back())) taken.pop_back();
    if (taken.empty()) continue;
    std::string& made = lines.emplace_back();
    for (const std::string_view chunk : taken) made += chunk;
  }
  return lines;
}

}  // namespace

Value WordWrap(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [width, break_long_words, wrapstring, break_on_hyphens] = BindArguments<4>(
      runtime, "wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"}, 0);
  if (runtime.failed()) return Value();
  if (value.is_undefined()) return runtime.FailUndefined(value);
  if (!value.is_string()) return runtime.Fail("wordwrap() needs a string, not {}", TypeName(value));
  const auto columns = IndexOr(runtime, width, "width", 79);
  if (!columns) return Value();
  WrapStyle style;
  style.break_long_words = TruthyOr(runtime, break_long_words, true);
  style.break_on_hyphens = TruthyOr(runtime, break_on_hyphens, true);
  const std::string separator =
      wrapstring.missing() || wrapstring.is_none() ? "\n" : ToText(runtime, wrapstring);
  const std::vector<std::string_view> lines = SplitLines(value.text(), false);
  if (!lines.empty() && *columns <= 0)
    return runtime.Fail("invalid width {} (must be > 0)", FormatInt(*columns));
  style.width = static_cast<size_t>(std::min<Int>(*columns, 1 << 30));
  if (!runtime.Reserve(32 * value.text().size())) return Value();  // characters and where they start
  TextBuilder out(runtime);
  for (size_t i = 0; i < lines.size() && !runtime.failed(); ++i) {
    if (i > 0) out.Append(separator);
    const std::vector<std::string> wrapped = WrapLine(runtime, lines[i], style);
    for (size_t k = 0; k < wrapped.size(); ++k) {
      if (k > 0) out.Append(separator);
      out.Append(wrapped[k]);
    }
  }
  return runtime.MakeString(out.Take());
}

}  // namespace lamina::jinja
