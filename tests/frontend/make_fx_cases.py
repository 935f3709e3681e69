"""Writes fx_cases.json: small programs of torch operators, exported, beside what torch computes for them; and fx_training_cases.json: the forward
and backward graphs that ahead-of-time autograd makes of such functions.

Run by hand when a case is added (needs torch); the test reads only the file. Each case is a function of tensors, exported as it is and once more
with core decompositions where that gives another program.
"""
import argparse
import json
import os

import torch
import torch.nn.functional as F

from fx_programs import Wrap, ints, numbers, program_of, r
from fx_training_programs import make_trained

CASES = {}
PLAIN = set()  # written undecomposed alone


def case(name, *inputs):
    def add(function):
        CASES[name] = (function, inputs)
        return function
    return add


def one(name, function, *inputs):
    CASES[name] = (function, inputs)


def pointwise():
    x, p = r(3, 5), r(3, 5, low=0.125, high=3)
    for name in ["abs", "neg", "sign", "ceil", "floor", "trunc", "round", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh",
                 "asinh", "erf", "erfc", "square", "isnan", "isinf", "isfinite", "logical_not", "sigmoid", "sgn"]:
        one(name, getattr(torch, name), x)
    for name in ["sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p"]:
        one(name, getattr(torch, name), p)
    for name in ["asin", "acos", "atanh"]:
        one(name, getattr(torch, name), r(3, 5, low=-0.75, high=0.75))
    one("acosh", torch.acosh, r(3, 5, low=1.125, high=4))
    i = ints(-5, 6, 3, 5)
    for name in ["abs", "neg", "sign", "floor", "exp", "isnan", "isfinite", "sigmoid", "sqrt", "bitwise_not"]:
        one(name + "_of_integers", getattr(torch, name), i.abs() if name == "sqrt" else i)
    one("bitwise_not_of_bool", torch.bitwise_not, x > 0)
    y = r(5)
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "fmod", "remainder", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
                 "logical_or", "logical_xor"]:
        one(name, getattr(torch, name), x, y + 0.0625)
        one(name + "_mixed", getattr(torch, name), x, ints(1, 4, 3, 1))
    for name in ["add", "sub", "mul", "div", "fmod", "remainder", "eq", "lt", "pow", "floor_divide"]:
        one(name + "_scalar", lambda a, f=getattr(torch, name): f(a, 3), p)
        one(name + "_int_scalar", lambda a, f=getattr(torch, name): f(a, 3), i)
        if name != "pow":
            one(name + "_int_float", lambda a, f=getattr(torch, name): f(a, 2.5), i)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        one(name, getattr(torch, name), i, ints(0, 8, 5))
        one(name + "_bool", getattr(torch, name), x > 0, r(3, 5) > 0)
    one("add_alpha", lambda a, b: torch.add(a, b, alpha=3), x, y)
    one("sub_alpha_int", lambda a, b: torch.sub(a, b, alpha=2), i, ints(0, 4, 5))
    one("rsub", lambda a: 3 - a, x)
    one("rsub_alpha", lambda a, b: torch.rsub(a, b, alpha=2), x, y)
    one("add_bool", lambda a, b: a + b, x > 0, r(3, 5) > 0)
    one("mul_bool_float", lambda a, b: a * b, x > 0, x)
    one("half_times_float_scalar", lambda a: a * 2.5, x.half())
    one("half_plus_rank_0_float", lambda a, b: a + b, x.half(), torch.tensor(0.5))
    one("bf16_plus_f16", lambda a, b: a + b, x.bfloat16(), x.half())
    one("u8_plus_i8", lambda a, b: a + b, ints(0, 100, 4, dtype=torch.uint8), ints(-50, 50, 4, dtype=torch.int8))
    one("i32_plus_i64_scalar_tensor", lambda a, b: a + b, ints(0, 9, 4, dtype=torch.int32), torch.tensor(5))
    one("int_tensor_plus_rank_0_float", lambda a, b: a + b, ints(0, 9, 4), torch.tensor(0.5))
    for mode in ["floor", "trunc"]:
        one("div_" + mode, lambda a, b, m=mode: torch.div(a, b, rounding_mode=m), x, y + 0.0625)
        one("div_" + mode + "_int", lambda a, b, m=mode: torch.div(a, b, rounding_mode=m), i, torch.tensor([3, -2, 1, -3, 2]))
    for e in [2, 3, -1, 0.5, 2.5]:
        one("pow_%s" % e, lambda a, e=e: a ** e, p)
    one("pow_tensor", torch.pow, p, y)
    one("pow_base", lambda a: torch.pow(2, a), x)
    one("pow_int", lambda a: a ** 2, i)
    one("where", lambda a, b: torch.where(a > b, a, b), x, y)
    one("where_scalar", lambda a: torch.where(a > 0, a, 0), x)
    one("where_promotes", lambda a, b: torch.where(a > 0, b, 1.5), x, i)
    one("masked_fill", lambda a: a.masked_fill(a > 0, float("-inf")), x)
    one("clamp", lambda a: a.clamp(-0.5, 1), x)
    one("clamp_min", lambda a: a.clamp(min=0.25), x)
    one("clamp_int_float", lambda a: a.clamp(min=0.5), i)
    one("clamp_tensor", lambda a, b: torch.clamp(a, max=b), x, y)
    one("clamp_min_op", lambda a: torch.clamp_min(a, 0.5), x)
    one("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), x, r(3, 5), y)
    one("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=2), x, r(3, 5), p)
    one("lerp", lambda a, b: torch.lerp(a, b, 0.25), x, r(3, 5))


def activations():
    x = r(4, 6)
    for name in ["relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "gelu", "elu", "celu", "selu", "softplus", "logsigmoid",
                 "leaky_relu", "softsign", "glu"]:
        one(name, getattr(F, name), x)
    one("gelu_tanh", lambda a: F.gelu(a, approximate="tanh"), x)
    one("leaky_relu_slope", lambda a: F.leaky_relu(a, 0.3), x)
    one("elu_alpha", lambda a: F.elu(a, 0.5), x)
    one("hardtanh_bounds", lambda a: F.hardtanh(a, -0.25, 1.5), x)
    one("softplus_beta", lambda a: F.softplus(a, beta=3, threshold=4), x)
    one("threshold", lambda a: F.threshold(a, 0.25, 7.0), x)
    one("prelu", F.prelu, r(2, 3, 4), r(3))
    one("prelu_one", F.prelu, r(2, 3), r(1))
    one("glu_axis", lambda a: F.glu(a, 0), x)


def views():
    x = r(2, 3, 4)
    one("view", lambda a: a.view(6, -1), x)
    one("reshape_transposed", lambda a: a.transpose(0, 2).reshape(3, 8), x)
    one("flatten", lambda a: a.flatten(1), x)
    one("unflatten", lambda a: a.unflatten(2, (2, -1)), x)
    one("permute", lambda a: a.permute(2, 0, -2), x)
    one("transpose", lambda a: a.transpose(-1, 0), x)
    one("t", lambda a: a.t(), r(3, 2))
    one("mT", lambda a: a.mT + 0, x)
    one("movedim", lambda a: a.movedim(0, -1) + 0, x)
    one("squeeze", lambda a: a.squeeze(), r(1, 3, 1))
    one("squeeze_dim", lambda a: a.squeeze(1), r(1, 3, 1))
    one("squeeze_dims", lambda a: a.squeeze((0, 2)), r(1, 3, 1))
    one("unsqueeze", lambda a: a.unsqueeze(-1), x)
    one("expand", lambda a: a.expand(5, -1, 3), r(2, 1))
    one("slice", lambda a: a[:, 1:, ::2], x)
    one("slice_beyond", lambda a: a[:, -2:100], x)
    one("select", lambda a: a[:, -1], x)
    one("narrow", lambda a: a.narrow(2, 1, 2) + 0, x)
    one("split", lambda a: torch.split(a, 2, 2), x)
    one("split_uneven", lambda a: torch.split(a, 3, 2), x)
    one("split_sizes", lambda a: torch.split(a, [1, 3], 2), x)
    one("chunk", lambda a: torch.chunk(a, 3, 2), x)
    one("unbind", lambda a: torch.unbind(a, 1), x)
    one("diagonal", lambda a: a.diagonal(0, 1, 2) + 0, x)
    one("diagonal_offset", lambda a: a.diagonal(-1, 2, 0) + 0, x)
    one("to_half", lambda a: a.to(torch.float16), x)
    one("to_int", lambda a: a.to(torch.int32), x)
    one("to_bool", lambda a: a.bool(), x.round())
    one("type_as", lambda a, b: a.type_as(b), x, ints(0, 3, 2))


def writes():
    x = r(3, 4)

    def of(name, function, *inputs):
        one(name, function, *inputs)

    def select_add(a):
        b = a.clone()
        v = b[1]
        v.add_(10)
        return b, v * 2

    def strided(a):
        b = a.clone()
        b[:, 1::2] = 7
        return b

    def through_two(a):
        b = a.clone()
        v = b.t()[1:3]
        v.mul_(3)
        b[0] += 1
        return b, v

    def reshaped(a):
        b = a.clone()
        b.view(2, 6)[1].zero_()
        return b

    def base_then_view(a):
        b = a.clone()
        v = b[:, 0]
        b.add_(1)
        return v + 0

    def copies(a):
        b = torch.zeros(3, 4)
        b[:2].copy_(a[1:])
        b[2].fill_(5)
        return b

    def relu_in_place(a):
        b = a * 2
        return F.relu_(b) + b

    def diagonal_write(a):
        b = a.clone()
        b.diagonal().fill_(9)
        return b

    for function in [select_add, strided, through_two, reshaped, base_then_view, copies, relu_in_place, diagonal_write]:
        of("write_" + function.__name__, function, x)


def creation():
    x = r(2, 3)
    one("arange", lambda a: torch.arange(5) + a.sum().long(), x)
    one("arange_step", lambda a: torch.arange(1, 10, 3) + a.sum(), x)
    one("arange_float", lambda a: torch.arange(0, 1, 0.25) + a.sum(), x)
    one("arange_down", lambda a: torch.arange(5, 0, -2) + a.sum(), x)
    one("linspace", lambda a: torch.linspace(-1, 1, 5) + a.sum(), x)
    one("full", lambda a: torch.full((2, 3), 1.5) + a, x)
    one("full_int", lambda a: torch.full((2, 3), 4) + a, x)
    one("like", lambda a: torch.zeros_like(a) + torch.ones_like(a) * torch.full_like(a, 3), x)
    one("new", lambda a: a.new_zeros(2, 3) + a.new_ones(3) + a.new_full((1,), 2.0), x)
    one("eye", lambda a: torch.eye(3) + a.sum(), x)
    one("scalar_tensor", lambda a: a + torch.tensor(2.5), x)
    one("tril", lambda a: torch.tril(a, -1), r(4, 4))
    one("triu", lambda a: torch.triu(a, 1), r(3, 4))
    one("one_hot", lambda a: F.one_hot(a, 5), ints(0, 5, 2, 3))


def reductions():
    x, i = r(2, 3, 4), ints(-4, 5, 2, 3, 4)
    for name in ["sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "std"]:
        f = getattr(torch, name)
        one(name + "_all", f, x)
        one(name + "_axis", lambda a, f=f: f(a, 1), x)
        one(name + "_keep", lambda a, f=f: f(a, -1, keepdim=True), x)
    for name in ["sum", "prod", "amax", "argmin", "any", "max"]:
        one(name + "_int", lambda a, f=getattr(torch, name): f(a, 2), i)
    one("sum_axes", lambda a: a.sum((0, 2)), x)
    one("sum_dtype", lambda a: a.sum(1, dtype=torch.float64), x)
    one("sum_bool", lambda a: (a > 0).sum(), x)
    one("mean_axes", lambda a: a.mean((-1, -2), keepdim=True), x)
    one("mean_half", lambda a: a.mean(1), x.half())
    one("any_axes", lambda a: torch.any(a > 1, (0, 1)), x)
    one("argmax_keep", lambda a: torch.argmax(a, keepdim=True), x)
    one("var_biased", lambda a: a.var(1, unbiased=False), x)
    one("var_correction", lambda a: torch.var(a, (0, 2), correction=0), x)
    one("var_mean", lambda a: torch.var_mean(a, 1, correction=0, keepdim=True), x)
    one("std_mean", lambda a: torch.std_mean(a, (1, 2)), x)
    one("logsumexp", lambda a: torch.logsumexp(a, 1), x)
    for p in [1, 2, 3, 0, float("inf"), float("-inf")]:
        one("vector_norm_%s" % p, lambda a, p=p: torch.linalg.vector_norm(a, p, 1), x)
    one("norm", lambda a: a.norm(dim=-1, keepdim=True), x)
    one("normalize", lambda a: F.normalize(a, dim=1), x)
    one("cumsum", lambda a: torch.cumsum(a, 1), x)
    one("cumsum_int", lambda a: torch.cumsum(a > 0, 1), x)
    one("cumprod", lambda a: torch.cumprod(a, 2), x)
    one("topk", lambda a: torch.topk(a, 2, 2)[0], torch.arange(24.0).reshape(2, 3, 4).flip(1))
    one("topk_smallest", lambda a: torch.topk(a, 2, 1, largest=False), torch.randperm(12).float().reshape(3, 4))
    one("sort", lambda a: torch.sort(a, 1, descending=True), torch.randperm(12).float().reshape(3, 4))
    one("sort_stable", lambda a: torch.sort(a, stable=True), ints(0, 3, 2, 7).float())
    one("argsort", lambda a: torch.argsort(a, 0), torch.randperm(12).float().reshape(3, 4))
    one("diff", lambda a: torch.diff(a, n=2), x)
    one("diff_prepend", lambda a: torch.diff(a, dim=1, prepend=a[:, :1]), i)


def indexing():
    x = r(4, 5, 3)
    a, b = ints(-4, 4, 6), ints(0, 5, 6)
    one("embedding", lambda w, i: F.embedding(i, w), r(7, 3), ints(0, 7, 2, 4))
    one("embedding_padding", lambda w, i: F.embedding(i, w, padding_idx=0), r(7, 3), ints(0, 3, 2, 4))
    one("index_select", lambda t, i: torch.index_select(t, 1, i), x, ints(0, 5, 4))
    one("gather", lambda t, i: torch.gather(t, 1, i), x, ints(0, 5, 4, 2, 3))
    one("gather_small", lambda t, i: torch.gather(t, 2, i), x, ints(0, 3, 2, 3, 2))
    one("index_one", lambda t, i: t[i], x, a)
    one("index_middle", lambda t, i: t[:, i], x, b)
    one("index_two", lambda t, i, j: t[i, j], x, a, b)
    one("index_two_behind", lambda t, i, j: t[:, i, j], x, b, ints(0, 3, 6))
    one("index_apart", lambda t, i, j: t[i, :, j], x, a, ints(0, 3, 6))
    one("index_broadcast", lambda t, i, j: t[i[:, None], j], x, ints(0, 4, 2), ints(0, 5, 3))
    one("index_int32", lambda t, i: t[i], x, ints(0, 4, 2, dtype=torch.int32))

    def put(t, i, v):
        u = t.clone()
        u[i] = v
        return u

    def put_two(t, i, j, v):
        u = t.clone()
        u[:, i, j] = v
        return u

    def put_mask(t):
        u = t.clone()
        u[t > 0] = -1
        return u

    one("index_put", put, x, torch.tensor([2, 0]), r(2, 5, 3))
    one("index_put_broadcast", put, x, torch.tensor([2, 0]), r(3))
    one("index_put_two", put_two, x, torch.tensor([4, 0]), torch.tensor([1, 2]), r(4, 2))
    one("index_put_mask", put_mask, x)
    one("index_put_accumulate", lambda t, i, v: t.index_put((i,), v, accumulate=True), x, torch.tensor([2, 0, 2]), r(3, 5, 3))
    one("scatter", lambda t, i, s: t.scatter(1, i, s), r(3, 5), torch.tensor([[0, 3], [1, 2], [4, 0]]), r(3, 2))
    one("scatter_value", lambda t, i: t.scatter(1, i, 2.5), r(3, 5), torch.tensor([[0, 3], [1, 2], [4, 0]]))
    one("scatter_add", lambda t, i, s: t.scatter_add(1, i, s), r(3, 5), ints(0, 5, 3, 4), r(3, 4))
    for reduce in ["sum", "prod", "amax", "amin"]:
        one("scatter_reduce_" + reduce, lambda t, i, s, m=reduce: t.scatter_reduce(1, i, s, m), r(3, 5), ints(0, 5, 3, 4), r(3, 4))
    one("index_add", lambda t, i, s: t.index_add(1, i, s, alpha=2), r(3, 5), torch.tensor([0, 4, 0]), r(3, 3))
    one("index_copy", lambda t, i, s: t.index_copy(0, i, s), r(3, 5), torch.tensor([2, 0]), r(2, 5))
    one("slice_scatter", lambda t, s: torch.slice_scatter(t, s, 1, 1, 5, 2), r(3, 5), r(3, 2))
    one("select_scatter", lambda t, s: torch.select_scatter(t, s, 1, -2), r(3, 5), r(3))


def structure():
    x = r(2, 3)
    one("cat", lambda a, b: torch.cat([a, b], 1), x, r(2, 2))
    one("cat_promotes", lambda a, b: torch.cat([a, b]), x, ints(0, 3, 1, 3))
    one("stack", lambda a, b: torch.stack([a, b], -1), x, r(2, 3))
    one("repeat", lambda a: a.repeat(2, 1, 3), x)
    one("tile", lambda a: a.tile(2), x)
    one("repeat_interleave", lambda a: a.repeat_interleave(2, dim=1), x)
    one("repeat_interleave_flat", lambda a: a.repeat_interleave(3), x)
    one("flip", lambda a: a.flip(0, 1), x)
    one("roll", lambda a: a.roll((1, -1), (0, 1)), r(3, 4))
    one("roll_flat", lambda a: a.roll(2), x)
    one("pad", lambda a: F.pad(a, (1, 2)), x)
    one("pad_value", lambda a: F.pad(a, (1, 0, 2, 1), value=3.5), x)
    one("pad_negative", lambda a: F.pad(a, (-1, 2, 1, -1)), r(3, 4))
    one("pad_reflect", lambda a: F.pad(a, (2, 1), mode="reflect"), r(1, 2, 4))
    one("pad_reflect_2d", lambda a: F.pad(a, (2, 1, 1, 0), mode="reflect"), r(1, 2, 4, 3))
    one("pad_replicate", lambda a: F.pad(a, (2, 1, 1, 3), mode="replicate"), r(1, 2, 3, 3))
    one("pad_circular", lambda a: F.pad(a, (2, 1), mode="circular"), r(1, 2, 4))
    one("pixel_shuffle", lambda a: F.pixel_shuffle(a, 2), r(1, 8, 2, 3))
    one("pixel_unshuffle", lambda a: F.pixel_unshuffle(a, 2), r(1, 2, 4, 6))
    one("meshgrid_ij", lambda a, b: torch.meshgrid(a, b, indexing="ij"), r(2), r(3))
    one("meshgrid_xy", lambda a, b: torch.meshgrid(a, b, indexing="xy"), r(2), r(3))


def contractions():
    one("linear", F.linear, r(2, 3, 4), r(5, 4), r(5))
    one("linear_matrix", F.linear, r(3, 4), r(5, 4), r(5))
    one("linear_vector", F.linear, r(4), r(5, 4))
    one("matmul", torch.matmul, r(2, 3, 4), r(4, 5))
    one("matmul_vector", torch.matmul, r(2, 3, 4), r(4))
    one("bmm", torch.bmm, r(2, 3, 4), r(2, 4, 5))
    one("mm", torch.mm, r(3, 4), r(4, 2))
    one("mv", torch.mv, r(3, 4), r(4))
    one("dot", torch.dot, r(4), r(4))
    one("outer", torch.outer, r(3), r(4))
    one("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), r(2), r(3, 4), r(4, 2))
    one("addmm_beta_0", lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((2,), float("nan")), r(3, 4), r(4, 2))
    one("baddbmm", torch.baddbmm, r(2, 3, 5), r(2, 3, 4), r(2, 4, 5))
    one("einsum", lambda a, b: torch.einsum("bij, bkj -> bik", a, b), r(2, 3, 4), r(2, 5, 4))
    one("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), r(1, 2, 7), r(3, 2, 3), r(3))
    one("conv2d", lambda x, w: F.conv2d(x, w, padding=(1, 0), dilation=(1, 2)), r(1, 2, 5, 6), r(2, 2, 3, 2))
    one("conv2d_groups", lambda x, w: F.conv2d(x, w, groups=2), r(1, 4, 4, 4), r(4, 2, 2, 2))
    one("conv2d_same", lambda x, w: F.conv2d(x, w, padding="same"), r(1, 2, 5, 5), r(2, 2, 2, 3))
    one("conv2d_no_batch", lambda x, w: F.conv2d(x, w), r(2, 4, 4), r(3, 2, 2, 2))
    one("conv3d", F.conv3d, r(1, 1, 3, 3, 3), r(2, 1, 2, 2, 2))
    one("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2), r(1, 2, 4), r(2, 3, 3), r(3))
    one("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2, dilation=2), r(1, 2, 3, 3),
        r(2, 2, 2, 2))
    q, k, v = r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4)
    one("attention", F.scaled_dot_product_attention, q, k, v)
    one("attention_causal", lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), r(1, 2, 4, 4), r(1, 2, 4, 4), r(1, 2, 4, 4))
    one("attention_mask", lambda a, b, c, m: F.scaled_dot_product_attention(a, b, c, attn_mask=m > 0), q, k, v, r(3, 5))
    one("attention_bias", lambda a, b, c, m: F.scaled_dot_product_attention(a, b, c, attn_mask=m, scale=0.25), q, k, v, r(1, 2, 3, 5))
    one("attention_gqa", lambda a, b, c: F.scaled_dot_product_attention(a, b, c, enable_gqa=True), r(1, 4, 3, 2), r(1, 2, 3, 2), r(1, 2, 3, 2))


def norms():
    x = r(2, 4, 3, 3)
    one("layer_norm", lambda a, w, b: F.layer_norm(a, (3, 3), w, b), x, r(3, 3), r(3, 3))
    one("layer_norm_plain", lambda a: F.layer_norm(a, (3,), eps=0.1), x)
    one("rms_norm", lambda a, w: F.rms_norm(a, (3,), w, eps=0.01), x, r(3))
    one("rms_norm_default", lambda a: F.rms_norm(a, (3,)), x)
    one("group_norm", lambda a, w, b: F.group_norm(a, 2, w, b), x, r(4), r(4))
    one("group_norm_plain", lambda a: F.group_norm(a, 4), x)
    one("batch_norm", lambda a, m, v, w, b: F.batch_norm(a, m, v, w, b), x, r(4), r(4, low=0.5, high=2), r(4), r(4))
    one("batch_norm_plain", lambda a, m, v: F.batch_norm(a, m, v), x, r(4), r(4, low=0.5, high=2))
    one("instance_norm", lambda a, w, b: F.instance_norm(a, weight=w, bias=b), x, r(4), r(4))
    one("softmax", lambda a: F.softmax(a, 1), x)
    one("softmax_dtype", lambda a: F.softmax(a, -1, dtype=torch.float32), x.half())
    one("log_softmax", lambda a: F.log_softmax(a, -1), x)


def pools():
    x = r(1, 2, 6, 7)
    one("max_pool2d", lambda a: F.max_pool2d(a, 2), x)
    one("max_pool2d_full", lambda a: F.max_pool2d(a, (3, 2), stride=(1, 2), padding=1, dilation=(2, 1), ceil_mode=True), x)
    one("max_pool2d_indices", lambda a: F.max_pool2d(a, 3, stride=2, return_indices=True), torch.randperm(84).float().reshape(1, 2, 6, 7))
    one("max_pool1d", lambda a: F.max_pool1d(a, 3, 2), r(2, 2, 7))
    one("max_pool2d_no_batch", lambda a: F.max_pool2d(a, 2), r(2, 6, 7))
    one("avg_pool2d", lambda a: F.avg_pool2d(a, 3, stride=2, padding=1), x)
    one("avg_pool2d_no_pad", lambda a: F.avg_pool2d(a, 3, stride=2, padding=1, count_include_pad=False, ceil_mode=True), x)
    one("avg_pool1d", lambda a: F.avg_pool1d(a, 2), r(2, 2, 7))
    one("adaptive_avg_pool2d", lambda a: F.adaptive_avg_pool2d(a, 1), x)
    one("adaptive_avg_pool2d_even", lambda a: F.adaptive_avg_pool2d(a, (3, 7)), x)
    one("adaptive_avg_pool2d_uneven", lambda a: F.adaptive_avg_pool2d(a, (4, 3)), x)
    one("adaptive_avg_pool1d", lambda a: F.adaptive_avg_pool1d(a, 3), r(2, 2, 7))


def resizing():
    x = r(1, 2, 3, 4)
    one("nearest_factor", lambda a: F.interpolate(a, scale_factor=2), x)
    one("nearest_size", lambda a: F.interpolate(a, size=(5, 7)), x)
    one("nearest_exact", lambda a: F.interpolate(a, size=(5, 7), mode="nearest-exact"), x)
    one("nearest_1d", lambda a: F.interpolate(a, scale_factor=3), r(1, 2, 4))
    one("bilinear", lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), x)
    one("bilinear_odd_factor", lambda a: F.interpolate(a, scale_factor=1.7, mode="bilinear"), x)
    one("bilinear_corners", lambda a: F.interpolate(a, size=(7, 5), mode="bilinear", align_corners=True), x)
    one("bilinear_down", lambda a: F.interpolate(a, size=(2, 2), mode="bilinear"), x)
    one("bilinear_antialias", lambda a: F.interpolate(a, size=(2, 2), mode="bilinear", antialias=True), x)
    one("bicubic", lambda a: F.interpolate(a, size=(5, 6), mode="bicubic"), x)
    one("linear_1d", lambda a: F.interpolate(a, scale_factor=2, mode="linear"), r(1, 2, 4))


def core_aten():
    """Core overloads that the families above don't reach."""
    A = torch.ops.aten
    x = r(3, 4)
    one("cdist", torch.cdist, r(2, 3, 4), r(2, 5, 4))
    one("cdist_1", lambda a, b: torch.cdist(a, b, p=1.0), r(3, 4), r(2, 4))
    one("pdist", lambda a: A._pdist_forward(a, 2.0), x)
    one("masked_scatter", torch.masked_scatter, x, r(3, 4) > 0, r(12))
    for mode in ["sum", "mean", "max"]:
        one("embedding_bag_" + mode, lambda w, i, o, m=mode: F.embedding_bag(i, w, o, mode=m), r(5, 3), ints(0, 5, 7), torch.tensor([0, 2, 2, 6]))
    one("embedding_bag_padded", lambda w, i, o, p: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p, padding_idx=1), r(5, 3), ints(0, 3, 7),
        torch.tensor([0, 3]), r(7))
    one("embedding_bag_core", lambda w, i, o: A._embedding_bag(w, i, o)[0], r(5, 3), ints(0, 5, 7), torch.tensor([0, 2, 2, 6]))
    one("scalar_overloads", lambda a: (A.sub.Scalar(a, 2), A.div.Scalar_mode(a, 0.75, rounding_mode="floor"), A.fill.Scalar(a, 3)), x)
    one("bitwise_scalar_overloads", lambda a: (A.bitwise_and.Scalar(a, 6), A.bitwise_or.Scalar(a, 6), A.bitwise_xor.Scalar(a, 6)), ints(0, 9, 5))
    one("pads_1d_3d", lambda a: (A.reflection_pad1d(a[0, 0], [1, 2]), A.reflection_pad3d(a, [1, 1, 1, 0, 1, 1]), A.replication_pad3d(a, [1, 1, 1, 0, 2, 1])),
        r(1, 2, 2, 2, 3))
    one("atan2_out", lambda a, b: A.atan2.out(a, b, out=torch.empty(3, 4)), x, r(3, 4))
    one("grid_sample", lambda a, g: F.grid_sample(a, g, align_corners=True), r(1, 2, 3, 4), r(1, 2, 3, 2))
    one("im2col", lambda a: F.unfold(a, (2, 3), padding=1, stride=2, dilation=(2, 1)), r(2, 2, 4, 5))
    one("col2im", lambda a: F.fold(a, (4, 5), (2, 2), stride=(2, 1)), r(1, 8, 8))
    one("as_strided", lambda a: torch.as_strided(a, (2, 3), (4, 1), 1) + torch.as_strided(a, (2, 3), (1, 2), 0), x)
    one("empty", lambda a: (torch.empty_strided((3, 4), (4, 1)).copy_(a), torch.empty(3, 4).fill_(2), torch.empty_like(a).zero_()), x)
    one("randperm", lambda a: torch.randperm(5).sort()[0] + a.sum().long(), x)
    one("random_shapes", lambda a: (torch.rand(3, 4) + torch.randn_like(a) + torch.rand_like(a) + torch.randn(3, 4)) * 0 + a, x)
    one("dropout_of_none", lambda a: A.native_dropout(a, 0.0, True), x)
    one("native_batch_norm", lambda a, w, b: A._native_batch_norm_legit.no_stats(a, w, b, True, 0.1, 1e-5), r(3, 2, 4), r(2), r(2))
    one("expand_copy_slice", lambda a: a.expand(2, 3, 4)[1, ::2].clone(), x)
    one("detach_alias", lambda a: A.alias(a.detach()) + 1, x)
    one("sym_sizes", lambda a: a.view(a.size(0) * a.size(1)) * a.numel(), x)
    one("scatter_core", lambda a, i, s: (a.scatter(1, i, s), a.scatter(1, i, 2.0), a.scatter_reduce(1, i, s, "amax")), x, torch.tensor([[0, 3], [1, 2], [3, 0]]),
        r(3, 2))
    one("conv_core", lambda a, w: A.convolution(a, w, None, [1], [0], [1], False, [0], 1), r(1, 2, 5), r(3, 2, 2))
    one("reflection_replication", lambda a: (F.pad(a, (1, 1), mode="reflect"), F.pad(a.unsqueeze(0), (1, 1, 1, 1, 1, 1), mode="replicate")), r(2, 2, 3))
    one("adaptive_1d_3d", lambda a: (F.adaptive_avg_pool1d(a[0, 0], 2), F.adaptive_avg_pool3d(a, 2), F.avg_pool3d(a, 2)), r(1, 2, 4, 4, 4))
    one("max_pool3d", lambda a: F.max_pool3d(a, 2, return_indices=True), torch.randperm(64).float().reshape(1, 1, 4, 4, 4))
    one("upsample_core", lambda a: (A.upsample_nearest2d.vec(a, None, [2.0, 2.0]), A.upsample_bilinear2d.vec(a, [4, 5], False, None)), r(1, 1, 2, 3))


class Layer(torch.nn.Module):
    """A recurrent layer whose weights are given."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = getattr(torch.nn, kind)(**options)
        for parameter in self.layer.parameters():
            parameter.data = r(*parameter.shape, low=-0.5, high=0.5)

    def forward(self, *inputs):
        outputs = self.layer(*inputs)
        return (outputs[0], *outputs[1]) if isinstance(outputs[1], tuple) else tuple(outputs)


def control():
    from torch._higher_order_ops.map import map as map_over
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop
    x, w = r(3, 4, low=0.5, high=2), r(4)
    for name, shift in [("holds", 0.0), ("fails", -100.0)]:
        one("cond_" + name, lambda a, b, s=shift: torch.cond(a.sum() + s > 0, lambda c, d: (c.log() + d, c * 2), lambda c, d: (c - d, c.sin()), (a, b)), x, w)
    one("map", lambda a, b: map_over(lambda s, t: (s * t, s.sum()), a, b), x, w)
    one("scan", lambda a, b: scan(lambda c, s: (c + s, c * s), b, a), x, w)
    one("while_known", lambda a: while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, b * 2), (torch.zeros((), dtype=torch.int64), a)), x)
    LAYERS["gru"] = (Layer("GRU", input_size=3, hidden_size=2, num_layers=2, bidirectional=True), r(4, 2, 3), r(4, 2, 2))
    LAYERS["lstm"] = (Layer("LSTM", input_size=3, hidden_size=2, batch_first=True), r(2, 4, 3))
    LAYERS["lstm_projected"] = (Layer("LSTM", input_size=3, hidden_size=4, proj_size=2), r(3, 2, 3))
    LAYERS["rnn"] = (Layer("RNN", input_size=3, hidden_size=2, bias=False), r(3, 2, 3))
    LAYERS["rnn_relu"] = (Layer("RNN", input_size=3, hidden_size=2, nonlinearity="relu"), r(3, 2, 3))
    for name, (layer, *inputs) in LAYERS.items():
        one(name, layer, *inputs)


LAYERS = {}


def breadth():
    """Operators that are others by another name, and those that are a few of others: decomposed they are those others."""
    before = len(CASES)
    x, y, p, i = r(3, 4), r(3, 4), r(3, 4, low=0.125, high=3), ints(-5, 6, 3, 4)
    for name in ["absolute", "negative", "arctan", "arcsinh", "fix", "positive", "ravel", "deg2rad", "rad2deg", "frac", "signbit", "sinc", "isposinf",
                 "isneginf", "fliplr", "flipud", "adjoint", "nansum", "nanmean", "count_nonzero", "atleast_1d", "atleast_3d", "trace"]:
        one(name, getattr(torch, name), x)
    for name in ["multiply", "subtract", "divide", "arctan2", "greater", "greater_equal", "less", "less_equal", "not_equal", "copysign", "hypot", "fmax",
                 "fmin", "heaviside", "logaddexp", "logaddexp2", "isclose", "inner", "dist"]:
        one(name, getattr(torch, name), x, y + 0.0625)
    one("float_power", lambda a: torch.float_power(a, 2), i)
    one("nan_to_num", lambda a: torch.nan_to_num(a / 0.0, nan=5.0, posinf=7.0), (x * 2).round())
    one("nan_to_num_plain", torch.nan_to_num, x)
    for name in ["hstack", "vstack", "dstack", "column_stack", "concatenate"]:
        one(name, lambda a, b, f=getattr(torch, name): f((a, b)), x, y)
    one("hstack_of_vectors", lambda a, b: torch.hstack((a, b)), r(3), r(2))
    one("column_stack_of_vectors", lambda a, b: torch.column_stack((a, b)), r(3), r(3))
    one("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1], [0])), x, r(4, 5))
    one("tensordot_2", lambda a, b: torch.tensordot(a, b, dims=2), r(2, 3, 4), r(3, 4, 5))
    one("ger", torch.ger, r(3), r(4))
    one("addr", lambda a, b, c: torch.addr(a, b, c, beta=0.5, alpha=2), x, r(3), r(4))
    one("addbmm", lambda a, b, c: torch.addbmm(a, b, c, beta=0.5, alpha=2), r(3, 5), r(2, 3, 4), r(2, 4, 5))
    one("kron", torch.kron, r(2, 3), r(2, 2))
    one("cross", lambda a, b: torch.cross(a, b, dim=1), r(2, 3), r(2, 3))
    one("diag_of_vector", torch.diag, r(4))
    one("diag_of_matrix", lambda a: torch.diag(a, 1), x)
    one("diag_embed", lambda a: torch.diag_embed(a, 1), x)
    one("moveaxis", lambda a: torch.moveaxis(a, 0, 2), r(2, 3, 4))
    one("swapdims", lambda a: torch.swapdims(a, 0, 2), r(2, 3, 4))
    one("rot90", lambda a: torch.rot90(a, 1, [0, 1]), x)
    one("rot90_twice", lambda a: torch.rot90(a, 2, [0, 1]), x)
    one("broadcast_tensors", lambda a, b: torch.broadcast_tensors(a, b), r(3, 1), r(4))
    one("tensor_split", lambda a: torch.tensor_split(a, 3, dim=1), r(2, 7))
    one("tensor_split_at", lambda a: torch.tensor_split(a, (1, 4), dim=1), r(2, 7))
    one("hsplit", lambda a: torch.hsplit(a, 2), x)
    one("channel_shuffle", lambda a: F.channel_shuffle(a, 2), r(1, 4, 2, 2))
    one("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=1), x, y)
    one("pairwise_distance", lambda a, b: F.pairwise_distance(a, b), x, y)
    one("margin_ranking_loss", lambda a, b, c: F.margin_ranking_loss(a, b, c, margin=0.25), r(5), r(5), torch.tensor([1.0, -1, 1, -1, 1]))
    one("triplet_margin_loss", lambda a, b, c: F.triplet_margin_loss(a, b, c), x, y, r(3, 4))
    one("hinge_embedding_loss", lambda a, b: F.hinge_embedding_loss(a, b), r(5), torch.tensor([1.0, -1, 1, -1, 1]))
    one("cosine_embedding_loss", lambda a, b, c: F.cosine_embedding_loss(a, b, c, margin=0.25), x, y, torch.tensor([1.0, -1, 1]))
    one("aminmax", lambda a: torch.aminmax(a, dim=1), x)
    one("index_fill", lambda a, k: torch.index_fill(a, 1, k, 2.5), x, torch.tensor([0, 2]))
    one("take", torch.take, x, ints(0, 12, 2, 3))
    one("take_along_dim", lambda a, k: torch.take_along_dim(a, k, 1), x, ints(0, 4, 3, 2))
    one("isin", torch.isin, i, torch.tensor([1, 2, -3]))
    one("bucketize", torch.bucketize, x, torch.tensor([-1.0, 0.0, 0.5, 1.5]))
    one("searchsorted_right", lambda a, b: torch.searchsorted(a, b, right=True), torch.tensor([-1.0, 0.0, 0.5, 1.5]), x)
    one("clip_by_tensors", lambda a, low, high: torch.clip(a, low, high), x, r(4) - 1, r(4) + 1)
    one("clamp_min_tensor", lambda a, low: torch.clamp_min(a, low), x, r(4))
    one("round_decimals", lambda a: torch.round(a, decimals=1), x)
    one("std_mean_plain", lambda a: torch.std_mean(a), x)
    one("linalg_norm", lambda a: torch.linalg.norm(a, dim=1), x)
    one("matrix_power", lambda a: torch.matrix_power(a, 3), r(3, 3))
    one("adaptive_max_pool1d", lambda a: F.adaptive_max_pool1d(a, 3), r(1, 2, 8))
    one("adaptive_max_pool2d", lambda a: F.adaptive_max_pool2d(a, (2, 3)), r(1, 2, 5, 7))
    one("adaptive_max_pool2d_even", lambda a: F.adaptive_max_pool2d(a, 2), r(2, 2, 4, 6))
    one("adaptive_max_pool2d_indices", lambda a: F.adaptive_max_pool2d(a, (2, 3), return_indices=True), r(1, 2, 5, 7))
    one("bilinear", F.bilinear, r(3, 2), r(3, 4), r(5, 2, 4), r(5))
    one("scatter_reduce_word", lambda a, k, b: torch.scatter(a, 1, k, b, reduce="add"), x, ints(0, 4, 3, 2), r(3, 2))
    one("vdot", torch.vdot, r(5), r(5))
    one("block_diag", lambda a, b: torch.block_diag(a, b), x, y)
    one("swapaxes", lambda a: torch.swapaxes(a, 0, 2), r(2, 3, 4))
    one("dropout_in_place", lambda a: F.dropout(a * 2, 0.5, training=False, inplace=True), x)
    PLAIN.update(list(CASES)[before:])


def make_cases(only):
    for family in [pointwise, activations, views, writes, creation, reductions, indexing, structure, contractions, norms, pools, resizing, core_aten, control, breadth]:
        family()
    written, failed = [], []
    for name, (function, inputs) in CASES.items():
        if only and only not in name:
            continue
        # A scalar result of a tensor is what torch.export lets through as well.
        try:
            with torch.no_grad():
                exported = torch.export.export(function if isinstance(function, Layer) else Wrap(function), tuple(inputs))
                outputs = function(*[i.clone() for i in inputs])
            outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
            programs = [program_of(exported)]
            core = program_of(exported.run_decompositions())
            if name.startswith("lstm"):
                core = programs[0]  # torch's decomposition gives the states an axis more
            if name not in PLAIN and [n["target"] for n in core["graph_module"]["graph"]["nodes"]] != [n["target"] for n in programs[0]["graph_module"]["graph"]["nodes"]]:
                programs.append(core)
            written.append({"name": name, "inputs": [numbers(i) for i in inputs], "outputs": [numbers(o) for o in outputs], "programs": programs})
            if exported.constants or exported.state_dict:
                tensors = {**exported.constants, **exported.state_dict}
                written[-1]["constants"] = {name: numbers(tensor) for name, tensor in tensors.items()}
        except Exception as error:
            failed.append((name, "%s: %s" % (type(error).__name__, str(error)[:200])))
    return written, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--file", default="", help="one of the files alone")
    options = parser.parse_args()
    for name, make in [("fx_cases.json", make_cases), ("fx_training_cases.json", make_trained)]:
        if options.file not in ("", name):
            continue
        torch.manual_seed(7)
        written, failed = make(options.only)
        with open(os.path.join(options.folder, name), "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in written) + "\n]\n")
        print(len(written), "cases written to", name)
        for case_name, error in failed:
            print("left out:", case_name, error)


if __name__ == "__main__":
    main()
