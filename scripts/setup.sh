#!/usr/bin/env bash
# Installs the Debian 12 packages that Lamina is built from. Does nothing where all are there.
set -euo pipefail

packages=(
  # tools
  g++ cmake ninja-build ccache pkg-config
  # libraries
  libprotozero-dev libhwy-dev libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev
  libicu-dev libedit-dev libsentencepiece-dev libdnnl-dev
  # tests and benchmarks
  libgtest-dev libgmock-dev libbenchmark-dev libonnx-testdata python3-jinja2
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: this script knows Debian only; these packages are needed: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: run as root, or install sudo; these packages are missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
