#!/usr/bin/env bash
# format.sh [--check]: formats every C++ file of the tree; with --check, changes nothing and fails when a file would change.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run --Werror); fi
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' '*.c' |
  xargs -0 --no-run-if-empty clang-format-22 --style=file "${mode[@]}"
