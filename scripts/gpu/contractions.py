"""Products of matrices as models have them, in 16 bits, of f32, of f32 by tf32 and of 8 bits: against PyTorch in f64, then timed beside cuBLAS in one process.

Of 8-bit floats the factors are dequantised by a scale each and the result is bf16, as torch._scaled_mm has it (with its fast accumulation); of integers the
result is i32, as torch._int_mm has it, and exact.

Sizes are m, n, k, as an operand is stored transposed or not. `ratio` is the time of PyTorch over that of tcc.
"""
import os

import torch

from gpu.library import Library, compile_library
from gpu.measure import failure, poison, time_together
from gpu.narrow_weights import check_narrow_weights

F32, TF32 = "f32", "tf32"  # of dtype f32, with all bits of the factors and with those of tf32
NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", F32: "f32", TF32: "tf32", torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2", torch.int8: "i8"}
BYTES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)
TURNS = ((False, True), (False, False), (True, False), (True, True))


def linear_sizes():
    """Tokens, results, inputs of the linear layers of bert-base, gpt2, llama of 7 billion weights and ViT, and sizes that are not round."""
    sizes = [(s, s, s) for s in (1024, 2048, 4096, 8192)]
    sizes += [(4096, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072), (2304, 768))]
    sizes += [(4096, 50304, 768)]
    sizes += [(m, n, k) for m in (512, 4096) for n, k in ((4096, 4096), (12288, 4096), (11008, 4096), (4096, 11008))]
    sizes += [(6304, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072))]
    sizes += [(1000, 1000, 1000), (4104, 2056, 520), (136, 4096, 4096), (264, 8192, 1024), (3000, 128, 2048)]
    return sizes


def bytes_sizes():
    """Square ones, and the linear layers of bert-base and of llama with 7 billion weights."""
    sizes = [(s, s, s) for s in (1024, 2048, 8192)] + [(4096, n, k) for n, k in ((768, 768), (3072, 768), (768, 3072))]
    return sizes + [(m, n, k) for m in (512, 4096) for n, k in ((4096, 4096), (12288, 4096), (11008, 4096), (4096, 11008))]


def few_rows():
    return [(m, n, k) for m in (1, 8, 16) for n, k in ((4096, 4096), (11008, 4096), (8192, 8192))]


def graph_text(m, n, k, dtype, turned_a, turned_b, epilogue):
    d = "f32" if dtype == TF32 else NAMES[dtype]
    a, b = (f"{d}[{k}, {m}]" if turned_a else f"{d}[{m}, {k}]"), (f"{d}[{n}, {k}]" if turned_b else f"{d}[{k}, {n}]")
    result = f"{d}[{m}, {n}]"
    lines, x, y = [], "%a", "%b"
    if turned_a:
        lines.append(f"%at: {d}[{m}, {k}] = transpose(%a) {{permutation=[1, 0]}}")
        x = "%at"
    if turned_b:
        lines.append(f"%bt: {d}[{k}, {n}] = transpose(%b) {{permutation=[1, 0]}}")
        y = "%bt"
    bias = f", %bias: {d}[{n}]" if epilogue else ""
    if epilogue:
        lines += [f"%p: {result} = matmul({x}, {y})", f"%s: {result} = add(%p, %bias)", f'%c: {result} = gelu(%s) {{approximate="tanh"}}']
    else:
        lines.append(f"%c: {result} = matmul({x}, {y})")
    return f"graph @product(%a: {a}, %b: {b}{bias}) -> (%c: {result}) {{\n" + "".join(f"  {line}\n" for line in lines) + "  return %c\n}\n"


def second_factor(dtype):
    """The library takes no two factors of e5m2."""
    return torch.float8_e4m3fn if dtype == torch.float8_e5m2 else dtype


def bytes_graph_text(m, n, k, dtype):
    """a [m, k] times b [n, k], turned, as a model has it: a MatMulInteger, or dequantised factors."""
    d, other = NAMES[dtype], NAMES[second_factor(dtype)]
    head = f"graph @product(%a: {d}[{m}, {k}], %b: {other}[{n}, {k}]"
    turn = f"  %bt: {other}[{k}, {n}] = transpose(%b) {{permutation=[1, 0]}}\n"
    if dtype == torch.int8:
        return f"{head}) -> (%c: i32[{m}, {n}]) {{\n{turn}  %c: i32[{m}, {n}] = matmul_integer(%a, %bt)\n  return %c\n}}\n"
    return (
        f"{head}, %s: f32[], %t: f32[]) -> (%c: bf16[{m}, {n}]) {{\n{turn}"
        f"  %x: f32[{m}, {k}] = dequantize_linear(%a, %s) {{axis=0}}\n  %y: f32[{k}, {n}] = dequantize_linear(%bt, %t) {{axis=0}}\n"
        f"  %p: f32[{m}, {n}] = matmul(%x, %y)\n  %c: bf16[{m}, {n}] = cast(%p) {{dtype=bf16}}\n  return %c\n}}\n"
    )


def bytes_operands(m, n, k, dtype):
    if dtype == torch.int8:
        return [torch.randint(-128, 128, shape, device="cuda").to(dtype) for shape in ((m, k), (n, k))]
    tensors = [torch.randn(m, k, device="cuda").to(dtype), torch.randn(n, k, device="cuda").to(second_factor(dtype))]
    return tensors + [torch.tensor(scale, device="cuda") for scale in (0.5, 0.0625)]


def bytes_product(a, b, s=None, t=None):
    """As PyTorch computes it; of doubles, exactly."""
    if a.dtype == torch.float64:
        return a @ b.t() * (1 if s is None else s * t)
    if s is None:
        return torch._int_mm(a, b.t())
    return torch._scaled_mm(a, b.t(), scale_a=s, scale_b=t, out_dtype=torch.bfloat16, use_fast_accum=True)


def operands(m, n, k, dtype, turned_a, turned_b, epilogue):
    normal = lambda *shape: torch.randn(*shape, device="cuda").to(torch.float32 if dtype in (F32, TF32) else dtype)
    tensors = [normal(k, m) if turned_a else normal(m, k), normal(n, k) if turned_b else normal(k, n)]
    return tensors + ([normal(n)] if epilogue else [])


def product(turned_a, turned_b, epilogue):
    def function(a, b, bias=None):
        a, b = (a.t() if turned_a else a), (b.t() if turned_b else b)
        c = torch.matmul(a, b)
        return torch.nn.functional.gelu(c + bias, approximate="tanh") if epilogue else c

    return function


def cases(quick):
    bf16 = torch.bfloat16
    for turned_a, turned_b in TURNS:
        for size in [(200, 136, 328), (4096, 4096, 4096)] + ([] if quick else [(8192, 8192, 8192), (1000, 1000, 1000)]):
            yield size, bf16, turned_a, turned_b, False
    yield (136, 200, 72), torch.float16, False, True, False
    yield (8192, 16384, 4096), bf16, False, True, True
    for size in linear_sizes() + few_rows():
        yield size, bf16, False, True, False
    for dtype in (F32, TF32):
        for turned_a, turned_b in TURNS:
            for size in [(200, 136, 328), (4096, 4096, 4096)] + ([] if quick else [(1000, 1000, 1000), (768, 768, 8192)]):
                yield size, dtype, turned_a, turned_b, False
        for size in [(136, 75, 203), (4096, 3072, 768), (512, 4096, 4096), (8192, 8192, 8192)]:
            yield size, dtype, False, True, False
    yield (4096, 4096, 1024), F32, False, True, True

    # of 8 bits, both along the sum
    for dtype in BYTES:
        for size in [(208, 144, 336), (4096, 4096, 4096)] + ([] if quick or dtype == torch.float8_e5m2 else bytes_sizes()):
            yield size, dtype, False, True, False


def spoil(a, b):
    """Puts what is not finite, huge and tiny numbers into some rows of the factors [m, k] and [k, n]."""
    extremes = [float("inf"), -float("inf"), float("nan"), 1e37, -1e37, 1.2e-38, 1e-42, -2.0**-133, 2.0**-112, 0.0]
    for i, x in enumerate(extremes * 4):
        a[7 * i + 3, (131 * i) % a.shape[1]] = x
        b[(57 * i) % b.shape[0], 11 * i + 1] = x
    a[5, :], b[:, 6] = 1e30, 1e30  # sums that overflow


def check_extremes(options, folder):
    """Whether a product of f32 is right where factors are not finite, huge or tiny, beside a sum in f64."""
    m = n = k = 1024
    text, output = os.path.join(folder, "extremes.graph"), os.path.join(folder, "extremes.so")
    with open(text, "w") as file:
        file.write(graph_text(m, n, k, F32, False, False, False))
    compile_library(options.tcc, ["--from=graph", text, "--target=cuda", *options.flags.split()], output)
    a, b = operands(m, n, k, F32, False, False, False)
    spoil(a, b)
    library = Library(output)
    outputs, run = library.bind([a, b])
    poison(outputs)
    run()
    torch.cuda.synchronize()
    actual, exact = outputs[0].double(), (a.double() @ b.double()).float().double()
    bound = 2.0**-20 * (a.double().abs() @ b.double().abs()) + 2.0**-134 * (a.double().abs().sum(1)[:, None] + b.double().abs().sum(0)[None, :])
    right = torch.where(exact.isfinite(), (actual - exact).abs() <= bound, torch.where(exact.isnan(), actual.isnan(), actual == exact))
    library.close()
    wrong = int((~right).sum())
    return wrong == 0, f"extremes of f32 {'ok' if wrong == 0 else 'WRONG'}: {wrong} of {m * n} results, {int((~exact.isfinite()).sum())} are not finite"


def check_contractions(options, folder):
    rows, ratios = [], {dtype: [] for dtype in NAMES}
    for number, (size, dtype, turned_a, turned_b, epilogue) in enumerate(cases(options.only == "quick")):
        m, n, k = size
        name = f"{m}x{n}x{k} {NAMES[dtype]} {'t' if turned_a else 'n'}{'t' if turned_b else 'n'}{' bias gelu' if epilogue else ''}"
        if options.only not in ("", "quick") and options.only not in name:
            continue
        try:
            text, output = os.path.join(folder, f"product{number}.graph"), os.path.join(folder, f"product{number}.so")
            with open(text, "w") as file:
                file.write(bytes_graph_text(m, n, k, dtype) if dtype in BYTES else graph_text(m, n, k, dtype, turned_a, turned_b, epilogue))
            precision = ["--matmul-precision=high"] if dtype == TF32 else []
            compile_library(options.tcc, ["--from=graph", text, "--target=cuda", *precision, *options.flags.split()], output)
            inputs = bytes_operands(m, n, k, dtype) if dtype in BYTES else operands(m, n, k, dtype, turned_a, turned_b, epilogue)
            library = Library(output)
            outputs, run = library.bind(inputs)
            poison(outputs)
            run()
            torch.cuda.synchronize()
            function = bytes_product if dtype in BYTES else product(turned_a, turned_b, epilogue)
            with torch.no_grad():
                exact = function(*[t.double() for t in inputs]) if m * n * k < 2**37 or dtype not in (torch.bfloat16, torch.float16) else function(*[t.float() for t in inputs]).double()
                torch.backends.cuda.matmul.allow_tf32 = dtype == TF32
                theirs = function(*inputs)
                norm = exact.norm()
                error, their_error = ((outputs[0].double() - exact).norm() / norm).item(), ((theirs.double() - exact).norm() / norm).item()
                del exact, theirs
                times = time_together([run, lambda: function(*inputs)])
                torch.backends.cuda.matmul.allow_tf32 = False
            # Eight roundings: a short sum in order has as many, the library's in parts fewer.
            right = error <= max(2 * their_error, 8 * 2.0**-24) + (0 if dtype == F32 else 1e-6)
            ratio = times[1] / times[0]
            if not epilogue:
                ratios[dtype].append(ratio)
            rows.append((right, f"{name:36s} {'ok' if right else 'WRONG':6s} error {error:8.2e} ({their_error:8.2e})  tcc {times[0]:8.4f} ms  "
                                f"torch {times[1]:8.4f} ms  ratio {ratio:5.2f}  {2 * m * n * k / times[0] / 1e9:7.1f} TFLOP/s  {library.info.num_launches} launches"))
            library.close()
        except Exception as error:
            rows.append(failure(options, f"{name:36s}", error))
        print(rows[-1][1], flush=True)
        torch.cuda.empty_cache()
    if options.only in ("", "quick") or options.only in "extremes of f32":
        try:
            rows.append(check_extremes(options, folder))
        except Exception as error:
            rows.append(failure(options, "extremes of f32", error))
        print(rows[-1][1], flush=True)
    rows += check_narrow_weights(options, folder)
    for dtype, of_dtype in ratios.items():
        if of_dtype:
            mean = torch.tensor(of_dtype).log().mean().exp().item()
            rows.append((True, f"products of {NAMES[dtype]}: geometric mean of the ratio {mean:.3f}, least {min(of_dtype):.3f}"))
            print(rows[-1][1], flush=True)
    return rows
