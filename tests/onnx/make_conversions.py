"""make_conversions.py: writes conversions.txt beside it: what ml_dtypes and ONNX's reference make of every f16, as checksums.

A line is a target type of ONNX, a variant, which numbers were converted, and the CRC-32 of the results as f32 (NaN as 0x7fc00000).
"""
import pathlib
import warnings
import zlib

import ml_dtypes
import numpy as np
from onnx import numpy_helper

warnings.filterwarnings("ignore")
every = np.arange(65536, dtype=np.uint16).view(np.float16)
finite = every[np.isfinite(every)]
not_nan = every[~np.isnan(every)]
positive = finite[finite > 0]
lines = []


def add(target, variant, which, results):
    values = np.asarray(results).astype(np.float32)
    values[np.isnan(values)] = np.array([0x7FC00000], np.uint32).view(np.float32)[0]
    lines.append(f"{target} {variant} {which} {zlib.crc32(values.tobytes()):08x}\n")


for name, dtype in (("f8e4m3fn", ml_dtypes.float8_e4m3fn), ("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
                    ("f8e5m2", ml_dtypes.float8_e5m2), ("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz)):
    add(name, "saturate", "every", numpy_helper.saturate_cast(every, dtype))
    add(name, "overflow", "every", every.astype(dtype))
for name, dtype in (("float4e2m1", ml_dtypes.float4_e2m1fn), ("float6e2m3", ml_dtypes.float6_e2m3fn), ("float6e3m2", ml_dtypes.float6_e3m2fn)):
    add(name, "saturate", "not_nan", not_nan.astype(dtype))
for name, dtype in (("i4", ml_dtypes.int4), ("u4", ml_dtypes.uint4), ("int2", ml_dtypes.int2), ("uint2", ml_dtypes.uint2)):
    add(name, "saturate", "finite", finite.astype(dtype))
for mode in ("up", "down", "nearest"):
    add("float8e8m0", mode, "positive", numpy_helper.to_float8e8m0(positive, True, mode))
pathlib.Path(__file__).with_name("conversions.txt").write_text("".join(lines))
