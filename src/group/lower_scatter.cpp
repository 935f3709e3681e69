// scatter_elements and scatter_nd: a nest that copies the data, then one over the updates. Only the scatter statement may collide.
//
//   %y = scatter_nd(%x, %indices, %updates) {combiner="add"}
//     ->   map %i in 8, %j in 4 { store load %a0[%i, %j], %r0[%i, %j] }
//          map %ib in 3, %jb in 4 { scatter add load %a2[%ib, %jb], %r0[load %a1[%ib, 0], %jb] }
//
// Negative indices wrap once; what is still outside is not written.

#include "group/lower.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::Index;
using loop::VarRef;

void lower_scatter(const Unit& unit, Inliner& inliner) {
  const Node& node = *unit.anchor;
  const Value *data = node.operand(0), *indices = node.operand(1), *updates = node.operand(2), *result = node.result();
  const loop::BufferRef& buffer = inliner.buffer_of(result);
  if (result->type.count() == 0) return;
  {
    Indices at;
    const std::vector<VarRef> vars = nest_vars(inliner, result->type.shape(), &at);
    inliner.nest(vars, [&] {
      const auto value = inliner.value_at(data, at);
      inliner.append({loop::Store{buffer, at, Inliner::as_stored(value, buffer->dtype)}});
    });
  }
  if (updates->type.count() == 0) return;
  const std::optional<Combiner> combiner = scatter_combiner_named(node.attrs.get_string("combiner"));
  check(combiner.has_value(), "a scatter whose combiner was checked");
  const Shape shape = result->type.shape();
  Indices at;
  const std::vector<VarRef> vars = nest_vars(inliner, updates->type.shape(), &at);
  inliner.nest(vars, [&] {
    Indices to;
    if (node.op == Op::scatter_elements_) {
      const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
      to = at;
      to[axis] = inliner.index_read(node, at, shape[axis]);
    } else {
      const size_t tuple_rank = static_cast<size_t>(indices->type.rank()) - 1;
      const int64_t depth = indices->type.shape().back();
      for (int64_t i = 0; i < depth; ++i) {
        Indices one(at.begin(), at.begin() + static_cast<ptrdiff_t>(tuple_rank));
        one.emplace_back(i);
        to.push_back(inliner.index_read(node, one, shape[static_cast<size_t>(i)]));
      }
      to.insert(to.end(), at.begin() + static_cast<ptrdiff_t>(tuple_rank), at.end());
    }
    const auto value = inliner.value_at(updates, at);
    inliner.append({loop::Scatter{buffer, to, *combiner, Inliner::as_stored(value, buffer->dtype)}});
  });
}

}  // namespace tcc::group
