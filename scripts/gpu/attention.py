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


# batch, heads, shared heads, rows, columns, depth, mask, heads inside: those of gpt2, bert-base and ViT
OF_MODELS = ((4, 12, 12, 1024, 1024, 64, "causal", True), (8, 12, 12, 512, 512, 64, "", True), (32, 12, 12, 197, 197, 64, "", True))


def long_cases(lengths):
    for rows in lengths:
        for depth in (64, 128):
            for mask in ("", "causal"):
                yield max(1, 16384 // rows), 16, 16, rows, rows, depth, mask, False


def cases():
    yield from OF_MODELS
    yield 1, 16, 4, 1024, 1024, 128, "causal", True
    yield 2, 5, 5, 333, 477, 64, "bias", False
    yield 3, 4, 2, 1003, 1003, 128, "causal", False
    yield from long_cases((512, 2048, 4096, 16384))
    yield 4, 16, 16, 2048, 2048, 64, "bias", False


def gradient_cases():
    yield from OF_MODELS
    yield 2, 16, 4, 512, 512, 64, "causal", True
    yield 2, 6, 3, 200, 264, 128, "", False
    yield 2, 5, 5, 333, 477, 64, "bias", False
    yield 3, 4, 4, 1003, 1003, 128, "causal", False
    yield from long_cases((512, 4096))


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


class Attention:
    """A case as a library that has run once, its inputs, and the same by PyTorch. `flags`: of the compilation; `with_loss`: the sum of results times random numbers."""

    def __init__(self, options, folder, number, case, flags=(), with_loss=False):
        self.batch, self.heads, self.shared, self.rows, self.columns, self.depth, self.mask, self.inside = case
        path = os.path.join(folder, f"attention{number}")
        with open(path + ".graph", "w", encoding="utf-8") as file:
            file.write(graph_text(*case, with_loss=with_loss))
        compile_library(options.tcc, [path + ".graph", "--from=graph", "--target=cuda", *flags, "-q", *options.flags.split()], path + ".so")
        self.library = Library(path + ".so")
        self.inputs = [self.random(self.heads, self.rows), self.random(self.shared, self.columns), self.random(self.shared, self.columns)]
        self.bias = torch.randn(self.rows, self.columns, device="cuda", dtype=torch.bfloat16) if self.mask == "bias" else None
        self.cotangent = self.random(self.heads, self.rows)
        self.results, self.run = self.library.bind(self.inputs + ([self.bias] if self.mask == "bias" else []) + ([self.cotangent] if with_loss else []))
        poison(self.results)
        self.run()
        torch.cuda.synchronize()

    def random(self, count, length):
        shape = (self.batch, length, count, self.depth) if self.inside else (self.batch, count, length, self.depth)
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    def heads_first(self, x):
        return x.transpose(1, 2) if self.inside else x

    def by_torch(self, inputs):
        bias = None if self.bias is None else self.bias.to(inputs[0].dtype)
        return F.scaled_dot_product_attention(*map(self.heads_first, inputs), attn_mask=bias, is_causal=self.mask == "causal", enable_gqa=self.heads != self.shared)

    def compared(self, found, theirs, most_scores, products):
        """Errors, times in ms and TFLOP/s. `found`: of the library; `theirs(inputs)`: the same by PyTorch; of large batches two are compared, in f64 up to so many scores."""
        wide = torch.float64 if self.batch * self.heads * self.rows * self.columns < most_scores else torch.float32
        of = min(self.batch, 2)
        with sdpa_kernel(SDPBackend.MATH):
            exact = theirs([x[:of].to(wide) for x in self.inputs])
        worst = lambda results: max(((x[:of].to(wide) - y).norm() / y.norm()).item() for x, y in zip(results, exact))
        error, times, best = worst(found), [], float("inf")
        for backend in BACKENDS:
            def call():
                with sdpa_kernel(backend):
                    return theirs(self.inputs)
            try:
                their_error = worst(call())
                ours, time = time_together([self.run, call], 5)
            except RuntimeError:
                continue
            times.append(ours)
            if time < best:
                best, error_of_best = time, their_error
        self.library.close()
        operations = 2 * products * self.batch * self.heads * self.rows * self.columns * self.depth / (2 if self.mask == "causal" else 1)
        return error, error_of_best, min(times), best, operations / min(times) / 1e9


def measure(options, folder, number, case):
    attention = Attention(options, folder, number, case)
    found = attention.results[0].transpose(1, 2) if attention.inside else attention.results[0]
    return attention.compared([found], lambda inputs: [attention.by_torch(inputs)], 1 << 28, 2)


def measure_gradients(options, folder, number, case):
    attention = Attention(options, folder, number, case, ("--mode=grad", "--loss=output:loss", "--wrt=q,k,v"), True)

    def gradients(inputs):
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = attention.by_torch(leaves)
        return torch.autograd.grad(out, leaves, attention.heads_first(attention.cotangent[:len(out)]).to(out.dtype))

    return attention.compared(attention.results[-3:], gradients, 1 << 27, 7)


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
