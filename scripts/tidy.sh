#!/usr/bin/env bash
# Runs clang-tidy over C++ sources: the ones given, else all of src/, tests/, bench/ and examples/ that the release
# build compiles. Needs a configured release preset (compile_commands.json). Fails where a check does.
#   scripts/tidy.sh [FILE.cc ...]
set -euo pipefail
cd "$(dirname "$0")/.."
database=build/release/compile_commands.json
[ -f "$database" ] || { echo "tidy: run 'cmake --preset release' first" >&2; exit 1; }
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files 'src/*.cc' 'tests/*.cc' 'bench/*.cc'); fi
# clang cannot read the precompiled headers of g++, which tests use.
mkdir -p build/tidy
sed -E 's/ -Winvalid-pch//; s/ -include [^ ]*cmake_pch\.hxx//' "$database" > build/tidy/compile_commands.json
# Files that no target compiles (another platform, a part that is switched off) have no flags to check them with.
known=()
for file in "${files[@]}"; do
  if grep -qF "\"file\": \"$PWD/$file\"" "$database"; then known+=("$file"); fi
done
[ ${#known[@]} -gt 0 ] || { echo "tidy: nothing to check"; exit 0; }
printf '%s\n' "${known[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build/tidy 2>/dev/null
echo "tidy: ${#known[@]} files are clean"
