// bind(i, parallel): says where the iterations of a dim run. vectorize(i) and unroll(i) are binds too.
//
//   map %i in 4 { ... }   becomes   map %i in 4 bind(parallel) { ... }
//
// A reduce dim may go to lanes or threads: its result is then combined across them. A scan and a `for` run in order, on one thread.
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

Unit bind(const Unit& unit, const std::string& dim, Bind kind) {
  Unit result = unit;
  bool found = false;
  for_each_block(result.body, [&](Block& block) {
    for (Stmt& stmt : block) {
      std::vector<Dim>* dims = dims_of(stmt);
      const int at = dims ? find_dim(*dims, dim) : -1;
      if (at < 0) continue;
      found = true;
      const auto* loop = std::get_if<Loop>(&stmt.node);
      const bool in_order = std::holds_alternative<Scan>(stmt.node) || (loop && loop->kind == Loop::Kind::for_);
      const bool one_thread = kind == Bind::none || kind == Bind::serial || kind == Bind::unroll;
      if (in_order && !one_thread) unfit("`" + dim + "` runs in order, it can't be bound to " + std::string(name_of(kind)));
      if (std::holds_alternative<Reduce>(stmt.node) && (kind == Bind::block || kind == Bind::parallel || kind == Bind::tile)) {
        unfit("`" + dim + "` is reduced, it can't be bound to " + std::string(name_of(kind)));
      }
      (*dims)[at].bind = kind;
    }
  });
  if (!found) no_such_loop(unit, dim);
  return result;
}

}  // namespace tcc::loop
