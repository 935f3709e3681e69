// The attribute column of ops.def, parsed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tcc/graph/graph.h"

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

/// What is wrong with the attributes of a node, "" when they follow the schema.
std::string attribute_fault(Op op, const Attrs& attrs);
/// What is wrong with the number of operands, "" when it is within the bounds of ops.def.
std::string operand_count_fault(Op op, int operands);

}  // namespace tcc
