"""Makes the dumps of this folder: what TorchDynamo and AOTAutograd capture of small programs, beside what torch computed in each graph.

    python3 models/fx/make_dumps.py        needs torch and transformers; run by hand when a program is added

NAME.json and NAME.weights are what tcc_torch.dump writes. NAME.npz has for each graph `<graph>.in.<name>` and `<graph>.out.<name>`, by the names of
the library's function; where a result depends on random numbers, `<graph>.either.<name>.0`, `.1` are the results that may be. `sizes` are the
symbols' values in the order of the file.
"""
import json
import os
import random
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
import tcc_torch  # noqa: E402  pylint: disable=wrong-import-position


class Recorder(tcc_torch.Dump):
    """A dump that keeps what goes in and out of each graph."""

    def __init__(self, module):
        super().__init__(module)
        self.arrays = {}

    def recorded(self, module, writer):
        graph = writer.json
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]

        def run(*arguments):
            # Copies: a later part may write to them.
            before = [a.detach().cpu().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            results = module(*arguments)
            by_name = {i["name"]: i for i in graph["inputs"]}
            for node, value in zip(placeholders, before):
                entry = by_name[writer.inputs[node]]
                if isinstance(value, torch.Tensor) and "fqn" not in entry:
                    self.arrays[f"{graph['id']}.in.{entry['name']}"] = value
            made = {writer.names.get(node): value for node, value in zip(tcc_torch.output_values(module), results) if node is not None}
            for entry in graph["outputs"]:
                if entry["value"] is not None:
                    name = "grad." + entry["target"] if entry["kind"] == "gradient" else entry["value"]
                    self.arrays[f"{graph['id']}.out.{name}"] = made[entry["value"]].detach()
            return results
        return tcc_torch.boxed(run)

    def forward(self, module, piece, role):
        super().forward(module, piece, role)
        return self.recorded(module, piece["forward"])

    def backward(self, module, piece):
        taken = []
        add, self.add = self.add, lambda writer, meta: (taken.append(writer), add(writer, meta))
        super().backward(module, piece)
        self.add = add
        return self.recorded(module, taken[0])


def make(name, function, arguments, either=None, **keys):
    recorder = None

    def recorded(module):
        nonlocal recorder
        recorder = Recorder(module)
        return recorder
    plain, tcc_torch.Dump = tcc_torch.Dump, recorded
    path = os.path.join(HERE, name + ".json")
    try:
        tcc_torch.dump(function, arguments, path, **keys)
    finally:
        tcc_torch.Dump = plain
    arrays = {key: value.detach().numpy() for key, value in recorder.arrays.items()}
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for key, values in (either or {}).items():
        (found,) = [k for k in arrays if k.startswith(key)]
        del arrays[found]
        for i, value in enumerate(values):
            arrays[found.replace(".out.", ".either.") + f".{i}"] = value.numpy()
    if document.get("symbols"):
        arrays["sizes"] = np.array([symbol["hint"] for symbol in document["symbols"].values()], dtype=np.int64)
    np.savez(os.path.join(HERE, name + ".npz"), **arrays)
    print(name, [(g["id"], len(g["nodes"])) for g in document["graphs"]], sorted(arrays)[:4])


def decision(x):
    y = torch.exp(x * 0.5)
    y = torch.sin(y) if random.random() > 0.5 else torch.cos(y)
    return y + x


def where(x):
    r = torch.rand(())
    return torch.where(r > 0.5, torch.sin(x), torch.cos(x))


def loop(values):
    total = torch.zeros_like(values[0])
    for value in values:
        total = total + torch.tanh(value) * value
    return total


def stack(values):
    stacked = torch.stack(values)
    return (torch.tanh(stacked) * stacked).sum(0)


class Block(torch.nn.Module):
    """A residual block with what classifiers are made of."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = torch.nn.Conv2d(8, 8, 1)
        self.head = torch.nn.Linear(8, 5)
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x, labels):
        y = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        y = y + self.point(torch.nn.functional.hardswish(self.depthwise(y)))
        return torch.nn.functional.cross_entropy(self.head(y.mean((2, 3))), labels)


def main():
    torch.manual_seed(0)
    random.seed(0)
    x = torch.randn(6, 5)
    make("decision", decision, (x,))
    make("where", where, (x,), either={"g0.out": [torch.sin(x), torch.cos(x)]})
    values = [torch.randn(6, 5) for _ in range(6)]
    make("loop", loop, (values,))
    make("stack", stack, (values,))
    mlp = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.GELU(), torch.nn.LayerNorm(12), torch.nn.Linear(12, 4), torch.nn.Tanh())
    make("mlp_step", mlp, (x,), training=True)
    make("block_step", Block().eval(), (torch.randn(2, 3, 16, 16), torch.tensor([1, 4])), training=True)
    import transformers
    config = transformers.GPT2Config(n_layer=1, n_embd=32, n_head=2, n_positions=24, vocab_size=60, use_cache=False, bos_token_id=0, eos_token_id=0,
                                     attn_implementation="sdpa")
    make("gpt2", transformers.GPT2LMHeadModel(config).eval(), (torch.randint(0, 60, (2, 7)),), dynamic=True)


if __name__ == "__main__":
    main()
