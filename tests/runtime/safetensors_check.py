"""What Python's package reads of a state file, and a file of its own with `w` twice as large: safetensors_check.py STATE OUT."""
import sys, numpy, safetensors
path, out = sys.argv[1:]
with safetensors.safe_open(path, framework="numpy") as f:
    assert f.metadata()["tcc.model"] == "trainer"
    assert f.get_tensor("optimizer.step").shape == () and f.get_tensor("optimizer.step") == 3
    w = f.get_tensor("w")
tensors = dict(safetensors.deserialize(open(path, "rb").read()))
assert tensors["h"]["dtype"] == "BF16" and tensors["h"]["shape"] == [3]
tensors["w"]["data"] = (w * 2).tobytes()
names, kept = {"F32": "float32", "BF16": "bfloat16"}, []
def spec(t):
    kept.append(numpy.frombuffer(bytes(t["data"]), dtype=numpy.uint8))
    if hasattr(safetensors, "TensorSpec"):
        return safetensors.TensorSpec(dtype=names[t["dtype"]], shape=t["shape"], data_ptr=kept[-1].ctypes.data, data_len=kept[-1].nbytes)
    return {"dtype": names[t["dtype"]], "shape": t["shape"], "data": bytes(t["data"])}
safetensors.serialize_file({name: spec(t) for name, t in tensors.items()}, out, {"format": "np"})
