// Tensors whose elements are all the same.

#include "tcc/graph/splat.h"

#include <cstring>

namespace tcc {

std::optional<Splat> splat_of(const Tensor& tensor) {
  const int64_t count = tensor.count();
  if (count == 0) return std::nullopt;
  if (size_bits(tensor.dtype()) < 8) {
    for (int64_t i = 1; i < count; ++i) {
      if (tensor.as_int64(i) != tensor.as_int64(0)) return std::nullopt;
    }
  } else {
    const size_t width = static_cast<size_t>(size_bytes(tensor.dtype()));
    // Every element equals its neighbour.
    if (std::memcmp(tensor.bytes(), tensor.bytes() + width, static_cast<size_t>(tensor.size_bytes()) - width) != 0) return std::nullopt;
  }
  Splat splat{tensor.dtype()};
  if (is_float(splat.dtype)) splat.floating = tensor.as_double(0);
  else splat.integer = tensor.as_int64(0);
  return splat;
}

Attrs full_attrs(const Type& type, const Splat& splat) {
  Attrs attrs{{"shape", type.shape()}, {"dtype", type.dtype}};
  if (is_float(type.dtype)) attrs.set("value", splat.floating);
  else attrs.set("value", splat.integer);
  return attrs;
}

Splat splat_of_full(const Node& full) {
  Splat splat{full.attrs.get_dtype("dtype")};
  if (is_float(splat.dtype)) splat.floating = full.attrs.get_float("value");
  else splat.integer = full.attrs.get_int("value");
  return splat;
}

}  // namespace tcc
