#!/usr/bin/env bash
# fetch_onnx_schema.sh DIR: puts the ONNX project's onnx-ml.proto into DIR, out of the pinned `onnx` wheel.
#
# The wheel comes through pip, so whatever index pip is set up for is used. One platform's wheel is named, so that
# every machine reads the same bytes; nothing of it is run, one text file is taken out and checked.
set -euo pipefail

version=1.23.2
sha256=8f39d0a1ae1abef5ca648922cdb06716d6bd1573c9e972b42854c16e9e352c16

folder=${1:?"usage: fetch_onnx_schema.sh DIR"}
mkdir -p "$folder"
scratch=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "error: python3 with pip is needed to fetch the ONNX schema; run scripts/setup.sh" >&2
  exit 1
fi

"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.12 --platform manylinux_2_28_x86_64 --dest "$scratch" "onnx==$version"
"$python" - "$scratch" <<'EOF'
import glob, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/*.whl")
zipfile.ZipFile(wheel).extract("onnx/onnx-ml.proto", sys.argv[1])
EOF
echo "$sha256  $scratch/onnx/onnx-ml.proto" | sha256sum --check --quiet
mv "$scratch/onnx/onnx-ml.proto" "$folder/onnx-ml.proto"   # a rename: two configures at once do not meet
