// What nodes compute, as text that is equal for equal computations: names, locations and the graph they are in don't count.
//
// The layers of a model, and the graphs that are tried with more or less of it computed again, consist of the same few units. What is known of one of them is
// found again by its structure.
#pragma once

#include <optional>
#include <string>

#include "tcc/group/group.h"

namespace tcc::group {

/// Appends the op of a node, its attributes, and the types of operands and results. Not for printing.
void append_computation(std::string& text, const Node& node);

/// The structure of a unit: of two units with the same one, lower() makes the same loops. Nothing for a unit with checks of indices: what they are depends on
/// where the indices come from, which is outside of the unit.
std::optional<std::string> structure_of(const Unit& unit);

}  // namespace tcc::group
