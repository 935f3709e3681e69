"""Products of activations in bf16 with weights of 4 and 8 bits, as models for inference keep them: against PyTorch in f64, then timed in one process beside
PyTorch's product with dequantised weights, and beside its product with weights that are bf16 already.

Weights [n, k] have a scale (and those of `z` a zero point) for each row, or for each block of 32 or 128 neighbours of a row. Each row of the table reads other
weights in each run, so many that they are not in the L2 cache. GB/s counts the bytes of the weights and of their scales alone.
"""
import itertools
import os

import torch

from gpu.library import Library, Packed, compile_library
from gpu.measure import failure, poison, time_together

BITS = {"u4": 4, "i4": 4, "u8": 8, "i8": 8}
LOW = {"u4": 0, "i4": -8, "u8": 0, "i8": -128}
BEYOND_CACHE = 400 << 20


def cases(quick):
    """m, n, k, dtype, neighbours of a scale (0: the row), whether there are zero points."""
    for dtype, block, zero in (("i4", 32, False), ("u4", 128, True), ("i8", 0, False), ("u8", 32, True)):
        yield 8, 200, 384, dtype, block, zero
    for dtype, block, zero in (("u4", 32, True), ("i4", 32, False), ("i4", 128, False), ("i4", 0, False), ("i8", 32, False), ("i8", 128, False), ("i8", 0, False)):
        for m in (1, 16, 512) if quick else (1, 4, 8, 16, 512, 4096):
            yield m, 11008, 4096, dtype, block, zero


def graph_text(m, n, k, dtype, block, zero):
    scale = f"bf16[{n}, {k // block}]" if block else f"bf16[{n}]"
    point = scale.replace("bf16", dtype)
    attributes = f"{{axis=1, block_size={block}}}" if block else "{axis=0}"
    head = f"graph @product(%x: bf16[{m}, {k}], %w: {dtype}[{n}, {k}], %s: {scale}" + (f", %z: {point}" if zero else "") + f") -> (%c: bf16[{m}, {n}]) {{\n"
    return (
        head + f"  %f: bf16[{n}, {k}] = dequantize_linear(%w, %s" + (", %z" if zero else "") + f") {attributes}\n"
        f"  %t: bf16[{k}, {n}] = transpose(%f) {{permutation=[1, 0]}}\n  %c: bf16[{m}, {n}] = matmul(%x, %t)\n  return %c\n}}\n"
    )


def draw(shape, dtype):
    return torch.randint(0, 1 << BITS[dtype], shape, device="cuda") + LOW[dtype]


def packed(values, dtype):
    if BITS[dtype] == 8:
        return values.to(torch.uint8 if dtype == "u8" else torch.int8)
    flat = (values & 15).reshape(-1, 2)
    return Packed((flat[:, 0] | flat[:, 1] << 4).to(torch.uint8), tuple(values.shape), dtype)


def dequantise(values, scales, points, block, dtype):
    """[n, k]; of values that are integers, or two of 4 bits in a byte."""
    if isinstance(values, Packed):
        low, high = values.data & 15, values.data >> 4
        if values.dtype == "i4":
            low, high = low.to(torch.int8), high.to(torch.int8)
            low, high = low - ((low & 8) << 1), high - ((high & 8) << 1)
        values = torch.stack((low, high), -1).reshape(values.shape)
    n, k = values.shape
    wide = values.to(dtype).reshape(n, -1, block or k)
    if points is not None:
        wide = wide - points.to(dtype).reshape(n, -1, 1)
    return (wide * scales.to(dtype).reshape(n, -1, 1)).reshape(n, k)


def operands(m, n, k, dtype, block, zero):
    shape = (n, k // block) if block else (n,)
    scales = ((torch.rand(shape, device="cuda") + 0.5) * 0.02).to(torch.bfloat16)
    return torch.randn(m, k, device="cuda").to(torch.bfloat16), draw((n, k), dtype), scales, draw(shape, dtype) if zero else None


def in_turn(functions):
    turn = itertools.cycle(functions)
    return lambda: next(turn)()


def check_case(options, folder, number, case):
    m, n, k, dtype, block, zero = case
    name = f"{m}x{n}x{k} bf16 by {dtype}{' z' if zero else ''} {'block ' + str(block) if block else 'rows'}"
    if options.only not in ("", "quick") and options.only not in name:
        return None
    text, output = os.path.join(folder, f"narrow{number}.graph"), os.path.join(folder, f"narrow{number}.so")
    with open(text, "w") as file:
        file.write(graph_text(*case))
    compile_library(options.tcc, ["--from=graph", text, "--target=cuda", *options.flags.split()], output)
    x, values, scales, points = operands(*case)
    weights = [packed(values, dtype), scales] + ([packed(points, dtype)] if zero else [])
    num_bytes = sum(t.numel() * t.element_size() for t in weights)
    library = Library(output)
    outputs, run = library.bind([x, *weights])
    poison(outputs)
    run()
    torch.cuda.synchronize()
    exact = x.double() @ dequantise(values, scales, points, block, torch.float64).t()
    wide = dequantise(values, scales, points, block, torch.bfloat16)
    error, their_error = (((c.double() - exact).norm() / exact.norm()).item() for c in (outputs[0], x @ wide.t()))
    copies = lambda size: range(max(1, min(64, BEYOND_CACHE // size)))
    ours = [library.bind([x, *(t.clone() for t in weights)], outputs=outputs)[1] for _ in copies(num_bytes)]
    theirs = [lambda w=weights[0].clone(): x @ dequantise(w, scales, points, block, torch.bfloat16).t() for _ in copies(num_bytes)]
    of_bf16 = [lambda w=wide.clone(): x @ w.t() for _ in copies(2 * n * k)]
    times = time_together([in_turn(ours), in_turn(theirs), in_turn(of_bf16)])
    launches = library.info.num_launches
    library.close()
    right = error <= 2 * their_error + 1e-6
    return right, (f"{name:44s} {'ok' if right else 'WRONG':6s} error {error:8.2e} ({their_error:8.2e})  tcc {times[0]:8.4f} ms  dequantised {times[1]:8.4f} ms  "
                   f"bf16 {times[2]:8.4f} ms  ratio to bf16 {times[2] / times[0]:5.2f}  {num_bytes / times[0] / 1e6:7.1f} GB/s  "
                   f"{2 * m * n * k / times[0] / 1e9:6.1f} TFLOP/s  {launches} launches")


def check_narrow_weights(options, folder):
    rows = []
    for number, case in enumerate(cases(options.only == "quick")):
        try:
            row = check_case(options, folder, number, case)
        except Exception as error:
            row = failure(options, f"{case}", error)
        if row is None:
            continue
        rows.append(row)
        print(row[1], flush=True)
        torch.cuda.empty_cache()
    return rows
