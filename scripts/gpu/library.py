"""Libraries made by tcc on the CUDA device, through their C interface, taking and giving torch tensors."""
import ctypes
import subprocess

import torch

U32, I32, U64, F64, PTR = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p

# tcc_dtype, in its order.
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
          None, None, None, torch.bool, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, None, None]
PACKED = {"i4": 17, "u4": 18}
CUDA = 2


class Packed:
    """Elements of 4 bits, two in a byte of `data`, the first in its lower half."""

    def __init__(self, data, shape, dtype):
        self.data, self.shape, self.dtype = data, shape, dtype

    def numel(self):
        return self.data.numel()  # bytes, as element_size() is

    def element_size(self):
        return 1

    def clone(self):
        return Packed(self.data.clone(), self.shape, self.dtype)


class Tensor(ctypes.Structure):
    _fields_ = [("data", PTR), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", PTR), ("rank", I32), ("dtype", I32), ("device", I32),
                ("device_ordinal", I32), ("reserved", U64 * 2)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("dtype", I32), ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", I32),
                ("reserved0", I32), ("size_bytes", U64), ("reserved", U64 * 4)]


class ModelInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("num_inputs", U32), ("num_outputs", U32), ("num_weights", U32), ("name", ctypes.c_char_p),
                ("weights_bytes", U64), ("weights_embedded", U32), ("has_cpu", U32), ("has_cuda", U32), ("reserved0", U32), ("reserved", U64 * 4)]


class CreateOptions(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("device", I32), ("device_ordinal", I32), ("num_threads", I32), ("cuda_context", PTR),
                ("weights_path", ctypes.c_char_p), ("log", PTR), ("log_user", PTR), ("allocate", PTR), ("deallocate", PTR), ("allocator_user", PTR),
                ("no_cuda_graph", U32), ("reserved0", U32), ("reserved", U64 * 6)]


class InstanceInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("device", I32), ("device_ordinal", I32), ("num_threads", I32), ("device_name", ctypes.c_char_p),
                ("device_reason", ctypes.c_char_p), ("workspace_bytes", U64), ("workspace_alignment", U64), ("weights_bytes", U64),
                ("num_launches", U32), ("num_kernels", U32), ("reserved", U64 * 4)]


FUNCTION = ctypes.CFUNCTYPE
RUN = FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(Tensor), U32, ctypes.POINTER(Tensor), U32, PTR, U64, PTR)


class FunctionInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("num_inputs", U32), ("num_outputs", U32), ("uses_gradients", U32), ("name", ctypes.c_char_p),
                ("workspace_bytes", U64), ("workspace_alignment", U64), ("planned_peak_bytes", U64), ("num_launches", U32), ("reserved0", U32),
                ("reserved", U64 * 4)]


class StateInfo(ctypes.Structure):
    _fields_ = [("struct_size", U32), ("dtype", I32), ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", I32), ("role", I32),
                ("section", U32), ("trained", U32), ("offset", U64), ("size_bytes", U64), ("reserved", U64 * 4)]


CALL = FUNCTION(ctypes.c_int, PTR, U32, ctypes.POINTER(Tensor), U32, ctypes.POINTER(Tensor), U32, PTR, U64, PTR, PTR)
DESCRIBE = FUNCTION(ctypes.c_int, U32, U32, ctypes.POINTER(TensorInfo))


class Api(ctypes.Structure):
    """tcc_api as far as it is used here; the rest are places."""
    _fields_ = [("struct_size", U32), ("abi_version", U32),
                ("last_error", FUNCTION(ctypes.c_char_p)),
                ("model_info", FUNCTION(ctypes.c_int, ctypes.POINTER(ModelInfo))),
                ("describe_input", PTR), ("describe_output", PTR),
                ("create", FUNCTION(ctypes.c_int, ctypes.POINTER(CreateOptions), ctypes.POINTER(PTR))),
                ("destroy", FUNCTION(None, PTR)),
                ("instance_info", FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(InstanceInfo))),
                ("describe_launch", PTR), ("run", RUN), ("run_timed", PTR), ("profile", PTR),
                ("allocate", PTR), ("deallocate", PTR), ("copy", PTR), ("synchronize", PTR),
                ("find_function", FUNCTION(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(U32))),
                ("function_info", FUNCTION(ctypes.c_int, PTR, U32, ctypes.POINTER(FunctionInfo))),
                ("describe_function_input", DESCRIBE), ("describe_function_output", DESCRIBE),
                ("describe_function_launch", PTR), ("call", CALL), ("profile_function", PTR),
                ("step", FUNCTION(ctypes.c_int, PTR, ctypes.POINTER(Tensor), U32, ctypes.POINTER(Tensor), U32, PTR, U64, PTR, PTR)),
                ("describe_scalar", PTR),
                ("set_scalar", FUNCTION(ctypes.c_int, PTR, ctypes.c_char_p, F64)),
                ("get_scalar", PTR),
                ("find_state", FUNCTION(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(U32))),
                ("describe_state", FUNCTION(ctypes.c_int, U32, ctypes.POINTER(StateInfo))),
                ("find_section", PTR), ("section_info", PTR),
                ("read_state", FUNCTION(ctypes.c_int, PTR, ctypes.c_char_p, PTR, U64)),
                ("write_state", PTR), ("save_state", PTR), ("load_state", PTR), ("reset_state", PTR)]


class Library:
    """A library and an instance of it. Functions are named; the first one is `infer` or `grad`."""

    def __init__(self, path, weights=None):
        self.library = ctypes.CDLL(path)
        query = self.library.tcc_model_query
        query.restype, query.argtypes = ctypes.POINTER(Api), [U32]
        self.api = query(2).contents
        self.instance = PTR()
        options = CreateOptions(struct_size=ctypes.sizeof(CreateOptions), device=CUDA, device_ordinal=torch.cuda.current_device(),
                                weights_path=weights.encode() if weights else None)
        self.check(self.api.create(ctypes.byref(options), ctypes.byref(self.instance)))
        self.info = InstanceInfo(struct_size=ctypes.sizeof(InstanceInfo))
        self.check(self.api.instance_info(self.instance, ctypes.byref(self.info)))
        self.inputs, self.outputs = self.signature(0)

    def check(self, status):
        if status:
            raise RuntimeError(self.api.last_error().decode())

    def find(self, name):
        function = U32()
        self.check(self.api.find_function(name.encode(), ctypes.byref(function)))
        return function.value

    def function_info(self, function):
        info = FunctionInfo(struct_size=ctypes.sizeof(FunctionInfo))
        self.check(self.api.function_info(self.instance, function, ctypes.byref(info)))
        return info

    def signature(self, function):
        """Name, dtype and shape of each input, then of each output."""
        info = self.function_info(function)
        describe = lambda get, count: [self.describe(get, function, i) for i in range(count)]
        return describe(self.api.describe_function_input, info.num_inputs), describe(self.api.describe_function_output, info.num_outputs)

    @staticmethod
    def describe(get, function, index):
        info = TensorInfo(struct_size=ctypes.sizeof(TensorInfo))
        if get(function, index, ctypes.byref(info)):
            raise RuntimeError("describe failed")
        return info.name.decode(), DTYPES[info.dtype], tuple(info.shape[i] for i in range(info.rank))

    def view(self, tensor):
        if isinstance(tensor, Packed):
            shape = (ctypes.c_int64 * max(len(tensor.shape), 1))(*tensor.shape)
            return Tensor(data=tensor.data.data_ptr(), shape=shape, rank=len(tensor.shape), dtype=PACKED[tensor.dtype], device=CUDA,
                          device_ordinal=tensor.data.device.index or 0)
        assert tensor.is_contiguous()
        shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
        return Tensor(data=tensor.data_ptr(), shape=shape, rank=tensor.dim(), dtype=DTYPES.index(tensor.dtype), device=CUDA,
                      device_ordinal=tensor.device.index or 0)

    def views(self, tensors):
        return (Tensor * max(len(tensors), 1))(*[self.view(t) for t in tensors])

    def bind(self, inputs, function=0, outputs=None):
        """Outputs, and what runs the function on these tensors on the current stream. `step`: with the counter of micro-batches."""
        step = function == "step"
        number = self.find(function) if isinstance(function, str) else function
        if outputs is None:
            outputs = [torch.empty(shape, dtype=dtype, device="cuda") for _, dtype, shape in self.signature(number)[1]]
        views_in, views_out = self.views(inputs), self.views(outputs)
        stream = torch.cuda.current_stream().cuda_stream
        keep = inputs  # alive as long as the closure

        def run():
            if step:
                status = self.api.step(self.instance, views_in, len(keep), views_out, len(outputs), None, 0, stream, None)
            else:
                status = self.api.call(self.instance, number, views_in, len(keep), views_out, len(outputs), None, 0, stream, None)
            if status:
                self.check(status)

        return outputs, run

    def set_scalar(self, name, value):
        self.check(self.api.set_scalar(self.instance, name.encode(), value))

    def state(self, name):
        """A copy on the host; None when the library keeps no such tensor."""
        index = U32()
        if self.api.find_state(name.encode(), ctypes.byref(index)):
            return None
        info = StateInfo(struct_size=ctypes.sizeof(StateInfo))
        self.check(self.api.describe_state(index.value, ctypes.byref(info)))
        tensor = torch.empty(tuple(info.shape[i] for i in range(info.rank)), dtype=DTYPES[info.dtype])
        self.check(self.api.read_state(self.instance, name.encode(), tensor.data_ptr(), info.size_bytes))
        return tensor

    def close(self):
        self.api.destroy(self.instance)


def compile_library(tcc, arguments, output):
    result = subprocess.run([tcc, *arguments, "-o", output], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"tcc {' '.join(arguments)}: exit code {result.returncode}\n{result.stderr.strip()[:2000]}")
