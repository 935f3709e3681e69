// The attribute column of ops.def, parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tcc/ops/op.h"

namespace tcc {

/// `number`: a float when the node's `dtype` attribute is a float dtype, an integer otherwise.
enum class AttrKind : uint8_t { boolean, integer, floating, string, dtype, ints, floats, number };
std::string_view name_of(AttrKind kind);

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool optional;
};
/// In the order of ops.def.
std::span<const AttrSpec> attribute_schema(Op op);
const AttrSpec* find_attribute(Op op, std::string_view name);

}  // namespace tcc
