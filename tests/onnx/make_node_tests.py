"""make_node_tests.py DIR: writes the node tests of the installed `onnx` package to DIR/node, a folder for each with model.onnx and
test_data_set_N/{input,output}_I.pb. scripts/make_onnx_tests.sh runs it.
"""
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def serialized(value, type_proto):
    if type_proto.HasField("sequence_type"):
        return numpy_helper.from_list(list(value)).SerializeToString()
    if type_proto.HasField("optional_type"):
        return numpy_helper.from_optional(value).SerializeToString()
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


def write(test, folder):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(test.model.SerializeToString())
    graph = test.model.graph
    for k, (inputs, outputs) in enumerate(test.data_sets or []):
        data = folder / f"test_data_set_{k}"
        data.mkdir()
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for i, value in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(serialized(value, infos[i].type))


def main():
    warnings.filterwarnings("ignore")  # overflow and division by zero, which the tests mean
    np.random.seed(0)
    root = pathlib.Path(sys.argv[1]) / "node"
    for test in load_model_tests(kind="node"):
        write(test, root / test.name)


main()
