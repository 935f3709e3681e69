#!/usr/bin/env python3
"""Checks and times libraries made by tcc on a machine with a CUDA device and PyTorch.

    scripts/gpu_check.py --tcc build/release/bin/tcc [--models models/models.tar.xz] [--only WORD] [--torch-compile] [--target cuda]

Everything happens in one process, beside PyTorch, on the same stream and the same tensors, through the C interface of the libraries:
  1. every exported model: its first output against the framework's f64 output of its ref.npz;
  2. single kernels (softmax, layer norm + gelu, a chain of ten pointwise ops, GEMM, ...): against PyTorch in f64, then timed beside PyTorch,
     with a device copy as the ceiling of whatever is bound by memory.
Outputs are filled with NaN before each checked run. `error` of a kernel is ||out - exact|| / ||exact||. Needs: the tcc program, numpy, torch. The table comes last; the exit code is 1 when a row is wrong.
"""
import argparse
import ctypes
import glob
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

import numpy as np
import torch

U32, I32, U64, F64, PTR = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p

# tcc_dtype, in its order.
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
          None, None, None, torch.bool]
CUDA = 2


class Tensor(ctypes.Structure):
    _fields_ = [("data", PTR), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", PTR), ("rank", I32), ("dtype", I32), ("device", I32),
                ("device_ordinal", I32), ("reserved", U64 * 2)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("dtype", I32), ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", I32),
                ("reserved0", I32), ("size_bytes", U64), ("reserved", U64 * 4)]


class ModelInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("num_inputs", U32), ("num_outputs", U32), ("num_weights", U32), ("name", ctypes.c_char_p),
                ("weights_bytes", U64), ("weights_embedded", U32), ("has_cpu", U32), ("has_cuda", U32), ("reserved0", U32), ("reserved", U64 * 4)]


class CreateOptions(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("device", I32), ("device_ordinal", I32), ("num_threads", I32), ("cuda_context", PTR),
                ("weights_path", ctypes.c_char_p), ("log", PTR), ("log_user", PTR), ("allocate", PTR), ("deallocate", PTR), ("allocator_user", PTR),
                ("no_cuda_graph", U32), ("reserved0", U32), ("reserved", U64 * 6)]


class InstanceInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("device", I32), ("device_ordinal", I32), ("num_threads", I32), ("device_name", ctypes.c_char_p),
                ("device_reason", ctypes.c_char_p), ("workspace_bytes", U64), ("workspace_alignment", U64), ("weights_bytes", U64),
                ("num_launches", U32), ("num_kernels", U32), ("reserved", U64 * 4)]


FUNCTION = ctypes.CFUNCTYPE
RUN = FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(Tensor), U32, ctypes.POINTER(Tensor), U32, PTR, U64, PTR)


class Api(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("abi_version", U32),
                ("last_error", FUNCTION(ctypes.c_char_p)),
                ("model_info", FUNCTION(ctypes.c_int, ctypes.POINTER(ModelInfo))),
                ("describe_input", FUNCTION(ctypes.c_int, U32, ctypes.POINTER(TensorInfo))),
                ("describe_output", FUNCTION(ctypes.c_int, U32, ctypes.POINTER(TensorInfo))),
                ("create", FUNCTION(ctypes.c_int, ctypes.POINTER(CreateOptions), ctypes.POINTER(PTR))),
                ("destroy", FUNCTION(None, PTR)),
                ("instance_info", FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(InstanceInfo))),
                ("describe_launch", PTR),
                ("run", RUN)]


class Library:
    """A library on the CUDA device, taking and giving torch tensors."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        query = self.library.tcc_model_query
        query.restype, query.argtypes = ctypes.POINTER(Api), [U32]
        self.api = query(1).contents
        model = ModelInfo(struct_size=ctypes.sizeof(ModelInfo))
        self.check(self.api.model_info(ctypes.byref(model)))
        self.inputs = [self.describe(self.api.describe_input, i) for i in range(model.num_inputs)]
        self.outputs = [self.describe(self.api.describe_output, i) for i in range(model.num_outputs)]
        self.instance = PTR()
        options = CreateOptions(struct_size=ctypes.sizeof(CreateOptions), device=CUDA, device_ordinal=torch.cuda.current_device())
        self.check(self.api.create(ctypes.byref(options), ctypes.byref(self.instance)))
        self.info = InstanceInfo(struct_size=ctypes.sizeof(InstanceInfo))
        self.check(self.api.instance_info(self.instance, ctypes.byref(self.info)))

    def check(self, status):
        if status:
            raise RuntimeError(self.api.last_error().decode())

    @staticmethod
    def describe(function, index):
        info = TensorInfo(struct_size=ctypes.sizeof(TensorInfo))
        if function(index, ctypes.byref(info)):
            raise RuntimeError("describe failed")
        return info.name.decode(), DTYPES[info.dtype], tuple(info.shape[i] for i in range(info.rank))

    def view(self, tensor):
        assert tensor.is_contiguous()
        shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
        return Tensor(data=tensor.data_ptr(), shape=shape, rank=tensor.dim(), dtype=DTYPES.index(tensor.dtype), device=CUDA,
                      device_ordinal=tensor.device.index or 0)

    def bind(self, inputs):
        """Outputs, and a function that runs the model on these tensors on the current stream."""
        outputs = [torch.empty(shape, dtype=dtype, device="cuda") for _, dtype, shape in self.outputs]
        views_in = (Tensor * max(len(inputs), 1))(*[self.view(t) for t in inputs])
        views_out = (Tensor * max(len(outputs), 1))(*[self.view(t) for t in outputs])
        stream = torch.cuda.current_stream().cuda_stream

        def run():
            status = self.api.run(self.instance, views_in, len(inputs), views_out, len(outputs), None, 0, stream)
            if status:
                self.check(status)

        return outputs, run

    def close(self):
        self.api.destroy(self.instance)


def poison(tensors):
    for tensor in tensors:
        tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 1)


def difference(found, expected, rtol, atol):
    """Largest |found - expected| and how far beyond the tolerance it goes (at most 1 is right)."""
    found = found.double()
    delta = (found - expected).abs()
    beyond = (delta / (atol + rtol * expected.abs())).nan_to_num(nan=float("inf")).max().item() if found.numel() else 0.0
    return delta.nan_to_num(nan=float("inf")).max().item() if found.numel() else 0.0, beyond


def time_together(functions, batches=9):
    """Median time of one call of each, ms: batches of about 20 ms between events, taken in turn so that clocks and neighbours are the same for all."""
    counts = []
    for function in functions:
        for _ in range(3):
            function()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            function()
        torch.cuda.synchronize()
        counts.append(max(3, min(2000, int(0.02 / max((time.perf_counter() - start) / 5, 1e-6)))))
    times = [[] for _ in functions]
    for _ in range(batches):
        for function, count, row in zip(functions, counts, times):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(count):
                function()
            end.record()
            end.synchronize()
            row.append(begin.elapsed_time(end) / count)
    return [statistics.median(row) for row in times]


def graph_text(name, inputs, outputs, lines):
    typed = lambda values: ", ".join(f"%{n}: {t}" for n, t in values)
    return f"graph @{name}({typed(inputs)}) -> ({typed(outputs)}) {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def kernels():
    """Name, graph text, inputs, the same in PyTorch, bytes moved at least, operations, tolerance."""
    f32, bf16 = torch.float32, torch.bfloat16
    names = {f32: "f32", bf16: "bf16", torch.float16: "f16"}
    normal = lambda *shape, dtype=f32, scale=1.0: (torch.randn(*shape, device="cuda") * scale).to(dtype)
    functional = torch.nn.functional
    cases = []

    def case(name, text, inputs, function, num_bytes, operations=0, rtol=1e-4, atol=1e-5):
        cases.append(dict(name=name, text=text, inputs=inputs, function=function, bytes=num_bytes, operations=operations, rtol=rtol, atol=atol))

    n = 8192
    t = f"f32[{n}, {n}]"
    case("softmax 8192x8192 f32", graph_text("softmax", [("x", t)], [("y", t)], [f"%y: {t} = softmax(%x) {{axis=1}}"]),
         lambda: [normal(n, n)], lambda x: torch.softmax(x, 1), 8 * n * n)

    for dtype in (f32, bf16):
        rows, columns, d = 16384, 4096, names[dtype]
        t, v = f"{d}[{rows}, {columns}]", f"{d}[{columns}]"
        loose = dict(rtol=2e-2, atol=2e-2) if dtype == bf16 else {}
        case(f"layer norm + gelu 16384x4096 {d}",
             graph_text("norm", [("x", t), ("g", v), ("b", v)], [("y", t)],
                        [f"%h: {t} = layer_norm(%x, %g, %b) {{axis=1, epsilon=1e-05}}", f"%y: {t} = gelu(%h) {{approximate=\"none\"}}"]),
             lambda shape=(rows, columns), dtype=dtype: [normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype), normal(shape[1], dtype=dtype)],
             lambda x, g, b: functional.gelu(functional.layer_norm(x, (x.shape[1],), g, b, 1e-5)),
             2 * rows * columns * (4 if dtype == f32 else 2), **loose)

    t = f"f32[{n}, {n}]"

    def chain(x, y):
        v = ((x + y) * y).neg() + x
        v = torch.tanh(torch.sigmoid(v)) * x - y
        return v.abs() + (x + y)

    lines = [f"%a: {t} = add(%x, %y)", f"%b: {t} = mul(%a, %y)", f"%c: {t} = neg(%b)", f"%d: {t} = add(%c, %x)", f"%e: {t} = sigmoid(%d)",
             f"%f: {t} = tanh(%e)", f"%g: {t} = mul(%f, %x)", f"%h: {t} = sub(%g, %y)", f"%i: {t} = abs(%h)", f"%z: {t} = add(%i, %a)"]
    case("ten pointwise ops 8192x8192 f32", graph_text("chain", [("x", t), ("y", t)], [("z", t)], lines), lambda: [normal(n, n), normal(n, n)], chain, 12 * n * n)

    rows, columns = 65536, 2048
    case("sum over axis 0, 65536x2048 f32",
         graph_text("columns", [("x", f"f32[{rows}, {columns}]")], [("y", f"f32[{columns}]")], [f"%y: f32[{columns}] = reduce_sum(%x) {{axes=[0]}}"]),
         lambda shape=(rows, columns): [normal(*shape)], lambda x: x.sum(0), 4 * rows * columns, rtol=1e-4, atol=5e-3)

    t = f"f32[{n}, {n}]"
    case("transpose + add 8192x8192 f32",
         graph_text("transpose", [("x", t), ("y", t)], [("z", t)], [f"%t: {t} = transpose(%x) {{permutation=[1, 0]}}", f"%z: {t} = add(%t, %y)"]),
         lambda: [normal(n, n), normal(n, n)], lambda x, y: x.t() + y, 12 * n * n)

    for size, dtype in ((1024, bf16), (4096, bf16), (4096, torch.float16), (4096, f32)):
        d = names[dtype]
        t = f"{d}[{size}, {size}]"
        # Rounding of the result, and of sums in f32.
        rtol, atol = {bf16: (1e-2, 1e-2), torch.float16: (2e-3, 1e-2), f32: (1e-4, 2e-3)}[dtype]
        case(f"GEMM {size}^3 {d}", graph_text("gemm", [("a", t), ("b", t)], [("c", t)], [f"%c: {t} = matmul(%a, %b)"]),
             lambda size=size, dtype=dtype: [normal(size, size, dtype=dtype), normal(size, size, dtype=dtype)], torch.matmul,
             3 * size * size * torch.empty(0, dtype=dtype).element_size(), 2 * size**3, rtol=rtol, atol=atol)
    return cases


def compile_library(tcc, arguments, output):
    result = subprocess.run([tcc, *arguments, "-o", output], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"tcc {' '.join(arguments)}: exit code {result.returncode}\n{result.stderr.strip()[:2000]}")


def check_models(options, folder):
    if not options.models:
        return []
    if os.path.isdir(options.models):
        root = options.models
    else:
        root = os.path.join(folder, "models")
        with tarfile.open(options.models) as archive:
            archive.extractall(root)
    rows = []
    for path in sorted(glob.glob(os.path.join(root, "*", "*.onnx"))):
        name = os.path.relpath(path, root)
        if name.split("/")[0] in ("cond_branch", "lstm_tagger", "gru_classifier") or options.only not in name:
            continue
        try:
            output = os.path.join(folder, f"model{len(rows)}.so")   # a name of its own: what is loaded once stays loaded under its name
            compile_library(options.tcc, [path, "--target=cuda"], output)
            with np.load(os.path.join(os.path.dirname(path), "ref.npz")) as reference:
                inputs = []
                while f"in{len(inputs)}" in reference:
                    inputs.append(torch.from_numpy(reference[f"in{len(inputs)}"]).contiguous().cuda())
                expected = torch.from_numpy(reference["out0_f64"]).cuda()
            library = Library(output)
            outputs, run = library.bind(inputs)
            poison(outputs)
            run()
            torch.cuda.synchronize()
            largest, beyond = difference(outputs[0], expected, 1e-4, 1e-5)
            poison(outputs)
            run()   # from the CUDA graph this time
            torch.cuda.synchronize()
            again, beyond_again = difference(outputs[0], expected, 1e-4, 1e-5)
            milliseconds = time_together([run], 5)[0] if beyond <= 1 else 0.0
            ok = beyond <= 1 and beyond_again <= 1
            rows.append((ok, f"{name:44s} {'ok' if ok else 'WRONG':6s} {max(largest, again):10.2e} {milliseconds * 1000:9.1f} us {library.info.num_launches:5d} launches"))
            library.close()
        except Exception as error:  # the other models are worth a look all the same
            rows.append((False, f"{name:44s} FAILED {str(error)[:600]}"))
        print(rows[-1][1], flush=True)
    return rows


def check_kernels(options, folder):
    source = torch.randn(8192, 8192, device="cuda")
    target = torch.empty_like(source)
    copy_ms = time_together([lambda: target.copy_(source)])[0]
    bandwidth = 2 * source.numel() * 4 / copy_ms / 1e9
    rows = [(True, f"copy of 256 MiB: {copy_ms:.4f} ms, {bandwidth:.2f} TB/s")]
    print(rows[0][1], flush=True)
    del source, target
    for number, case in enumerate(kernels()):
        if options.only not in case["name"]:
            continue
        try:
            text, output = os.path.join(folder, f"case{number}.graph"), os.path.join(folder, f"case{number}.so")
            with open(text, "w") as file:
                file.write(case["text"])
            compile_library(options.tcc, ["--from=graph", text, "--target=cuda"], output)
            inputs = case["inputs"]()
            library = Library(output)
            outputs, run = library.bind(inputs)
            poison(outputs)
            run()
            torch.cuda.synchronize()
            with torch.no_grad():
                expected = case["function"](*[t.double() for t in inputs])
                _, beyond = difference(outputs[0], expected, case["rtol"], case["atol"])
                relative = ((outputs[0].double() - expected).norm() / expected.norm()).item()
                del expected
                functions = [run, lambda: case["function"](*inputs)]
                if options.torch_compile:
                    compiled = torch.compile(case["function"])
                    functions.append(lambda: compiled(*inputs))
                times = time_together(functions)
            ours, theirs = times[0], min(times[1:])
            line = f"{case['name']:36s} {'ok' if beyond <= 1 else 'WRONG':6s} error {relative:8.2e}  tcc {ours:8.4f} ms  torch {theirs:8.4f} ms  {theirs / ours:5.2f}x"
            if case["operations"]:
                line += f"  {case['operations'] / ours / 1e9:7.1f} TFLOP/s"
            else:
                line += f"  {case['bytes'] / ours / 1e9:5.2f} TB/s = {case['bytes'] / ours / 1e9 / bandwidth:4.2f} of copy"
            line += f"  {library.info.num_launches} launches"
            rows.append((beyond <= 1, line))
            library.close()
            del inputs, outputs, run, functions
            torch.cuda.empty_cache()
        except Exception as error:
            if options.verbose:
                traceback.print_exc()
            rows.append((False, f"{case['name']:36s} FAILED {str(error)[:600]}"))
        print(rows[-1][1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcc", required=True, help="the tcc program")
    parser.add_argument("--models", default="models/models.tar.xz", help="archive or folder of models; empty: none")
    parser.add_argument("--only", default="", help="only models and kernels whose name contains this")
    parser.add_argument("--torch-compile", action="store_true", help="also time torch.compile; the better of the two counts")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.tcc = os.path.abspath(options.tcc)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    with tempfile.TemporaryDirectory() as folder:
        models = check_models(options, folder)
        rows = check_kernels(options, folder)
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}")
    right = sum(ok for ok, _ in models)
    print(f"models: {right} of {len(models)} right")
    for ok, line in models:
        if not ok:
            print(line)
    for _, line in rows:
        print(line)
    sys.exit(0 if all(ok for ok, _ in models + rows) else 1)


if __name__ == "__main__":
    main()
