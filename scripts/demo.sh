#!/usr/bin/env bash
# demo.sh [MODEL.onnx]: sets up, builds tcc, compiles a model, runs it on the best device here, and checks the result.
# Without an argument the model is models/bert_tiny, with the inputs beside it; another model gets random inputs.
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,3p' "$0" | cut -c3-; exit; fi
cd "$(dirname "$0")/.."

model=${1:-models/bert_tiny/dynamo.onnx}
inputs=(--random --seed 1)
if [ $# -eq 0 ]; then inputs=(--input models/bert_tiny/inputs.npz); fi

scripts/setup.sh
scripts/build.sh dev tcc
PATH=$PWD/build/dev/bin:$PATH
mkdir -p build/demo

step() { echo; echo "\$ $*"; "$@"; }
step tcc "$model" -o build/demo/model.so
step tcc run build/demo/model.so "${inputs[@]}" --save build/demo
step tcc verify "$model" "${inputs[@]}"
