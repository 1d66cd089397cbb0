#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cc from what dump_unicode.mjs found: make_unicode_tables.py classes.json > FILE.

Classes that the code asks about directly are complete. Classes of regular expressions are written as the code points
beyond Unicode 14, the version of the oldest PCRE2 that Lamina is built with, since the engine knows the rest.
Needs a Python whose unicodedata is of Unicode 14."""
import json
import sys
import unicodedata

assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
found = json.load(open(sys.argv[1]))


def points(ranges):
    return {c for first, last, *_ in ranges for c in range(first, last + 1)}


def ranges_of(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(f"0x{v:X}" if i < 2 else str(v) for i, v in enumerate(row)) + "},"
        if len(line) + len(text) > 110:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")


def category(*prefixes):
    return {c for c in range(0x110000) if unicodedata.category(chr(c)).startswith(prefixes)}


engine = {"\\w": category("L", "M", "Nd", "Pc"), "\\p{L}": category("L"), "\\p{N}": category("N"),
          "\\p{M}": category("M"), "\\p{P}": category("P"), "\\p{S}": category("S"), "\\p{Lu}": category("Lu"),
          "\\p{Ll}": category("Ll"), "\\p{Lm}": category("Lm"), "\\p{Lo}": category("Lo"),
          "\\p{Nd}": category("Nd"), "\\p{Mn}": category("Mn")}
# Scripts are not in unicodedata: what was assigned after Unicode 14 is the addition.
assigned = category("L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co")

print("""// Which code points belong to which class for the reference library. Written by
// tests/text/differential/make_unicode_tables.py; edit that instead.
// clang-format off
#include "text/unicode_tables.h"

namespace lamina::text {
namespace {
""")
for name, variable in [("control", "kControl"), ("mark", "kMark"), ("nonspacing_mark", "kNonspacingMark"),
                       ("punctuation", "kPunctuation"), ("numeric", "kNumeric"), ("word", "kWord")]:
    table(variable, "CodeRange", found[name])
table("kScripts", "ScriptRange", found["scripts"])
table("kLowercase", "LowercasePair", [(c, low[0]) for c, *low in found["lower"] if len(low) == 1])
additions = []
for name, codes in found.items():
    if not name.startswith("\\"):
        continue
    base = engine.get(name, assigned)
    variable = "kNew" + "".join(ch for ch in name if ch.isalnum())
    rows = ranges_of(points(codes) - base)
    if rows:
        table(variable, "CodeRange", rows)
        additions.append((name, variable))
print("constexpr RegexAddition kRegexAdditions[] = {")
for name, variable in additions:
    key = "w" if name == "\\w" else name[3:-1]
    print(f'    {{"{key}", {variable}}},')
print("};")
print("""
}  // namespace

std::span<const CodeRange> ControlRanges() { return kControl; }
std::span<const CodeRange> MarkRanges() { return kMark; }
std::span<const CodeRange> NonspacingMarkRanges() { return kNonspacingMark; }
std::span<const CodeRange> PunctuationRanges() { return kPunctuation; }
std::span<const CodeRange> NumericRanges() { return kNumeric; }
std::span<const CodeRange> WordRanges() { return kWord; }
std::span<const ScriptRange> ScriptRanges() { return kScripts; }
std::span<const LowercasePair> LowercasePairs() { return kLowercase; }
std::span<const RegexAddition> RegexAdditions() { return kRegexAdditions; }

}  // namespace lamina::text""")
