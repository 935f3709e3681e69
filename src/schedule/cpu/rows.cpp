// Rows, reductions and scans on the host: vectors along a row, or of neighbouring rows where those lie side by side in memory.
#include <algorithm>

#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/primitives.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {

/// Loops over a row that run so few vectors are unrolled.
constexpr int64_t kShortLoop = 4;
/// A part of a reduce that is shared out has so many terms at least.
constexpr int64_t kShortestPart = 4096;
/// A row kept between loops must fit on the stack with room to spare.
constexpr int64_t kKeptBytes = 16 << 10;
/// Rows side by side, or elements of a row, that are worth a vector.
constexpr int64_t kFewestTogether = 4;
/// Terms of sums that are unrolled altogether.
constexpr int64_t kUnrolled = 32;

}  // namespace

void CpuNest::prepare_rows() {
  for (const Stmt& stmt : nest().body) {
    const auto* dims = dims_of(stmt);
    if (dims && !dims->empty()) loops_.push_back(dims->front().var->name);
  }
  for (std::string& name : loops_) {
    name = c_.fuse_all(name).back();
    const Stmt& stmt = c_.find(name);
    along_ += contiguity(accesses_of({stmt}), dims_of(stmt)->back().var.get());
  }
  const loop::Dim across = nest().dims.back();
  across_ = contiguity(accesses_of(nest().body), across.var.get());
  across_extent_ = across.var->extent;
}

WhyNot CpuNest::vectors_of_rows() {
  if (across_ <= along_) return "more is contiguous along rows than from row to row";
  if (across_extent_ < kFewestTogether) return "there are " + std::to_string(across_extent_) + " rows side by side";
  rows_in_vectors();
  return std::nullopt;
}

WhyNot CpuNest::vectors_along_rows() {
  parallelize(dims_);
  std::vector<std::string> split, short_loops;  // those of a few vectors, whose iterations better overlap
  for (const std::string& name : loops_) {
    const Stmt& stmt = c_.find(name);
    if (!is_plain(stmt)) continue;
    const int64_t extent = c_.extent(name);
    if (extent < kFewestTogether) continue;
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
  return std::nullopt;
}

bool CpuNest::is_plain(const Stmt& stmt) {
  bool plain = !std::holds_alternative<Scan>(stmt.node);
  for (const Block* block : blocks_of(stmt)) {
    walk(*block, [&](const Stmt& inner) { plain = plain && dims_of(inner) == nullptr; });
  }
  return plain;
}

void CpuNest::rows_in_vectors() {
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
    const int before = written_work(c_.unit()).costly_ops;
    const loop::Unit trial = cache(c_.unit(), name, Space::registers);
    if (written_work(trial).costly_ops < before) c_.add("cache", {Chooser::arg(name), Chooser::arg("registers")});
  }
}

void CpuNest::prepare_reduction() {
  walk(nest().body, [&](const Stmt& stmt) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (reduce && !reduce->dims.empty()) loops_.push_back(reduce->dims.front().var->name);
  });
  for (std::string& name : loops_) {
    name = c_.fuse_all(name).back();
    const Stmt& stmt = c_.find(name);
    along_ += contiguity(accesses_of({stmt}), dims_of(stmt)->back().var.get());
    longest_ = std::max(longest_, c_.extent(name));
    terms_ = std::max(terms_, iterations(*dims_of(stmt)));
  }
  const loop::Dim across = nest().dims.back();
  across_ = contiguity(accesses_of(nest().body), across.var.get());
  across_extent_ = across.var->extent;
}

WhyNot CpuNest::split_reduction() {
  if (!may_.split) return "it is a nest of a sum that was cut";
  if (loops_.size() != 1) return "it is not one reduce";
  const auto* reduce = std::get_if<Reduce>(&c_.find(loops_[0]).node);
  const bool direct =
      std::any_of(nest().body.begin(), nest().body.end(), [&](const Stmt& stmt) { return std::get_if<Reduce>(&stmt.node) == reduce; });
  if (!direct || reduce->combine || reduce->where) return "it is not one plain reduce";
  const bool in_vectors = across_ > along_ && across_extent_ >= kFewestTogether;
  const int64_t items = iterations(nest().dims) / (in_vectors ? width(across_extent_, lanes_, true) : 1);
  const std::string cut = reduce->dims.front().var->name;
  const int64_t extent = c_.extent(cut);
  int64_t parts = std::min({wanted_items() / std::max<int64_t>(items, 1), iterations(reduce->dims) / kShortestPart, extent});
  if (parts < 2) return "the results are enough for the pool, or the sum is short";
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
  schedule_nest(c_, first, {false, false});
  schedule_nest(c_, dims_[0], {false, false});
  return std::nullopt;
}

WhyNot CpuNest::vectors_along_sum() {
  const bool plain =
      loops_.size() == 1 || std::all_of(loops_.begin(), loops_.end(), [&](const std::string& name) { return is_plain(c_.find(name)); });
  if (!plain) return "there are loops in the reduces";
  if (longest_ < lanes_) return "sums of " + std::to_string(longest_) + " are shorter than a vector";
  if (along_ <= across_ && across_extent_ >= kFewestTogether) return "the reduced elements are not neighbours in memory";
  parallelize(dims_);
  for (const std::string& name : loops_) {
    const int64_t extent = c_.extent(name);
    if (extent < lanes_) continue;
    const int64_t w = width(extent, lanes_, costly_);
    if (extent == 1) continue;
    c_.split(name, w);
    c_.vectorize(name + "_1");
    if (extent % w != 0) c_.peel(name + "_1");
  }
  return std::nullopt;
}

WhyNot CpuNest::vectors_of_results() {
  if (terms_ <= kUnrolled) {
    for (const std::string& name : loops_) {
      for (const std::string& dim : names_of(*dims_of(c_.find(name)))) c_.unroll(dim);
    }
  }
  if (across_extent_ >= kFewestTogether && !scatters()) rows_in_vectors();
  else parallelize(dims_);
  return std::nullopt;
}

WhyNot CpuNest::vectors_of_scans() {
  const loop::Dim across = nest().dims.back();
  const std::vector<Access> accesses = accesses_of(nest().body);
  if (contiguity(accesses, across.var.get()) != static_cast<int>(accesses.size())) return "scans do not lie side by side in memory";
  if (across.var->extent < lanes_) return "there are " + std::to_string(across.var->extent) + " side by side";
  rows_in_vectors();
  return std::nullopt;
}

WhyNot CpuNest::scans_in_order() {
  parallelize(dims_);
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
