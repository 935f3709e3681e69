"""Single kernels: against PyTorch in f64, then timed beside PyTorch, with a device copy as the ceiling of what is bound by memory."""
import os

import torch

from gpu.library import Library, compile_library
from gpu.measure import difference, failure, poison, time_together


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
            rows.append(failure(options, f"{case['name']:36s}", error))
        print(rows[-1][1], flush=True)
    return rows
