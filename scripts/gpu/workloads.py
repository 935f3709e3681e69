"""Models of full size, forward and training steps: against the same model in f32, then timed beside PyTorch's modes in one process.

bf16 rows hold their weights in bf16; tf32 rows are f32 with --matmul-precision=high, and PyTorch is allowed TF32; f32 rows are with products as exact as
those of f32 in both, so that PyTorch is what they are compared with. A training step is forward, backward and
SGD of the mean of the squared outputs. `best`: the least time of eager mode and, with --torch-compile, of torch.compile without and with CUDA graphs.
"""
import copy
import os
import re
import subprocess

import torch

from gpu.library import Library, compile_library
from gpu.measure import failure, poison, time_together

LEARNING_RATE = 1e-3
STEPS = 3


class First(torch.nn.Module):
    """The model as a function of tensors that returns one tensor."""

    def __init__(self, model, **arguments):
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, *inputs):
        result = self.model(*inputs, **self.arguments)
        return result if isinstance(result, torch.Tensor) else result[0]


class MeanSquare(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs).float().square().mean()


class Norm(torch.nn.Module):
    """RMS norm, written out: the exporter has no function for the fused form."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class DecoderLayer(torch.nn.Module):
    """A layer like llama's, for one new token behind a cache of keys and values."""

    def __init__(self, width=4096, heads=32, shared=8, hidden=14336):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        linear = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
        self.before, self.between = Norm(width), Norm(width)
        self.query, self.out = linear(width, width), linear(width, width)
        self.key, self.value = linear(width, shared * self.size), linear(width, shared * self.size)
        self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)

    def forward(self, x, keys, values):
        h = self.before(x)
        split = lambda y, count: y.view(x.shape[0], count, 1, self.size)
        keys = torch.cat([keys, split(self.key(h), self.shared)], 2)
        values = torch.cat([values, split(self.value(h), self.shared)], 2)
        read = torch.nn.functional.scaled_dot_product_attention(split(self.query(h), self.heads), keys, values, enable_gqa=True)
        x = x + self.out(read.reshape(x.shape[0], -1))
        h = self.between(x)
        return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))


class Decoder(torch.nn.Module):
    def __init__(self, layers=8):
        super().__init__()
        self.layers = torch.nn.ModuleList([DecoderLayer() for _ in range(layers)])

    def forward(self, x, keys, values):
        for i, layer in enumerate(self.layers):
            x = layer(x, keys[i], values[i])
        return x


def normal(*shape):
    return torch.randn(*shape, device="cuda")


def words(vocabulary, *shape):
    return torch.randint(0, vocabulary, shape, device="cuda")


def transformer(kind):
    import transformers
    none = dict(return_dict=False)
    if kind == "bert":
        return First(transformers.BertModel(transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0)), **none)
    if kind == "gpt2":
        config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        return First(transformers.GPT2LMHeadModel(config), use_cache=False, **none)
    config = transformers.LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4)
    return First(transformers.LlamaForCausalLM(config), use_cache=False, **none)


def vision(name):
    import torchvision
    model = getattr(torchvision.models, name)(weights=None)
    if name.startswith("vit"):  # made as zeros
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model


def mlp(width=4096):
    layer = lambda: torch.nn.Linear(width, width)
    return torch.nn.Sequential(layer(), torch.nn.ReLU(), layer(), torch.nn.ReLU(), layer())


# name: model, inputs, precision
MODELS = {
    "mlp of three layers of 4096, 4096 rows": (mlp, lambda: [normal(4096, 4096)], "bf16"),
    "bert-base 8 x 512": (lambda: transformer("bert"), lambda: [words(30522, 8, 512)], "bf16"),
    "bert-base 8 x 512, f32": (lambda: transformer("bert"), lambda: [words(30522, 8, 512)], "f32"),
    "gpt2 (124M) 4 x 1024": (lambda: transformer("gpt2"), lambda: [words(50257, 4, 1024)], "bf16"),
    "gpt2 (124M) 4 x 1024, f32": (lambda: transformer("gpt2"), lambda: [words(50257, 4, 1024)], "f32"),
    "vit b/16, 32 images": (lambda: vision("vit_b_16"), lambda: [normal(32, 3, 224, 224)], "bf16"),
    "llama of 8 layers of 2048, 1 x 1024": (lambda: transformer("llama"), lambda: [words(32000, 1, 1024)], "bf16"),
    "decoder of 8 layers of 4096, a token behind 2048": (Decoder, lambda: [normal(1, 4096), normal(8, 1, 8, 2048, 128), normal(8, 1, 8, 2048, 128)], "bf16"),
    "resnet50, 32 images": (lambda: vision("resnet50"), lambda: [normal(32, 3, 224, 224)], "bf16"),
    "resnet50, 32 images, tf32": (lambda: vision("resnet50"), lambda: [normal(32, 3, 224, 224)], "tf32"),
    "mobilenet_v3_large, 32 images, tf32": (lambda: vision("mobilenet_v3_large"), lambda: [normal(32, 3, 224, 224)], "tf32"),
}
FORWARD_ONLY = ("llama", "decoder", "mobilenet")


def allow_tf32(allowed):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def modes(options, module):
    """Name and module of each mode of PyTorch that is timed."""
    yield "eager", module
    if options.torch_compile:
        yield "compiled", torch.compile(module)
        yield "graphs", torch.compile(module, mode="reduce-overhead")


def trainer(module, inputs):
    """What makes a step in PyTorch and returns the loss before it."""
    loss_of = MeanSquare(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, foreach=True)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def caller(module, inputs):
    def call():
        with torch.no_grad():
            return module(*inputs)

    return call


def relative(found, exact):
    return ((found.double() - exact.double()).norm() / exact.double().norm()).item()


def measure(options, folder, name, train):
    make, inputs_of, precision = MODELS[name]
    torch.manual_seed(0)
    wide, inputs = make().cuda(), inputs_of()
    wide.train(train)
    module = wide
    if precision == "bf16":
        module = copy.deepcopy(wide).bfloat16()
        inputs = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
        wide = copy.deepcopy(module).float()  # the values that the 16-bit model has
    stem = os.path.join(folder, f"workload{list(MODELS).index(name)}{'step' if train else ''}")  # a library that was loaded stays that of its path
    path, output = stem + ".onnx", stem + ".so"
    with torch.no_grad():
        torch.onnx.export(MeanSquare(module) if train else module, tuple(inputs), path, dynamo=True, optimize=False, external_data=True,
                          output_names=["result"], verbose=False)
    flags = ["--mode=train", "--loss=output:result", f"--optimizer=sgd:lr={LEARNING_RATE}", "--batch-norm=train"] if train else []
    flags += ["--matmul-precision=high"] if precision == "tf32" else []
    compile_library(options.tcc, [path, "--target=cuda", "-q", *flags, *options.flags.split()], output)
    library = Library(output)
    function = "step" if train else 0
    results, run = library.bind([x.detach().contiguous() for x in inputs], function)
    poison(results)
    wide_inputs = [x.float() if x.is_floating_point() else x for x in inputs]
    if train:
        steps = [trainer(wide, wide_inputs), trainer(module, inputs)]
        exact, theirs, ours = [], [], []
        for _ in range(STEPS):
            allow_tf32(False)
            exact.append(steps[0]().item())
            allow_tf32(precision == "tf32")
            theirs.append(steps[1]().item())
            run()
            ours.append(results[0].item())
        error, their_error = (max(abs(a - b) / abs(b) for a, b in zip(losses, exact)) for losses in (ours, theirs))
    else:
        allow_tf32(False)
        exact = caller(wide, wide_inputs)()
        allow_tf32(precision == "tf32")
        run()
        torch.cuda.synchronize()
        error, their_error = relative(results[0], exact), relative(caller(module, inputs)(), exact)
    del wide, exact
    functions = {"tcc": run}
    for mode, of_mode in modes(options, module):
        functions[mode] = trainer(of_mode, inputs) if train else caller(of_mode, inputs)
    times = dict(zip(functions, time_together(list(functions.values()), 5)))
    allow_tf32(False)
    launches = library.function_info(library.find("step") if train else 0).num_launches
    library.close()
    if options.profiles:
        write_profile(options, output, name, train)
    for file in (path, path + ".data", output):
        if os.path.exists(file):
            os.remove(file)
    return error, their_error, times, launches


def write_profile(options, library, name, train):
    """The launches of the library, each timed by itself, as a file of the folder that was asked for."""
    os.makedirs(options.profiles, exist_ok=True)
    file = os.path.join(options.profiles, re.sub("[^a-z0-9]+", "_", f"{name} {'step' if train else ''}".lower()).strip("_") + ".txt")
    with open(file, "w") as profile:
        subprocess.run([options.tcc, "bench", library, "--profile", *(["--function", "step"] if train else [])], stdout=profile, check=True)


def check_workloads(options, folder):
    rows = []
    for name in MODELS:
        for train in (False, True):
            label = f"{'step' if train else 'forward'} {name}"
            if not re.search(options.only, label) or (train and name.startswith(FORWARD_ONLY)):
                continue
            try:
                error, their_error, times, launches = measure(options, folder, name, train)
                right = error <= 2 * their_error + (5e-3 if train else 1e-5)
                best = min(time for mode, time in times.items() if mode != "tcc")
                rows.append((right, f"{label:58s} {'ok' if right else 'WRONG':6s} error {error:8.2e} ({their_error:8.2e})  "
                                    + "  ".join(f"{mode} {time:7.3f}" for mode, time in times.items())
                                    + f" ms  best / tcc {best / times['tcc']:5.2f}  {launches} launches"))
            except Exception as fault:
                rows.append(failure(options, f"{label:58s}", fault))
            print(rows[-1][1], flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    return rows
