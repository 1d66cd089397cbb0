#!/usr/bin/env python3
"""Writes src/text/regex_properties.cc and regex_property_ranges.cc from what dump_regex_properties.mjs found:
make_regex_properties.py properties.json src/text.

A class of the reference's engine is written in items of PCRE2 that it contains, as many as they shorten the rest, and
the code points that they lack. Needs a libpcre2-8 of Unicode 14, the oldest that Lamina is built with: what a later
one adds are code points that the reference's classes have as well."""
import ctypes
import json
import sys

# Sets of code points are integers with a bit for each; surrogates, which are in no text, have none.
TEXT = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
ALL = (1 << len(TEXT)) - 1
ASCII = (1 << 0x80) - 1
CATEGORIES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps",
              "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"]
# Names that are no category and no script of PCRE2.
BINARY = ["alphabetic", "lowercase", "uppercase", "emoji", "extendedpictographic", "emojipresentation", "ideographic",
          "cased", "caseignorable", "idstart", "idcontinue", "xidstart", "xidcontinue", "math", "dash", "diacritic",
          "extender", "graphemebase", "graphemeextend", "defaultignorablecodepoint", "changeswhencasefolded",
          "changeswhencasemapped", "changeswhenlowercased", "changeswhentitlecased", "changeswhenuppercased",
          "unifiedideograph", "patternsyntax", "softdotted", "terminalpunctuation", "sentenceterminal"]
MOST_ITEMS = 6

library = ctypes.CDLL("libpcre2-8.so.0")
for function in ["compile", "match_data_create_from_pattern", "get_ovector_pointer"]:
    getattr(library, f"pcre2_{function}_8").restype = ctypes.c_void_p
version = ctypes.create_string_buffer(32)
library.pcre2_config_8(10, version)  # PCRE2_CONFIG_UNICODE_VERSION
assert version.value.startswith(b"14."), version.value


def bits(first, last):
    low, high = (c if c < 0xD800 else c - 0x800 for c in (first, last))
    return (1 << (high + 1)) - (1 << low)


def points(ranges):
    out = 0
    for first, last in ranges:
        out |= bits(first, last)
    return out


def count_ranges(codes):
    return (codes & ~(codes << 1)).bit_count()


def ranges_of(codes):
    out, position = [], 0
    while codes:
        gap = (codes & -codes).bit_length() - 1
        codes >>= gap
        length = (~codes & (codes + 1)).bit_length() - 1
        codes >>= length
        first = position + gap
        position = first + length
        out.append((ord(TEXT[first]), ord(TEXT[position - 1])))
    return out


def matches(item):
    """The code points that a class of the item matches; 0 where PCRE2 does not know it."""
    pattern = f"[{item}]+".encode()
    error, offset = ctypes.c_int(), ctypes.c_size_t()
    code = library.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), ctypes.c_uint32(0x000A0000),  # UTF, UCP
                                   ctypes.byref(error), ctypes.byref(offset), None)
    if not code:
        return 0
    code = ctypes.c_void_p(code)
    data = ctypes.c_void_p(library.pcre2_match_data_create_from_pattern_8(code, None))
    subject = TEXT.encode()
    found, start = 0, 0
    while library.pcre2_match_8(code, subject, ctypes.c_size_t(len(subject)), ctypes.c_size_t(start),
                                ctypes.c_uint32(0x40000000 if start else 0), data, None) > 0:  # NO_UTF_CHECK
        bounds = ctypes.cast(library.pcre2_get_ovector_pointer_8(data), ctypes.POINTER(ctypes.c_size_t))
        run = subject[bounds[0]:bounds[1]].decode()
        first = ord(run[0])
        first -= 0x800 if first >= 0xE000 else 0
        found |= ((1 << len(run)) - 1) << first
        start = bounds[1]
    return found


def cover(codes, candidates):
    """Items that lie within `codes`, and what they lack."""
    items, lacking = [], codes
    inside = {item: content for item, content in candidates.items() if content and not content & ~codes}
    while inside and len(items) < MOST_ITEMS:
        best = min(inside, key=lambda item: (count_ranges(lacking & ~inside[item]), len(item)))
        if count_ranges(lacking & ~inside[best]) > count_ranges(lacking) - 3:
            break
        items.append(best)
        lacking &= ~inside[best]
    return items, lacking


def ascii_items(codes):
    """What a class tells from a bit map, without a look at properties."""
    return "".join(f"\\\\x{first:02X}" + (f"-\\\\x{last:02X}" if last > first else "")
                   for first, last in ranges_of(codes & ASCII))


found = {name: points(ranges) for name, ranges in json.load(open(sys.argv[1])).items()}
general = {f"\\p{{{name}}}": matches(f"\\p{{{name}}}") for name in CATEGORIES + BINARY}
begins, table, rows = {}, [], []
for name, codes in sorted(found.items()):
    own = f"\\p{{sc:{name}}}"
    candidates = general
    if name[0] != "[":
        candidates = {own: matches(own), **general}
    items, rest = cover(codes, candidates)
    negated = False
    if count_ranges(rest) > 40:
        other_items, other_rest = cover(ALL & ~codes, candidates)
        if count_ranges(other_rest) < count_ranges(rest):
            items, rest, codes, negated = other_items, other_rest, ALL & ~codes, True
    text = "".join(items).replace("\\", "\\\\")
    if items:
        text = ascii_items(codes) + text
        rest &= ~ASCII
    ranges = tuple(ranges_of(rest))
    if ranges not in begins:
        begins[ranges] = len(table)
        table += ranges
    begin = begins[ranges] if ranges else 0
    rows.append(f'{{"{name}", "{text}", {begin}, {len(ranges)}{", true" if negated else ""}}},')


def packed(cells):
    lines = ["   "]
    for cell in cells:
        if len(lines[-1]) + len(cell) > 118:
            lines.append("   ")
        lines[-1] += " " + cell
    return "\n".join(lines)


HEAD = """// {}. Written by
// tests/text/differential/make_regex_properties.py; edit that instead.
// clang-format off
#include "text/regex_properties.h"

"""
with open(f"{sys.argv[2]}/regex_property_ranges.cc", "w") as file:
    cells = packed(f"{{0x{first:X}, 0x{last:X}}}," for first, last in table)
    file.write(HEAD.format("What the items of regex_properties.cc lack") + f"""namespace lamina::text {{
namespace {{

constexpr CodeRange kRanges[] = {{
{cells}
}};

}}  // namespace

std::span<const CodeRange> RegexProperty::ranges() const {{
  return std::span<const CodeRange>(kRanges).subspan(ranges_begin, num_ranges);
}}

}}  // namespace lamina::text
""")
with open(f"{sys.argv[2]}/regex_properties.cc", "w") as file:
    file.write(HEAD.format("The classes that regular expressions of the reference library know") +
               f"""#include <algorithm>
#include <iterator>

namespace lamina::text {{
namespace {{

// Ascending by name.
constexpr RegexProperty kProperties[] = {{
{packed(rows)}
}};

}}  // namespace

const RegexProperty* FindRegexProperty(std::string_view name) {{
  const auto* end = std::end(kProperties);
  const auto* found = std::lower_bound(
      std::begin(kProperties), end, name,
      [](const RegexProperty& property, std::string_view key) {{ return property.name < key; }});
  return found != end && found->name == name ? found : nullptr;
}}

}}  // namespace lamina::text
""")
