"""Writes op_forms.json: for each operator of ONNX and each version of it a small model that has it, and the element types that the version allows.

Run by hand when there is a new release of ONNX (needs its package `onnx`); the test of docs/onnx_ops.md reads only the file. The models come from the
examples of ONNX's own backend tests, which are of the newest version; for older ones what became an operand is an attribute again, and what is new is
left out. ONNX's checker accepts every one of them; a version for which it accepts none has no model, and is printed.
"""
import argparse
import json
import os
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.defs import OpSchema

warnings.filterwarnings("ignore")
DTYPES = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
          "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool", "float8e4m3fn": "f8e4m3fn",
          "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "int4": "i4", "uint4": "u4"}
DOMAINS = ["", "ai.onnx.preview", "ai.onnx.preview.training"]
FLOATS = ["f32", "f64", "f16", "bf16"]
# Operands that were attributes of another name.
OLD_NAMES = {"constant_value": "value", "K": "k", "output_shape": "output_shape"}
# Operands of a varying type that say a size or a place: constants in any model.
SIZES = {"Range": ["start", "limit", "delta"], "OneHot": ["depth"], "Resize": ["roi", "scales", "sizes"], "Upsample": ["scales"],
         "Dropout": ["ratio"], "TopK": ["K"], "BlackmanWindow": ["size"], "HammingWindow": ["size"], "HannWindow": ["size"]}
NEWEST = onnx.defs.onnx_opset_version()


def dtype_of(tensor_type):
    return DTYPES[TensorProto.DataType.Name(tensor_type).lower()]


def tensor(array):
    array = np.asarray(array)
    values = array.astype(np.float64).flatten().tolist() if array.dtype.kind not in "biu" else array.astype(np.int64).flatten().tolist()
    values = [str(v) if v != v or abs(v) == float("inf") else int(v) if v == int(v) else v for v in values]
    return [dtype_of(helper.np_dtype_to_tensor_dtype(array.dtype)), list(array.shape), values]


def attribute(a):
    value = helper.get_attribute_value(a)
    if a.type == onnx.AttributeProto.TENSOR:
        return {"t": tensor(numpy_helper.to_array(value))}
    if a.type == onnx.AttributeProto.GRAPH:
        return {"g": graph(value)}
    value = [v.decode() for v in value] if a.type == onnx.AttributeProto.STRINGS else value.decode() if isinstance(value, bytes) else value
    kind = {onnx.AttributeProto.INT: "i", onnx.AttributeProto.FLOAT: "f", onnx.AttributeProto.STRING: "s", onnx.AttributeProto.INTS: "ints",
            onnx.AttributeProto.FLOATS: "floats", onnx.AttributeProto.STRINGS: "strings"}[a.type]
    return {kind: list(value) if kind.endswith("s") and kind != "s" else value}


def graph(proto):
    """Of an attribute. Its floats vary with the operands, so they are declared without a type."""
    def typed(value):
        t = value.type.tensor_type
        return [value.name, "" if t.elem_type == TensorProto.FLOAT else dtype_of(t.elem_type), [d.dim_value for d in t.shape.dim]]
    nodes = []
    for node in proto.node:
        row = [node.op_type, list(node.input), list(node.output), {a.name: attribute(a) for a in node.attribute}]
        nodes.append(row + ([node.domain] if node.domain else []))
    return {"inputs": [typed(v) for v in proto.input], "weights": [[w.name] + tensor(numpy_helper.to_array(w)) for w in proto.initializer],
            "nodes": nodes, "outputs": [o.name for o in proto.output]}


# ---- examples that the backend tests don't have, or whose operands are no tensors: nodes, inputs and constants

def f32(*shape):
    return np.ones(shape, np.float32)


def i64(*values):
    return np.array(values, np.int64)


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


SEQUENCE = node("SequenceConstruct", ["x", "y"], ["s"])
TWO = {"x": f32(2, 3), "y": f32(2, 3)}
AT = {"i": np.array(1, np.int64)}
BRANCH = helper.make_graph([node("Identity", ["x"], ["a"])], "then", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3])])
OTHER = helper.make_graph([node("Neg", ["x"], ["b"])], "else", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])])
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def body(nodes, inputs, outputs):
    def typed(values):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]
    return helper.make_graph(nodes, "body", typed(inputs), typed(outputs))


STEP = body([node("Identity", ["goes"], ["goes_on"]), node("Identity", ["state"], ["next"]), node("Identity", ["next"], ["seen"])],
            [("i", INT64, []), ("goes", BOOL, []), ("state", FLOAT, [2, 3])], [("goes_on", BOOL, []), ("next", FLOAT, [2, 3]), ("seen", FLOAT, [2, 3])])
LATEST = body([node("Identity", ["element"], ["next"]), node("Identity", ["next"], ["seen"])],
           [("state", FLOAT, [3]), ("element", FLOAT, [3])], [("next", FLOAT, [3]), ("seen", FLOAT, [3])])
COPY = body([node("Identity", ["one"], ["copy"])], [("one", FLOAT, [2, 3])], [("copy", FLOAT, [2, 3])])
BY_HAND = {
    "Loop": ([node("Loop", ["n", "", "x"], ["r", "all"], body=STEP)], {"x": f32(2, 3)}, {"n": np.array(2, np.int64)}),
    "Scan": ([node("Scan", ["x", "y"], ["r", "all"], body=LATEST, num_scan_inputs=1)], {"x": f32(3), "y": f32(2, 3)}, {}),
    "Optional": ([node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["r"])], {"x": f32(2, 3)}, {}),
    "OptionalGetElement": ([node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["r"])], {"x": f32(2, 3)}, {}),
    "OptionalHasElement": ([node("Optional", ["x"], ["o"]), node("OptionalHasElement", ["o"], ["r"])], {"x": f32(2, 3)}, {}),
    "SequenceMap": ([SEQUENCE, node("SequenceMap", ["s"], ["t"], body=COPY), node("SequenceAt", ["t", "i"], ["r"])], TWO, AT),
    "ConcatFromSequence": ([SEQUENCE, node("ConcatFromSequence", ["s"], ["r"], axis=0)], TWO, {}),
    "SequenceAt": ([SEQUENCE, node("SequenceAt", ["s", "i"], ["r"])], TWO, AT),
    "SequenceConstruct": ([SEQUENCE, node("SequenceAt", ["s", "i"], ["r"])], TWO, AT),
    "SequenceEmpty": ([node("SequenceEmpty", [], ["e"]), node("SequenceInsert", ["e", "x"], ["s"]), node("SequenceAt", ["s", "i"], ["r"])],
                      {"x": f32(2, 3)}, {"i": np.array(0, np.int64)}),
    "SequenceErase": ([SEQUENCE, node("SequenceErase", ["s", "i"], ["t"]), node("SequenceAt", ["t", "j"], ["r"])], TWO,
                      {"i": np.array(0, np.int64), "j": np.array(0, np.int64)}),
    "SequenceInsert": ([SEQUENCE, node("SequenceInsert", ["s", "x", "i"], ["t"]), node("SequenceAt", ["t", "i"], ["r"])], TWO, AT),
    "SequenceLength": ([SEQUENCE, node("SequenceLength", ["s"], ["r"])], TWO, {}),
    "SplitToSequence": ([node("SplitToSequence", ["x"], ["s"], axis=0), node("SequenceAt", ["s", "i"], ["r"])], {"x": f32(2, 3)}, AT),
    "If": ([node("If", ["c"], ["r"], then_branch=BRANCH, else_branch=OTHER)], {"x": f32(2, 3)}, {"c": np.array(True)}),
    "GlobalLpPool": ([node("GlobalLpPool", ["x"], ["r"])], {"x": f32(1, 2, 3, 3)}, {}),
    "MaxRoiPool": ([node("MaxRoiPool", ["x", "y"], ["r"], pooled_shape=[2, 2])], {"x": f32(1, 2, 4, 4), "y": f32(1, 5)}, {}),
    "Multinomial": ([node("Multinomial", ["x"], ["r"])], {"x": f32(2, 3)}, {}),
    "RandomNormal": ([node("RandomNormal", [], ["r"], shape=[2, 3])], {}, {}),
    "RandomUniform": ([node("RandomUniform", [], ["r"], shape=[2, 3])], {}, {}),
    "RandomNormalLike": ([node("RandomNormalLike", ["x"], ["r"])], {"x": f32(2, 3)}, {}),
    "RandomUniformLike": ([node("RandomUniformLike", ["x"], ["r"])], {"x": f32(2, 3)}, {}),
    "Upsample": ([node("Upsample", ["x", "scales"], ["r"], mode="nearest")], {"x": f32(1, 1, 2, 2)}, {"scales": np.array([1, 1, 2, 2], np.float32)}),
    "Scatter": ([node("Scatter", ["x", "i", "y"], ["r"], axis=1)], {"x": f32(1, 5), "y": f32(1, 2)}, {"i": i64(1, 3).reshape(1, 2)}),
    "Dropout": ([node("Dropout", ["x"], ["r"])], {"x": f32(2, 3)}, {}),
    "Constant": ([node("Constant", [], ["r"], value=numpy_helper.from_array(f32(2, 3)))], {}, {}),
    "GroupNormalization": ([node("GroupNormalization", ["x", "s", "b"], ["r"], num_groups=2)], {"x": f32(1, 4, 2), "s": f32(4), "b": f32(4)}, {}),
    "Resize": ([node("Resize", ["x", "roi", "scales"], ["r"], mode="nearest")], {"x": f32(1, 1, 2, 2)},
               {"roi": f32(0), "scales": np.array([1, 1, 2, 2], np.float32)}),
    "MeanVarianceNormalization": ([node("MeanVarianceNormalization", ["x"], ["r"], axes=[0, 2, 3])], {"x": f32(2, 2, 3, 3)}, {}),
    "Pad": ([node("Pad", ["x", "pads", "v"], ["r"])], {"x": f32(2, 3), "v": np.array(0.5, np.float32)}, {"pads": i64(0, 1, 0, 1)}),
    "CastLike": ([node("CastLike", ["x", "y"], ["r"])], {"x": f32(2, 3), "y": np.ones(3, np.float64)}, {}),
    "Split": ([node("Split", ["x", "n"], ["r", "q"], axis=1)], {"x": f32(2, 3)}, {"n": i64(1, 2)}),
    "BitCast": ([node("BitCast", ["x"], ["r"], to=TensorProto.FLOAT)], {"x": f32(2, 3)}, {}),
    "QuantizeLinear": ([node("QuantizeLinear", ["x", "s", "z"], ["r"])], {"x": f32(2, 3), "s": np.array(0.5, np.float32)}, {"z": np.array(3, np.uint8)}),
    "Trilu": ([node("Trilu", ["x", "k"], ["r"], upper=1)], {"x": f32(3, 4)}, {"k": np.array(1, np.int64)}),
    "Gradient": ([node("Mul", ["x", "y"], ["m"]), node("Gradient", ["x", "y"], ["r", "q"], "ai.onnx.preview.training", xs=["x", "y"], y="m")], TWO, {}),
}
# Versions that say the same in other words than the newest: what became an operand had another name, kind or meaning.
STATISTICS = {name: f32(2) for name in ["scale", "bias", "mean", "variance"]}
OLD_BY_HAND = {
    ("Scan", 8): ([node("Scan", ["", "x", "y"], ["r", "all"], body=LATEST, num_scan_inputs=1)], {"x": f32(2, 3), "y": f32(2, 4, 3)}, {}),
    ("BatchNormalization", 1): ([node("BatchNormalization", ["x", *STATISTICS], ["r"], consumed_inputs=[0, 0, 0, 1, 1], is_test=1)],
                                {"x": f32(1, 2, 3), **STATISTICS}, {}),
    ("Cast", 1): ([node("Cast", ["x"], ["r"], to="DOUBLE")], {"x": f32(2, 3)}, {}),
    ("Pad", 1): ([node("Pad", ["x"], ["r"], paddings=[0, 1, 0, 1], value=0.5)], {"x": f32(2, 3)}, {}),
    ("Split", 1): ([node("Split", ["x"], ["r", "q"], axis=1, split=[1, 2])], {"x": f32(2, 3)}, {}),
    ("Tile", 1): ([node("Tile", ["x", "tiles", "axis"], ["r"])], {"x": f32(2, 3)}, {"tiles": np.array(2, np.float32), "axis": np.array(1, np.float32)}),
    ("Upsample", 1): ([node("Upsample", ["x"], ["r"], mode="nearest", width_scale=2.0, height_scale=2.0)], {"x": f32(1, 1, 2, 2)}, {}),
}
ROWS, VECTOR = {"x": f32(2, 3, 4)}, {"w": f32(4)}


def u8(*shape):
    return (np.arange(int(np.prod(shape))) % 100).astype(np.uint8).reshape(shape)


BYTES = ["i8", "u8"]
QUANTISED = {"x": u8(2, 3, 4, 4)}
SCALES = {"s": np.float32(0.5), "z": np.uint8(3)}


def quantised(op, operands="x s z s z", inputs=QUANTISED, constants=SCALES, **attributes):
    return [node(op, operands.split(" "), ["r"], "com.microsoft", **attributes)], inputs, constants, BYTES


# Nodes, inputs, constants, and where all bytes have one type instead of all inputs being floats the types that they have.
CONTRIB = {
    ("com.microsoft", "FusedConv"): ([node("FusedConv", ["x", "w", "", "z"], ["r"], "com.microsoft", activation="Relu")],
                                     {"x": f32(1, 2, 4, 4), "w": f32(3, 2, 2, 2), "z": f32(1, 3, 3, 3)}),
    ("com.microsoft", "FusedGemm"): ([node("FusedGemm", ["x", "y", "z"], ["r"], "com.microsoft", activation="Tanh")],
                                     {"x": f32(2, 3), "y": f32(3, 4), "z": f32(4)}),
    ("com.microsoft", "NhwcMaxPool"): quantised("NhwcMaxPool", "x", constants={}, kernel_shape=[2, 2]),
    ("com.microsoft", "QAttention"): quantised("QAttention", "x w b s s  z z", {"x": u8(2, 3, 4)}, {**SCALES, "w": u8(4, 12), "b": f32(12)}, num_heads=2),
    ("com.microsoft", "QGemm"): quantised("QGemm", "x s z w s z b s z", {"x": u8(2, 3)}, {**SCALES, "w": u8(3, 4), "b": np.ones(4, np.int32)}),
    ("com.microsoft", "QLinearAdd"): quantised("QLinearAdd", "x s z x s z s z"),
    ("com.microsoft", "QLinearAveragePool"): quantised("QLinearAveragePool", kernel_shape=[2, 2]),
    ("com.microsoft", "QLinearConcat"): quantised("QLinearConcat", "s z x s z x s z", axis=1),
    ("com.microsoft", "QLinearGlobalAveragePool"): quantised("QLinearGlobalAveragePool"),
    ("com.microsoft", "QLinearLeakyRelu"): quantised("QLinearLeakyRelu"),
    ("com.microsoft", "QLinearMul"): quantised("QLinearMul", "x s z x s z s z"),
    ("com.microsoft", "QLinearSigmoid"): quantised("QLinearSigmoid"),
    ("com.microsoft", "QLinearSoftmax"): quantised("QLinearSoftmax", opset=13),
    ("com.microsoft", "QLinearWhere"): quantised("QLinearWhere", "c x s z x s z s z", {**QUANTISED, "c": np.ones((4,), bool)}),
    ("", "SimplifiedLayerNormalization"): ([node("SimplifiedLayerNormalization", ["x", "w"], ["r"])], {**ROWS, **VECTOR}),
    ("com.microsoft", "SimplifiedLayerNormalization"): ([node("SimplifiedLayerNormalization", ["x", "w"], ["r"], "com.microsoft")], {**ROWS, **VECTOR}),
    ("com.microsoft", "BiasGelu"): ([node("BiasGelu", ["x", "w"], ["r"], "com.microsoft")], {**ROWS, **VECTOR}),
    ("com.microsoft", "DynamicQuantizeLSTM"): ([node("DynamicQuantizeLSTM", ["x", "w", "v", "", "", "", "", "", "s", "z", "s", "z"], ["r"], "com.microsoft",
                                                     hidden_size=2)], {"x": f32(3, 2, 4)},
                                               {"w": np.ones((1, 4, 8), np.int8), "v": np.ones((1, 2, 8), np.int8), "s": f32(1), "z": np.zeros(1, np.int8)}),
    ("com.microsoft", "FastGelu"): ([node("FastGelu", ["x", "w"], ["r"], "com.microsoft")], {**ROWS, **VECTOR}),
    ("com.microsoft", "FusedMatMul"): ([node("FusedMatMul", ["x", "y"], ["r"], "com.microsoft", transB=1, alpha=0.5)], {"x": f32(2, 3), "y": f32(4, 3)}),
    ("com.microsoft", "Gelu"): ([node("Gelu", ["x"], ["r"], "com.microsoft")], ROWS),
    ("com.microsoft", "MatMulNBits"): ([node("MatMulNBits", ["x", "w", "s"], ["r"], "com.microsoft", K=32, N=2, bits=4, block_size=16)],
                                       {"x": f32(2, 32), "s": f32(2, 2)}, {"w": (np.arange(32) * 7 % 256).astype(np.uint8).reshape(2, 2, 8)}),
    ("com.microsoft", "QuickGelu"): ([node("QuickGelu", ["x"], ["r"], "com.microsoft")], ROWS),
    ("com.microsoft", "SkipLayerNormalization"): ([node("SkipLayerNormalization", ["x", "y", "w"], ["r"], "com.microsoft")],
                                                  {**ROWS, "y": f32(2, 3, 4), **VECTOR}),
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): ([node("SkipSimplifiedLayerNormalization", ["x", "y", "w"], ["r"], "com.microsoft")],
                                                            {**ROWS, "y": f32(2, 3, 4), **VECTOR}),
}


def examples_of_tests():
    """The smallest model of one node for each operator, with the values of its inputs; floats are preferred."""
    examples = {}
    for case in collect_testcases(None):
        graph_of_case = case.model.graph
        if len(graph_of_case.node) != 1 or not case.data_sets or any(v.type.WhichOneof("value") != "tensor_type" for v in graph_of_case.input):
            continue
        only = graph_of_case.node[0]
        arrays = [numpy_helper.to_array(a) if isinstance(a, TensorProto) else a for a in case.data_sets[0][0]]
        if any(not isinstance(a, (np.ndarray, np.generic)) or a.dtype.kind not in "fiub" and a.dtype.name not in DTYPES for a in arrays):
            continue
        arrays = [np.asarray(a) for a in arrays]
        to = next((a.i for a in only.attribute if a.name == "to"), TensorProto.FLOAT)
        if any(a.size == 0 for a in arrays) or TensorProto.DataType.Name(to).lower() not in DTYPES:
            continue
        rank = (any(a.dtype == np.float32 for a in arrays[:1]), -len(only.attribute), -sum(a.size for a in arrays))
        key = (only.domain, only.op_type)
        if key not in examples or rank > examples[key][0]:
            examples[key] = (rank, only, {v.name: a for v, a in zip(graph_of_case.input, arrays)})
    return {key: ([only], arrays) for key, (rank, only, arrays) in examples.items()}


def types_of(schema, name):
    """What `name`, a type or a variable of the schema, may be."""
    allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == name), [name])
    allowed = [t.removeprefix("seq(").removeprefix("tensor(").rstrip(")") for t in allowed if not t.startswith("optional")]
    return [DTYPES[t] for t in dict.fromkeys(allowed) if t in DTYPES]


def formal(schema, index):
    return schema.inputs[min(index, len(schema.inputs) - 1)]


def as_attribute(name, kind, value):
    integers = kind in (OpSchema.AttrType.INT, OpSchema.AttrType.INTS)
    values = value.astype(np.int64 if integers else np.float32).flatten().tolist()
    return helper.make_attribute(name, values[0] if kind in (OpSchema.AttrType.INT, OpSchema.AttrType.FLOAT) else values)


def older(only, arrays, newest, schema):
    """The node in the form of an older version, and its arrays."""
    result = onnx.NodeProto()
    result.CopyFrom(only)
    del result.input[:], result.attribute[:]
    if schema.outputs[-1].option != OpSchema.FormalParameterOption.Variadic:
        del result.output[len(schema.outputs):]
    arrays = dict(arrays)
    attributes = {a.name: a for a in only.attribute if a.name in schema.attributes and a.type == int(schema.attributes[a.name].type.value)}
    names, newest_names = [i.name for i in schema.inputs], [i.name for i in newest.inputs]
    operands = [(formal(newest, i).name, operand) for i, operand in enumerate(only.input)]
    moved = set()
    for name, operand in operands:
        old = OLD_NAMES.get(name, name)
        if not operand or name in names or old not in schema.attributes:
            continue
        value = arrays.pop(operand)
        moved.add(operand)
        if value.size > 0:
            attributes[old] = as_attribute(old, schema.attributes[old].type, value)
    kept = [operand for _, operand in operands if operand not in moved]
    if set(names) < set(newest_names) and len(names) < len(newest_names):  # some of the operands, by name
        kept = [dict(operands).get(name, "") for name in names]
    elif not names or schema.inputs[-1].option != OpSchema.FormalParameterOption.Variadic:
        kept = kept[:len(names)]
    while kept and not kept[-1]:
        kept.pop()
    result.input.extend(kept)
    result.attribute.extend(attributes.values())
    return result, arrays


def form_of(op, nodes, arrays, constants, schema, opset, dtype, variable):
    """The model as JSON; what has the type variable is of `dtype`."""
    position = next(i for i, n in enumerate(nodes) if n.op_type == op)
    varied = [n for i, n in enumerate(nodes[position].input) if n and variable and formal(schema, i).type_str == variable]
    if nodes[0].op_type == "SequenceConstruct" or op == "SequenceEmpty":
        varied = [name for name in arrays]
    elif op == "If":
        varied = ["x"]
    sizes = [n for i, n in enumerate(nodes[position].input) if n and schema.inputs and formal(schema, i).name in SIZES.get(op, [])]
    inputs, weights = [], []
    for name, array in arrays.items():
        is_weight = name in constants or name in sizes or (name not in varied and array.dtype.kind not in "f")
        row = [name, dtype if name in varied and name not in constants else dtype_of(helper.np_dtype_to_tensor_dtype(array.dtype)), list(array.shape)]
        (weights if is_weight else inputs).append(row + ([tensor(array)[2]] if is_weight else []))
    rows = [[n.op_type, list(n.input), list(n.output), {a.name: attribute(a) for a in n.attribute}] + ([n.domain] if n.domain else []) for n in nodes]
    return {"inputs": inputs, "weights": weights, "nodes": rows, "outputs": [o for o in nodes[-1].output if o]}, varied


def check(form, opset, domain, nodes):
    """By ONNX's checker, with shapes."""
    back = {v: k for k, v in DTYPES.items()}
    number = lambda name: TensorProto.DataType.Value(back[name].upper())
    inputs = [helper.make_tensor_value_info(n, number(d), s) for n, d, s in form["inputs"]]
    weights = [helper.make_tensor(n, number(d), s, [float(x) if isinstance(x, str) else x for x in v]) for n, d, s, v in form["weights"]]
    outputs = [onnx.ValueInfoProto(name=o) for o in form["outputs"]]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[
        helper.make_opsetid("", NEWEST if domain else opset)] + ([helper.make_opsetid(domain, opset)] if domain else []))
    model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    for output in model.graph.output:
        if not output.type.WhichOneof("value"):  # nothing is inferred for some of the oldest
            output.type.tensor_type.elem_type = TensorProto.FLOAT
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(model)


def model_of(op, nodes, arrays, constants, newest, schema, opset):
    """The row of one version beside its numbers."""
    position = next(i for i, n in enumerate(nodes) if n.op_type == op)
    changed, own = older(nodes[position], arrays, newest, schema)
    nodes = [*nodes[:position], changed, *nodes[position + 1:]]
    used = {name for n in nodes for name in n.input} | {name for n in nodes for a in n.attribute for inner in a.g.node for name in inner.input}
    own = {name: array for name, array in own.items() if name in used}
    sizes = SIZES.get(op, []) if op != "Range" else []  # of a range they are its elements as well
    variable = next((i.type_str for i in schema.inputs if i.name not in sizes and len(types_of(schema, i.type_str)) > 1), "")
    types = types_of(schema, variable) if variable else types_of(schema, schema.inputs[0].type_str) if schema.inputs and not sizes else []
    types = types_of(schema, schema.outputs[0].type_str) if op == "If" else [] if types == ["i64"] else types  # i64: a size
    of_variable = [own[n] for i, n in enumerate(changed.input) if n in own and variable and formal(schema, i).type_str == variable]
    dtype = tensor(of_variable[0])[0] if of_variable else "f32"
    if types and dtype not in types:
        dtype = types[0]
    form, varied = form_of(op, nodes, own, constants, schema, opset, dtype, variable)
    check(form, opset, schema.domain, nodes)
    own_dtypes = {row[0]: row[1] for row in form["inputs"]}
    beside = [n for i, n in enumerate(changed.input) if n in own_dtypes and n not in varied and len(types_of(schema, formal(schema, i).type_str)) > 1
              and own_dtypes[n] == dtype]
    return {**form, "types": types, "varied": varied, "beside": beside}


def rows_of(domain, op, versions, example):
    """One for each version, and what ONNX says where it accepts no model."""
    numbers = sorted(v for v in versions if not versions[v].deprecated)
    rows, refused = [], []
    for version in numbers:
        later = [v for v in versions if v > version]
        last = min(later) - 1 if later else NEWEST if domain == "" else version
        row = {"domain": domain, "op": op, "since": version, "last": last}
        try:
            if (op, version) in OLD_BY_HAND:
                nodes, arrays, constants = OLD_BY_HAND[op, version]
                row.update(model_of(op, nodes, {**arrays, **constants}, constants, versions[version], versions[version], last))
            elif example is not None:
                row.update(model_of(op, *example, versions[numbers[-1]], versions[version], last))
        except Exception as error:
            refused.append((op, version, str(error).replace("\n", " ")[:200]))
        rows.append(row)
    return rows, refused


def rows_of_contrib():
    """Operators of no schema that is at hand."""
    for (domain, op), (nodes, arrays, *rest) in CONTRIB.items():
        constants = rest[0] if rest else {}
        types = rest[1] if len(rest) > 1 else FLOATS
        varied = [name for name, array in {**arrays, **constants}.items() if array.dtype == np.uint8] if types is BYTES else list(arrays)
        weights = [[name, *tensor(array)] for name, array in constants.items()]
        rows = [[n.op_type, list(n.input), list(n.output), {a.name: attribute(a) for a in n.attribute}] + ([n.domain] if n.domain else []) for n in nodes]
        yield {"domain": domain, "op": op, "since": 1, "last": NEWEST if domain == "" else 1,
               "inputs": [[name, *tensor(array)[:2]] for name, array in arrays.items()], "weights": weights, "nodes": rows, "outputs": ["r"],
               "types": types, "varied": varied, "beside": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "op_forms.json"))
    options = parser.parse_args()
    tests, rows, schemas = examples_of_tests(), list(rows_of_contrib()), {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            schemas.setdefault((schema.domain, schema.name), {})[schema.since_version] = schema
    for (domain, op), versions in schemas.items():
        example = None
        if op in BY_HAND:
            nodes, arrays, constants = BY_HAND[op]
            example = (nodes, {**arrays, **constants}, constants)
        elif (domain, op) in tests:
            example = (*tests[(domain, op)], {})
        of_op, refused = rows_of(domain, op, versions, example)
        rows += of_op
        for one in refused:
            print("no model:", *one)
    rows.sort(key=lambda row: (row["domain"], row["op"], row["since"]))
    with open(options.file, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")
    print(len(rows), "versions of", len({(row["domain"], row["op"]) for row in rows}), "operators")


if __name__ == "__main__":
    main()
