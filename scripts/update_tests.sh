#!/usr/bin/env bash
# update_tests.sh [dev|release] FILE...: puts what tcc prints now in place of what the given text tests expect.
# Read the difference before committing it.
set -euo pipefail
kind=dev
case ${1:-} in dev|release) kind=$1; shift ;; esac
if [ $# -eq 0 ]; then echo "usage: scripts/update_tests.sh [dev|release] FILE..." >&2; exit 2; fi
build=$(dirname "$0")/../build/$kind
exec "$build/tests/tcc_text_test" --update "--tcc=$(realpath "$build/bin/tcc")" "--stages=$(realpath "$build/tests/stages")" "--models=$(realpath "$build")/models" \
  "--scratch=$build/tests/scratch" "$@"
