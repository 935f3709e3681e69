// Rows, reductions and scans on the host: vectors along a row, or of neighbouring rows where those lie side by side in memory.
#include <algorithm>

#include "loop/primitives/edit.h"
#include "schedule/choose_cpu.h"
#include "tcc/loop/primitives.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

/// Loops over a row that run so few vectors are unrolled.
constexpr int64_t kShortLoop = 4;
/// A part of a reduce that is shared out has so many terms at least.
constexpr int64_t kShortestPart = 4096;
/// A row kept between loops must fit on the stack with room to spare.
constexpr int64_t kKeptBytes = 16 << 10;

}  // namespace

int CpuNest::contiguity(const std::vector<Access>& accesses, const Var* var) {
  int score = 0;
  for (const Access& access : accesses) {
    const std::optional<int64_t> stride = stride_of(access, var);
    if (stride == 1) score++;
    else if (!stride || *stride != 0) score--;
  }
  return score;
}

void CpuNest::rows() {
  std::vector<std::string> inner;  // one dim of each loop of the row
  int inside = 0;
  for (const Stmt& stmt : nest().body) {
    const auto* dims = dims_of(stmt);
    if (dims && !dims->empty()) inner.push_back(dims->front().var->name);
  }
  for (std::string& name : inner) {
    name = c_.fuse_all(name).back();
    const auto* var = dims_of(c_.find(name))->back().var.get();
    inside += contiguity(accesses_of({c_.find(name)}), var);
  }
  const loop::Dim across = nest().dims.back();
  const int outside = contiguity(accesses_of(nest().body), across.var.get());
  if (outside > inside && across.var->extent >= 4) {
    vectors_of_rows();
    return;
  }
  parallelize(dims_);
  std::vector<std::string> split, short_loops;  // those of a few vectors, whose iterations better overlap
  for (const std::string& name : inner) {
    const Stmt& stmt = c_.find(name);
    if (!is_plain(stmt)) continue;
    const int64_t extent = c_.extent(name);
    if (extent < 4) continue;
    const int64_t w = width(extent, lanes_, costly_);
    c_.split(name, w);
    c_.vectorize(name + "_1");
    split.push_back(name + "_1");
    if (extent % w == 0 && extent / w <= kShortLoop) short_loops.push_back(name + "_0");
  }
  keep_costly();
  for (const std::string& name : split) {
    if (c_.has(name)) c_.peel(name);
  }
  for (const std::string& name : short_loops) {
    if (c_.has(name)) c_.unroll(name);
  }
}

bool CpuNest::is_plain(const Stmt& stmt) {
  bool plain = !std::holds_alternative<Scan>(stmt.node);
  for (const Block* block : blocks_of(stmt)) {
    walk(*block, [&](const Stmt& inner) { plain = plain && dims_of(inner) == nullptr; });
  }
  return plain;
}

void CpuNest::vectors_of_rows() {
  const std::string last = dims_.back();
  const int64_t w = width(c_.extent(last), lanes_, true);
  std::vector<std::string> outer(dims_.begin(), dims_.end() - 1);
  const int64_t extent = c_.extent(last);
  c_.split(last, w);
  outer.push_back(last + "_0");
  parallelize(outer);
  c_.vectorize(last + "_1");
  if (extent % w != 0) c_.peel(last + "_1");
}

void CpuNest::keep_costly() {
  const std::vector<std::string> names = [&] {
    std::vector<std::string> result;
    walk(c_.unit().body, [&](const Stmt& stmt) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce || reduce->combine) return;
      for (const State& state : reduce->states) {
        if (is_costly(state.value) && iterations(reduce->dims) * size_bytes(state.value->dtype) <= kKeptBytes)
          result.push_back(state.result->name);
      }
    });
    return result;
  }();
  for (const std::string& name : names) {
    const int before = count_costly(c_.unit());
    const loop::Unit trial = keep(c_.unit(), name, Space::registers);
    if (count_costly(trial) < before) c_.add("keep", {Chooser::arg(name), Chooser::arg(std::string("registers"))});
  }
}

int CpuNest::count_costly(const loop::Unit& unit) {
  int count = 0;
  walk_exprs(unit.body, [&](const Expr& expr) {
    if (expr.kind != Expr::Kind::op) return;
    Expr bare = expr;
    bare.args.clear();
    count += is_costly(std::make_shared<const Expr>(bare));
  });
  return count;
}

void CpuNest::reduction() {
  std::vector<std::string> reduces;
  walk(nest().body, [&](const Stmt& stmt) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (reduce && !reduce->dims.empty()) reduces.push_back(reduce->dims.front().var->name);
  });
  int inside = 0;
  int64_t longest = 1, total = 1;
  for (std::string& name : reduces) {
    name = c_.fuse_all(name).back();
    const Stmt& stmt = c_.find(name);
    inside += contiguity(accesses_of({stmt}), dims_of(stmt)->back().var.get());
    longest = std::max(longest, c_.extent(name));
    total = std::max(total, iterations(*dims_of(stmt)));
  }
  const loop::Dim across = nest().dims.back();
  const int outside = contiguity(accesses_of(nest().body), across.var.get());
  const int64_t vectors_across = outside > inside && across.var->extent >= 4 ? width(across.var->extent, lanes_, true) : 1;
  if (reduces.size() == 1 && share_out(reduces[0], iterations(nest().dims) / vectors_across)) return;
  const bool flat =
      reduces.size() == 1 || std::all_of(reduces.begin(), reduces.end(), [&](const std::string& name) { return is_plain(c_.find(name)); });
  if (flat && longest >= lanes_ && (inside > outside || across.var->extent < 4)) {
    parallelize(dims_);
    for (const std::string& name : reduces) {
      if (c_.extent(name) >= lanes_) vectors(name, width(c_.extent(name), lanes_, costly_));
    }
    return;
  }
  if (total <= 32) {
    for (const std::string& name : reduces) {
      for (const std::string& dim : names_of(*dims_of(c_.find(name)))) c_.unroll(dim);
    }
  }
  if (across.var->extent >= 4 && !scatters()) {
    vectors_of_rows();
  } else {
    parallelize(dims_);
  }
}

bool CpuNest::share_out(const std::string& last_reduced, int64_t items) {
  const auto* reduce = std::get_if<Reduce>(&c_.find(last_reduced).node);
  const bool direct =
      std::any_of(nest().body.begin(), nest().body.end(), [&](const Stmt& stmt) { return std::get_if<Reduce>(&stmt.node) == reduce; });
  if (!may_share_ || !direct || reduce->combine || reduce->where) return false;
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(work_ns_ / kItemNs), 1, kMaxItems);
  const std::string cut = reduce->dims.front().var->name;
  const int64_t extent = c_.extent(cut);
  int64_t parts = std::min({wanted / std::max<int64_t>(items, 1), iterations(reduce->dims) / kShortestPart, extent});
  if (parts < 2) return false;
  int64_t even = parts;
  while (even > parts / 2 && extent % even != 0) even--;
  std::string sum = reduce->states[0].result->name, first = cut + "_0";
  if (even > parts / 2 && even > 1) {
    parts = even;
  } else {  // what is left over goes to the nest that joins the parts
    const int64_t length = extent / parts;
    c_.split(cut, length);
    c_.peel(cut + "_1");
    sum = std::get<Reduce>(c_.find(first).node).states[0].result->name;
    parts = c_.extent(first);
    first += "_0";
  }
  c_.add("split_reduce", {Chooser::arg(sum), Chooser::arg(parts)});
  CpuNest(c_, first).run(false, false);
  CpuNest(c_, dims_[0]).run(false, false);
  return true;
}

void CpuNest::ordered() {
  const loop::Dim across = nest().dims.back();
  const std::vector<Access> accesses = accesses_of(nest().body);
  if (contiguity(accesses, across.var.get()) == static_cast<int>(accesses.size()) && across.var->extent >= lanes_) {
    vectors_of_rows();
  } else {
    parallelize(dims_);
  }
}

}  // namespace tcc::schedule
