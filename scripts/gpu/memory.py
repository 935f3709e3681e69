"""A training step of real sizes: peak memory and time beside PyTorch in eager mode."""
import os
import time

import torch

from gpu.library import Library, compile_library
from gpu.measure import time_together


class Logits(torch.nn.Module):
    """The model as a function of one tensor."""

    def __init__(self, model, get):
        super().__init__()
        self.model, self.get = model, get

    def forward(self, x):
        return self.get(self.model(x))


def gpt2(batch=16, length=1024):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, use_cache=False)
    x = torch.randint(0, config.vocab_size, (batch, length))
    return Logits(GPT2LMHeadModel(config), lambda out: out.logits), x, torch.randint(0, config.vocab_size, (batch, length)), "cross_entropy:axis=-1"


def bert(batch=32, length=512):
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    x = torch.randint(0, config.vocab_size, (batch, length))
    return Logits(BertForSequenceClassification(config), lambda out: out.logits), x, torch.randint(0, 2, (batch,)), "cross_entropy"


def resnet50(batch=128):
    import timm
    return Logits(timm.create_model("resnet50"), lambda out: out), torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,)), "cross_entropy"


MODELS = {"gpt2": gpt2, "bert-base": bert, "resnet50": resnet50}


def export(module, x, path):
    try:
        torch.onnx.export(module, (x,), path, dynamo=True, optimize=False, input_names=["x"], external_data=True)
    except ImportError:   # the graph-capture exporter needs onnxscript
        torch.onnx.export(module, (x,), path, dynamo=False, do_constant_folding=False, input_names=["x"])


def eager(module, x, target, steps):
    """Losses, peak bytes (parameters, gradients, optimizer and all that lives between), and a function that makes a step."""
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    classes_last = lambda logits: logits.reshape(-1, logits.shape[-1])

    def step():
        optimizer.zero_grad()
        loss = loss_of(classes_last(module(x)), target.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step().item() for _ in range(2)]
    torch.cuda.reset_peak_memory_stats()
    losses += [step().item() for _ in range(steps - 2)]
    return losses, torch.cuda.max_memory_allocated(), step


def measure(options, folder, name, path, inputs, target, loss, arguments, expected):
    """One library: its losses beside the eager ones, its peak as planned and as the driver sees it, its time."""
    output = os.path.join(folder, f"train.{time.time_ns()}.so")
    start = time.perf_counter()
    compile_library(options.tcc, [path, "--mode=train", f"--loss={loss}", "--optimizer=adamw:lr=1e-4", "--target=cuda", "-q", "--weights=file", *arguments], output)
    seconds = time.perf_counter() - start
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    library = Library(output, output + ".weights")
    result, step = library.bind([inputs, target], "step")
    losses = []
    for _ in expected:
        step()
        losses.append(result[0].item())
    used = before - torch.cuda.mem_get_info()[0]
    planned = library.function_info(library.find("step")).planned_peak_bytes
    error = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, expected))
    milliseconds = time_together([step], 3)[0]
    library.close()
    return dict(name=name, losses=losses, error=error, planned=planned, used=used, ms=milliseconds, seconds=seconds)


def check_memory(options, folder):
    rows = []

    def say(ok, line):
        rows.append((ok, line))
        print(line, flush=True)

    for name, make in MODELS.items():
        if options.only not in name:
            continue
        try:
            torch.manual_seed(0)
            module, x, target, loss = make()
            module.eval()
            path = os.path.join(folder, name + ".onnx")
            export(module, x, path)
            module, x, target = module.cuda(), x.cuda(), target.cuda()
            expected, eager_peak, eager_step = eager(module, x, target, 5)
            eager_ms = time_together([eager_step], 3)[0]
            # From here on the device is the library's.
            del eager_step, module
            torch.cuda.empty_cache()
            run = lambda arguments: measure(options, folder, name, path, x, target, loss, arguments, expected)
            free = run(["--remat=auto"])
            ratio = free["planned"] / eager_peak
            line = lambda what, r: (f"step {name:10s} {what:22s} peak {r['planned'] / 2**20:8.0f} MiB planned, {r['used'] / 2**20:8.0f} MiB by the driver "
                                    f"({r['used'] / r['planned'] - 1:+.2%}), eager {eager_peak / 2**20:8.0f} MiB: {r['planned'] / eager_peak:.2f}; "
                                    f"{r['ms']:8.2f} ms, eager {eager_ms:8.2f} ms; losses differ by {r['error']:.1e}; compiled in {r['seconds']:.1f} s")
            say(ratio <= 0.7 and free["error"] < 1e-3 and abs(free["used"] / free["planned"] - 1) < 0.01, line("--remat=auto", free))
            # Half of what the first may take at most.
            budget = int(0.35 * eager_peak)
            try:
                tight = run([f"--mem-budget={budget}"])
                say(tight["planned"] <= budget and tight["error"] < 1e-3 and tight["ms"] <= 1.35 * free["ms"],
                    line(f"--mem-budget={budget / 2**20:.0f}MiB", tight) + f"; {tight['ms'] / free['ms']:.2f} of the time")
            except RuntimeError as error:
                say(False, f"step {name:10s} --mem-budget={budget / 2**20:.0f}MiB: {str(error)[-400:]}")
        except Exception as error:
            say(False, f"step {name:10s} FAILED {str(error)[:800]}")
        finally:
            torch.cuda.empty_cache()
    return rows
