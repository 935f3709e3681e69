"""The cases of fx_training_cases.json: functions, and the forward and backward graphs that ahead-of-time autograd makes of them."""
import json

import torch
import torch.nn.functional as F

from fx_programs import ints, numbers, r, without_unread

TRAINED = {}


def train(name, function, *inputs, core=True):
    """Gradients are of the float inputs, for cotangents of all float outputs. `core`: with core decompositions, too."""
    TRAINED[name] = (function, inputs, core)


def trained_pointwise():
    x = r(4, 6, low=-4, high=4)
    for name in ["relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "gelu", "elu", "celu", "selu", "softplus", "logsigmoid",
                 "leaky_relu", "hardshrink", "softshrink", "glu", "tanh", "sigmoid"]:
        train(name, getattr(F, name), x)
    train("gelu_tanh", lambda a: F.gelu(a, approximate="tanh"), x)
    train("softplus_beta", lambda a: F.softplus(a, beta=3, threshold=4), x)
    train("threshold", lambda a: F.threshold(a, 0.25, 7.0), x)
    train("elu_in_place", lambda a: F.elu_(a * 2, 0.5), x)
    train("leaky_relu_in_place", lambda a: F.leaky_relu_(a * 2, 0.3), x)
    train("prelu", F.prelu, r(2, 3, 4), r(3))
    train("logit", lambda a: torch.logit(a, 0.25), r(3, 5, low=0, high=1))
    train("pow_exp_log", lambda a: (a ** 3).exp().log1p(), r(3, 4, low=0.125, high=1))
    train("where_max_min", lambda a, b: torch.where(a > b, torch.maximum(a, b), torch.minimum(a * b, b)), r(3, 4), r(4))
    train("clamp", lambda a: a.clamp(-1, 1), x)
    train("div_sqrt", lambda a, b: a / b.sqrt(), r(3, 4), r(4, low=0.5, high=2))
    train("masked_fill", lambda a: a.masked_fill(a > 0, 1.5), x)
    train("half", F.gelu, x.half())
    train("softmax", lambda a: F.softmax(a, 1), r(2, 3, 4))
    train("log_softmax", lambda a: F.log_softmax(a, -1), r(2, 3, 4))
    train("softmax_to_float", lambda a: F.softmax(a, -1, dtype=torch.float32), r(2, 5).half())


def trained_layers():
    x = r(2, 4, 3, 3)
    train("linear", F.linear, r(2, 3, 4), r(5, 4), r(5))
    train("bmm", torch.bmm, r(2, 3, 4), r(2, 4, 2))
    train("addmm", torch.addmm, r(2), r(3, 4), r(4, 2))
    train("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), r(1, 2, 7), r(3, 2, 3), r(3))
    train("conv2d", lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2)), r(1, 2, 5, 6), r(2, 2, 3, 2))
    train("conv2d_groups", lambda x, w, b: F.conv2d(x, w, b, groups=2), r(1, 4, 3, 3), r(4, 2, 2, 2), r(4))
    train("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2), r(1, 2, 3, 3),
          r(2, 2, 2, 2), r(4))
    train("conv_frozen_weight", lambda x, w: F.conv2d(x, w.detach()), r(1, 2, 4, 4), r(2, 2, 2, 2))
    train("batch_norm", lambda a, w, b: F.batch_norm(a, torch.zeros(4), torch.ones(4), w, b, training=True), x, r(4), r(4))
    train("batch_norm_eval", lambda a, m, v, w, b: F.batch_norm(a, m.detach(), v.detach(), w, b), x, r(4), r(4, low=0.5, high=2), r(4), r(4))
    train("batch_norm_no_stats", lambda a: F.batch_norm(a, None, None, training=True), r(3, 2))
    train("layer_norm", lambda a, w, b: F.layer_norm(a, (3, 3), w, b), x, r(3, 3), r(3, 3))
    train("layer_norm_plain", lambda a: F.layer_norm(a, (3,)), x)
    train("group_norm", lambda a, w, b: F.group_norm(a, 2, w, b), x, r(4), r(4))
    train("rms_norm", lambda a, w: F.rms_norm(a, (3,), w, eps=0.01), x, r(3))
    train("embedding", lambda w, i: F.embedding(i, w, padding_idx=0), r(5, 3), ints(0, 5, 2, 4))
    train("tied_embedding", lambda w, i: F.embedding(i, w) @ w.t(), r(5, 3), ints(0, 5, 4))
    # The core decomposition saves weights where the backward form expects logarithms: torch's own gradients are wrong then.
    q, k, v = r(1, 2, 3, 4), r(1, 2, 5, 4), r(1, 2, 5, 4)
    train("attention", F.scaled_dot_product_attention, q, k, v, core=False)
    train("attention_causal", lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), r(1, 2, 4, 4), r(1, 2, 4, 4), r(1, 2, 4, 4),
          core=False)
    train("attention_mask", lambda a, b, c, m: F.scaled_dot_product_attention(a, b, c, attn_mask=m.detach(), scale=0.25), q, k, v, r(3, 5), core=False)


def trained_losses():
    x, t = r(4, 3), r(4, 3)
    for name in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]:
        for reduction in ["mean", "none"]:
            train(name + "_" + reduction, lambda a, b, f=getattr(F, name), m=reduction: f(a, b.detach(), reduction=m), x, t)
    train("kl_div", lambda a, b: F.kl_div(a, b.detach(), reduction="batchmean"), x, r(4, 3, low=0, high=1))
    train("bce", lambda a, b: F.binary_cross_entropy(a, b.detach()), r(4, 3, low=0, high=1.125), ints(0, 2, 4, 3).float())
    train("bce_logits", lambda a, b, w: F.binary_cross_entropy_with_logits(a, b.detach(), pos_weight=w.detach()), x, ints(0, 2, 4, 3).float(),
          r(3, low=0.5))
    train("cross_entropy", F.cross_entropy, x, ints(0, 3, 4))
    train("cross_entropy_ignored", lambda a, b: F.cross_entropy(a, b, ignore_index=1, reduction="sum"), x, torch.tensor([0, 1, 2, 1]))
    train("cross_entropy_weights", lambda a, b, w: F.cross_entropy(a, b, w.detach(), label_smoothing=0.1), x, ints(0, 3, 4), r(3, low=0.25))
    train("cross_entropy_images", F.cross_entropy, r(2, 3, 2, 2), ints(0, 3, 2, 2, 2))
    train("cross_entropy_none", lambda a, b: F.cross_entropy(a, b, reduction="none"), x, ints(0, 3, 4))


def trained_structure():
    x = r(2, 3, 4)
    train("slices", lambda a: a[:, 1:, ::2] * a[0, 1, 2], x)
    train("select_cat", lambda a: torch.cat([a.select(1, 0), a.select(2, 1)], 1), x)
    train("diagonal", lambda a: a.diagonal(1, 1, 2) * 2, x)
    train("unfold", lambda a: a.unfold(2, 2, 1), x)
    train("split_stack", lambda a: torch.stack(torch.split(a, 2, 2)[::-1]), x)
    train("expand_flip", lambda a: a.unsqueeze(0).expand(2, 2, 3, 4).flip(0, 3), x)
    train("index", lambda a, i: a[:, i], x, ints(0, 3, 4))
    train("gather", lambda a, i: torch.gather(a, 1, i), x, ints(0, 3, 2, 2, 4))
    train("scatter_add", lambda a, i, s: a.scatter_add(1, i, s), r(3, 5), ints(0, 5, 3, 4), r(3, 4))
    train("index_put", lambda a, i, v: a.index_put((i,), v), r(3, 2), torch.tensor([1, 0]), r(2, 2))
    train("cumsum", lambda a: torch.cumsum(a, 1), x)
    train("reductions", lambda a: a.sum(1) + a.mean(1) + a.amax(1), x)
    train("max_topk", lambda a: a.max(1)[0].sum() + torch.topk(a, 2, 2)[0], torch.randperm(24).float().reshape(2, 3, 4) / 8)
    train("norm_var", lambda a: a.norm(dim=1) + a.var(1), x)
    train("as_strided", lambda a: torch.as_strided(a * 2, (2, 3), (2, 1), 1), r(7))
    train("writes", lambda a: (a.clone()[:, 1].mul_(3), a.clone().t().add_(1))[1] * a.t(), r(3, 4))


def trained_images():
    x = r(1, 2, 5, 6)
    train("max_pool2d", lambda a: F.max_pool2d(a, 3, 2, 1), torch.randperm(60).float().reshape(1, 2, 5, 6) / 8)
    train("avg_pool2d", lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True, count_include_pad=False), x)
    train("adaptive_avg_pool2d", lambda a: F.adaptive_avg_pool2d(a, (2, 4)), x)
    train("pad_reflect", lambda a: F.pad(a, (1, 2, 1, 0), mode="reflect"), x)
    train("pad_replicate", lambda a: F.pad(a, (1, 2, 1, 0), mode="replicate"), x)
    train("nearest", lambda a: F.interpolate(a, size=(7, 4)), x)
    train("bilinear", lambda a: F.interpolate(a, scale_factor=1.5, mode="bilinear"), x)
    train("bilinear_corners", lambda a: F.interpolate(a, size=(3, 8), mode="bilinear", align_corners=True), x)
    train("bicubic", lambda a: F.interpolate(a, size=(3, 8), mode="bicubic"), r(1, 1, 3, 4))
    grid = r(1, 2, 3, 2, low=-1.5, high=1.5) + 0.03125
    for mode in ["bilinear", "nearest", "bicubic"]:
        train("grid_" + mode, lambda a, g, m=mode: F.grid_sample(a, g, mode=m, align_corners=False), r(1, 2, 3, 4), grid)
    for mode in ["border", "reflection"]:
        train("grid_" + mode, lambda a, g, m=mode: F.grid_sample(a, g, padding_mode=m, align_corners=m == "border"), r(1, 2, 3, 4), grid)
    train("im2col", lambda a: F.unfold(a, (2, 3), padding=1, stride=2), r(1, 2, 4, 5))
    train("col2im", lambda a: F.fold(a, (4, 5), (2, 2), stride=(2, 1)), r(1, 8, 8))
    train("pixel_shuffle", lambda a: F.pixel_shuffle(a, 2), r(1, 4, 2, 2))


class Recorder:
    """A compiler of ahead-of-time autograd: keeps each graph with what goes in and comes out."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, _):
        at = len(self.graphs)
        self.graphs.append((module, None, None))

        def run(inputs):
            inputs = list(inputs)
            kept = [i.clone() if isinstance(i, torch.Tensor) else i for i in inputs]
            outputs = module(*inputs)
            self.graphs[at] = (module, kept, [o.clone() if isinstance(o, torch.Tensor) else o for o in outputs])
            return outputs
        run._boxed_call = True
        return run


def program_of_graph(module):
    """The JSON that torch.export writes for a graph, of a graph that it has not made: every input and output is the user's."""
    from torch._export.serde.serialize import EnumEncoder, GraphModuleSerializer, _dataclass_to_dict
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    results = [n.name for n in next(n for n in module.graph.nodes if n.op == "output").args[0] if n is not None]
    output = next(n for n in module.graph.nodes if n.op == "output")
    output.args = (tuple(n for n in output.args[0] if n is not None),)
    signature = ExportGraphSignature([InputSpec(InputKind.USER_INPUT, TensorArgument(n), None) for n in names],
                                     [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n), None) for n in results])
    graph = json.loads(json.dumps(_dataclass_to_dict(GraphModuleSerializer(signature, []).serialize_graph(module)), cls=EnumEncoder))
    specs = [{"user_input": {"arg": {"as_tensor": {"name": n}}}} for n in names]
    outputs = [{"user_output": {"arg": {"as_tensor": {"name": n}}}} for n in results]
    program = {"graph_module": {"graph": graph, "signature": {"input_specs": specs, "output_specs": outputs}}, "range_constraints": {},
               "schema_version": {"major": 8, "minor": 17}, "torch_version": torch.__version__.split("+")[0]}
    return without_unread(program)


def record(function, inputs, decompositions):
    """[(program, inputs, outputs)] of the forward graph and of the backward graph."""
    from functorch.compile import aot_function
    recorder = Recorder()
    own = [i.clone().requires_grad_() if i.is_floating_point() else i.clone() for i in inputs]
    outputs = aot_function(function, fw_compiler=recorder, bw_compiler=recorder, decompositions=decompositions)(*own)
    outputs = [o for o in (outputs if isinstance(outputs, (tuple, list)) else [outputs]) if o.requires_grad]
    torch.manual_seed(11)
    torch.autograd.backward(outputs, [(torch.rand(o.shape) * 16).floor().to(o.dtype) / 8 - 1 for o in outputs])
    return [(program_of_graph(module), given, [o for o in found if o is not None]) for module, given, found in recorder.graphs]


def make_trained(only):
    for family in [trained_pointwise, trained_layers, trained_losses, trained_structure, trained_images]:
        family()
    from torch._decomp import core_aten_decompositions
    written, failed = [], []
    for name, (function, inputs, core) in TRAINED.items():
        if only and only not in name:
            continue
        seen = []
        for suffix, decompositions in [("", {})] + ([(".core", core_aten_decompositions())] if core else []):
            try:
                for half, (program, given, found) in zip(["forward", "backward"], record(function, inputs, decompositions)):
                    if half == "forward" and suffix:  # of operators that the other file has
                        continue
                    targets = [half] + [n["target"] for n in program["graph_module"]["graph"]["nodes"]]
                    if targets in seen or len(targets) == 1:
                        continue
                    seen.append(targets)
                    written.append({"name": "trained." + name + suffix + "." + half, "inputs": [numbers(i) for i in given],
                                    "outputs": [numbers(o) for o in found], "programs": [program]})
            except Exception as error:
                failed.append((name + suffix, repr(error).split("\n")[0][:200]))
    return written, failed
