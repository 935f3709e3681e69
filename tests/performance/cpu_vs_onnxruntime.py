#!/usr/bin/env python3
"""CPU run times of every exported model, beside onnxruntime with the same number of threads.

    cpu_vs_onnxruntime.py --tcc PROGRAM --models FOLDER [--threads N] [--only WORD] [--limit RATIO] [--profile]

For each model: compiled by tcc for the CPU, timed by `tcc bench`; the same file and inputs in onnxruntime; five rounds of both in turn, each the median of
many runs, of which the best counts. Prints a table and the geometric mean of the ratios; the exit code is 1 when that is over the limit, 77 (skipped)
when onnxruntime can't be imported.
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def time_onnxruntime(session, inputs, seconds=0.3):
    """Median time of a run, us."""
    for _ in range(3):
        session.run(None, inputs)
    times, start = [], time.perf_counter()
    while len(times) < 10 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcc", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=3.0, help="largest geometric mean of tcc's time over onnxruntime's")
    parser.add_argument("--profile", action="store_true", help="also what each launch takes")
    options = parser.parse_args()

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    ratios = []
    print(f"{'model':44s} {'tcc us':>10s} {'ort us':>10s} {'ratio':>7s}   {options.threads} threads, onnxruntime {onnxruntime.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(glob.glob(os.path.join(options.models, "*", "*.onnx"))):
            name = os.path.relpath(path, options.models)
            if options.only not in name:
                continue
            library = os.path.join(folder, "model.so")
            subprocess.run([options.tcc, path, "--target=cpu", "-O3", "-o", library], check=True)
            session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
            with np.load(os.path.join(os.path.dirname(path), "ref.npz")) as reference:
                arrays = [reference[f"in{i}"] for i in range(len(session.get_inputs()))]
            inputs, given = {}, []
            for declared, array in zip(session.get_inputs(), arrays):
                inputs[declared.name] = array
                file = os.path.join(folder, f"in{len(given)}.npy")
                np.save(file, array)
                given += ["--input", file]
            bench = [options.tcc, "bench", library, "--json", "--device", "cpu", "--threads", str(options.threads), *given]
            tcc_us, ort_us = [], []
            for _ in range(5):
                tcc_us.append(json.loads(subprocess.run(bench, check=True, capture_output=True, text=True).stdout)["median_us"])
                ort_us.append(time_onnxruntime(session, inputs))
            ratios.append(min(tcc_us) / min(ort_us))
            print(f"{name:44s} {min(tcc_us):10.1f} {min(ort_us):10.1f} {ratios[-1]:7.2f}", flush=True)
            if options.profile:
                print(subprocess.run([options.tcc, "bench", library, "--profile", "--device", "cpu", "--threads", str(options.threads), *given],
                                     check=True, capture_output=True, text=True).stdout.split("\n\n", 1)[1])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of {len(ratios)} models: {mean:.2f} times onnxruntime's time, at most {options.limit:.2f} is wanted")
    sys.exit(0 if mean <= options.limit else 1)


if __name__ == "__main__":
    main()
