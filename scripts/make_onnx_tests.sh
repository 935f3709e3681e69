#!/usr/bin/env bash
# make_onnx_tests.sh DIR: puts the node tests of the pinned `onnx` package into DIR/node, laid out as Debian's libonnx-testdata has an older set.
#
# The package makes models and data by its Python code. It comes through pip into a folder that is removed afterwards. Nothing is done when DIR is complete.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:?"usage: make_onnx_tests.sh DIR"}
version=$(sed -n 's/^version=//p' scripts/fetch_onnx_schema.sh)
packages=("onnx==$version" numpy==2.3.5 ml_dtypes==0.5.4 protobuf==6.33.1)
if [ -f "$folder/complete" ] && [ "$(cat "$folder/complete")" = "${packages[*]}" ]; then exit 0; fi

mkdir -p "$(dirname "$folder")"
scratch=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
# The system's own Python: one found elsewhere may have no pip, or packages that hide these.
python=
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "error: python3 with pip is needed to make the ONNX tests; run scripts/setup.sh --tests" >&2
  exit 1
fi
"$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --only-binary=:all: --target "$scratch/packages" "${packages[@]}"
PYTHONPATH="$scratch/packages" PYTHONDONTWRITEBYTECODE=1 "$python" tests/onnx/make_node_tests.py "$scratch/tests"
echo "${packages[*]}" > "$scratch/tests/complete"
rm -rf "$folder"
mv "$scratch/tests" "$folder"
