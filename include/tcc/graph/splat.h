// Tensors whose elements are all the same: `full` says that in one line, and rewrites look for them.
#pragma once

#include <optional>

#include "tcc/graph/graph.h"

namespace tcc {

/// The one value: a double for float dtypes, an int64_t for the others.
struct Splat {
  DType dtype;
  double floating = 0;
  int64_t integer = 0;
  double as_double() const { return is_float(dtype) ? floating : static_cast<double>(integer); }
};

/// The value of a tensor whose elements are bitwise equal; nothing for others and for empty ones.
std::optional<Splat> splat_of(const Tensor& tensor);
/// Attributes of the `full` of this type and value.
Attrs full_attrs(const Type& type, const Splat& splat);
/// The value of a `full` node.
Splat splat_of_full(const Node& full);

}  // namespace tcc
