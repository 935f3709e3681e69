#!/usr/bin/env bash
# replay.sh OLD_TCC NEW_TCC [WORD]: compiles all models with two builds of tcc and compares what they make, byte for byte.
#
# For a change that is to leave the generated code as it is. Each exported model of models/ is compiled for inference, with gradients and, where its
# loss is known, as a training step: plans, kernels, PTX and assembly of both targets. WORD: only cases with that in their name.
# What a program makes is kept in build/replay under its checksum and not made again. Prints the products that differ, with the first lines of each
# difference; the exit code is 1 then. It takes some minutes for a program that is new.
set -euo pipefail
if [ $# -lt 2 ]; then sed -n '2,7p' "$0" | cut -c3-; exit 2; fi
old=$(realpath "$1") new=$(realpath "$2") word=${3:-}
cd "$(dirname "$0")/.."
export TCC_MODELS=$PWD/build/replay/models
kinds=plan,kernel,ptx,asm,header

if [ ! -e "$TCC_MODELS" ]; then
  mkdir -p "$TCC_MODELS"
  tar xf models/models.tar.xz -C "$TCC_MODELS"
fi

# One case a line: its name, the model, flags.
cases() {
  local model path name
  for path in "$TCC_MODELS"/*/*.onnx "$TCC_MODELS"/*/*.pt2; do
    model=$(basename "$(dirname "$path")")
    name=$model.$(basename "$path")
    echo "$name.infer $path"
    case $path in *legacy.onnx) continue ;; esac   # the same ops as the others
    echo "$name.grad $path --mode=grad"
  done
  local loss
  for loss in mnist_mlp=cross_entropy mnist_cnn=nll bert_tiny=mse gpt2_tiny=cross_entropy:axis=-1 resnet_torchvision_slim=cross_entropy unet_mini=l1; do
    model=${loss%%=*}
    echo "$model.train $TCC_MODELS/$model/unoptimized.onnx --mode=train --optimizer=adamw --loss=${loss#*=}"
  done
}

# What a case makes goes to a folder; where it can't be compiled, the message does.
compile_case() {
  local tcc=$1 folder=$2 name=$3
  shift 3
  if [ -e "$folder/$name/done" ]; then return; fi
  rm -rf "${folder:?}/$name"
  mkdir -p "$folder/$name"
  "$tcc" "$@" -q -j 1 --emit="$kinds" --dump-dir="$folder/$name" >"$folder/$name/messages" 2>&1 || true
  touch "$folder/$name/done"
}
export -f compile_case
export kinds

folder_of() { echo "build/replay/$(sha256sum "$1" | cut -c1-16)"; }
for tcc in "$old" "$new"; do
  cases | grep -F -- "$word" | xargs -P "$(nproc)" -L 1 bash -c 'compile_case "$@"' _ "$tcc" "$(folder_of "$tcc")"
done

a=$(folder_of "$old") b=$(folder_of "$new")
differ=0 count=0
while read -r name _; do
  count=$((count + 1))
  if diff -rq "$a/$name" "$b/$name" >/dev/null; then continue; fi
  differ=$((differ + 1))
  echo "== $name"
  { diff -ru "$a/$name" "$b/$name" || true; } | head -40
done < <(cases | grep -F -- "$word")
echo "$count cases, $differ differ"
[ "$differ" -eq 0 ]
