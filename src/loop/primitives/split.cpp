// split(i, 8): cuts a dim into blocks of `factor`.
//
//   map %i in 20 { store load %a[%i], %b[%i] }
// becomes
//   map %i_0 in 3, %i_1 in 8 where lt(%i_0 * 8 + %i_1, 20) { store load %a[%i_0 * 8 + %i_1], %b[%i_0 * 8 + %i_1] }
//
// The two dims stand side by side, so order is kept; `peel` gives the remainder its own code afterwards. A factor beyond the extent is
// the extent, unless `pad` asks for whole blocks.
#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {

namespace {

/// Replaces a variable in all that a loop governs, its own dims excepted.
void substitute_inside(Stmt& stmt, const VarRef& var, const Index& by) { stmt = std::move(substitute_var(Block{stmt}, var, by)[0]); }

}  // namespace

Unit split(const Unit& unit, const std::string& dim, int64_t factor, bool pad) {
  if (factor < 1) unfit("the factor is " + std::to_string(factor));
  Unit result = unit;
  NameTable names(unit);
  bool found = false;
  rewrite(result.body, [&](Stmt& stmt) -> std::optional<Block> {
    std::vector<Dim>* dims = dims_of(stmt);
    const int at = dims ? find_dim(*dims, dim) : -1;
    if (at < 0) return std::nullopt;
    found = true;
    const Dim old = (*dims)[at];
    const int64_t extent = old.var->extent, inner_extent = pad ? factor : std::min(factor, std::max<int64_t>(extent, 1));
    const VarRef outer = make_var(free_name(names, restem(old.var->name, dim, dim + "_0")), ceil_div(extent, inner_extent));
    const VarRef inner = make_var(free_name(names, restem(old.var->name, dim, dim + "_1")), inner_extent);
    const Index index = Index(outer) * inner_extent + Index(inner);
    const ExprPtr tail = in_range(index, 0, extent);
    if (tail && std::holds_alternative<Scan>(stmt.node)) unfit("the factor must divide the extent of a scan, " + std::to_string(extent));
    (*dims)[at] = Dim{outer, old.bind};
    dims->insert(dims->begin() + at + 1, Dim{inner, old.bind});
    substitute_inside(stmt, old.var, index);
    if (ExprPtr* where = where_of(stmt)) *where = logical_and(*where, tail);
    return Block{std::move(stmt)};
  });
  if (!found) no_such_loop(unit, dim);
  return result;
}

}  // namespace tcc::loop
