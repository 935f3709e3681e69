"""Writes fx_state_cases.json: small programs that change buffers, parameters or inputs, exported, beside what three calls in a row give in torch.

Run by hand when a case is added (needs torch); the test reads only the file. Each case is a module; both forms are in the file, as exported (writes
in place) and with core decompositions (functional, the signature says what changes).
"""
import argparse
import copy
import json

import torch
from torch import nn

from fx_programs import ints, numbers, program_of, r

CALLS = 3
CASES = {}


def case(name, inputs, **buffers):
    """A function of the module and its inputs as a module with these buffers; `inputs` makes the tensors of one call."""
    def add(function):
        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                for key, tensor in buffers.items():
                    if isinstance(tensor, nn.Parameter):
                        self.register_parameter(key, tensor)
                    else:
                        self.register_buffer(key, tensor)

        Module.forward = function
        CASES[name] = (Module(), inputs)
        return function
    return add


def module(name, make, inputs):
    torch.manual_seed(3)
    CASES[name] = (make(), inputs)


def counters():
    x = lambda: (r(3),)

    @case("counter", x, b=torch.tensor(3.0))
    def counter(self, x):
        self.b += 1
        return x + self.b

    @case("counter_of_integers", x, n=torch.tensor(6))
    def counter_of_integers(self, x):
        self.n.add_(3).remainder_(7)
        return x * self.n, self.n

    @case("counter_that_nothing_reads", x, n=torch.tensor(0), m=torch.tensor(0))
    def counter_that_nothing_reads(self, x):
        self.n += 1
        self.m += 2
        return x + 0

    @case("equal_at_first", x, a=torch.zeros(3), b=torch.zeros(3), c=torch.zeros(3))
    def equal_at_first(self, x):
        self.a += x
        self.b -= x
        return self.a + 2 * self.b + self.c

    @case("old_and_new", x, b=r(3), factor=torch.full((3,), 2.0))
    def old_and_new(self, x):
        old = self.b.clone()
        self.b.copy_(x)
        return old * self.factor, self.b

    @case("swapped", x, a=r(3), b=r(3))
    def swapped(self, x):
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        return x + self.a

    @case("zeroed", x, b=r(3))
    def zeroed(self, x):
        y = x * self.b
        self.b.zero_()
        return y

    @case("in_16_bits", x, h=r(3).half(), g=r(3).bfloat16())
    def in_16_bits(self, x):
        self.h.add_(x).mul_(0.5)
        self.g.mul_(1.5)
        return self.h + self.g

    @case("flags", x, seen=torch.zeros(3, dtype=torch.bool), byte=torch.zeros(3, dtype=torch.uint8))
    def flags(self, x):
        self.seen.logical_or_(x > 0.5)
        self.byte.add_(100)
        return torch.where(self.seen, x, self.byte)


def views_and_parameters():
    x = lambda: (r(3),)

    @case("through_views", lambda: (r(2),), b=r(2, 3), n=torch.tensor([0, 0]))
    def through_views(self, x):
        self.b[:, 1] = x
        self.b.view(-1)[5].mul_(2)
        self.b.t()[0].add_(1)
        self.n[1] += 1
        return self.b * 1

    @case("nothing_else", x, b=r(3), sum=torch.zeros(()))
    def nothing_else(self, x):
        self.sum += (x * self.b).sum()
        return (self.sum * 1,)

    @case("parameter", x, w=nn.Parameter(r(3)))
    def parameter(self, x):
        y = self.w * x
        with torch.no_grad():
            self.w.mul_(0.5)
        return y + self.w

    @case("index_of_state", lambda: (r(5),), at=torch.tensor([4]))
    def index_of_state(self, x):
        y = x[self.at]
        self.at.add_(2).remainder_(5)
        return y


def norms():
    image = lambda: (r(2, 3, 4, 2),)
    module("batch_norm", lambda: nn.BatchNorm2d(3), image)
    module("batch_norm_of_rows", lambda: nn.BatchNorm1d(4, momentum=0.3), lambda: (r(5, 4),))
    module("batch_norm_without_affine", lambda: nn.BatchNorm2d(3, affine=False, eps=0.01), image)
    module("batch_norm_without_statistics", lambda: nn.BatchNorm2d(3, track_running_stats=False), image)
    module("two_batch_norms", lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU(), nn.BatchNorm2d(3)), image)
    module("instance_norm", lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), image)


def caches():
    token = lambda: (r(1, 2, 1, 4),)

    @case("cache_index_copy", token, k=torch.zeros(1, 2, 5, 4), at=torch.tensor([1]))
    def cache_index_copy(self, x):
        self.k.index_copy_(2, self.at, x)
        self.at += 1
        return (x * self.k).sum(-1)

    @case("cache_index_put", token, k=torch.zeros(1, 2, 5, 4), at=torch.tensor([0]))
    def cache_index_put(self, x):
        self.k[:, :, self.at] = x
        self.at += 1
        return torch.softmax((x * self.k).sum(-1), -1)

    @case("cache_index_put_of_many", lambda: (r(2, 2, 2, 3),), k=r(2, 5, 3), at=torch.tensor([[0, 2], [4, 1]]))
    def cache_index_put_of_many(self, x):
        self.k[:, self.at] = x
        self.at.add_(1).remainder_(5)
        return self.k * 2

    @case("cache_index_add", lambda: (r(2, 2, 3),), k=r(2, 5, 3), at=torch.tensor([0, 3]))
    def cache_index_add(self, x):
        self.k.index_put_((torch.tensor([0, 1]), self.at), x[0], accumulate=True)
        self.k.index_add_(1, self.at, x, alpha=2)
        return self.k.sum(1)

    @case("cache_of_a_slice", lambda: (r(1, 2, 2, 4),), k=r(1, 2, 5, 4), v=r(1, 2, 5, 4))
    def cache_of_a_slice(self, x):
        self.k[:, :, 1:3] = x
        self.v[:, :, 3:5] = x * 2
        return torch.softmax(x @ self.k.transpose(-1, -2), -1) @ self.v

    @case("cache_that_rolls", token, k=torch.zeros(1, 2, 3, 4))
    def cache_that_rolls(self, x):
        self.k.copy_(torch.cat([self.k[:, :, 1:], x], 2))
        return self.k.sum(2)

    @case("attention_with_cache", lambda: (r(1, 1, 4),), k=torch.zeros(1, 6, 4), v=torch.zeros(1, 6, 4), at=torch.tensor([0]), w=r(4, 4))
    def attention_with_cache(self, x):
        self.k.index_copy_(1, self.at, x @ self.w)
        self.v.index_copy_(1, self.at, x * 2)
        mask = torch.arange(6) <= self.at
        scores = (x @ self.k.transpose(-1, -2)).masked_fill(~mask, float("-inf"))
        self.at += 1
        return torch.softmax(scores, -1) @ self.v


def inputs():
    pair = lambda: (r(3), r(3))

    @case("input_added_to", pair)
    def input_added_to(self, x, y):
        x.add_(y)
        return x * y

    @case("inputs_and_a_buffer", pair, b=torch.zeros(3))
    def inputs_and_a_buffer(self, x, y):
        y[1] = 7
        self.b += y
        x.mul_(self.b)
        return x, y + 1

    @case("input_of_integers", lambda: (ints(0, 9, 4),))
    def input_of_integers(self, x):
        old = x.clone()
        x[1:3] += 5
        return old


def tensors_of(model):
    state = dict(model.named_parameters())
    state.update(model.named_buffers())
    return state


def write_case(name, model, make_inputs):
    torch.manual_seed(11)
    calls = [make_inputs() for _ in range(CALLS)]
    exported = torch.export.export(copy.deepcopy(model), calls[0])
    weights = {key: numbers(tensor) for key, tensor in tensors_of(model).items()}
    weights.update({key: numbers(tensor) for key, tensor in exported.constants.items() if key not in weights})
    written = {"name": name, "weights": weights, "programs": [program_of(exported), program_of(exported.run_decompositions())], "calls": []}
    for given in calls:
        mutated = [tensor.clone() for tensor in given]
        with torch.no_grad():
            outputs = model(*mutated)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        written["calls"].append({"inputs": [numbers(t) for t in given], "outputs": [numbers(t) for t in outputs],
                                 "inputs_after": [numbers(t) for t in mutated],
                                 "weights_after": {key: numbers(tensor) for key, tensor in tensors_of(model).items()}})
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="fx_state_cases.json")
    options = parser.parse_args()
    torch.manual_seed(7)
    for family in [counters, views_and_parameters, norms, caches, inputs]:
        family()
    written = [write_case(name, model, make_inputs) for name, (model, make_inputs) in CASES.items()]
    with open(options.out, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in written) + "\n]\n")
    print(len(written), "cases written")


if __name__ == "__main__":
    main()
