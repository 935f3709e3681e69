#!/usr/bin/env bash
# setup.sh [--tests] [--dev]: installs what a Debian 12 machine lacks to build tcc.
#   --tests   also what the tests need        --dev   also the formatter and clang-tidy (implies --tests)
#
# Does nothing, in a few milliseconds, when nothing is missing. Works as root or through sudo. LLVM 22 comes from
# Debian's security archive, which a standard installation of Debian 12 has switched on.
set -euo pipefail

packages=(
  cmake ninja-build ccache g++ xz-utils
  llvm-22-dev liblld-22-dev libpolly-22-dev        # polly: LLVM's CMake files name its library, tcc does not
  libzstd-dev zlib1g-dev libminizip-dev
  protobuf-compiler libprotobuf-dev
  libcli11-dev nlohmann-json3-dev libboost-dev     # boost: headers only, max-flow of Boost.Graph
  ca-certificates python3 python3-pip              # for what comes from PyPI: the ONNX schema, and the tests of the newest ONNX
)
test_packages=(
  libgtest-dev llvm-22-tools libonnx-testdata      # tools: FileCheck
  python3-jsonschema                               # for the schema of tcc.fx JSON, skipped without
)
dev_packages=(
  clang-format-22 clang-tidy-22 git
  libopenmpi-dev openmpi-bin                       # mpicc and mpirun: the test of models/mnist_train/data_parallel.c, skipped without
)

for argument in "$@"; do
  case $argument in
    --tests) packages+=("${test_packages[@]}") ;;
    --dev) packages+=("${test_packages[@]}" "${dev_packages[@]}") ;;
    *) echo "usage: scripts/setup.sh [--tests] [--dev]" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "error: this script installs Debian packages, and there is no apt-get here; tcc needs the equivalents of:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)

echo "installing ${missing[*]}" >&2
"${as_root[@]}" update >&2
if ! apt-cache show llvm-22-dev >/dev/null 2>&1; then
  echo "error: no package llvm-22-dev here; tcc needs Debian 12 with its security archive (bookworm-security) among the apt sources" >&2
  exit 1
fi
"${as_root[@]}" install --yes --no-install-recommends "${missing[@]}" >&2
