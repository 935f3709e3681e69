#!/usr/bin/env python3
"""Checks and times torch.compile(backend="tcc") on models of torchvision, timm and transformers, beside eager mode and inductor.

    scripts/torch_check.py [--device cuda] [--dtype bfloat16] [--parts forward,training] [--only WORD,...] [--small] [--workers N]

Weights and inputs are random. The reference is the same model in f64, with the weights and inputs as --dtype rounds them. A row is right when tcc's
error is within twice that of inductor (or of eager mode, the larger of the two), both as ||result - reference|| / ||reference|| over all results; for
`training` these are the loss and the gradients of all parameters. Times are medians in milliseconds of one forward pass, or of one forward and
backward pass. Graphs that fell back to eager mode are counted, with what tcc lacks. Needs torch, torchvision, timm, transformers. The exit code is 1 when a row is wrong.
"""
import argparse
import copy
import os
import statistics
import subprocess
import sys
import time
import traceback
import warnings

import torch

import tcc_torch  # noqa: F401  pylint: disable=unused-import  # registers the backend

warnings.filterwarnings("ignore", category=UserWarning, module="torch")


def vision(name, least=96, batch=8):
    def make(small):
        import torchvision
        edge, count = (least if small else 224), (2 if small else batch)
        return getattr(torchvision.models, name)(num_classes=100), (torch.randn(count, 3, edge, edge),)
    return make


def timm_model(name, batch=8):
    def make(small):
        import timm
        model = timm.create_model(name, num_classes=100)
        edge = model.default_cfg["input_size"][-1]
        return model, (torch.randn(2 if small else batch, 3, edge, edge),)
    return make


class First(torch.nn.Module):
    """The first tensor of a model's results."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        result = self.model(*inputs)
        return result if isinstance(result, torch.Tensor) else result[0]


def text(model, config, length=128, batch=4, **sizes):
    def make(small):
        import transformers
        made = getattr(transformers, config)(vocab_size=1000, **sizes)
        made._attn_implementation = "sdpa"
        tokens = torch.randint(5, 1000, (1 if small else batch, 32 if small else length))
        return First(getattr(transformers, model)(made)), (tokens,)
    return make


FORWARD = {
    "resnet18": vision("resnet18"), "resnet50": vision("resnet50"), "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_large": vision("mobilenet_v3_large"), "efficientnet_b0": vision("efficientnet_b0"),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"), "squeezenet1_1": vision("squeezenet1_1"), "densenet121": vision("densenet121"),
    "regnet_y_400mf": vision("regnet_y_400mf"), "mnasnet1_0": vision("mnasnet1_0"), "vgg11": vision("vgg11"),
    "convnext_tiny": vision("convnext_tiny"), "vit_b_16": vision("vit_b_16", least=224), "swin_t": vision("swin_t"),
    "timm deit_tiny": timm_model("deit_tiny_patch16_224"), "timm mixer_s32": timm_model("mixer_s32_224"),
    "timm resmlp_12": timm_model("resmlp_12_224"), "timm ghostnet_100": timm_model("ghostnet_100"),
    "timm edgenext_xx_small": timm_model("edgenext_xx_small"),
    "bert": text("BertModel", "BertConfig", num_hidden_layers=4, hidden_size=512, num_attention_heads=8, intermediate_size=2048),
    "gpt2": text("GPT2LMHeadModel", "GPT2Config", n_layer=4, n_embd=512, n_head=8, use_cache=False, bos_token_id=0, eos_token_id=0),
    "llama": text("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=4, hidden_size=512, num_attention_heads=8, num_key_value_heads=4,
                  intermediate_size=1408, use_cache=False),
    "distilbert": text("DistilBertModel", "DistilBertConfig", n_layers=3, dim=512, n_heads=8, hidden_dim=2048),
    "t5 encoder": text("T5EncoderModel", "T5Config", num_layers=3, d_model=512, num_heads=8, d_ff=1024, d_kv=64),
    "albert": text("AlbertModel", "AlbertConfig", num_hidden_layers=3, embedding_size=128, hidden_size=512, num_attention_heads=8,
                   intermediate_size=1024),
}
TRAINING = ["resnet18", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_b_16", "timm mixer_s32", "bert", "gpt2", "llama",
            "distilbert"]
NO_DROPOUT = 0.0


def without_zeros(model):
    """Some models begin with layers of zeros, behind which nothing that is wrong is seen."""
    for parameter in model.parameters():
        if not parameter.detach().any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def without_dropout(model):
    """Training mode without random numbers, of which every compiler draws its own."""
    for module in model.modules():
        for name in ("p", "drop_prob", "dropout_p", "attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, NO_DROPOUT)
    return model


def forward(model, inputs):
    with torch.no_grad():
        return [model(*inputs)]


def training(model, inputs):
    model.zero_grad(set_to_none=True)
    loss = model(*inputs).float().square().mean() if next(model.parameters()).dtype != torch.float64 else model(*inputs).square().mean()
    loss.backward()
    return [loss.detach()] + [p.grad for p in model.parameters() if p.grad is not None]


def error(results, reference):
    if len(results) != len(reference):
        return float("inf")
    difference = sum(float((a.double() - b).square().sum()) for a, b in zip(results, reference))
    return (difference / max(sum(float(b.square().sum()) for b in reference), 1e-300))**0.5


def milliseconds(function, device, seconds=0.5):
    def synchronize():
        if device.type == "cuda":
            torch.cuda.synchronize()
    for _ in range(3):
        function()
    synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        function()
        synchronize()
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times)


class Row:
    """One model in one part: compiled by all, and compared; timed later, when nothing else is going on."""

    def __init__(self, name, part, options, device):
        self.name, self.part, self.device = name, part, device
        torch.manual_seed(7)
        model, inputs = FORWARD[name](options.small)
        run = forward if part == "forward" else training
        dtype = getattr(torch, options.dtype)
        model = without_dropout(without_zeros(model).train(part == "training")).to(device, dtype)
        inputs = tuple(x.to(device, dtype if x.is_floating_point() else x.dtype) for x in inputs)
        exact_inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        reference = [r.detach().double() for r in run(copy.deepcopy(model).double(), exact_inputs)]
        self.errors, self.times, self.runs, self.fallbacks = {}, {}, {}, []
        for kind in options.compilers.split(","):
            mine = copy.deepcopy(model)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                begin = time.perf_counter()
                compiled = mine if kind == "eager" else torch.compile(mine, backend=kind, dynamic=False)
                self.errors[kind] = error(run(compiled, inputs), reference)
                if kind == "tcc":
                    self.times["compiling s"] = time.perf_counter() - begin
            self.runs[kind] = lambda compiled=compiled: run(compiled, inputs)
            self.fallbacks += [str(w.message) for w in caught if str(w.message).startswith("tcc does not compile")]
        allowed = 2 * max(self.errors.get("inductor", 0), self.errors.get("eager", 0), 1e-7)
        self.right = self.errors["tcc"] <= allowed and not self.fallbacks

    def measure(self, seconds):
        for kind, run in self.runs.items():
            self.times[kind] = milliseconds(run, self.device, seconds)
        self.runs = {}

    def line(self):
        text = f"{'ok   ' if self.right else 'WRONG'} {self.part:8} {self.name:24} " + " ".join(f"{k} {e:.1e}" for k, e in self.errors.items())
        text += "  |  " + " ".join(f"{k} {t:.2f}" for k, t in self.times.items())
        if self.fallbacks:
            text += f"  |  {len(self.fallbacks)} in eager mode: " + "; ".join(sorted({f.split(": ", 1)[-1][:160] for f in self.fallbacks}))
        return text


def check_all(work, options, device, wait=None):
    """wait(): called when all is compiled and compared; the times are taken after that."""
    rows, num_right = [], 0
    for name, part in work:
        try:
            row = Row(name, part, options, device)
        except Exception as problem:  # pylint: disable=broad-except
            traceback.print_exc()
            print(f"WRONG {part:8} {name:24} {type(problem).__name__}: {str(problem).strip().splitlines()[-1][:300]}", flush=True)
            continue
        num_right += row.right
        if wait is None:
            row.measure(options.seconds)
            print(row.line(), flush=True)
            torch._dynamo.reset()
        else:
            rows.append(row)
            print("compared: " + row.line(), file=sys.stderr, flush=True)
    if wait is not None:
        wait()
    for row in rows:
        row.measure(options.seconds)
        print(row.line(), flush=True)
    return num_right


def check_in_workers(options):
    """Several processes compile and compare side by side; then they take their times one after the other."""
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    workers = [subprocess.Popen(command + ["--share", f"{k}/{options.workers}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for k in range(options.workers)]
    for worker in workers:
        for line in worker.stdout:
            if line.startswith("ready"):
                break
            print(line, end="", flush=True)
    for worker in workers:
        print(worker.communicate("go\n")[0], end="", flush=True)
    return all(worker.returncode == 0 for worker in workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", default="forward,training")
    parser.add_argument("--only", default="", help="only models whose name contains one of these words")
    parser.add_argument("--small", action="store_true", help="small batches and pictures, for a machine without a GPU")
    parser.add_argument("--compilers", default="eager,inductor,tcc")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="of weights and inputs")
    parser.add_argument("--workers", type=int, default=1, help="processes that compile")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.5, help="of timing, each")
    options = parser.parse_args()
    if options.workers > 1 and options.share is None:
        sys.exit(0 if check_in_workers(options) else 1)
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    # Many models with the same code in one process, each for itself.
    torch._dynamo.config.recompile_limit = 1000
    work = [(name, part) for part in options.parts.split(",") for name in (FORWARD if part == "forward" else TRAINING)
            if any(word in name for word in options.only.split(","))]
    wait = None
    if options.share is not None:
        first, step = (int(x) for x in options.share.split("/"))
        work = work[first::step]

        def wait():
            print("ready", flush=True)
            sys.stdin.readline()
    num_right = check_all(work, options, device, wait)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}: {num_right} of {len(work)} right, without a graph in eager mode", flush=True)
    sys.exit(0 if num_right == len(work) else 1)


if __name__ == "__main__":
    main()
