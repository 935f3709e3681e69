#!/usr/bin/env bash
# check.sh [--tidy]: what CI runs: the formatter, then a build in which warnings are errors, then the tests.
#   --tidy   also clang-tidy, over the files that differ from the main branch's last state on the server; slow, so CI leaves it out
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,3p' "$0" | cut -c3-; exit; fi
cd "$(dirname "$0")/.."
export CI=${CI:-true}

scripts/setup.sh --dev
scripts/format.sh --check
if [ "${1:-}" = --tidy ]; then
  scripts/build.sh dev
  base=$(git rev-parse --verify --quiet '@{upstream}' || git rev-list --max-parents=0 HEAD | tail -n 1)
  git diff --name-only -z --diff-filter=d "$base" -- 'src/*.cpp' |
    xargs -0 --no-run-if-empty -n 1 -P "$(nproc)" clang-tidy-22 -p build/dev --quiet
fi
scripts/test.sh dev
