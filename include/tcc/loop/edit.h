// What the primitives share: finding loops by name, editing blocks, and small facts about expressions.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

/// True for `stem` itself and its copies, `stem.tail`, `stem.init`, ...
bool is_copy(std::string_view name, std::string_view stem);
/// The name of a part of a copied dim: ("i.tail", "i", "i_0") -> "i_0.tail".
std::string restem(const std::string& name, std::string_view stem, std::string_view part);

/// Index of the dim that is `name` or a copy of it, -1 when there is none.
int find_dim(const std::vector<Dim>& dims, std::string_view name);

/// Replaces each statement for which `edit` returns a block, outermost first; what was replaced is not visited again.
void rewrite(Block& block, const std::function<std::optional<Block>(Stmt&)>& edit);
/// Visits every block, outer ones first.
void for_each_block(Block& block, const std::function<void(Block&)>& f);

void visit(const ExprPtr& expr, const std::function<void(const Expr&)>& f);
bool uses(const ExprPtr& expr, const Var* var);
bool uses_any(const ExprPtr& expr, const std::vector<Dim>& dims);
bool uses_scalar(const ExprPtr& expr, const Scalar* scalar);
bool uses_scalar(const Block& block, const Scalar* scalar);
/// Scalars that the expression reads, also within indices.
void collect_scalars(const ExprPtr& expr, std::set<const Scalar*>& scalars);
void collect_scalars(const Block& block, std::set<const Scalar*>& scalars);

/// a && b && c -> {a, b, c}; nothing for null.
std::vector<ExprPtr> conjuncts(const ExprPtr& condition);
ExprPtr conjunction(const std::vector<ExprPtr>& conditions);
/// `index < high` as in_range writes it.
struct UpperBound {
  Index index;
  int64_t high = 0;
};
std::optional<UpperBound> as_upper_bound(const ExprPtr& condition);
/// An index that is in [0, its high) where and only where `index` is in [0, high), with fewer divisions: 0 <= x / d + c < n says 0 <= x + c * d < n * d.
UpperBound without_divisions(const Index& index, int64_t high);

/// What is not negative where and only where a comparison holds; nothing for those of more than places.
std::optional<Index> distance_of(const ExprPtr& condition);

/// Statements behind those of the block.
void append(Block& block, Block more);

/// Replaces one variable everywhere in the block.
Block substitute_var(const Block& block, const VarRef& var, const Index& by);
ExprPtr substitute_var(const ExprPtr& expr, const VarRef& var, const Index& by);

/// Without roundings of f32 to 16 bits and back; values of 8 bits become f32 at once.
ExprPtr without_rounding(const ExprPtr& expr);

/// The pointwise op of the combiner applied.
ExprPtr combine_values(Combiner combiner, const ExprPtr& a, const ExprPtr& b);

/// Makes loads safe where the variables run past a mask: `else 0` on those whose indices use one of them (or a scalar) and may leave the buffer.
Block guard_loads(const Block& block, const std::vector<VarRef>& unmasked);

/// The lets of `block` (in order) that the roots need, directly or through each other. False when a statement that is not a let is needed.
bool needed_lets(const Block& block, const std::set<const Scalar*>& roots, Block& needed);

/// Removes lets (and reduces) that nothing in the block or among the roots reads.
void drop_unused(Block& block, std::set<const Scalar*> roots);

}  // namespace tcc::loop
