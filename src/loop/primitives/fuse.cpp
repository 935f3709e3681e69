// fuse(i, j): makes one dim of two neighbours.
//
//   map %i in 4, %j in 8 { store load %a[%i, %j], %b[%i, %j] }
// becomes
//   map %i_j in 32 { store load %a[%i_j / 8, %i_j mod 8], %b[%i_j / 8, %i_j mod 8] }
//
// Flat offsets of contiguous buffers become plain sums again, because %i_j / 8 * 8 + %i_j mod 8 is %i_j.
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

Unit fuse(const Unit& unit, const std::string& outer, const std::string& inner) {
  Unit result = unit;
  NameTable names(unit);
  bool found = false;
  rewrite(result.body, [&](Stmt& stmt) -> std::optional<Block> {
    std::vector<Dim>* dims = dims_of(stmt);
    const int at = dims ? find_dim(*dims, outer) : -1;
    if (at < 0) return std::nullopt;
    if (at + 1 >= static_cast<int>(dims->size()) || !is_copy((*dims)[at + 1].var->name, inner)) {
      unfit("`" + inner + "` does not follow `" + outer + "` in its loop");
    }
    found = true;
    const Dim first = (*dims)[at], second = (*dims)[at + 1];
    if (int64_t product = 0; __builtin_mul_overflow(first.var->extent, second.var->extent, &product) || product > kMostIterations)
      unfit("`" + outer + "` and `" + inner + "` have more iterations together than one loop may have");
    if (first.bind != second.bind) unfit("`" + outer + "` and `" + inner + "` are bound differently");
    const VarRef var =
        make_var(free_name(names, restem(first.var->name, outer, outer + "_" + inner)), first.var->extent * second.var->extent);
    (*dims)[at] = Dim{var, first.bind};
    dims->erase(dims->begin() + at + 1);
    const Index index{var};
    Block block = substitute_var(Block{std::move(stmt)}, first.var, floor_div(index, second.var->extent));
    return substitute_var(block, second.var, mod(index, second.var->extent));
  });
  if (!found) no_such_loop(unit, outer);
  return result;
}

}  // namespace tcc::loop
