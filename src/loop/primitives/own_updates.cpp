// own_updates(i, 2): the updates of a scatter are looked at by so many owners, each of which makes those of its own part of the result.
//
//   map %i in 8, %j in 4 { %at: i64 = load %a[%i];  %x: f32 = load %b[%i, %j];  scatter add %x, %r[%at, %j] }        %r: f32[6, 4]
// becomes
//   map %i_owner in 2, %i in 8, %j in 4 {
//     %at: i64 = load %a[%i]
//     if and(ge(index(%at - %i_owner * 3), 0), lt(index(%at - %i_owner * 3), 3)) { %x: f32 = load %b[%i, %j];  scatter add %x, %r[%at, %j] }
//   }
//
// Two updates of one element have one owner. Where each owner goes through %i in order, the result does not depend on which of them is faster, which
// updates by atomic additions do. The parts are of the index that data decides, of several of the one with the largest extent.
#include <algorithm>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {

Unit own_updates(const Unit& unit, const std::string& dim, int64_t owners) {
  Unit result = unit;
  NameTable names(result);
  const Place place = find_dim(result.body, dim);
  auto* loop = place ? std::get_if<Loop>(&place.stmt().node) : nullptr;
  if (!loop) unfit("there is no loop `" + dim + "`");
  const auto is_scatter = [](const Stmt& stmt) { return std::holds_alternative<Scatter>(stmt.node); };
  if (std::count_if(loop->body.begin(), loop->body.end(), is_scatter) != 1) unfit("the loop `" + dim + "` does not have one scatter in it");
  const Scatter& scatter = std::get<Scatter>(std::find_if(loop->body.begin(), loop->body.end(), is_scatter)->node);
  int axis = -1;
  for (size_t i = 0; i < scatter.indices.size(); ++i) {
    const bool larger = axis < 0 || scatter.buffer->extents[i] > scatter.buffer->extents[static_cast<size_t>(axis)];
    if (scatter.indices[i].uses_scalars() && larger) axis = static_cast<int>(i);
  }
  if (axis < 0) unfit("data does not decide where the loop `" + dim + "` scatters to");

  const VarRef owner = make_var(free_name(names, dim + "_owner"), owners);
  const int64_t part = ceil_div(scatter.buffer->extents[static_cast<size_t>(axis)], owners);
  const ExprPtr own = in_range(scatter.indices[static_cast<size_t>(axis)] - Index(owner) * part, 0, part);
  std::set<const Scalar*> decide;
  collect_scalars(own, decide);
  Block outside, inside;
  if (!needed_lets(loop->body, decide, outside)) unfit("where the loop `" + dim + "` scatters to is not decided by values alone");
  std::set<const Scalar*> known;
  for (const Stmt& stmt : outside) {
    for (const ScalarRef& scalar : defined_by(stmt)) known.insert(scalar.get());
  }
  for (const Stmt& stmt : loop->body) {
    const std::vector<ScalarRef> defined = defined_by(stmt);
    if (defined.empty() || !known.contains(defined.front().get())) inside.push_back(stmt);
  }
  outside.push_back({If{own, std::move(inside), {}}});
  loop->body = std::move(outside);
  loop->dims.insert(loop->dims.begin(), {owner, Bind::none});
  return result;
}

}  // namespace tcc::loop
