"""tcc for PyTorch: captured graphs as tcc.fx JSON, and a backend of torch.compile. One file that needs only torch and the tcc program.

    import tcc_torch

    model = torch.compile(model, backend="tcc")             # forward and training; each captured graph becomes a library
    tcc_torch.dump(model, (x,), "model.json")               # what TorchDynamo captures, for `tcc model.json -o model.so`
    tcc_torch.dump(model, (x,), "step.json", training=True) # the forward and backward graphs of AOTAutograd

The program is `options={"tcc": PATH}`, else $TCC, else the `tcc` of the PATH, else that of this checkout. Libraries are kept by content in
`options={"cache": FOLDER}`, else $TCC_CACHE_DIR, else ~/.cache/tcc/torch. `options={"flags": [...]}` are further flags of tcc.

A graph that tcc can't compile runs as eager mode runs it, after one warning that says why.
"""

import ctypes
import hashlib
import inspect
import json
import math
import operator
import os
import re
import shutil
import subprocess
import tempfile
import warnings

import torch
import torch._dynamo
import torch.nn.attention
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import unset_fake_temporarily

__all__ = ["backend", "dump", "Library"]

# ------------------------------------------------------------------------------------------------------------------ names

# Of the C interface (include/tcc/runtime/runtime.h): number and name of an element type.
DTYPES = {
    torch.float32: (0, "f32"), torch.float64: (1, "f64"), torch.float16: (2, "f16"), torch.bfloat16: (3, "bf16"),
    torch.int8: (4, "i8"), torch.int16: (5, "i16"), torch.int32: (6, "i32"), torch.int64: (7, "i64"),
    torch.uint8: (8, "u8"), torch.uint16: (9, "u16"), torch.uint32: (10, "u32"), torch.uint64: (11, "u64"),
    torch.bool: (12, "bool"), torch.float8_e4m3fn: (13, "f8e4m3fn"), torch.float8_e4m3fnuz: (14, "f8e4m3fnuz"),
    torch.float8_e5m2: (15, "f8e5m2"), torch.float8_e5m2fnuz: (16, "f8e5m2fnuz"),
}

# Functions of Python and torch on sizes, and their names in tcc.fx.
SIZE_FUNCTIONS = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.floordiv: "floordiv", operator.truediv: "truediv",
    operator.mod: "mod", operator.pow: "pow", operator.neg: "neg", operator.eq: "eq", operator.ne: "ne", operator.lt: "lt",
    operator.le: "le", operator.gt: "gt", operator.ge: "ge", operator.and_: "and_", operator.or_: "or_", torch.sym_not: "not",
    torch.sym_int: "int", torch.sym_float: "float", torch.sym_max: "max", torch.sym_min: "min", math.trunc: "trunc",
    math.floor: "math_floor", math.ceil: "math_ceil",
}

# They make no values, only other ways of looking at one.
VIEWS = {
    torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.permute.default, torch.ops.aten.t.default,
    torch.ops.aten.transpose.int, torch.ops.aten.expand.default, torch.ops.aten.squeeze.default, torch.ops.aten.squeeze.dim,
    torch.ops.aten.squeeze.dims, torch.ops.aten.unsqueeze.default, torch.ops.aten.slice.Tensor, torch.ops.aten.select.int,
    torch.ops.aten.alias.default, torch.ops.aten.detach.default, torch.ops.aten.as_strided.default,
}

# What they compute depends on the strides of what they read.
STRIDED = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


class Unsupported(Exception):
    """What a graph has and tcc.fx or tcc lacks."""


def dtype_name(dtype):
    if dtype not in DTYPES:
        raise Unsupported(f"tensors of {dtype}")
    return DTYPES[dtype][1]


def words(text):
    return re.sub(r"\W+", "_", text).strip("_") or "value"


def expression(size):
    """An integer, or the infix form of a symbolic size."""
    if isinstance(size, int):
        return size
    expr = size.node.expr if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) else size
    if expr.is_Integer:
        return int(expr)
    return infix(expr)


def infix(expr):
    name = type(expr).__name__
    if expr.is_Symbol:
        return str(expr)
    if expr.is_Integer:
        return str(int(expr))
    parts = [infix(part) for part in expr.args]
    if name == "Add":
        return "(" + " + ".join(parts) + ")"
    if name == "Mul":
        return "(" + "*".join(parts) + ")"
    if name == "Pow" and expr.args[1].is_Integer and expr.args[1] > 0:
        return "(" + "*".join([parts[0]] * int(expr.args[1])) + ")"
    if name in ("FloorDiv", "CleanDiv"):
        return f"({parts[0]} // {parts[1]})"
    if name in ("Mod", "PythonMod"):
        return f"({parts[0]} % {parts[1]})"
    if name == "ModularIndexing":
        return f"(({parts[0]} // {parts[1]}) % {parts[2]})"
    if name in ("Max", "Min"):
        nested = parts[0]
        for part in parts[1:]:
            nested = f"{name.lower()}({nested}, {part})"
        return nested
    relations = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">",
                 "GreaterThan": ">="}
    if name in relations:
        return f"{parts[0]} {relations[name]} {parts[1]}"
    raise Unsupported(f"the size expression {expr}")


def dense_permutation(sizes, strides):
    """The order of axes in which the memory is dense and row-major; None when it is in no order."""
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis] if sizes[axis] != 1 else 0, axis))
    # Axes of size 1 have any stride: each stays where it was among its neighbours.
    long = [axis for axis in order if sizes[axis] != 1]
    order = []
    taken = iter(long)
    for axis in range(len(sizes)):
        order.append(axis if sizes[axis] == 1 else next(taken))
    expected = 1
    for axis in reversed(order):
        if sizes[axis] == 1:
            continue
        if strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return order


# ------------------------------------------------------------------------------------------------------------- graphs

class GraphWriter:
    """One graph of ATen operators (torch.fx) as a graph of tcc.fx.

    symbols: numbers for the symbolic sizes; None keeps the symbols. in_memory_order: inputs and outputs whose memory is dense in another
    order of axes are declared in that order, with a permutation in the graph, so that no copy is needed at a call.
    """

    def __init__(self, module, graph_id, role="forward", symbols=None, in_memory_order=False):
        self.module, self.symbols, self.in_memory_order = module, symbols, in_memory_order
        self.json = {"id": graph_id, "role": role, "inputs": [], "values": {}, "nodes": [], "outputs": []}
        self.bodies = []          # graphs of higher-order operators
        self.constants = {}       # name of a value -> tensor that the module holds
        self.used_symbols = set()
        self.names = {}           # fx node -> name of its value, or list of names
        self.inputs = {}          # placeholder -> name of the input
        self.numbers = {}         # fx node -> number, where symbols are bound
        self.taken = set()
        self.replayed = set()     # fx nodes that are views of arguments, wanted only outside

    # ---- names and types

    def unique(self, wish):
        name = words(wish)
        count = 1
        while name in self.taken:
            name = f"{words(wish)}_{count}"
            count += 1
        self.taken.add(name)
        return name

    def size(self, size):
        if isinstance(size, int):
            return size
        expr = size.node.expr
        if self.symbols is not None:
            return self.bound(expr)
        self.used_symbols.update(expr.free_symbols)
        return expression(size)

    def bound(self, expr):
        value = expr.xreplace(self.symbols) if expr.free_symbols else expr
        if value.free_symbols:
            raise Unsupported(f"the size {expr}, which is only known when the graph runs")
        value = value.doit() if hasattr(value, "doit") else value
        return bool(value) if value in (True, False) and not value.is_number else int(value) if value.is_integer else float(value)

    def declare(self, name, value):
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.is_quantized:
                raise Unsupported(f"tensors of layout {value.layout}")
            entry = {"dtype": dtype_name(value.dtype), "shape": [self.size(s) for s in value.shape]}
        elif isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            entry = {"sym": str(self.size(value))}
        elif isinstance(value, (torch.SymFloat, float)):
            entry = {"number": "f64"}
        elif isinstance(value, (torch.SymBool, bool)):
            entry = {"number": "bool"}
        else:
            raise Unsupported(f"values of {type(value).__name__}")
        self.json["values"][name] = entry
        return name

    # ---- arguments

    def argument(self, value):
        if isinstance(value, torch.fx.Node):
            if value in self.numbers:
                return self.argument(self.numbers[value])
            if value.op == "get_attr" and value not in self.names:
                return self.attribute(value)
            name = self.names[value]
            return [{"v": each} for each in name] if isinstance(name, list) else {"v": name}
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"f": "nan" if value != value else "inf" if value > 0 else "-inf"}
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            bound = self.size(value)
            return bound if isinstance(bound, (int, float)) else {"sym": bound}
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, torch.layout):
            return {"layout": str(value).removeprefix("torch.")}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).removeprefix("torch.").removesuffix("_format")}
        if isinstance(value, complex):
            return {"c": [value.real, value.imag]}
        if isinstance(value, (list, tuple)):
            return [self.argument(each) for each in value]
        raise Unsupported(f"an argument of {type(value).__name__}")

    def attribute(self, node):
        """A tensor or graph that the module holds."""
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            body = GraphWriter(value, f"{self.json['id']}_{words(node.target)}", "body", self.symbols)
            body.write()
            if body.constants:
                raise Unsupported(f"constants inside of {node.target}")
            self.bodies += [body.json] + body.bodies
            self.used_symbols |= body.used_symbols
            return {"graph": body.json["id"]}
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"an attribute of {type(value).__name__}")
        name = self.unique(node.target)
        self.names[node] = name
        self.constants[name] = value
        self.json["inputs"].append({"name": self.declare(name, value), "kind": "const"})
        return {"v": name}

    # ---- nodes

    def write(self, describe=None):
        """describe(node) -> the keys of an input beside its name, and the name that it should have."""
        placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        for node in placeholders:
            self.placeholder(node, describe)
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                if node not in self.replayed and node.target is not operator.getitem:
                    self.call(node)
            elif node.op not in ("placeholder", "get_attr", "output"):
                raise Unsupported(f"a node of kind {node.op}")
        return self.json

    def placeholder(self, node, describe):
        value = node.meta.get("val", node.meta.get("example_value"))
        keys, wish = describe(node) if describe else ({"kind": "user"}, node.name)
        if value is None:
            raise Unsupported(f"the input {node.name}, which is not a tensor")
        if not isinstance(value, torch.Tensor) and self.symbols is not None:
            self.numbers[node] = self.size(value) if not isinstance(value, (int, float, bool)) else value
            return
        name = self.unique(wish)
        self.declare(name, value)
        self.json["inputs"].append({"name": name, **keys})
        self.names[node] = self.inputs[node] = name
        if not isinstance(value, torch.Tensor) or not self.in_memory_order:
            return
        order = dense_permutation([self.size(s) for s in value.shape], [self.size(s) for s in value.stride()])
        if order is None or order == list(range(value.dim())):
            return
        shape = self.json["values"][name]["shape"]
        self.json["values"][name] = {"dtype": dtype_name(value.dtype), "shape": [shape[axis] for axis in order]}
        self.names[node] = self.permute(name, [order.index(axis) for axis in range(len(order))], shape, name + "_axes")

    def permute(self, name, order, shape, wish):
        made = self.unique(wish)
        self.json["values"][made] = {"dtype": self.json["values"][name]["dtype"], "shape": shape}
        self.json["nodes"].append({"name": made, "op": "aten.permute.default", "args": [{"v": name}, order], "outs": [made]})
        return made

    def call(self, node):
        value = node.meta.get("val", node.meta.get("example_value"))
        if self.symbols is not None and isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self.numbers[node] = self.bound(value.node.expr)
            return
        entry = {"name": self.unique(node.name), "op": self.operator(node), "args": [self.argument(a) for a in node.args]}
        if node.kwargs:
            entry["kwargs"] = {key: self.argument(a) for key, a in node.kwargs.items()}
        if node.target in STRIDED:
            for read in node.all_input_nodes:
                if isinstance(read.meta.get("val"), torch.Tensor):
                    self.json["values"][self.names[read]]["stride"] = [self.size(s) for s in read.meta["val"].stride()]
        entry["outs"] = self.results(node, value, entry["name"])
        module = module_path(node)
        if module:
            entry["meta"] = {"module": module}
        self.json["nodes"].append(entry)

    def operator(self, node):
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            if target.namespace not in ("aten", "prims"):
                raise Unsupported(f"the operator {target}")
            return str(target)
        if isinstance(target, torch._ops.HigherOrderOperator):
            return "hop." + target.name()
        if target in SIZE_FUNCTIONS:
            return "sym." + SIZE_FUNCTIONS[target]
        raise Unsupported(f"the function {getattr(target, '__name__', target)}")

    def results(self, node, value, name):
        if not isinstance(value, (list, tuple)):
            if value is None:
                return []
            self.names[node] = name
            return [self.declare(name, value)]
        picked = {}
        for user in node.users:
            if user.target is operator.getitem:
                picked.setdefault(user.args[1], []).append(user)
        whole = any(user.target is not operator.getitem for user in node.users)
        names = []
        for i, each in enumerate(value):
            users = picked.get(i, [])
            if each is None or (not users and not whole):
                names.append(None)
                continue
            made = self.declare(self.unique(users[0].name if users else f"{name}_{i}"), each)
            for user in users:
                self.names[user] = made
            names.append(made)
        self.names[node] = names
        returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else []
        is_list = len(returns) == 1 and isinstance(returns[0].type, torch.ListType)
        if is_list:  # every element has a name there
            names = [n if n is not None else self.declare(self.unique(f"{name}_{i}"), value[i]) for i, n in enumerate(names)]
            self.names[node] = names
            return [names]
        return names

    def output(self, value, keys):
        """Adds an output; `value` is an fx node or None."""
        if value is None:
            self.json["outputs"].append({"value": None, **keys})
            return
        name = self.names.get(value)
        if name is None and value.op == "get_attr":
            name = self.attribute(value)["v"]
        if not isinstance(name, str):
            raise Unsupported(f"the output {value}")
        self.json["outputs"].append({"value": name, **keys})


def module_path(node):
    stack = node.meta.get("nn_module_stack") or (node.meta.get("fwd_nn_module_stack") if "fwd_nn_module_stack" in node.meta else None)
    if not stack:
        return ""
    path = list(stack.values())[-1][0]
    return re.sub(r"^L\['\w+'\]\.?", "", path) if isinstance(path, str) else ""


def output_values(module):
    (values,) = next(n for n in module.graph.nodes if n.op == "output").args
    return list(values) if isinstance(values, (list, tuple)) else [values]


def document(graphs, entry, symbols=None, weights=None, meta=None):
    result = {"format": "tcc.fx", "version": [1, 0], "entry": entry}
    if symbols:
        result["symbols"] = symbols
    if weights:
        result["weights"] = weights
    result["graphs"] = graphs
    result["meta"] = {"producer": f"tcc_torch.py, torch {torch.__version__}", **(meta or {})}
    return result


# ---------------------------------------------------------------------------------------------------------- the program

def find_tcc(options):
    here = os.path.dirname(os.path.abspath(__file__))
    choices = [options.get("tcc"), os.environ.get("TCC"), shutil.which("tcc")]
    choices += [os.path.join(here, "..", "build", kind, "bin", "tcc") for kind in ("release", "dev")]
    for choice in choices:
        if choice and os.access(choice, os.X_OK):
            return os.path.abspath(choice)
    raise Unsupported("the tcc program is not found: set TCC to its path")


_identities = {}


def identity(program):
    """What the program prints of itself, and when it was built: part of the key of what it makes."""
    if program not in _identities:
        info = os.stat(program)
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        _identities[program] = f"{version}{info.st_size} {info.st_mtime_ns}"
    return _identities[program]


def compile_library(text, device, options):
    """The path of the library for this JSON text; Unsupported with tcc's own message where it makes none."""
    program = find_tcc(options)
    flags = ["--target=" + device.type, "-q", *options.get("flags", [])]
    folder = options.get("cache") or os.environ.get("TCC_CACHE_DIR") or os.path.join(os.path.expanduser("~"), ".cache", "tcc", "torch")
    chip = str(torch.cuda.get_device_capability(device)) if device.type == "cuda" else ""
    key = hashlib.sha256("\0".join([identity(program), chip, *flags, text]).encode()).hexdigest()
    path = os.path.join(folder, key[:2], key + ".so")
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcc-torch-") as work:
        source = os.path.join(work, "graph.json")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([program, source, *flags, "-o", path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            keep = os.environ.get("TCC_KEEP_FAILED")
            if keep:
                os.makedirs(keep, exist_ok=True)
                shutil.copy(source, os.path.join(keep, key[:16] + ".json"))
            message = done.stderr.replace(source + ": ", "").replace(source, "graph").strip()
            raise Unsupported(message or f"tcc ended with exit code {done.returncode}")
    return path


# ------------------------------------------------------------------------------------------------------------- libraries

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32), ("device_ordinal", ctypes.c_int32),
                ("reserved", ctypes.c_uint64 * 2)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("name", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32), ("has_range", ctypes.c_int32),
                ("size_bytes", ctypes.c_uint64), ("low", ctypes.c_int64), ("high", ctypes.c_int64), ("reserved", ctypes.c_uint64 * 2)]


class FunctionInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("num_inputs", ctypes.c_uint32), ("num_outputs", ctypes.c_uint32),
                ("uses_gradients", ctypes.c_uint32), ("name", ctypes.c_char_p), ("workspace_bytes", ctypes.c_uint64),
                ("workspace_alignment", ctypes.c_uint64), ("planned_peak_bytes", ctypes.c_uint64), ("num_launches", ctypes.c_uint32),
                ("reserved0", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 4)]


class CreateOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("device", ctypes.c_int32), ("device_ordinal", ctypes.c_int32),
                ("num_threads", ctypes.c_int32), ("cuda_context", ctypes.c_void_p), ("weights_path", ctypes.c_char_p),
                ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p), ("allocate", ctypes.c_void_p), ("deallocate", ctypes.c_void_p),
                ("allocator_user", ctypes.c_void_p), ("no_cuda_graph", ctypes.c_uint32), ("check_weights", ctypes.c_uint32),
                ("weights_data", ctypes.c_void_p), ("weights_data_bytes", ctypes.c_uint64), ("no_index_check", ctypes.c_uint32),
                ("reserved0", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 3)]


class Api(ctypes.Structure):
    """The table of functions, in its order."""

    _fields_ = [("struct_size", ctypes.c_uint32), ("abi_version", ctypes.c_uint32)] + [(name, ctypes.c_void_p) for name in (
        "last_error model_info describe_input describe_output create destroy instance_info describe_launch run run_timed profile allocate "
        "deallocate copy synchronize find_function function_info describe_function_input describe_function_output describe_function_launch "
        "call profile_function step describe_scalar set_scalar get_scalar find_state describe_state find_section section_info read_state "
        "write_state save_state load_state reset_state").split()]


ABI_VERSION = 3
CPU, CUDA = 1, 2


class Library:
    """A loaded library with one instance on one device."""

    def __init__(self, path, device):
        self.device = torch.device(device)
        self._library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        query = self._library.tcc_model_query
        query.restype, query.argtypes = ctypes.POINTER(Api), [ctypes.c_uint32]
        self._api = query(ABI_VERSION).contents
        self._last_error = ctypes.CFUNCTYPE(ctypes.c_char_p)(self._api.last_error)
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
        self._call = self._function("call", pointer, u32, pointer, u32, pointer, u32, pointer, ctypes.c_uint64, pointer, pointer)
        self._set_scalar = self._function("set_scalar", pointer, ctypes.c_char_p, ctypes.c_double)
        options = CreateOptions(struct_size=ctypes.sizeof(CreateOptions), device=CUDA if self.device.type == "cuda" else CPU)
        options.device_ordinal = self.device.index or 0
        options.num_threads = torch.get_num_threads() if self.device.type == "cpu" else 0
        self._destroy = ctypes.CFUNCTYPE(None, pointer)(self._api.destroy)
        self._instance = pointer()
        self._check(self._function("create", pointer, pointer)(ctypes.byref(options), ctypes.byref(self._instance)))
        value = ctypes.c_double()
        self.has_seed = self._function("get_scalar", pointer, ctypes.c_char_p, pointer)(self._instance, b"seed", ctypes.byref(value)) == 0

    def _function(self, name, *arguments):
        return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(getattr(self._api, name))

    def _check(self, status):
        if status != 0:
            raise RuntimeError("tcc: " + self._last_error().decode())

    def interface(self, name=None):
        """(index, workspace bytes, names and shapes of the inputs, of the outputs) of a function, the first one without a name."""
        index = ctypes.c_uint32()
        if name is not None:
            self._check(self._function("find_function", ctypes.c_char_p, ctypes.c_void_p)(name.encode(), ctypes.byref(index)))
        info = FunctionInfo(struct_size=ctypes.sizeof(FunctionInfo))
        self._check(self._function("function_info", ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)(self._instance, index, ctypes.byref(info)))
        tensors = []
        for describe, count in (("describe_function_input", info.num_inputs), ("describe_function_output", info.num_outputs)):
            function = self._function(describe, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
            described = []
            for i in range(count):
                tensor = TensorInfo(struct_size=ctypes.sizeof(TensorInfo))
                self._check(function(index, i, ctypes.byref(tensor)))
                described.append((tensor.name.decode(), [tensor.shape[axis] for axis in range(tensor.rank)], tensor.dtype))
            tensors.append(described)
        return index.value, info.workspace_bytes, *tensors

    def set_seed(self, seed):
        self._check(self._set_scalar(self._instance, b"seed", float(seed)))

    def call(self, function, inputs, outputs, workspace, workspace_bytes):
        """`inputs`, `outputs`: arrays of Tensor, on the device. The work is ordered on torch's current stream."""
        stream = torch.cuda.current_stream(self.device).cuda_stream if self.device.type == "cuda" else None
        self._check(self._call(self._instance, function, inputs, len(inputs), outputs, len(outputs), workspace, workspace_bytes, stream, None))

    def __del__(self):
        if getattr(self, "_instance", None):
            self._destroy(self._instance)


def tensor_array(descriptions, device):
    """An array of Tensor without addresses, and what keeps its shapes alive."""
    array, shapes = (Tensor * len(descriptions))(), []
    for entry, (_, shape, dtype) in zip(array, descriptions):
        shapes.append((ctypes.c_int64 * max(1, len(shape)))(*shape))
        entry.shape, entry.rank, entry.dtype = shapes[-1], len(shape), dtype
        entry.device, entry.device_ordinal = (CUDA if device.type == "cuda" else CPU), device.index or 0
    return array, shapes


# ------------------------------------------------------------------------------------------------------------ the backend

ALIGNMENT = 16  # of addresses on a CUDA device


class Compiled:
    """One graph with all its sizes known: a library and how its arguments come and its results go."""

    def __init__(self, module, symbols, device, options):
        writer = GraphWriter(module, "g0", symbols=symbols, in_memory_order=True)
        self.outputs = output_values(module)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        views = [self.view_of(value) for value in self.outputs]
        writer.replayed = only_replayed(module, {node for _, chain in filter(None, views) for node in chain})
        writer.write()
        computed, self.plans = {}, []
        for value, view in zip(self.outputs, views):
            self.plans.append(self.plan(writer, value, view, placeholders, computed))
        self.module, self.library = module, None
        if not writer.json["outputs"]:
            return
        text = json.dumps(document([writer.json], "g0"), separators=(",", ":"))
        self.library = Library(compile_library(text, device, options), device)
        self.function, self.workspace_bytes, inputs, outputs = self.library.interface()
        self.device = device
        self.inputs, self._input_shapes = tensor_array(inputs, device)
        self.out_array, self._output_shapes = tensor_array(outputs, device)
        # Where each input of the library comes from: the position of an argument, or a constant.
        arguments = {writer.inputs[node]: i for i, node in enumerate(placeholders) if node in writer.inputs}
        self.sources = []
        for k, (name, shape, _) in enumerate(inputs):
            if name in arguments:
                value = placeholders[arguments[name]].meta["val"]
                strides = [writer.size(s) for s in value.stride()]
                shape = tuple(writer.size(s) for s in value.shape)
                self.sources.append((arguments[name], shape, tuple(strides), dense_permutation(shape, strides) is not None))
            else:
                with unset_fake_temporarily():  # AOTAutograd compiles where new tensors are fake
                    self.sources.append(writer.constants[name].detach().to(device).contiguous())
                self.inputs[k].data = self.sources[-1].data_ptr()
        self.last = [None] * len(self.sources)

    @staticmethod
    def view_of(value):
        """(root, chain) when an output is a view of an argument: made by torch, so that it shares the memory as in eager mode."""
        chain = []
        while isinstance(value, torch.fx.Node) and value.op == "call_function" and value.target in VIEWS:
            chain.append(value)
            value = value.args[0]
        is_argument = isinstance(value, torch.fx.Node) and value.op == "placeholder"
        return (value, chain[::-1]) if is_argument and isinstance(value.meta.get("val"), torch.Tensor) else None

    def plan(self, writer, value, view, placeholders, computed):
        """How an output is had: ("none",), ("number", n), ("view", position, nodes), ("made", index, shape, strides, dtype)."""
        if not isinstance(value, torch.fx.Node):
            return ("number", value) if value is not None else ("none",)
        if value in writer.numbers:
            return ("number", writer.numbers[value])
        if view is not None:
            return ("view", placeholders.index(view[0]), [resolved(node, writer) for node in view[1]])
        if value in computed:
            return computed[value]
        meta = value.meta["val"] if "val" in value.meta else writer.constants[writer.attribute(value)["v"]]
        if not isinstance(meta, torch.Tensor):
            raise Unsupported(f"the output {value}, which is not a tensor")
        shape, strides = [writer.size(s) for s in meta.shape], [writer.size(s) for s in meta.stride()]
        order = dense_permutation(shape, strides)
        writer.output(value, {"kind": "user"})
        if order is not None and order != list(range(len(shape))):
            entry = writer.json["outputs"][-1]
            entry["value"] = writer.permute(entry["value"], order, [shape[axis] for axis in order], entry["value"] + "_stored")
        elif order is None:
            strides = None
        computed[value] = ("made", len(writer.json["outputs"]) - 1, shape, strides, meta.dtype)
        return computed[value]

    def __call__(self, arguments):
        made = self.run(arguments) if self.library is not None else []
        results = []
        for plan in self.plans:
            if plan[0] == "made":
                results.append(made[plan[1]])
            elif plan[0] == "view":
                value = arguments[plan[1]]
                for target, args, kwargs in plan[2]:
                    value = target(value, *args, **kwargs)
                results.append(value)
            else:
                results.append(plan[1] if plan[0] == "number" else None)
        return results

    def run(self, arguments):
        kept = []  # copies, alive until the call has been made
        inputs, last = self.inputs, self.last
        for k, source in enumerate(self.sources):
            if isinstance(source, torch.Tensor):
                continue
            tensor = arguments[source[0]]
            if tensor is not last[k]:
                if tensor.device != self.device or not fits(tensor, *source[1:]):
                    tensor = stored_as(tensor, *source[1:], self.device)
                    kept.append(tensor)
                    last[k] = None
                else:
                    last[k] = tensor
            address = tensor.data_ptr()
            if address % ALIGNMENT and self.device.type == "cuda":
                tensor = stored_as(tensor.clone(), *source[1:], self.device)
                kept.append(tensor)
                address, last[k] = tensor.data_ptr(), None
            inputs[k].data = address
        outputs = {}
        for plan in self.plans:
            if plan[0] == "made" and plan[1] not in outputs:
                _, index, shape, strides, dtype = plan
                made = torch.empty(shape, dtype=dtype, device=self.device) if strides is None else torch.empty_strided(
                    shape, strides, dtype=dtype, device=self.device)
                outputs[index] = made
                self.out_array[index].data = made.data_ptr()
        workspace, size = None, 0
        if self.device.type == "cuda" and self.workspace_bytes:
            # From torch's allocator, so that all libraries share the memory and streams are kept apart.
            block = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=self.device)
            workspace, size = block.data_ptr(), self.workspace_bytes
        if self.library.has_seed:
            self.library.set_seed(int(torch.randint(0, 2**52, (), dtype=torch.int64)))
        self.library.call(self.function, self.inputs, self.out_array, workspace, size)
        return outputs


def only_replayed(module, views):
    """Of the views of arguments those that nothing but outputs and such views reads."""
    kept = set(views)
    changed = True
    while changed:
        changed = False
        for node in list(kept):
            if any(user.op != "output" and user not in kept for user in node.users):
                kept.discard(node)
                changed = True
    return kept


def resolved(node, writer):
    """A view as (function, arguments behind the first, keyword arguments), with numbers in the place of sizes."""
    def number(value):
        if isinstance(value, torch.fx.Node):
            return writer.numbers[value]
        if isinstance(value, (list, tuple)):
            return [number(each) for each in value]
        return writer.size(value) if isinstance(value, torch.SymInt) else value
    return node.target, [number(a) for a in node.args[1:]], {key: number(a) for key, a in node.kwargs.items()}


def fits(tensor, shape, strides, is_dense):
    """Whether the memory is dense and laid out as it was when the graph was captured (axes of one element may have any stride)."""
    if not is_dense or tensor.shape != shape:
        return False
    return tensor.stride() == strides or all(a == b or n <= 1 for a, b, n in zip(tensor.stride(), strides, shape))


def stored_as(tensor, shape, strides, is_dense, device):
    """A copy of the tensor in the layout that the library takes: dense in the captured order of axes, else row-major."""
    if tuple(tensor.shape) != shape:
        raise RuntimeError(f"tcc: a tensor is {tuple(tensor.shape)}, the graph was captured for {shape}")
    if not is_dense:
        return tensor.to(device).contiguous()
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device=device).copy_(tensor)


class Specializer:
    """A captured graph, compiled anew for each set of sizes that it is called with."""

    def __init__(self, module, options):
        self.module, self.options = module, options
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.device = device_of(module)
        self.compiled = {}
        self.symbolic = []  # (position, axis or None, symbol)
        for i, node in enumerate(self.placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self.symbolic += [(i, axis, s.node.expr) for axis, s in enumerate(value.shape)
                                  if isinstance(s, torch.SymInt) and s.node.expr.is_Symbol]
            elif isinstance(value, (torch.SymInt, torch.SymFloat)) and value.node.expr.is_Symbol:
                self.symbolic.append((i, None, value.node.expr))
        if not self.symbolic:
            self.specialize(())

    def specialize(self, key):
        import sympy
        symbols = {symbol: sympy.sympify(number) for (_, _, symbol), number in zip(self.symbolic, key)}
        try:
            self.compiled[key] = Compiled(self.module, symbols, self.device, self.options)
        except Unsupported as error:
            warnings.warn(f"tcc does not compile a graph of {len(self.module.graph.nodes)} nodes, which runs in eager mode: {error}",
                          stacklevel=2)
            self.compiled[key] = lambda arguments: self.module(*arguments)
        return self.compiled[key]

    def __call__(self, arguments):
        key = tuple(arguments[i] if axis is None else arguments[i].shape[axis] for i, axis, _ in self.symbolic)
        return (self.compiled.get(key) or self.specialize(key))(arguments)


def device_of(module):
    """The device of a graph: that of its results, since scalars and indices of the host go along with any."""
    devices = set()
    for node in module.graph.nodes:
        value = node.meta.get("val")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, torch.Tensor):
                devices.add(each.device)
    accelerators = {d for d in devices if d.type != "cpu"}
    if len(accelerators) > 1 or any(d.type != "cuda" for d in accelerators):
        return next(iter(accelerators))
    device = next(iter(accelerators), torch.device("cpu"))
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def compile_graph(options):
    def compiler(module, example_inputs):
        try:
            if device_of(module).type not in ("cpu", "cuda"):
                raise Unsupported(f"graphs on {device_of(module)}")
            specializer = Specializer(module, options)
            return boxed(lambda *arguments: specializer(arguments))
        except Unsupported as error:
            warnings.warn(f"tcc does not compile a graph, which runs in eager mode: {error}", stacklevel=2)
            return boxed(module)
    return compiler


def boxed(function):
    """The function of one list that AOTAutograd calls: the list is emptied, so that what the caller holds there is freed in time."""
    def call(arguments):
        values = list(arguments)
        arguments.clear()
        return function(*values)
    call._boxed_call = True
    return call


def decompositions():
    """Operators that autograd leaves whole and tcc takes apart as torch does."""
    return torch._decomp.core_aten_decompositions()


def plain_attention():
    """Attention as matrix products and a softmax: the fused forms differ by device and leave nothing to fuse with."""
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


def backend(module, example_inputs, options=None, mode=None):
    """The backend "tcc" of torch.compile."""
    del mode
    compiler = compile_graph(dict(options or {}))
    with plain_attention():
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler,
                            partition_fn=min_cut_rematerialization_partition, decompositions=decompositions())(module, example_inputs)


torch._dynamo.register_backend(name="tcc")(backend)


# --------------------------------------------------------------------------------------------------------------- dumps

class Dump:
    """Collects what TorchDynamo captures while a function runs."""

    def __init__(self, module):
        self.graphs, self.symbols, self.weights, self.tensors = [], {}, [], []
        self.known = {}
        self.pieces = 0
        self.arguments = []  # their names, in order
        if isinstance(module, torch.nn.Module):
            self.arguments = list(inspect.signature(module.forward).parameters)
            for kind, named in (("param", module.named_parameters()), ("buffer", module.named_buffers())):
                for fqn, tensor in named:
                    self.known.setdefault(id(tensor), (kind, fqn))
        self.last = None

    # ---- what a captured graph reads

    def backend(self, module, example_inputs):
        inputs = []
        for node in (n for n in module.graph.nodes if n.op == "placeholder"):
            argument = node.meta.get("grapharg")
            source = argument.source.name if argument is not None and argument.source is not None else node.name
            example = argument.example if argument is not None else None
            kind, fqn = self.known.get(id(example), (None, None))
            if kind is None and isinstance(example, torch.nn.Parameter):
                kind, fqn = "param", source
            inputs.append({"kind": kind or "user", "fqn": fqn, "source": source, "tensor": example if kind else None,
                           "value": example if isinstance(example, (bool, int, float)) else None})
        reason = getattr(module, "compile_subgraph_reason", None)
        broken = reason is not None and reason.graph_break
        context = torch._guards.TracingContext.try_get()
        self.last = {"piece": None, "inputs": inputs, "shape_env": context.fake_mode.shape_env if context else None, "forward": None,
                     "meta": {"compile_id": compile_id(), "break_reason": reason.reason if broken else None,
                              "user_stack": [f"{os.path.basename(f.filename)}:{f.lineno}" for f in reason.user_stack] if broken else []}}
        last = self.last
        with plain_attention():
            return aot_module_simplified(
                module, example_inputs, fw_compiler=lambda m, _: self.forward(m, last, "forward"),
                bw_compiler=lambda m, _: self.backward(m, last), inference_compiler=lambda m, _: self.forward(m, last, "forward"),
                partition_fn=min_cut_rematerialization_partition, decompositions=decompositions())

    def forward(self, module, piece, role):
        # Numbered here: TorchDynamo may begin a capture anew, after its backend was called.
        piece["piece"] = f"g{self.pieces}"
        self.pieces += 1
        writer = GraphWriter(module, piece["piece"], role)
        writer.write(lambda node: self.describe(node, piece))
        user_names = {}
        for value, desc in self.described_outputs(module):
            kind = type(desc).__name__
            if kind == "InputMutationAOTOutput":
                keys = {"kind": "mutation", "target": self.target(desc.mutated_input, piece)}
            elif kind.startswith("SavedForBackwards"):
                keys = {"kind": "saved"}
                given = {entry["value"] for entry in writer.json["outputs"]}
                if (value in writer.inputs and self.is_weight(value, piece)) or writer.names.get(value) in given:
                    continue  # the backward graph has it under its name
            else:
                keys = {"kind": "user"}
            writer.output(value if isinstance(value, torch.fx.Node) else None, keys)
            if isinstance(value, torch.fx.Node):
                user_names[value.name] = writer.names.get(value)
        piece["forward"], piece["names"] = writer, user_names
        self.add(writer, piece["meta"])
        return boxed(module)

    def backward(self, module, piece):
        writer = GraphWriter(module, piece["piece"] + "_backward", "backward")
        writer.write(lambda node: self.describe_backward(node, piece))
        for value, desc in self.described_outputs(module):
            keys = {"kind": "user"}
            if type(desc).__name__ == "GradAOTOutput":
                keys = {"kind": "gradient", "target": self.target(desc.grad_of, piece)}
            writer.output(value if isinstance(value, torch.fx.Node) else None, keys)
        self.add(writer, {"compile_id": piece["meta"]["compile_id"], "forward": piece["piece"]})
        return boxed(module)

    @staticmethod
    def described_outputs(module):
        node = next(n for n in module.graph.nodes if n.op == "output")
        values = output_values(module)
        return list(zip(values, node.meta.get("desc") or [None] * len(values)))

    def input_of(self, desc, piece):
        index = getattr(desc, "idx", None)
        return piece["inputs"][index] if type(desc).__name__ == "PlainAOTInput" and index < len(piece["inputs"]) else None

    def is_weight(self, node, piece):
        given = self.input_of(node.meta.get("desc"), piece)
        return given is not None and given["fqn"] is not None

    def describe(self, node, piece):
        given = self.input_of(node.meta.get("desc"), piece)
        if given is None:
            return {"kind": "user"}, node.name
        name = given["fqn"] or self.readable(given["source"])
        keys = {"kind": given["kind"], "source": given["source"]}
        if given["fqn"] is not None:
            keys["fqn"] = given["fqn"]
            self.keep(given["fqn"], given["tensor"])
        if given["value"] is not None and not isinstance(node.meta.get("val"), torch.Tensor):
            keys["value"] = given["value"]
        given["name"] = words(name)
        return keys, name

    def describe_backward(self, node, piece):
        desc = node.meta.get("desc")
        if type(desc).__name__ == "TangentAOTInput":
            return {"kind": "tangent"}, node.name
        if self.is_weight(node, piece):
            return self.describe(node, piece)
        return {"kind": "saved"}, piece["names"].get(node.name) or node.name

    def target(self, desc, piece):
        given = self.input_of(desc, piece)
        if given is None:
            raise Unsupported(f"a result that belongs to {type(desc).__name__}")
        return given["fqn"] or given.get("name") or words(self.readable(given["source"]))

    def readable(self, source):
        """`x` of `L['x']`, `data_0` of `L['data'][0]`; arguments of a module by their names."""
        match = re.match(r"L\['args'\]\[(\d+)\]", source)
        if match and int(match[1]) < len(self.arguments):
            source = self.arguments[int(match[1])] + source[match.end():]
        return words(re.sub(r"^L\['(\w+)'\]", r"\1", source))

    # ---- what the file holds beside graphs

    def keep(self, fqn, tensor):
        if any(weight["fqn"] == fqn for weight in self.weights):
            return
        self.weights.append({"fqn": fqn, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)})
        self.tensors.append(tensor)

    def add(self, writer, meta):
        for name, tensor in writer.constants.items():
            fqn = f"{writer.json['id']}.{name}"
            next(i for i in writer.json["inputs"] if i["name"] == name)["fqn"] = fqn
            self.keep(fqn, tensor)
        writer.json["meta"] = meta
        self.graphs += [writer.json] + writer.bodies
        shape_env = self.last["shape_env"]
        for symbol in sorted(writer.used_symbols, key=str):
            low = high = hint = None
            if shape_env is not None and symbol in shape_env.var_to_range:
                bounds = shape_env.var_to_range[symbol]
                low, high = (int(b) if b.is_Integer and abs(int(b)) < 2**31 else None for b in (bounds.lower, bounds.upper))
                backed = getattr(shape_env, "backed_var_to_val", None) or shape_env.var_to_val
                hint = int(backed[symbol]) if symbol in backed else None
            self.symbols[str(symbol)] = {"min": low, "max": high, "hint": hint}

    def guards(self, guards):
        """Called when the guards of the piece last captured are known."""
        piece = self.last
        if piece is None or piece["forward"] is None:
            return
        graph = piece["forward"].json
        by_source = {i.get("source"): i["name"] for i in graph["inputs"]}
        written = []
        shape_env = piece["shape_env"]
        for guard in shape_env.guards if shape_env is not None else []:
            try:
                text = infix(guard.expr)
                if all(str(s) in self.symbols for s in guard.expr.free_symbols):
                    written.append({"kind": "expr", "expr": text})
            except Unsupported:
                written.append({"kind": "opaque", "text": str(guard.expr)})
        for guard in sorted(guards):
            written += guards_of(guard, by_source, graph)
        unique = []
        for guard in written:
            if guard not in unique:
                unique.append(guard)
        graph["guards"] = unique

    def write(self, path):
        if not self.graphs:
            raise ValueError("nothing was captured: the function computes nothing with tensors")
        folder, name = os.path.split(os.path.abspath(path))
        if self.weights:
            file = os.path.splitext(name)[0] + ".weights"
            offset = 0
            with open(os.path.join(folder, file), "wb") as out:
                for weight, tensor in zip(self.weights, self.tensors):
                    out.write(b"\0" * (-offset % 64))
                    offset += -offset % 64
                    data = bytes_of(tensor)
                    out.write(data)
                    weight.update(file=file, offset=offset, length=len(data))
                    offset += len(data)
        with open(path, "w", encoding="utf-8") as out:
            out.write(in_lines(document(self.graphs, self.graphs[0]["id"], self.symbols, self.weights)) + "\n")


def in_lines(value, depth=0):
    """JSON in which everything that is small stands in one line."""
    text = json.dumps(value)
    if len(text) <= 140 or not isinstance(value, (list, dict)):
        return text
    pad = " " * (depth + 1)
    if isinstance(value, list):
        if depth > 3:  # inside of a node or a type
            return text
        return "[\n" + ",\n".join(pad + in_lines(each, depth + 1) for each in value) + "\n" + pad[1:] + "]"
    if depth > 3:
        return text
    return "{\n" + ",\n".join(f"{pad}{json.dumps(k)}: {in_lines(v, depth + 1)}" for k, v in value.items()) + "\n" + pad[1:] + "}"


def bytes_of(tensor):
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def compile_id():
    context = torch._guards.CompileContext.try_get() if hasattr(torch._guards.CompileContext, "try_get") else None
    return str(context.compile_id) if context is not None else None


STATES = ("GRAD_MODE", "DETERMINISTIC_ALGORITHMS")


def guards_of(guard, by_source, graph):
    kind, source = guard.create_fn_name(), guard.name
    if kind == "TENSOR_MATCH" and source in by_source:
        name = by_source[source]
        value = graph["values"][name]
        if "dtype" in value:
            shape = [s if isinstance(s, int) else None for s in value["shape"]]
            return [{"kind": "tensor", "input": name, "dtype": value["dtype"], "rank": len(shape), "shape": shape}]
    if kind == "GRAD_MODE":
        return [{"kind": "state", "name": "grad_enabled", "value": torch.is_grad_enabled()}]
    if kind in ("CONSTANT_MATCH", "EQUALS_MATCH"):
        for code in guard.code_list or []:
            match = re.fullmatch(r"(.+) == (-?[\d.]+(?:e-?\d+)?|True|False)", code)
            if match:
                return [{"kind": "value", "source": match[1], "equals": json.loads(match[2].lower())}]
    # The identities of Python objects and tables say nothing outside of that process.
    return [{"kind": "opaque", "text": code} for code in guard.code_list or [] if not re.search(r"_id\(|0x|\d{9,}|__import_", code)]


def dump(function, args=(), path="model.json", *, kwargs=None, training=False, dynamic=False):
    """Runs function(*args, **kwargs) once and writes the graphs that TorchDynamo captures of it as tcc.fx JSON to `path`.

    function: a callable or module. Graph breaks make several graphs, each with the reason (`meta.break_reason`), guards and sources of inputs.
    Parameters and buffers of a module go to `<path without ending>.weights` beside it. training=True: the forward and backward graphs of
    AOTAutograd; the sum of all results is differentiated. dynamic=True: sizes of inputs are symbols.
    Returns what the call returned. Unsupported: a graph has what tcc.fx has no form for.
    """
    torch._dynamo.reset()
    collected = Dump(function)
    optimized = torch._dynamo.optimize(collected.backend, guard_export_fn=collected.guards, dynamic=dynamic)(function)
    with torch.set_grad_enabled(training):
        result = optimized(*args, **(kwargs or {}))
        if training:
            leaves = torch.utils._pytree.tree_leaves(result)
            losses = [leaf.sum() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            if not losses:
                raise ValueError("no result depends on a parameter: there is nothing to differentiate")
            sum(losses).backward()
    torch._dynamo.reset()
    collected.write(path)
    return result
