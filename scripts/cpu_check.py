#!/usr/bin/env python3
"""Checks and times full-size models on the CPU beside onnxruntime, with the same number of threads.

    scripts/cpu_check.py --tcc build/release/bin/tcc [--models bert,resnet50] [--threads N] [--rounds N] [--target cpu] [--keep FOLDER] [--at-most RATIO]

Small exports mislead: what decides on full-size models (packed operands, caches) takes no part in them. The models are those of cpu/full_size_models.py.
Both run in this process, in turn, on the same input; the least time of each counts. Two times are compared: of the clock, and of the processor, which
holds on a machine that has other work, too; with one thread it is that of the calling thread. The error is ||tcc - onnxruntime|| / ||onnxruntime||.
Needs: the tcc program, numpy, onnx, onnxruntime. The exit code is 1 where a result is wrong or the geometric mean of the ratios is above --at-most.
"""
import argparse
import ctypes
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

from cpu.full_size_models import MODELS

U32, I32, U64, PTR = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p
TCC_DTYPE = {np.dtype(np.float32): 0, np.dtype(np.int64): 7}
CPU = 1


class Tensor(ctypes.Structure):
    _fields_ = [("data", PTR), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", PTR), ("rank", I32), ("dtype", I32), ("device", I32),
                ("device_ordinal", I32), ("reserved", U64 * 2)]

    def __init__(self, array):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        super().__init__(data=array.ctypes.data, shape=shape, rank=array.ndim, dtype=TCC_DTYPE[array.dtype], device=CPU)


class CreateOptions(ctypes.Structure):
    """As far as it is used here, in the size of version 1 of the interface."""
    _fields_ = [("struct_size", U32), ("device", I32), ("device_ordinal", I32), ("num_threads", I32)]


FUNCTION = ctypes.CFUNCTYPE


class Api(ctypes.Structure):
    """tcc_api as far as it is used here; the rest are places."""
    _fields_ = [("struct_size", U32), ("abi_version", U32), ("last_error", FUNCTION(ctypes.c_char_p)), ("model_info", PTR), ("describe_input", PTR),
                ("describe_output", PTR), ("create", FUNCTION(ctypes.c_int, ctypes.POINTER(CreateOptions), ctypes.POINTER(PTR))),
                ("destroy", FUNCTION(None, PTR)), ("instance_info", PTR), ("describe_launch", PTR),
                ("run", FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(Tensor), U32, ctypes.POINTER(Tensor), U32, PTR, U64, PTR))]


class Library:
    """A library made by tcc, of one input and one output, on the CPU."""

    def __init__(self, path, threads, output):
        query = ctypes.CDLL(path).tcc_model_query
        query.restype, query.argtypes = ctypes.POINTER(Api), [U32]
        self.api, self.instance, self.output = query(2).contents, PTR(), output
        options = CreateOptions(struct_size=ctypes.sizeof(CreateOptions), device=CPU, num_threads=threads)
        self.check(self.api.create(ctypes.byref(options), ctypes.byref(self.instance)))

    def check(self, status):
        if status:
            raise RuntimeError(self.api.last_error().decode())

    def run(self, x):
        self.check(self.api.run(self.instance, Tensor(x), 1, Tensor(self.output), 1, None, 0, None))
        return self.output

    def close(self):
        self.api.destroy(self.instance)


def timed(run, threads):
    """Milliseconds of the clock and of the processor."""
    processor = time.thread_time if threads == 1 else time.process_time
    clock, used = time.perf_counter(), processor()
    run()
    return (time.perf_counter() - clock) * 1e3, (processor() - used) * 1e3


def check_model(name, model, library, options):
    begin = time.perf_counter()
    subprocess.run([options.tcc, str(model), f"--target={options.target}", "-o", library], check=True)
    compiled_s = time.perf_counter() - begin
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting is not work
    session = onnxruntime.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])
    declared, random = session.get_inputs()[0], np.random.default_rng(1)
    x = random.integers(0, 30000, declared.shape) if "int" in declared.type else random.standard_normal(declared.shape).astype(np.float32)
    want = session.run(None, {declared.name: x})[0]
    tcc = Library(library, options.threads, np.full(want.shape, np.nan, np.float32))
    error = float(np.linalg.norm(tcc.run(x) - want) / np.linalg.norm(want))
    mine, peer = [], []
    for _ in range(options.rounds):
        mine.append(timed(lambda: tcc.run(x), options.threads))
        peer.append(timed(lambda: session.run(None, {declared.name: x}), options.threads))
    tcc.close()
    (clock, used), (peer_clock, peer_used) = (tuple(map(min, zip(*times))) for times in (mine, peer))
    print(f"{name:10s} clock {clock:8.2f} / {peer_clock:8.2f} ms = {clock / peer_clock:5.2f}   processor {used:8.2f} / {peer_used:8.2f} ms = "
          f"{used / peer_used:5.2f}   error {error:.1e}   compiled in {compiled_s:.1f} s", flush=True)
    return clock / peer_clock, used / peer_used, error < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcc", required=True, help="the tcc program")
    parser.add_argument("--models", default=",".join(MODELS), help="which, all by default")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--target", default="cuda,cpu", help="of the libraries, by default what tcc makes by default")
    parser.add_argument("--keep", help="folder for the models, which are written once")
    parser.add_argument("--at-most", type=float, default=math.inf, help="largest geometric mean of the ratios of the clock")
    options = parser.parse_args()
    options.tcc = os.path.abspath(options.tcc)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"tcc / onnxruntime {onnxruntime.__version__}, {options.threads} threads")
        for name in options.models.split(","):
            model = folder / f"{name}.onnx"
            if not model.exists():
                MODELS[name](model)
            rows.append(check_model(name, model, os.path.join(scratch, f"{name}.so"), options))
    clock, used = (math.exp(sum(math.log(row[i]) for row in rows) / len(rows)) for i in (0, 1))
    print(f"geometric mean: clock {clock:.2f}, processor {used:.2f}")
    sys.exit(0 if all(right for _, _, right in rows) and clock <= options.at_most else 1)


if __name__ == "__main__":
    main()
