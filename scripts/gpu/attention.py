"""Attention in bf16 and its gradients: against PyTorch in f64 (f32 where that is large), then timed beside the best backend of scaled_dot_product_attention in one
process. A row of gradients is the forward pass and the gradients of queries, keys and values together.

Sizes are batch, heads, heads of keys and values, rows, columns and depth. `bias` adds a tensor to the scores. Inputs are [batch, heads, rows, depth], or
[batch, rows, heads, depth] as models have them (`inside`).
"""
import os

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu.library import Library, compile_library
from gpu.measure import failure, poison, time_together

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


def cases():
    """batch, heads, shared heads, rows, columns, depth, mask, heads inside"""
    yield 4, 12, 12, 1024, 1024, 64, "causal", True
    yield 8, 12, 12, 512, 512, 64, "", True
    yield 32, 12, 12, 197, 197, 64, "", True
    yield 1, 16, 4, 1024, 1024, 128, "causal", True
    yield 2, 5, 5, 333, 477, 64, "bias", False
    yield 3, 4, 2, 1003, 1003, 128, "causal", False
    for rows in (512, 2048, 4096, 16384):
        for depth in (64, 128):
            for mask in ("", "causal"):
                yield max(1, 16384 // rows), 16, 16, rows, rows, depth, mask, False
    yield 4, 16, 16, 2048, 2048, 64, "bias", False


def gradient_cases():
    yield 4, 12, 12, 1024, 1024, 64, "causal", True
    yield 8, 12, 12, 512, 512, 64, "", True
    yield 32, 12, 12, 197, 197, 64, "", True
    yield 2, 16, 4, 512, 512, 64, "causal", True
    yield 2, 6, 3, 200, 264, 128, "", False
    yield 2, 5, 5, 333, 477, 64, "bias", False
    yield 3, 4, 4, 1003, 1003, 128, "causal", False
    for rows in (512, 4096):
        for depth in (64, 128):
            for mask in ("", "causal"):
                yield max(1, 16384 // rows), 16, 16, rows, rows, depth, mask, False


def graph_text(batch, heads, shared, rows, columns, depth, mask, inside, with_loss=False):
    def shape(count, length):
        return f"bf16[{batch}, {length}, {count}, {depth}]" if inside else f"bf16[{batch}, {count}, {length}, {depth}]"

    scores = f"{batch}, {heads}, {rows}, {columns}"
    arguments = f"%q: {shape(heads, rows)}, %k: {shape(shared, columns)}, %v: {shape(shared, columns)}"
    arguments += f", %b: bf16[{rows}, {columns}]" if mask == "bias" else ""
    lines = []

    def heads_first(name, count, length):
        if not inside:
            return f"%{name}"
        lines.append(f"%{name}h: bf16[{batch}, {count}, {length}, {depth}] = transpose(%{name}) {{permutation=[0, 2, 1, 3]}}")
        return f"%{name}h"

    def all_heads(name):
        value = heads_first(name, shared, columns)
        if shared == heads:
            return value
        grouped, spread = f"{batch}, {shared}, 1, {columns}, {depth}", f"{batch}, {shared}, {heads // shared}, {columns}, {depth}"
        lines.append(f"%{name}g: bf16[{grouped}] = reshape({value}) {{shape=[{grouped}]}}")
        lines.append(f"%{name}s: bf16[{spread}] = broadcast_in_dim(%{name}g) {{dims=[0, 1, 2, 3, 4], shape=[{spread}]}}")
        lines.append(f"%{name}a: bf16[{batch}, {heads}, {columns}, {depth}] = reshape(%{name}s) {{shape=[{batch}, {heads}, {columns}, {depth}]}}")
        return f"%{name}a"

    query, key, value = heads_first("q", heads, rows), all_heads("k"), all_heads("v")
    lines += [
        f"%kt: bf16[{batch}, {heads}, {depth}, {columns}] = transpose({key}) {{permutation=[0, 1, 3, 2]}}",
        f"%s: bf16[{scores}] = matmul({query}, %kt)",
        f"%scale: bf16[{scores}] = full() {{dtype=bf16, shape=[{scores}], value={depth ** -0.5}}}",
        f"%x: bf16[{scores}] = mul(%s, %scale)",
    ]
    if mask == "bias":
        lines.append(f"%y: bf16[{scores}] = add(%x, %b)")
    elif mask == "causal":
        lines += [
            f"%row: i64[{rows}, {columns}] = iota() {{axis=0, dtype=i64, shape=[{rows}, {columns}]}}",
            f"%column: i64[{rows}, {columns}] = iota() {{axis=1, dtype=i64, shape=[{rows}, {columns}]}}",
            f"%seen: bool[{rows}, {columns}] = le(%column, %row)",
            f"%low: bf16[{scores}] = full() {{dtype=bf16, shape=[{scores}], value=-inf}}",
            f"%y: bf16[{scores}] = select(%seen, %x, %low)",
        ]
    else:
        lines[-1] = lines[-1].replace("%x:", "%y:")
    result = f"bf16[{batch}, {heads}, {rows}, {depth}]"
    lines += [f"%p: bf16[{scores}] = softmax(%y) {{axis=3}}", f"%o: {result} = matmul(%p, {value})"]
    last = "%o"
    if inside:
        result, last = shape(heads, rows), "%r"
        lines.append(f"%r: {result} = transpose(%o) {{permutation=[0, 2, 1, 3]}}")
    if with_loss:
        arguments += f", %g: {result}"
        wide = result.replace("bf16", "f32")
        lines += [
            f"%wide: {wide} = cast({last}) {{dtype=f32}}",
            f"%wideg: {wide} = cast(%g) {{dtype=f32}}",
            f"%products: {wide} = mul(%wide, %wideg)",
            "%loss: f32[] = reduce_sum(%products) {axes=[0, 1, 2, 3]}",
        ]
        result, last = "f32[]", "%loss"
    # Each node is one of the model's own, as in an export: what belongs to it in the backward pass is known by that.
    return f"graph @attention({arguments}) -> ({last}: {result}) {{\n" + "".join(f'  {line}    loc("{line[1:line.index(":")]}")\n' for line in lines) + f"  return {last}\n}}\n"


def measure(options, folder, number, case):
    batch, heads, shared, rows, columns, depth, mask, inside = case
    path = os.path.join(folder, f"attention{number}")
    with open(path + ".graph", "w", encoding="utf-8") as file:
        file.write(graph_text(*case))
    compile_library(options.tcc, [path + ".graph", "--from=graph", "--target=cuda", "-q", *options.flags.split()], path + ".so")
    library = Library(path + ".so")
    shape = lambda count, length: (batch, length, count, depth) if inside else (batch, count, length, depth)
    inputs = [torch.randn(shape(*size), device="cuda", dtype=torch.bfloat16) for size in ((heads, rows), (shared, columns), (shared, columns))]
    bias = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) if mask == "bias" else None
    results, run = library.bind(inputs + ([bias] if mask == "bias" else []))
    poison(results)
    run()
    torch.cuda.synchronize()
    query, key, value = (x.transpose(1, 2) if inside else x for x in inputs)
    arguments = dict(attn_mask=bias, is_causal=mask == "causal", enable_gqa=heads != shared)
    wide = torch.float64 if batch * heads * rows * columns < 1 << 28 else torch.float32
    of = min(batch, 2)  # of large ones some
    with sdpa_kernel(SDPBackend.MATH):
        exact = F.scaled_dot_product_attention(*(x[:of].to(wide) for x in (query, key, value)), **{**arguments, "attn_mask": None if bias is None else bias.to(wide)})
    found = (results[0].transpose(1, 2) if inside else results[0])[:of]
    error = ((found.to(wide) - exact).norm() / exact.norm()).item()
    times, theirs = [], float("inf")
    for backend in BACKENDS:
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(query, key, value, **arguments)
        try:
            their_error = ((call()[:of].to(wide) - exact).norm() / exact.norm()).item()
            ours, time = time_together([run, call], 5)
        except RuntimeError:
            continue
        times.append(ours)
        if time < theirs:
            theirs, error_of_best = time, their_error
    library.close()
    del exact
    operations = 4 * batch * heads * rows * columns * depth / (2 if mask == "causal" else 1)
    return error, error_of_best, min(times), theirs, operations / min(times) / 1e9


def measure_gradients(options, folder, number, case):
    batch, heads, shared, rows, columns, depth, mask, inside = case
    path = os.path.join(folder, f"gradients{number}")
    with open(path + ".graph", "w", encoding="utf-8") as file:
        file.write(graph_text(*case, with_loss=True))
    flags = ["--from=graph", "--target=cuda", "--mode=grad", "--loss=output:loss", "--wrt=q,k,v", "-q", *options.flags.split()]
    compile_library(options.tcc, [path + ".graph", *flags], path + ".so")
    library = Library(path + ".so")
    shape = lambda count, length: (batch, length, count, depth) if inside else (batch, count, length, depth)
    inputs = [torch.randn(shape(*size), device="cuda", dtype=torch.bfloat16) for size in ((heads, rows), (shared, columns), (shared, columns))]
    bias = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) if mask == "bias" else None
    cotangent = torch.randn(shape(heads, rows), device="cuda", dtype=torch.bfloat16)
    results, run = library.bind(inputs + ([bias] if mask == "bias" else []) + [cotangent])
    poison(results)
    run()
    torch.cuda.synchronize()
    found = results[-3:]
    first = (lambda x: x.transpose(1, 2)) if inside else (lambda x: x)

    def gradients(dtype, backend, of):
        leaves = [x[:of].to(dtype).detach().requires_grad_() for x in inputs]
        mask_of = None if bias is None else bias.to(dtype)
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*map(first, leaves), attn_mask=mask_of, is_causal=mask == "causal", enable_gqa=heads != shared)
        return torch.autograd.grad(out, leaves, first(cotangent[:of]).to(dtype))

    wide = torch.float64 if batch * heads * rows * columns < 1 << 27 else torch.float32
    of = min(batch, 2)
    exact = gradients(wide, SDPBackend.MATH, of)
    worst = lambda of_all: max(((a[:of].to(wide) - b).norm() / b.norm()).item() for a, b in zip(of_all, exact))
    error, times, theirs = worst(found), [], float("inf")
    leaves = [x.detach().requires_grad_() for x in inputs]
    for backend in BACKENDS:
        def call():
            with sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(*map(first, leaves), attn_mask=bias, is_causal=mask == "causal", enable_gqa=heads != shared)
                return torch.autograd.grad(out, leaves, first(cotangent))
        try:
            their_error = worst(call())
            ours, time = time_together([run, call], 5)
        except RuntimeError:
            continue
        times.append(ours)
        if time < theirs:
            theirs, error_of_best = time, their_error
    library.close()
    operations = 14 * batch * heads * rows * columns * depth / (2 if mask == "causal" else 1)
    return error, error_of_best, min(times), theirs, operations / min(times) / 1e9


def check_attention(options, folder):
    rows = []
    kinds = [("attention", measure, case) for case in cases()] + [("gradients of attention", measure_gradients, case) for case in gradient_cases()]
    for number, (kind, measure_case, case) in enumerate(kinds):
        batch, heads, shared, length, columns, depth, mask, inside = case
        label = f"{kind} {batch} x {heads}{'/' + str(shared) if shared != heads else ''} x {length} x {columns}, d {depth} {mask}{' inside' if inside else ''}"
        if options.only not in label:
            continue
        try:
            error, their_error, ours, theirs, rate = measure_case(options, folder, number, case)
            right = error <= 2 * their_error + 1e-3
            rows.append((right, f"{label:68s} {'ok' if right else 'WRONG':6s} error {error:8.2e} ({their_error:8.2e})  tcc {ours:8.4f}  PyTorch {theirs:8.4f} ms  ratio {theirs / ours:5.2f}  {rate:6.0f} TFLOP/s"))
        except Exception as fault:
            rows.append(failure(options, f"{label:68s}", fault))
        print(rows[-1][1], flush=True)
        torch.cuda.empty_cache()
    return rows
