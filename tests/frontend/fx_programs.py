"""What the writers of cases share: tensors that are short to write, and exported programs as JSON without what nothing reads."""
import io
import json
import warnings
import zipfile

import torch

warnings.filterwarnings("ignore")
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
          torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.bool: "bool"}


def r(*shape, low=-2.0, high=2.0):
    """Multiples of 1/8: short to write, and exact in 16 bits."""
    return (torch.rand(shape) * (high - low) * 8).floor() / 8 + low


def ints(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


class Wrap(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        outputs = self.function(*inputs)
        return tuple(outputs) if isinstance(outputs, tuple) else outputs  # named tuples have no form in a file


def program_of(exported):
    """The program's JSON without what nothing reads."""
    file = io.BytesIO()
    torch.export.save(exported, file)
    archive = zipfile.ZipFile(file)
    name = next(n for n in archive.namelist() if "/models/" in n and n.endswith(".json"))
    program = json.loads(archive.read(name))
    return without_unread(program)


def drop(value, keys):
    """Takes the keys out of every object in `value`: nodes are in inner graphs, too. Metadata name files of the machine that exports."""
    if isinstance(value, dict):
        for key in keys:
            value.pop(key, None)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        drop(each, keys)


def without_unread(program):
    """What nothing reads is left out: strides are read by operators that name them."""
    module = program["graph_module"]
    drop(module["graph"], ["metadata", "is_hop_single_tensor_return"])
    strided = any("as_strided" in node["target"] for node in module["graph"]["nodes"])
    for meta in module["graph"]["tensor_values"].values():
        for key in ["requires_grad", "device", "layout"] + ([] if strided else ["strides", "storage_offset"]):
            meta.pop(key, None)
    return {"graph_module": {"graph": {k: module["graph"][k] for k in ["inputs", "outputs", "nodes", "tensor_values"]},
                             "signature": module["signature"]},
            "range_constraints": program["range_constraints"], "schema_version": program["schema_version"],
            "torch_version": program["torch_version"].split("+")[0]}


def numbers(tensor):
    tensor = tensor.detach()
    values = tensor.double().flatten().tolist() if tensor.is_floating_point() else tensor.to(torch.int64).flatten().tolist()
    values = [("nan" if v != v else "inf" if v > 0 else "-inf") if isinstance(v, float) and abs(v) in (float("inf"),) or v != v else
              float("%.9g" % v) if isinstance(v, float) else v for v in values]
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "values": values}
