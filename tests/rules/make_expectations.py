"""Writes onnx_cases.txt: composites of ops.def beside what the ONNX reference evaluator gives for the operator they stand for.

Run by hand when a case is added (needs the `onnx` package); the test reads only the file. Inputs are multiples of 1/8, so that they are short.
"""
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64", np.dtype(np.int8): "i8",
          np.dtype(np.uint8): "u8", np.dtype(np.bool_): "bool", np.dtype(np.uint32): "u32"}
random = np.random.RandomState(7)
out = open(sys.argv[1] if len(sys.argv) > 1 else "onnx_cases.txt", "w")
out.write("# Written by make_expectations.py: composites and what ONNX's reference evaluator gives for them.\n")


def values(*shape, low=-3, high=3):
    return (np.round(random.uniform(low, high, shape) * 8) / 8).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64):
    return random.randint(low, high, shape).astype(dtype)


def text(array):
    def one(v):
        if array.dtype == np.bool_:
            return str(int(v))
        if np.issubdtype(array.dtype, np.integer):
            return str(int(v))
        return "%.9g" % v
    return " ".join(one(v) for v in array.reshape(-1))


def type_of(array):
    return "%s[%s]" % (DTYPES[array.dtype], ", ".join(str(d) for d in array.shape))


def evaluate(onnx_op, given, attrs=None, opset=22, outputs=1, by_runtime=False):
    """What the reference evaluator gives for one node, or ONNX Runtime where the former is wrong; None among `given` is an absent operand."""
    names = ["" if a is None else "x%d" % i for i, a in enumerate(given)]
    feeds = {n: a for n, a in zip(names, given) if a is not None}
    node = helper.make_node(onnx_op, names, ["y%d" % i for i in range(outputs)], **(attrs or {}))
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
    graph = helper.make_graph([node], "g", info, [helper.make_tensor_value_info("y%d" % i, TensorProto.FLOAT if by_runtime else TensorProto.UNDEFINED, None) for i in range(outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    if by_runtime:
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def case(name, tcc, onnx_op, inputs, attrs=None, onnx_inputs=None, opset=22, outputs=1, expected=None, by_runtime=False):
    """`tcc`: the composite with %0, %1, ... for the inputs. `onnx_inputs`: the operator's when they differ from `inputs`."""
    if expected is None:
        expected = evaluate(onnx_op, inputs if onnx_inputs is None else onnx_inputs, attrs, opset, outputs, by_runtime)
    expected = [np.asarray(e) for e in expected][:outputs]
    results = ", ".join("%%y%d: %s" % (i, type_of(e)) for i, e in enumerate(expected))
    out.write("\ncase %s\n" % name)
    out.write("graph @case(%s) -> (%s) {\n" % (", ".join("%%%d: %s" % (i, type_of(a)) for i, a in enumerate(inputs)), results))
    out.write("  %s = %s\n}\n" % (results, tcc))
    for a in inputs:
        out.write("in %s\n" % text(a))
    for e in expected:
        out.write("out %s\n" % text(e))


x23 = values(3, 5)
case("softplus_of_negative", "softplus(%0)", "", [np.array([-12.3392, -100, 100, 0], np.float32)], expected=[np.array([4.37676e-6, 3.7835e-44, 100, 0.693147], np.float32)])
for name, op, tcc_attrs, attrs in [
        ("relu", "Relu", "", {}), ("leaky_relu", "LeakyRelu", "alpha=0.1", {"alpha": 0.1}), ("sigmoid", "Sigmoid", "", {}),
        ("hard_sigmoid", "HardSigmoid", "alpha=0.25, beta=0.5", {"alpha": 0.25, "beta": 0.5}), ("hard_swish", "HardSwish", "", {}),
        ("elu", "Elu", "alpha=1.5", {"alpha": 1.5}), ("selu", "Selu", "alpha=1.67, gamma=1.05", {"alpha": 1.67, "gamma": 1.05}),
        ("celu", "Celu", "alpha=2.0", {"alpha": 2.0}), ("softplus", "Softplus", "", {}), ("softsign", "Softsign", "", {}), ("mish", "Mish", "", {}),
        ("thresholded_relu", "ThresholdedRelu", "alpha=0.5", {"alpha": 0.5}), ("shrink", "Shrink", "bias=1.5, lambd=1.0", {"bias": 1.5, "lambd": 1.0})]:
    case(name, "%s(%%0)%s" % (name, " {%s}" % tcc_attrs if tcc_attrs else ""), op, [x23], attrs)
case("gelu", 'gelu(%0) {approximate="none"}', "Gelu", [x23])
case("gelu_tanh", 'gelu(%0) {approximate="tanh"}', "Gelu", [x23], {"approximate": "tanh"})
case("prelu_last_axis", "prelu(%0, %1)", "PRelu", [values(1, 3, 2, 4), values(4)])   # broadcast as numpy does: a slope [4] is of the last axis, not of the channels
case("prelu_channels", "prelu(%0, %1)", "PRelu", [values(2, 3, 2, 2), values(3, 1, 1)])
case("clip", "clip(%0, %1, %2)", "Clip", [np.array([-2, np.nan, 0.5, 3, np.inf], np.float32), np.float32(-1), np.float32(1)])
case("clip_low", "clip(%0, %1)", "Clip", [x23, np.float32(-1)])

for axis in (0, 1, -1):
    for op, onnx_op in (("softmax", "Softmax"), ("log_softmax", "LogSoftmax"), ("hardmax", "Hardmax")):
        case("%s_axis_%d" % (op, axis), "%s(%%0) {axis=%d}" % (op, axis), onnx_op, [values(2, 4, 3)], {"axis": axis})

case("layer_norm", "layer_norm(%0, %1, %2) {axis=-1, epsilon=1e-5}", "LayerNormalization", [values(2, 3, 4), values(4), values(4)], {"axis": -1})
case("layer_norm_axis_1", "layer_norm(%0, %1, %2) {axis=1, epsilon=1e-3}", "LayerNormalization", [values(2, 3, 4), values(3, 4), values(3, 4)],
     {"axis": 1, "epsilon": 1e-3}, outputs=3)
case("rms_norm", "rms_norm(%0, %1) {axis=-1, epsilon=1e-5}", "RMSNormalization", [values(2, 3, 4), values(4)], {"axis": -1}, opset=23)
c = 3
bn = [values(2, c, 2, 2), values(c), values(c), values(c), values(c, low=0.5, high=2)]
case("batch_norm", "batch_norm(%0, %1, %2, %3, %4) {epsilon=1e-5}", "BatchNormalization", bn)
case("batch_norm_train", "batch_norm_train(%0, %1, %2, %3, %4) {epsilon=1e-5, momentum=0.75}", "BatchNormalization", bn,
     {"training_mode": 1, "momentum": 0.75}, outputs=3)
case("instance_norm", "instance_norm(%0, %1, %2) {epsilon=1e-5}", "InstanceNormalization", [values(2, 3, 4, 2), values(3), values(3)])
case("group_norm", "group_norm(%0, %1, %2) {epsilon=1e-5, num_groups=2}", "GroupNormalization", [values(2, 4, 3, 2), values(4), values(4)], {"num_groups": 2})
case("group_norm_per_group", "group_norm(%0, %1, %2) {epsilon=1e-5, num_groups=2}", "GroupNormalization", [values(2, 4, 3), values(2), values(2)],
     {"num_groups": 2}, opset=18)
for size in (3, 5):
    case("lrn_%d" % size, "lrn(%%0) {alpha=0.5, beta=0.75, bias=1.5, size=%d}" % size, "LRN", [values(1, 5, 2, 2)],
         {"alpha": 0.5, "beta": 0.75, "bias": 1.5, "size": size}, by_runtime=True)
case("mean_variance_norm", "mean_variance_norm(%0) {axes=[0, 2, 3]}", "MeanVarianceNormalization", [values(2, 3, 2, 2)])
case("lp_norm_1", "lp_norm(%0) {axis=1, p=1}", "LpNormalization", [values(2, 3, 2)], {"axis": 1, "p": 1}, by_runtime=True)
case("lp_norm_2", "lp_norm(%0) {axis=-1, p=2}", "LpNormalization", [values(2, 3, 2)], {"axis": -1, "p": 2})

for name, a, b in [("2d", (3, 4), (4, 5)), ("weight", (2, 3, 4), (4, 5)), ("unit_batch", (2, 3, 4), (1, 4, 5)), ("batched", (2, 3, 4), (2, 4, 2)),
                   ("broadcast", (2, 1, 3, 4), (5, 4, 2)), ("left_2d", (3, 4), (2, 4, 2)), ("vector_left", (4,), (2, 4, 3)), ("vector_right", (2, 3, 4), (4,)),
                   ("vectors", (4,), (4,)), ("unit_left", (1, 3, 4), (2, 4, 2)), ("vector_matrix", (4,), (4, 3)), ("units_gone", (2, 3, 4), (1, 1, 4, 5))]:
    case("matmul_" + name, "matmul(%0, %1)", "MatMul", [values(*a), values(*b)])
for ta in (0, 1):
    for tb in (0, 1):
        case("gemm_%d%d" % (ta, tb), "gemm(%%0, %%1, %%2) {alpha=0.5, beta=2.0, transpose_a=%s, transpose_b=%s}" % (str(bool(ta)).lower(), str(bool(tb)).lower()),
             "Gemm", [values(*((4, 3) if ta else (3, 4))), values(*((5, 4) if tb else (4, 5))), values(5)], {"alpha": 0.5, "beta": 2.0, "transA": ta, "transB": tb})
case("gemm_plain", "gemm(%0, %1) {alpha=1.0, beta=1.0, transpose_a=false, transpose_b=false}", "Gemm", [values(3, 4), values(4, 5)])
for equation, shapes in [("ij,jk->ik", [(3, 4), (4, 2)]), ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("ij->ji", [(2, 3)]), ("ij->i", [(2, 3)]), ("ii", [(3, 3)]),
                         ("ii->i", [(3, 3)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 2)]), ("i,j->ij", [(3,), (2,)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
                         ("ij,ij->", [(2, 3), (2, 3)]), ("bij,bjk", [(2, 2, 3), (2, 3, 2)]), ("...ii->...i", [(2, 3, 3)]), ("i,i->i", [(3,), (3,)]),
                         ("bik,k,bjk->bij", [(2, 2, 3), (3,), (2, 4, 3)]), ("...i,...i->...", [(2, 1, 3), (4, 3)]), (" ij , jk -> ki", [(2, 3), (3, 4)])]:
    arguments = ", ".join("%%%d" % i for i in range(len(shapes)))
    case("einsum " + equation, 'einsum(%s) {equation="%s"}' % (arguments, equation), "Einsum", [values(*s) for s in shapes], {"equation": equation})


def conv(name, x, w, bias, **a):
    rank = len(x) - 2
    default = dict(strides=[1] * rank, dilations=[1] * rank, pads=[0] * 2 * rank, group=1, auto_pad="NOTSET")
    given = {k: v for k, v in a.items()}
    default.update(given)
    arguments = [values(*x), values(*w)] + ([values(w[0])] if bias else [])
    case("conv_" + name, 'conv(%s) {strides=%s, dilations=%s, pads=%s, groups=%d, auto_pad="%s", kernel=%s}' % (
        ", ".join("%%%d" % i for i in range(len(arguments))), default["strides"], default["dilations"], default["pads"], default["group"], default["auto_pad"], list(w[2:])),
        "Conv", arguments, given)


conv("plain", (1, 2, 5, 5), (3, 2, 3, 3), False)
conv("padded", (2, 2, 5, 4), (3, 2, 3, 3), True, pads=[1, 0, 2, 1], strides=[2, 1])
conv("dilated", (1, 2, 7, 7), (2, 2, 3, 3), True, dilations=[2, 3], pads=[2, 2, 2, 2])
conv("groups", (1, 4, 4, 4), (6, 2, 3, 3), True, group=2, pads=[1, 1, 1, 1])
conv("depthwise", (1, 3, 5, 5), (3, 1, 3, 3), False, group=3, strides=[2, 2], pads=[1, 1, 1, 1])
conv("same_upper", (1, 1, 5, 6), (2, 1, 2, 3), True, auto_pad="SAME_UPPER", strides=[2, 2])
conv("same_lower", (1, 1, 5, 6), (2, 1, 2, 2), True, auto_pad="SAME_LOWER", strides=[2, 3])
conv("valid", (1, 1, 5, 6), (2, 1, 2, 3), True, auto_pad="VALID")
conv("1d", (2, 3, 8), (4, 3, 3), True, strides=[2], pads=[1, 1])
conv("3d", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), True, pads=[1, 0, 1, 0, 1, 0])


def conv_transpose(name, x, w, bias, by_runtime=False, **a):
    rank = len(x) - 2
    default = dict(strides=[1] * rank, dilations=[1] * rank, pads=[0] * 2 * rank, output_padding=[0] * rank, output_shape=[], group=1, auto_pad="NOTSET")
    default.update(a)
    arguments = [values(*x), values(*w)] + ([values(w[1] * default["group"])] if bias else [])
    d = default
    case("conv_transpose_" + name,
         'conv_transpose(%s) {strides=%s, dilations=%s, pads=%s, output_padding=%s, output_shape=%s, groups=%d, auto_pad="%s", kernel=%s}' % (
             ", ".join("%%%d" % i for i in range(len(arguments))), d["strides"], d["dilations"], d["pads"], d["output_padding"], d["output_shape"], d["group"],
             d["auto_pad"], list(w[2:])), "ConvTranspose", arguments, a, by_runtime=by_runtime)


conv_transpose("plain", (1, 2, 3, 3), (2, 3, 3, 3), True)
conv_transpose("strided", (1, 2, 3, 2), (2, 3, 3, 3), True, strides=[3, 2], output_padding=[1, 1])
conv_transpose("pads", (1, 1, 3, 3), (1, 2, 3, 3), False, strides=[3, 2], pads=[1, 2, 1, 2])
conv_transpose("dilated", (1, 1, 3, 3), (1, 1, 2, 2), False, dilations=[2, 2])
conv_transpose("groups", (1, 4, 3, 3), (4, 3, 2, 2), True, by_runtime=True, group=2, strides=[2, 2])
conv_transpose("output_shape", (1, 1, 3, 3), (1, 2, 3, 3), False, strides=[3, 2], output_shape=[10, 8])
conv_transpose("same_upper", (1, 1, 3, 3), (1, 2, 3, 3), False, strides=[2, 2], auto_pad="SAME_UPPER")
conv_transpose("strided_4", (2, 2, 3, 4), (2, 3, 4, 4), True, strides=[2, 2], pads=[1, 1, 1, 1])
conv_transpose("strided_2", (1, 2, 3, 4), (2, 3, 2, 2), True, strides=[2, 2])
conv_transpose("strided_5", (1, 2, 3, 4), (2, 1, 5, 3), False, strides=[3, 2], pads=[2, 0, 3, 1])
conv_transpose("strided_dilated", (1, 1, 3, 3), (1, 1, 2, 2), False, dilations=[2, 1], strides=[2, 3])
conv_transpose("kernel_below_stride", (1, 1, 3, 3), (1, 2, 2, 1), True, strides=[3, 3], output_padding=[2, 1])
conv_transpose("3d", (1, 2, 2, 3, 2), (2, 1, 2, 3, 2), True, strides=[2, 2, 1], pads=[0, 1, 0, 0, 1, 0])
conv_transpose("1d", (1, 2, 4), (2, 3, 3), True, strides=[2], pads=[1, 1])


def pool(name, op, x, kernel, outputs=1, by_runtime=False, **a):
    rank = len(kernel)
    d = dict(strides=[1] * rank, dilations=[1] * rank, pads=[0] * 2 * rank, ceil_mode=0, auto_pad="NOTSET", count_include_pad=0, storage_order=0)
    d.update(a)
    extra = "count_include_pad=%s" % str(bool(d["count_include_pad"])).lower() if op == "average_pool" else "storage_order=%d" % d["storage_order"]
    array = values(*x) if isinstance(x, tuple) else x
    case("%s_%s" % (op, name), '%s(%%0) {kernel=%s, strides=%s, dilations=%s, pads=%s, ceil_mode=%s, auto_pad="%s", %s}' % (
        op, kernel, d["strides"], d["dilations"], d["pads"], str(bool(d["ceil_mode"])).lower(), d["auto_pad"], extra),
        "AveragePool" if op == "average_pool" else "MaxPool", [array], dict(a, kernel_shape=kernel), outputs=outputs, opset=21, by_runtime=by_runtime)


for op in ("max_pool", "average_pool"):
    pool("plain", op, (1, 2, 5, 5), [3, 3])
    pool("strided", op, (1, 2, 6, 7), [2, 3], strides=[2, 2])
    pool("padded", op, (1, 1, 5, 5), [3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    pool("ceil", op, (1, 1, 4, 4), [3, 3], strides=[2, 2], ceil_mode=1)
    pool("ceil_padded", op, (1, 1, 6, 6), [3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1])
    pool("dilated", op, (1, 1, 6, 6), [2, 2], dilations=[2, 2])
    pool("same_upper", op, (1, 1, 5, 6), [3, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    pool("same_lower", op, (1, 1, 5, 6), [3, 2], strides=[2, 2], auto_pad="SAME_LOWER", by_runtime=True)
    pool("1d", op, (1, 2, 7), [3], strides=[2], pads=[1, 0])
    pool("3d", op, (1, 1, 3, 4, 3), [2, 2, 2])
    pool("ceil_last_window_outside", op, (1, 1, 2, 2), [1, 1], strides=[2, 2], ceil_mode=1)   # one window, not four
pool("indices", "max_pool", (1, 2, 5, 5), [3, 3], outputs=2, strides=[2, 2], pads=[1, 1, 1, 1])
pool("indices_column_major", "max_pool", (1, 1, 5, 4), [2, 2], outputs=2, strides=[2, 2], storage_order=1)
pool("include_pad", "average_pool", (1, 1, 5, 5), [3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
pool("include_pad_ceil", "average_pool", (1, 1, 6, 6), [3, 3], strides=[2, 2], pads=[1, 0, 1, 0], ceil_mode=1, count_include_pad=1)
pool("one_sided", "average_pool", (1, 2, 6, 6), [7, 7], pads=[0, 0, 1, 1])   # divisor 36
column = np.arange(12, dtype=np.float32).reshape(1, 1, 6, 2)
pool("include_pad_same_lower", "average_pool", column, [5, 1], auto_pad="SAME_LOWER", count_include_pad=1)   # column 0: 1.2 2.4 4 6 5.6 4.8
case("global_average_pool", "global_average_pool(%0)", "GlobalAveragePool", [values(2, 3, 4, 2)])
case("global_max_pool", "global_max_pool(%0)", "GlobalMaxPool", [values(2, 3, 4, 2)])

positive = values(2, 3, 4, low=0.5, high=3)
for op, onnx_op in [("sum", "ReduceSum"), ("mean", "ReduceMean"), ("max", "ReduceMax"), ("min", "ReduceMin"), ("prod", "ReduceProd"), ("l1", "ReduceL1"), ("l2", "ReduceL2"),
                    ("log_sum", "ReduceLogSum"), ("log_sum_exp", "ReduceLogSumExp"), ("sum_square", "ReduceSumSquare")]:
    case("reduce_%s" % op, 'reduce(%%0) {op="%s", axes=[0, 2], keepdims=true}' % op, onnx_op, [positive], {}, onnx_inputs=[positive, np.array([0, 2])])
    case("reduce_%s_drop" % op, 'reduce(%%0) {op="%s", axes=[1], keepdims=false}' % op, onnx_op, [positive], {"keepdims": 0}, onnx_inputs=[positive, np.array([1])])
ties = np.array([[1, 3, 3, 2], [2, 2, 1, 1]], np.float32)
for op, onnx_op in (("max", "ArgMax"), ("min", "ArgMin")):
    for last in (0, 1):
        case("arg_%s_last_%d" % (op, last), 'arg_reduce(%%0) {op="%s", axis=1, keepdims=%s, last=%s}' % (op, str(bool(last)).lower(), str(bool(last)).lower()), onnx_op, [ties],
             {"axis": 1, "keepdims": last, "select_last_index": last})
case("elementwise_mean", "elementwise_mean(%0, %1, %2)", "Mean", [values(2, 3), values(3), values(2, 1)])

case("flatten_0", "flatten(%0) {axis=0}", "Flatten", [values(2, 3, 2)], {"axis": 0})
case("flatten_2", "flatten(%0) {axis=2}", "Flatten", [values(2, 3, 2)], {"axis": 2})
case("flatten_negative", "flatten(%0) {axis=-1}", "Flatten", [values(2, 3, 2)], {"axis": -1})
for mode in ("DCR", "CRD"):
    case("depth_to_space_" + mode, 'depth_to_space(%%0) {blocksize=2, mode="%s"}' % mode, "DepthToSpace", [values(1, 8, 2, 3)], {"blocksize": 2, "mode": mode})
case("space_to_depth", "space_to_depth(%0) {blocksize=2}", "SpaceToDepth", [values(1, 2, 4, 6)], {"blocksize": 2})
case("eye_like", "eye_like(%0) {dtype=f32, k=1}", "EyeLike", [ints(0, 3, 3, 4)], {"dtype": TensorProto.FLOAT, "k": 1})
for upper in (0, 1):
    for k in (-1, 0, 2):
        matrix = values(2, 3, 4)
        case("trilu_%d_%d" % (upper, k), "trilu(%%0) {upper=%s, k=%d}" % (str(bool(upper)).lower(), k), "Trilu", [matrix], {"upper": upper},
             onnx_inputs=[matrix, np.array(k)])
hot = [np.array([0, 2, 4, -1]), np.array([0.5, 2], np.float32)]
case("one_hot", "one_hot(%0, %1) {axis=-1, depth=5}", "OneHot", hot, {}, onnx_inputs=[hot[0], np.array(5), hot[1]])   # -1 is hot at 4
hot = [ints(0, 4, 2, 3), np.array([1, 7], np.int32)]
case("one_hot_axis", "one_hot(%0, %1) {axis=1, depth=4}", "OneHot", hot, {"axis": 1}, onnx_inputs=[hot[0], np.array(4), hot[1]])
image = values(2, 4, 5)
for mode in ("reflect", "edge", "wrap"):
    case("pad_" + mode, 'pad_with_input(%%0) {mode="%s", low=[0, 2, 3], high=[1, 1, 2]}' % mode,
         "Pad", [image], {"mode": mode}, onnx_inputs=[image, np.array([0, 2, 3, 1, 1, 2])])
case("pad_crops", 'pad_with_input(%0) {mode="edge", low=[0, -1, 2], high=[0, 1, -1]}', "Pad", [image], {"mode": "edge"},
     expected=[np.pad(image, ((0, 0), (0, 1), (2, 0)), mode="edge")[:, 1:, :-1]])


def resize(name, shape, mode="nearest", transform="half_pixel", sizes=None, scales=None, nearest="round_prefer_floor", a=-0.75, exclude=0, extrapolation=0.0, roi=None, antialias=0):
    data = values(*shape)
    attrs = dict(mode=mode, coordinate_transformation_mode=transform, nearest_mode=nearest, cubic_coeff_a=a, exclude_outside=exclude, extrapolation_value=extrapolation, antialias=antialias)
    result = sizes or [int(s * d) for s, d in zip(scales, shape)]
    used = scales or [r / d for r, d in zip(result, shape)]
    onnx_inputs = [data, np.array(roi, np.float32) if roi else None, np.array(scales, np.float32) if scales else None]
    if sizes:
        onnx_inputs.append(np.array(sizes))
    case("resize_" + name, 'resize(%%0) {sizes=%s, scales=[%s], mode="%s", coordinate_transformation_mode="%s", nearest_mode="%s", cubic_coeff_a=%r, exclude_outside=%s, '
         'extrapolation_value=%r, roi=[%s], antialias=%s}' % (
             list(result), ", ".join("%r" % float(s) for s in used), mode, transform, nearest, float(a), str(bool(exclude)).lower(), float(extrapolation),
             ", ".join("%r" % float(r) for r in (roi or [])), str(bool(antialias)).lower()), "Resize", [data], attrs, onnx_inputs=onnx_inputs)


resize("nearest_2x", (1, 1, 2, 3), scales=[1, 1, 2.0, 2.0], transform="asymmetric", nearest="floor")
resize("nearest_sizes", (1, 1, 3, 4), sizes=[1, 1, 7, 8])
resize("nearest_down", (1, 1, 6, 8), scales=[1, 1, 0.5, 0.5], transform="asymmetric", nearest="floor")
for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    resize("nearest_" + nearest, (1, 1, 4, 5), sizes=[1, 1, 8, 7], nearest=nearest)
for mode in ("linear", "cubic"):
    for transform in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        resize("%s_%s" % (mode, transform), (1, 1, 4, 4), mode=mode, transform=transform, scales=[1, 1, 2.25, 0.75])
    resize("%s_2x" % mode, (1, 2, 3, 3), mode=mode, sizes=[1, 2, 6, 6])
    resize("%s_antialias" % mode, (1, 1, 7, 8), mode=mode, sizes=[1, 1, 3, 5], antialias=1)
    resize("%s_crop" % mode, (1, 1, 4, 4), mode=mode, sizes=[1, 1, 3, 4], transform="tf_crop_and_resize", roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], extrapolation=10.0)
resize("cubic_exclude", (1, 1, 4, 4), mode="cubic", scales=[1, 1, 0.8, 2.0], a=-0.5, exclude=1)
resize("cubic_antialias_exclude", (1, 1, 6, 6), mode="cubic", sizes=[1, 1, 4, 3], a=-0.5, exclude=1, antialias=1)
resize("nearest_crop", (1, 1, 4, 4), sizes=[1, 1, 3, 5], transform="tf_crop_and_resize", roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], extrapolation=5.0)

q = values(3, 4, low=-40, high=40)
case("quantize_linear", "quantize_linear(%0, %1, %2) {axis=1, dtype=u8}", "QuantizeLinear", [q, np.float32(0.25), np.uint8(128)])
case("quantize_linear_axis", "quantize_linear(%0, %1, %2) {axis=0, dtype=i8}", "QuantizeLinear",
     [q, np.array([0.25, 0.5, 2], np.float32), np.array([1, 0, -3], np.int8)], {"axis": 0})
case("quantize_linear_blocked", "quantize_linear(%0, %1, %2) {axis=1, dtype=i8}", "QuantizeLinear",
     [q, values(3, 2, low=0.25, high=1), ints(-3, 3, 3, 2, dtype=np.int8)], {"axis": 1, "block_size": 2})
case("quantize_linear_short_block", "quantize_linear(%0, %1, %2) {axis=1, dtype=i8, block_size=4}", "QuantizeLinear",
     [values(3, 5, low=-40, high=40), values(3, 2, low=0.25, high=1), ints(-3, 3, 3, 2, dtype=np.int8)], {"axis": 1, "block_size": 4})
case("dequantize_linear", "dequantize_linear(%0, %1, %2) {axis=1}", "DequantizeLinear", [ints(0, 255, 3, 4, dtype=np.uint8), np.float32(0.25), np.uint8(128)])
case("dequantize_linear_axis", "dequantize_linear(%0, %1) {axis=1}", "DequantizeLinear", [ints(-100, 100, 3, 4, dtype=np.int32), values(4, low=0.25)], {"axis": 1})
case("dequantize_linear_blocked", "dequantize_linear(%0, %1, %2) {axis=0}", "DequantizeLinear",
     [ints(0, 255, 4, 2, dtype=np.uint8), values(2, 2), ints(0, 255, 2, 2, dtype=np.uint8)], {"axis": 0, "block_size": 2})
case("dynamic_quantize_linear", "dynamic_quantize_linear(%0)", "DynamicQuantizeLinear", [values(3, 4)], outputs=3)
case("dynamic_quantize_positive", "dynamic_quantize_linear(%0)", "DynamicQuantizeLinear", [values(3, 4, low=1)], outputs=3)
case("matmul_integer", "matmul_integer(%0, %1, %2, %3)", "MatMulInteger",
     [ints(0, 255, 3, 4, dtype=np.uint8), ints(-100, 100, 4, 2, dtype=np.int8), np.uint8(12), np.int8(-3)])
case("matmul_integer_plain", "matmul_integer(%0, %1)", "MatMulInteger", [ints(0, 255, 3, 4, dtype=np.uint8), ints(0, 255, 4, 2, dtype=np.uint8)])
rows = [ints(0, 255, 3, 4, dtype=np.uint8), ints(0, 255, 4, 2, dtype=np.uint8), ints(0, 9, 3, dtype=np.uint8), ints(0, 9, 2, dtype=np.uint8)]
wide = [r.astype(np.int32) for r in rows]
case("matmul_integer_rows", "matmul_integer(%0, %1, %2, %3)", "", rows, expected=[(wide[0] - wide[2][:, None]) @ (wide[1] - wide[3])])

OURS = {"Tanh": "tanh", "Sigmoid": "sigmoid", "Relu": "relu", "LeakyRelu": "leaky_relu", "HardSigmoid": "hard_sigmoid", "Softsign": "softsign", "Elu": "elu",
        "Softplus": "softplus", "ThresholdedRelu": "thresholded_relu", "Affine": "affine", "ScaledTanh": "scaled_tanh"}


def recurrent(name, op, given, activations=None, alpha=(), beta=(), attrs=None, steps=4, batch=3, size=2, hidden=2):
    """One layer of one direction. `given`: which optional operands it has; ONNX Runtime computes it."""
    attrs = dict(attrs or {})
    gates = {"RNN": "h", "GRU": "zrh", "LSTM": "iofc"}[op]
    rows = len(gates) * hidden
    x, w, r = values(steps, batch, size, low=-1, high=1), values(rows, size, low=-1, high=1), values(rows, hidden, low=-1, high=1)
    optional = {"w_bias": values(rows, low=-1, high=1), "r_bias": values(rows, low=-1, high=1), "h": values(batch, hidden, low=-1, high=1),
                "c": values(batch, hidden, low=-1, high=1), "lengths": np.array([steps, 0, 2][:batch], np.int32), "peepholes": values(3 * hidden, low=-1, high=1)}
    names = list(optional)
    ours = [x, w, r] + [optional[n] for n in names if n in given]
    text_of, at = [], 3
    for n in names:
        text_of.append("%%%d" % at if n in given else "none")
        at += n in given
    while text_of and text_of[-1] == "none":
        text_of.pop()
    zero = np.zeros(rows, np.float32)
    biases = np.concatenate([optional["w_bias"] if "w_bias" in given else zero, optional["r_bias"] if "r_bias" in given else zero])
    one = lambda n: optional[n][None] if n in given else None
    theirs = [x, w[None], r[None], biases[None], optional["lengths"] if "lengths" in given else None, one("h")]
    theirs += [one("c"), one("peepholes")] if op == "LSTM" else []
    default = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[op]
    onnx_attrs = {"hidden_size": hidden, "activations": activations or default, **attrs}
    numbers = lambda which: [which.get(i, 0) for i in range(len(default))]
    if alpha:
        onnx_attrs["activation_alpha"] = list(alpha.values())
    if beta:
        onnx_attrs["activation_beta"] = list(beta.values())
    results = evaluate(op, theirs, onnx_attrs, opset=14, outputs=3 if op == "LSTM" else 2, by_runtime=True)
    ours_attrs = 'activations="%s", alpha=%s, beta=%s, ' % (",".join(OURS[a] for a in activations or default), numbers(dict(alpha)), numbers(dict(beta)))
    ours_attrs += "clip=%r, " % attrs["clip"] if "clip" in attrs else ""
    ours_attrs += 'couple_forget=%s, gates="%s", reset_after=%s, reverse=%s' % tuple(
        str(v).lower() if isinstance(v, bool) else v for v in (attrs.get("input_forget", 0) == 1, gates, attrs.get("linear_before_reset", 0) == 1,
                                                              attrs.get("direction") == "reverse"))
    case(name, "recurrent(%s) {%s}" % (", ".join(["%0", "%1", "%2"] + text_of), ours_attrs), "", ours, outputs=len(results),
         expected=[np.squeeze(y, 1 if y.ndim == 4 else 0) for y in results])


BIASES = ("w_bias", "r_bias")
recurrent("rnn", "RNN", ())
recurrent("rnn_reverse_lengths", "RNN", BIASES + ("h", "lengths"), attrs={"direction": "reverse", "clip": 0.5})
recurrent("gru", "GRU", ())
recurrent("gru_lengths", "GRU", BIASES + ("h", "lengths"))
recurrent("gru_reset_after", "GRU", BIASES + ("h",), attrs={"linear_before_reset": 1, "clip": 0.75})
recurrent("gru_reset_after_reverse_lengths", "GRU", BIASES + ("lengths",), attrs={"linear_before_reset": 1, "direction": "reverse"})
recurrent("gru_activations", "GRU", ("r_bias",), ["HardSigmoid", "ScaledTanh"], alpha={0: 0.25, 1: 1.5}, beta={0: 0.375, 1: 0.75})
recurrent("lstm", "LSTM", ())
recurrent("lstm_peepholes", "LSTM", BIASES + ("h", "c", "peepholes"))
recurrent("lstm_reverse_lengths", "LSTM", BIASES + ("h", "c", "lengths"), attrs={"direction": "reverse"})
recurrent("lstm_coupled_clip", "LSTM", BIASES + ("c", "lengths", "peepholes"), attrs={"input_forget": 1, "clip": 0.5})
recurrent("lstm_activations", "LSTM", ("w_bias",), ["Softsign", "LeakyRelu", "Elu"], alpha={1: 0.125, 2: 0.5})
for activation, numbers in [("Relu", 0), ("Sigmoid", 0), ("Softplus", 0), ("ThresholdedRelu", 1), ("Affine", 2)]:
    recurrent("rnn_" + activation.lower(), "RNN", ("h",), [activation], alpha={0: 0.5} if numbers > 0 else {}, beta={0: 0.25} if numbers > 1 else {}, steps=2)
