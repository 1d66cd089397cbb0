#include "text/unicode_normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <vector>

#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// A character of the result with its change as Rewriter::Emit takes it.
struct Change {
  char32_t code;
  long change;
  int combining_class;
};

// Combining marks that are younger than Unicode 9: the reference's classes of marks are older than its
// mappings, and these do not change their place there.
constexpr CodeRange kYoungMarks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
};

int CombiningClass(char32_t c) {
  if (c < 0x300) return 0;
  const auto combining_class = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  if (combining_class == 0) return 0;
  const auto range = std::partition_point(std::begin(kYoungMarks), std::end(kYoungMarks),
                                          [&](const CodeRange& young) { return young.last < c; });
  return range != std::end(kYoungMarks) && range->first <= c ? 0 : static_cast<int>(combining_class);
}

// Compatibility mappings that Unicode 12.1 to 15 added; the reference's tables are of Unicode 12.
bool IsYoungCompatibilityMapping(char32_t c) {
  return c == 0x32FF || (c >= 0xA7F2 && c <= 0xA7F4) || c == 0xAB69 || (c >= 0x10781 && c <= 0x107BA) ||
         (c >= 0x1E030 && c <= 0x1E06D) || c == 0x1F16C || (c >= 0x1FBF0 && c <= 0x1FBF9);
}
// Canonical mappings younger than that.
bool IsYoungCanonicalMapping(char32_t c) { return c == 0x11938; }

// Whether `c` can be the second character of a composition.
bool ComposesWithPrevious(char32_t c) {
  if (c < 0x300) return false;
  if (c >= 0x1161 && c <= 0x11C2) return true;  // Hangul vowels and trailing consonants
  const uint16_t index = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->comb_index;
  return index != UINT16_MAX && (index & 0x8000) != 0;
}

// Whether `form` leaves `c` alone wherever it stands, except as the base of a mark that follows.
bool IsInert(NormalizationForm form, char32_t c) {
  if (c < 0xA0) return true;
  if (form == NormalizationForm::kNfc && c < 0x300) return true;
  if (c >= 0xAC00 && c <= 0xD7A3) return form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return CombiningClass(c) == 0 && property->decomp_seqindex == UINT16_MAX && !ComposesWithPrevious(c);
}

// Appends the full decomposition of `c`.
void Decompose(char32_t c, bool compatibility, std::vector<Change>& out) {
  if (c < 0xA0 || IsYoungCanonicalMapping(c) || (compatibility && IsYoungCompatibilityMapping(c))) {
    out.push_back({c, 0, CombiningClass(c)});
    return;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary_class = 0;
  const auto option = static_cast<utf8proc_option_t>(compatibility ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                                   : static_cast<int>(UTF8PROC_DECOMPOSE));
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), option, &boundary_class);
  if (count <= 0) {
    out.push_back({c, 0, CombiningClass(c)});
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const auto part = static_cast<char32_t>(parts[static_cast<size_t>(i)]);
    out.push_back({part, i == 0 ? 0 : 1, CombiningClass(part)});
  }
}

// Canonical order: runs of combining characters sorted by class, stably.
void SortMarks(std::vector<Change>& chars) {
  for (size_t begin = 0; begin < chars.size();) {
    if (chars[begin].combining_class == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < chars.size() && chars[end].combining_class != 0) ++end;
    std::stable_sort(chars.begin() + static_cast<long>(begin), chars.begin() + static_cast<long>(end),
                     [](const Change& a, const Change& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

// The primary composite of two characters, or 0.
char32_t ComposePair(char32_t first, char32_t second) {
  if (!ComposesWithPrevious(second)) return 0;
  std::array<utf8proc_int32_t, 3> pair = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return 0;
  const auto composite = static_cast<char32_t>(pair[0]);
  return IsYoungCanonicalMapping(composite) ? 0 : composite;
}

// Canonical composition of decomposed, ordered characters. A composite counts each character that it absorbed
// as removed, less those that decomposition had inserted.
void Compose(std::vector<Change>& chars) {
  std::vector<Change> out;
  out.reserve(chars.size());
  size_t starter = SIZE_MAX;  // index in `out` of the last starter
  int last_class = 0;         // class of the character before, where it blocks
  for (const Change& c : chars) {
    if (starter != SIZE_MAX) {
      const bool adjacent = starter + 1 == out.size();
      if (adjacent || last_class < c.combining_class) {
        if (const char32_t composite = ComposePair(out[starter].code, c.code); composite != 0) {
          out[starter].code = composite;
          out[starter].change += c.change - 1;
          continue;
        }
      }
    }
    if (c.combining_class == 0) starter = out.size();
    last_class = c.combining_class;
    out.push_back(c);
  }
  chars = std::move(out);
}

// Bytes at the start of `text` that the form leaves alone whatever follows.
size_t InertPrefix(NormalizationForm form, std::string_view text) {
  size_t pos = 0;
  size_t last = 0;  // where the last inert character begins: it may be the base of a mark that follows
  while (pos < text.size()) {
    const Utf8Char c = DecodeUtf8(text.substr(pos));
    if (!IsInert(form, c.code)) return last;
    last = pos;
    pos += c.length_bytes;
  }
  return pos;
}

}  // namespace

void NormalizeUnicode(NormalizationForm form, NormalizedText& text) {
  const bool compose = form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  const bool compatibility = form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
  if (InertPrefix(form, text.text()) == text.size()) return;
  Rewriter rewriter(text);
  rewriter.StartPart(0, text.size());
  std::vector<Change> run;
  while (!rewriter.rest().empty()) {
    rewriter.Keep(InertPrefix(form, rewriter.rest()));
    // A run: up to the next inert character, which starts a combining sequence of its own.
    run.clear();
    const std::string_view rest = rewriter.rest();
    size_t pos = 0;
    while (pos < rest.size()) {
      const Utf8Char c = DecodeUtf8(rest.substr(pos));
      if (pos > 0 && IsInert(form, c.code)) break;
      Decompose(c.code, compatibility, run);
      pos += c.length_bytes;
    }
    SortMarks(run);
    if (compose) Compose(run);
    for (const Change& c : run) rewriter.Emit(c.code, c.change);
  }
  std::move(rewriter).FinishInto(text);
}

size_t GraphemeLength(std::string_view text) {
  const Utf8Char first = DecodeUtf8(text);
  size_t length = first.length_bytes;
  char32_t previous = first.code;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const Utf8Char next = DecodeUtf8(text.substr(length));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    length += next.length_bytes;
    previous = next.code;
  }
  return length;
}

}  // namespace lamina::text
