#!/usr/bin/env bash
# build.sh [dev|release|asan|tsan] [target...]: configures and builds into build/<kind>; the program is build/<kind>/bin/tcc.
#   dev      assertions on, -O1, enough debug information for a backtrace (the default)
#   release  -O2
#   asan     dev with AddressSanitizer and UndefinedBehaviorSanitizer        tsan   dev with ThreadSanitizer
#
# With CI set in the environment, warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=dev
case ${1:-} in dev|release|asan|tsan) kind=$1; shift ;; esac
case ${1:-} in -*) echo "usage: scripts/build.sh [dev|release|asan|tsan] [target...]" >&2; exit 2 ;; esac

options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo)
case $kind in
  release) options=(-DCMAKE_BUILD_TYPE=Release) ;;
  asan) options+=("-DTCC_SANITIZE=address,undefined") ;;
  tsan) options+=(-DTCC_SANITIZE=thread) ;;
esac
if [ -n "${CI:-}" ]; then options+=(-DTCC_WERROR=ON); fi

cmake -S . -B "build/$kind" -G Ninja --log-level=WARNING "${options[@]}" >/dev/null
targets=()
for target in "$@"; do targets+=(--target "$target"); done
cmake --build "build/$kind" -j "$(nproc)" "${targets[@]}"
