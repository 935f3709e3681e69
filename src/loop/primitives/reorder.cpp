// reorder(j, i): the order of dims of one perfect nest.
//
//   map %i in 4 { map %j in 8 { store load %a[%i, %j], %b[%j, %i] } }
// becomes
//   map %j in 8, %i in 4 { store load %a[%i, %j], %b[%j, %i] }
//
// The named dims take the places that they hold together; others stay. A map directly inside a map is merged with it first. Iterations of a map are
// independent and a reduce may re-associate, so any order is right; a `for` and a scan are left alone.
#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

bool is_map(const Stmt& stmt) {
  const auto* loop = std::get_if<Loop>(&stmt.node);
  return loop && loop->kind == Loop::Kind::map && !loop->tile;
}

void merge_nest(Loop& loop) {
  while (loop.body.size() == 1 && is_map(loop.body[0])) {
    Loop inner = std::move(std::get<Loop>(loop.body[0].node));
    for (Dim& dim : inner.dims) loop.dims.push_back(std::move(dim));
    loop.where = logical_and(loop.where, inner.where);
    loop.body = std::move(inner.body);
  }
}

}  // namespace

Unit reorder(const Unit& unit, const std::vector<std::string>& order) {
  if (order.empty()) unfit("it names no loops");
  for (size_t i = 0; i < order.size(); i++) {
    if (std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order[i]) !=
        order.begin() + static_cast<std::ptrdiff_t>(i))
      unfit("`" + order[i] + "` is named twice");
  }
  Unit result = unit;
  bool found = false;
  for_each_block(result.body, [&](Block& block) {
    for (Stmt& stmt : block) {
      std::vector<Dim>* dims = dims_of(stmt);
      if (!dims) continue;
      const auto holds = [&](const std::string& name) { return find_dim(*dims, name) >= 0; };
      if (std::none_of(order.begin(), order.end(), holds)) continue;
      if (is_map(stmt) && !std::all_of(order.begin(), order.end(), holds)) merge_nest(std::get<Loop>(stmt.node));
      dims = dims_of(stmt);
      std::vector<int> places;
      std::vector<Dim> moved;
      for (const std::string& name : order) {
        const int at = find_dim(*dims, name);
        if (at < 0) unfit("`" + name + "` is not in one perfect nest with `" + order[0] + "`");
        places.push_back(at);
        moved.push_back((*dims)[at]);
      }
      const auto* loop = std::get_if<Loop>(&stmt.node);
      if (std::holds_alternative<Scan>(stmt.node) || (loop && loop->kind == Loop::Kind::for_)) unfit("`" + order[0] + "` runs in order");
      std::sort(places.begin(), places.end());
      for (size_t i = 0; i < places.size(); i++) (*dims)[places[i]] = moved[i];
      found = true;
    }
  });
  if (!found) unfit("there is no loop `" + order[0] + "`");
  return result;
}

}  // namespace tcc::loop
