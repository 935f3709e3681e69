#!/usr/bin/env bash
# test.sh [dev|release|asan|tsan] [ctest option...]: sets up, builds, and runs the tests that need no GPU and no quiet machine.
# The others: ctest --test-dir build/dev -L gpu, and -L performance.
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,3p' "$0" | cut -c3-; exit; fi
cd "$(dirname "$0")/.."

kind=dev
case ${1:-} in dev|release|asan|tsan) kind=$1; shift ;; esac

# As without the sanitizer: a tensor that no memory holds is an error that tests expect.
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
scripts/setup.sh --tests
scripts/build.sh "$kind"
ctest --test-dir "build/$kind" --label-exclude '^(gpu|performance)$' --parallel "$(nproc)" --output-on-failure \
  --no-tests=error "$@"
