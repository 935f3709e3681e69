// reduce_across(j_1, lane): the iterations of a reduce dim go to the lanes of a warp (or to warps, or to the threads of the block), which combine their
// partial results; every one of them has the result.
//
//   %s: f32 = reduce sum %j_0 in 4, %j_1 in 32 { ... }
// becomes
//   %s: f32 = reduce sum %j_0 in 4, %j_1 in 32 bind(lane) { ... }
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

Unit reduce_across(const Unit& unit, const std::string& dim, Bind kind) {
  if (kind != Bind::lane && kind != Bind::warp && kind != Bind::thread)
    unfit("a reduce runs across lanes, warps or threads, not " + std::string(name_of(kind)));
  walk(unit.body, [&](const Stmt& stmt) {
    const std::vector<Dim>* dims = dims_of(stmt);
    const int at = dims ? find_dim(*dims, dim) : -1;
    if (at < 0) return;
    if (!std::holds_alternative<Reduce>(stmt.node)) unfit("`" + dim + "` is not a dim of a reduce");
    if (kind == Bind::lane && (*dims)[at].var->extent > 32) unfit("`" + dim + "` has more iterations than a warp has lanes");
  });
  return bind(unit, dim, kind);
}

}  // namespace tcc::loop
