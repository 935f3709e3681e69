// What views do to indices: from an index into their result to the index into their operand, and back where no element is lost.
//
//   transpose {permutation=[1, 0]}   result [i, j]   ->  operand [j, i]
//   reshape [32, 768] -> [4, 8, 768] result [b, s, j] ->  operand [b * 8 + s, j]
//   slice {starts=[0, 2]}            result [i, j]   ->  operand [i, j + 2]
#pragma once

#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/loop/index.h"

namespace tcc::group {

using Indices = std::vector<loop::Index>;

inline bool is_view(const Node& node) { return info(node.op).lowering == Lowering::view; }
inline bool is_create(const Node& node) { return info(node.op).lowering == Lowering::create; }
inline bool is_pointwise(const Node& node) { return info(node.op).lowering == Lowering::pointwise; }
/// Whether what the node makes is wider than what it is made of, and next to no work: floats of 16 bits converted to f32, shifted and scaled by values of a
/// channel or a row, or asked whether they are NaN. Whoever reads it may read those 16 bits, as through a view.
bool can_be_read_narrow(const Node& node);
/// Whether several units may have the node: views, creates and what may be read narrow.
inline bool may_repeat(const Node& node) { return is_view(node) || is_create(node) || can_be_read_narrow(node); }
/// A node that can be read narrow and does more than convert.
bool is_arithmetic_on_narrow(const Node& node);
inline bool is_reduce(const Node& node) { return info(node.op).lowering == Lowering::reduce; }
/// Whether the view only renames elements: every element of the operand is exactly one of the result.
inline bool is_bijective_view(const Node& node) { return node.op == Op::reshape_ || node.op == Op::transpose_ || node.op == Op::reverse_; }

/// The index of the same element in another shape of the same count; each run of dimensions that match is mapped on its own.
Indices reshape_indices(const Indices& at, const Shape& from, const Shape& to);
/// The operand's index for the result's index `at`. Any view but pad, whose elements may be outside its operand.
Indices pull_back(const Node& view, const Indices& at);
/// The result's index for the operand's index `at`, of a bijective view.
Indices push_forward(const Node& view, const Indices& at);

/// The axes that reduce leaves, in order.
std::vector<int> kept_axes(const Node& reduce);
/// The axes that reduce takes away (of argmax and argmin: the one).
std::vector<int64_t> reduced_axes(const Node& reduce);

std::vector<loop::VarRef> vars_of(const Indices& at);
/// Whether any component holds a division, a remainder or a scalar.
bool is_affine(const Indices& at);

}  // namespace tcc::group
