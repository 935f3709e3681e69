// compute_at(x, top): a let inside a nest is computed for all iterations that it depends on before the nest, into a temporary. For the input of a
// convolution that is im2col: afterwards both operands are contiguous along the sum.
//
//   map %i in 2, %o in 8 { %s: f32 = reduce sum %k in 3 { %x: f32 = load %a[%i + %k - 1] else 0.0;  %w: f32 = load %b[%o, %k];  yield mul(%x, %w) } ... }
// becomes
//   alloc %x.all: f32[2, 3]
//   map %i_at in 2, %k_at in 3 { store load %a[%i_at + %k_at - 1] else 0.0, %x.all[%i_at, %k_at] }
//   map %i in 2, %o in 8 { %s: f32 = reduce sum %k in 3 { %x: f32 = load %x.all[%i, %k];  ... } ... }
//
// With `first=sum` the temporary has the dims of the reduce first, here [3, 2]: contiguous along the results.
//
// What the let needs must be lets of the same block; the loops around it must have no mask (the first form).
#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

Unit compute_at(const Unit& unit, const std::string& scalar, const std::string& where, bool sum_first) {
  if (where != "top") unfit("a let is computed at the top of its unit (`top`), not at `" + where + "`");
  Unit result = unit;
  NameTable names(unit);
  const Place place = find_definition(result.body, scalar);
  if (!place) no_such_value(unit, scalar);
  auto* let = std::get_if<Let>(&place.stmt().node);
  if (!let) unfit("`" + scalar + "` is not a let");

  std::set<const Scalar*> roots;
  collect_scalars(let->value, roots);
  Block lets;
  if (!needed_lets(*place.block, roots, lets)) unfit("`" + scalar + "` depends on a reduce");
  lets.push_back({Let{let->scalar, let->value}});
  const Uses uses = uses_of(lets);
  for (const Scalar* read : uses.scalars) {
    if (!uses.defines.contains(read)) unfit("`" + scalar + "` depends on what outer loops compute");
  }

  std::vector<Dim> dims;
  for (const Place::Step& step : place.path) {
    Stmt& around = (*step.block)[step.index];
    const std::vector<Dim>* own = dims_of(around);
    if (!own || &around == &place.stmt()) continue;
    if (const ExprPtr* mask = where_of(around); mask && *mask) unfit("a loop around `" + scalar + "` has a mask");
    std::vector<Dim> used;
    for (const Dim& dim : *own) {
      if (uses.vars.contains(dim.var.get())) used.push_back(dim);
    }
    const bool before = sum_first && std::holds_alternative<Reduce>(around.node);
    dims.insert(before ? dims.begin() : dims.end(), used.begin(), used.end());
  }
  if (dims.empty()) unfit("`" + scalar + "` depends on no loop");

  std::vector<int64_t> extents;
  std::vector<Index> indices;
  for (const Dim& dim : dims) {
    extents.push_back(dim.var->extent);
    indices.emplace_back(dim.var);
  }
  const BufferRef buffer = make_buffer(names.fresh(scalar + ".all"), let->scalar->dtype, extents, Space::local);
  const ExprPtr value = let->value;
  let->value = load(buffer, indices);

  Loop nest;
  lets.back() = {Store{buffer, indices, value}};
  nest.body = clone_fresh(lets, [&](const std::string& name) { return names.fresh(name + ".at"); });
  for (const Dim& dim : dims) {
    const VarRef var = make_var(names.fresh(dim.var->name + "_at"), dim.var->extent);
    nest.dims.push_back({var, Bind::none});
    nest.body = substitute_var(nest.body, dim.var, var);
  }
  const size_t top = place.path.front().index;
  const std::set<const Buffer*> written = uses_of(result.body[top]).writes;
  for (const Buffer* read : uses_of(nest.body).reads) {
    if (written.contains(read)) unfit("`" + scalar + "` is read from `" + read->name + "`, which its own nest writes");
  }
  result.body.insert(result.body.begin() + static_cast<std::ptrdiff_t>(top), {Stmt{Alloc{buffer}}, Stmt{std::move(nest)}});
  return result;
}

}  // namespace tcc::loop
