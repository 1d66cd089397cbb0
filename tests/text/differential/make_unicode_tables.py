#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cc from what dump_unicode.mjs found: make_unicode_tables.py classes.json > FILE.

Classes of regular expressions are in regex_properties.cc."""
import json
import sys

found = json.load(open(sys.argv[1]))


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

}  // namespace lamina::text""")
