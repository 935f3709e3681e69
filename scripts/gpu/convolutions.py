"""The distinct layers of ResNet-50 on 32 images whose channels are last: against PyTorch in f64, then timed beside cuDNN in one process.

A case is one unit, whose parameters lie as they lie inside of a network. Forward layers have their bias and relu in the kernel; cuDNN is timed without either, and
with both where it has such a kernel, and the lesser time counts. Gradients by the image are those of layers without steps, where an image is read through a window;
gradients by the weights are all of them. Sizes are of the image, then input and output channels; `ratio` is the time of cuDNN over that of tcc.
"""
import os

import torch

from gpu.library import Library, compile_library
from gpu.measure import failure, poison, time_together

BATCH = 32
# Height and width, input and output channels, window, step.
LAYERS = [
    (56, 64, 64, 1, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (56, 256, 128, 1, 1), (56, 64, 64, 3, 1), (56, 128, 128, 3, 2), (56, 256, 512, 1, 2),
    (28, 128, 512, 1, 1), (28, 512, 128, 1, 1), (28, 512, 256, 1, 1), (28, 128, 128, 3, 1), (28, 256, 256, 3, 2), (28, 512, 1024, 1, 2),
    (14, 256, 1024, 1, 1), (14, 1024, 256, 1, 1), (14, 1024, 512, 1, 1), (14, 256, 256, 3, 1), (14, 512, 512, 3, 2), (14, 1024, 2048, 1, 2),
    (7, 512, 2048, 1, 1), (7, 2048, 512, 1, 1), (7, 512, 512, 3, 1),
]
# No multiples of tiles, panels or boxes; batch, height and width, channels, window, step, dilation.
ODD = [(3, 9, 11, 24, 40, 3, 1, 1), (2, 13, 5, 72, 56, 5, 2, 1), (1, 17, 30, 64, 104, 3, 1, 2), (5, 8, 8, 136, 64, 1, 2, 1), (4, 20, 6, 48, 200, 3, 3, 1)]


def times(step, var):
    return var if step == 1 else f"{var} * {step}"


def forward_text(n, h, w, c, k, r, s, d, dtype):
    p = (r - 1) * d // 2
    ho, wo = ((size + 2 * p - d * (r - 1) - 1) // s + 1 for size in (h, w))
    at = lambda var, tap: f"{times(s, var)} + {times(d, tap)} - {p}"
    image = f"load %a0[%i, {at('%j', '%n')}, {at('%k', '%q')}, %m] else {dtype}(0.0)" if r > 1 else f"load %a0[%i, {times(s, '%j')}, {times(s, '%k')}, %m]"
    taps = f"%n in {r}, %q in {r}, %m in {c}" if r > 1 else f"%m in {c}"
    weight = "load %a1[%l, %n, %q, %m]" if r > 1 else "load %a1[%l, 0, 0, %m]"
    return (
        f"unit (%a0: {dtype}[{n}, {h}, {w}, {c}], %a1: {dtype}[{k}, {r}, {r}, {c}], %a2: {dtype}[{k}]) -> (%r0: {dtype}[{n}, {ho}, {wo}, {k}]) {{\n"
        f"  map %i in {n}, %j in {ho}, %k in {wo}, %l in {k} {{\n    %v0: f32 = reduce sum {taps} {{\n      %v1: {dtype} = {image}\n      %v2: {dtype} = {weight}\n"
        f"      yield mul(cast<f32>(%v1), cast<f32>(%v2))\n    }}\n    %v3: {dtype} = load %a2[%l]\n"
        f"    store cast<{dtype}>(max(add(%v0, cast<f32>(%v3)), 0.0)), %r0[%i, %j, %k, %l]\n  }}\n}}\n"
    )


def image_gradient_text(n, h, w, c, k, r, s, d, dtype):
    p = (r - 1) * d - (r - 1) * d // 2
    ho, wo = results(h, w, r, s, d)
    at = lambda var, tap: f"{var} + {times(d, tap)} - {p}"
    return (
        f"unit (%a0: {dtype}[{n}, {ho}, {wo}, {k}], %a1: {dtype}[{k}, {c}, {r}, {r}]) -> (%r0: {dtype}[{n}, {h}, {w}, {c}]) {{\n"
        f"  map %i in {n}, %j in {h}, %k in {w}, %l in {c} {{\n    %v0: f32 = reduce sum %m in {k}, %n in {r}, %q in {r} {{\n"
        f"      %v1: {dtype} = load %a0[%i, {at('%j', '%n')}, {at('%k', '%q')}, %m] else {dtype}(0.0)\n"
        f"      %v2: {dtype} = load %a1[%m, %l, -%n + {r - 1}, -%q + {r - 1}]\n"
        f"      yield mul(cast<f32>(%v1), cast<f32>(%v2))\n    }}\n    store cast<{dtype}>(%v0), %r0[%i, %j, %k, %l]\n  }}\n}}\n"
    )


def weight_gradient_text(n, h, w, c, k, r, s, d, dtype):
    p = (r - 1) * d // 2
    ho, wo = results(h, w, r, s, d)
    at = lambda var, tap: f"{times(s, var)} + {times(d, tap)} - {p}"
    image = f"load %a0[%m, {at('%n', '%k')}, {at('%p', '%l')}, %i] else {dtype}(0.0)" if r > 1 else f"load %a0[%m, {times(s, '%n')}, {times(s, '%p')}, %i]"
    dims, place = (f", %k in {r}, %l in {r}", "%k, %l") if r > 1 else ("", "0, 0")
    return (
        f"unit (%a0: {dtype}[{n}, {h}, {w}, {c}], %a1: {dtype}[{n}, {ho}, {wo}, {k}]) -> (%r0: {dtype}[{k}, {c}, {r}, {r}]) {{\n"
        f"  map %i in {c}, %j in {k}{dims} {{\n    %v0: f32 = reduce sum %m in {n}, %n in {ho}, %p in {wo} {{\n      %v1: {dtype} = {image}\n"
        f"      %v2: {dtype} = load %a1[%m, %n, %p, %j]\n      yield mul(cast<f32>(%v1), cast<f32>(%v2))\n    }}\n"
        f"    store cast<{dtype}>(%v0), %r0[%j, %i, {place}]\n  }}\n}}\n"
    )


def convolve(x, w, b, s, d):
    r = w.shape[2]
    return torch.nn.functional.conv2d(x, w, b, stride=s, padding=(r - 1) * d // 2, dilation=d)


def first(t):
    """Channels last as channels first, without moving anything."""
    return t.permute(0, 3, 1, 2)


class Forward:
    """y = relu(x * w + b)"""
    text = staticmethod(forward_text)

    def __init__(self, n, h, w, c, k, r, s, d, dtype):
        self.s, self.d, self.p = s, d, (r - 1) * d // 2
        self.inputs = [normal(dtype, n, h, w, c), normal(dtype, k, r, r, c) / (r * r * c) ** 0.5, normal(dtype, k)]

    def result(self, x, w, b):
        return convolve(first(x), first(w), b, self.s, self.d).relu().permute(0, 2, 3, 1)

    def peers(self, x, w, b):
        s, d, p, x, w = self.s, self.d, self.p, first(x), first(w)
        return [lambda: torch.nn.functional.conv2d(x, w, None, stride=s, padding=p, dilation=d),
                lambda: torch.cudnn_convolution_relu(x, w, b, (s, s), (p, p), (d, d), 1)]


class Gradient:
    """A gradient of y = x * w, by x or by w. Weights are as models hold them, channels first; cuDNN gets them in the order that it is fastest with."""
    by = None

    def __init__(self, n, h, w, c, k, r, s, d, dtype):
        self.s, self.d, self.p = s, d, (r - 1) * d // 2
        ho, wo = results(h, w, r, s, d)
        self.x, self.w, self.g = normal(dtype, n, h, w, c), normal(dtype, k, c, r, r) / (r * r * c) ** 0.5, normal(dtype, n, ho, wo, k)
        self.inputs = [self.g, self.w] if self.by == "image" else [self.x, self.g]

    def backward(self, x, w, g):
        mask = [self.by == "image", self.by == "weights", False]
        s, d, p = self.s, self.d, self.p
        return torch.ops.aten.convolution_backward(first(g), first(x), w, None, (s, s), (p, p), (d, d), False, (0, 0), 1, mask)

    def result(self, *inputs):
        dtype = inputs[0].dtype
        found = self.backward(self.x.to(dtype), self.w.to(dtype), self.g.to(dtype))
        return found[0].permute(0, 2, 3, 1) if self.by == "image" else found[1]

    def peers(self, *inputs):
        w = self.w.to(memory_format=torch.channels_last)
        return [lambda: self.backward(self.x, w, self.g)]


class ImageGradient(Gradient):
    text, by = staticmethod(image_gradient_text), "image"


class WeightGradient(Gradient):
    text, by = staticmethod(weight_gradient_text), "weights"


def normal(dtype, *shape):
    return torch.randn(*shape, device="cuda").to(dtype)


def results(h, w, r, s, d):
    return ((size + 2 * ((r - 1) * d // 2) - d * (r - 1) - 1) // s + 1 for size in (h, w))


def check(options, folder, number, kind, case, dtype, name):
    n, h, w, c, k, r, s, d = case
    text, output = os.path.join(folder, f"conv{number}.loop"), os.path.join(folder, f"conv{number}.so")
    with open(text, "w") as file:
        file.write(kind.text(*case, {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]))
    compile_library(options.tcc, ["--from=loop", text, "--target=cuda", *options.flags.split()], output)
    problem = kind(*case, dtype)
    inputs = [t.to(dtype) for t in problem.inputs]
    library = Library(output)
    outputs, run = library.bind(inputs)
    poison(outputs)
    run()
    torch.cuda.synchronize()
    exact, theirs = problem.result(*[t.double() for t in inputs]), problem.result(*inputs)
    error, their_error = (((t.double() - exact).norm() / exact.norm()).item() for t in (outputs[0], theirs))
    right = error <= 2 * their_error + 1e-6
    del exact, theirs
    ours, *measured = time_together([run, *problem.peers(*inputs)])
    ho, wo = results(h, w, r, s, d)
    flops, moved = 2 * n * ho * wo * k * r * r * c, sum(t.numel() * t.element_size() for t in (*inputs, outputs[0]))
    row = (f"{name:62s} {'ok' if right else 'WRONG':6s} error {error:8.2e} ({their_error:8.2e})  tcc {ours:8.4f} ms  cudnn {', '.join(f'{t:.4f}' for t in measured)} ms  "
           f"ratio {min(measured) / ours:5.2f}  {flops / ours / 1e9:6.1f} TFLOP/s  {moved / ours / 1e9:5.2f} TB/s")
    library.close()
    return right, row, min(measured) / ours


def cases():
    for kind in (Forward, ImageGradient, WeightGradient):
        for h, c, k, r, s in LAYERS:
            if kind is not ImageGradient or s == 1:
                yield kind, (BATCH, h, h, c, k, r, s, 1), torch.bfloat16, True
        for case in ODD:
            for dtype in (torch.bfloat16, torch.float16):
                if kind is not ImageGradient or case[6] == 1:
                    yield kind, case, dtype, False


def check_convolutions(options, folder):
    rows, ratios = [], {}
    torch.backends.cudnn.benchmark = True
    for number, (kind, case, dtype, of_model) in enumerate(cases()):
        n, h, w, c, k, r, s, d = case
        name = f"{kind.__name__} {n} x {h} x {w}, {c} to {k}, {r} x {r}{f' step {s}' if s > 1 else ''}{f' dilation {d}' if d > 1 else ''} {str(dtype)[6:]}"
        if options.only not in name:
            continue
        try:
            right, row, ratio = check(options, folder, number, kind, case, dtype, name)
            rows.append((right, row))
            if of_model:
                ratios.setdefault(kind.__name__, []).append(ratio)
        except Exception as error:
            rows.append(failure(options, f"{name:62s}", error))
        print(rows[-1][1], flush=True)
        torch.cuda.empty_cache()
    torch.backends.cudnn.benchmark = False
    for kind, of_kind in ratios.items():
        mean = torch.tensor(of_kind).log().mean().exp().item()
        rows.append((True, f"layers of ResNet-50, {kind}: geometric mean of the ratio {mean:.3f}, least {min(of_kind):.3f}"))
        print(rows[-1][1], flush=True)
    return rows
