#!/usr/bin/env python3
"""Checks and times libraries made by tcc on a machine with a CUDA device and PyTorch.

    scripts/gpu_check.py --tcc build/release/bin/tcc [--parts models,kernels] [--only WORD] [--torch-compile]

Everything happens in one process, beside PyTorch, on the same stream and the same tensors, through the C interface of the libraries:
  models     every exported model: its first output against the framework's f64 output of its ref.npz
  kernels    single kernels (softmax, layer norm + gelu, GEMM, ...): against PyTorch in f64, then timed beside PyTorch, with a device copy as
             the ceiling of whatever is bound by memory
  contractions  products of matrices in 16 bits, all transposes, the sizes of models: against f64, then timed beside cuBLAS; of weights in 4 and 8 bits (gpu/narrow_weights.py;
             --only=" by " for these alone)
  convolutions  the layers of ResNet-50 and odd ones, channels last: against PyTorch in f64, then timed beside cuDNN
  attention  attention of many sizes, masks and layouts, and its gradients: against PyTorch in f64, then timed beside scaled_dot_product_attention
  workloads  models of full size, forward and training steps in bf16 and tf32: against the model in f32, then timed beside PyTorch's modes; --only: a pattern
  gradients  every parameter's gradient of the exported models against the framework's in f64
  steps      20 steps of three optimizers on six models against the framework's, through `tcc run --steps` and the C interface
  memory     a training step of gpt2, bert-base and resnet50: peak memory and time beside eager mode, with and without a budget
Outputs are filled with NaN before each checked run. `error` of a kernel is ||out - exact|| / ||exact||. Needs: the tcc program, numpy, torch;
`workloads` also transformers, torchvision and onnx, `memory` transformers, timm and onnx. The table comes last; the exit code is 1 when a row is wrong.
"""
import argparse
import os
import sys
import tempfile

import torch

from gpu.attention import check_attention
from gpu.contractions import check_contractions
from gpu.convolutions import check_convolutions
from gpu.kernels import check_kernels
from gpu.memory import check_memory
from gpu.models import check_models
from gpu.training import check_gradients, check_steps
from gpu.workloads import check_workloads

PARTS = {"models": check_models, "kernels": check_kernels, "contractions": check_contractions, "convolutions": check_convolutions, "attention": check_attention, "workloads": check_workloads, "gradients": check_gradients, "steps": check_steps, "memory": check_memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcc", required=True, help="the tcc program")
    parser.add_argument("--models", default="models/models.tar.xz", help="archive or folder of models; empty: none")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to check, all by default")
    parser.add_argument("--only", default="", help="only models and kernels whose name contains this")
    parser.add_argument("--flags", default="", help="of the compilations of contractions, such as -march=sm_80")
    parser.add_argument("--torch-compile", action="store_true", help="also time torch.compile; the better of the two counts")
    parser.add_argument("--profiles", default="", help="a folder for the launches of each workload, timed one by one")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.tcc = os.path.abspath(options.tcc)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts.split(","):
            results[part] = PARTS[part](options, folder)
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for part, rows in results.items():
        print(f"{part}: {sum(ok for ok, _ in rows)} of {len(rows)} right")
        for ok, line in rows:
            if not ok or part in ("kernels", "contractions", "convolutions", "attention", "workloads", "memory"):
                print("  " + line)
    sys.exit(0 if all(ok for rows in results.values() for ok, _ in rows) else 1)


if __name__ == "__main__":
    main()
