// Contractions on CUDA that no shared tile pays for: convolutions with few channels, short sums, few results. A thread computes one result, or a few that share
// what it loads. Where all results are too few to hide the latency of loads (small images) the sum is cut: parts of the channels in parallel, then their sum.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

constexpr int64_t kProductThreads = 128;  ///< of a block
/// Threads of each multiprocessor that hide latency, each with results that share a load; where the sums are as long as those of gradients the writing of
/// parts costs nothing beside them, and more threads pay.
constexpr int64_t kEnough = 256, kEnoughForVeryLong = 1024, kResults = 8;
/// Steps of a sum (about 30 ns each, when nothing hides their loads) that are worth a second kernel, and those that one part should have.
constexpr int64_t kLongSum = 256, kVeryLongSum = 8192, kStepsPerPart = 64;
/// The second kernel loads all parts of a result at once.
constexpr int64_t kMostParts = 32;

/// Cuts the sum of a nest with few results. Returns the first dim of the nest of partial sums; empty where nothing was cut.
std::string cut_long_sum(Chooser& c, const std::string& first) {
  const Loop& nest = std::get<Loop>(c.find(first).node);
  const Reduce* reduce = nullptr;
  for (const Stmt& stmt : nest.body) {
    if (const auto* found = std::get_if<Reduce>(&stmt.node)) reduce = found;
  }
  if (!reduce || reduce->where) return "";
  const int64_t results = iterations(nest.dims), steps = iterations(reduce->dims);
  if (steps < kLongSum) return "";
  const bool very_long = steps >= kVeryLongSum;
  const int64_t threads = c.target().cores * (very_long ? kEnoughForVeryLong : kEnough), most = very_long ? kMostParts : kMostParts / 2;
  const int64_t wanted = std::min(threads * kResults / std::max<int64_t>(results, 1), std::min(most, steps / kStepsPerPart));
  if (wanted < 2) return "";
  const std::string sum = reduce->states[0].result->name, cut = c.fuse_all(reduce->dims.front().var->name)[0];
  const int64_t extent = c.extent(cut);
  int64_t chunk = 1;
  while (chunk * 2 * wanted <= extent) chunk *= 2;
  while (chunk > 1 && extent % chunk != 0) chunk /= 2;  // parts of one length need no test
  const int64_t parts = extent / chunk;
  if (parts < 2 || parts > kMostParts) return "";
  c.add("split_reduce", {Chooser::arg(sum), Chooser::arg(parts)});
  return cut + "_0";
}

class DirectProduct {
 public:
  DirectProduct(Chooser& chooser, const std::string& first) : c_(chooser), dims_(c_.fuse_all(first)) {
    c_.fuse_all(reduce().dims.front().var->name);
  }

  void run() {
    const std::vector<Access> loads = accesses_of(Block{Stmt{reduce()}});
    const Access a = loads[0], b = loads[1];
    const std::vector<loop::Dim> dims = nest().dims, reduced = reduce().dims;
    const auto only = [](const Access& moving, const Access& still, const loop::Dim& dim) {
      return moving.flat.uses(dim.var.get()) && !still.flat.uses(dim.var.get());
    };
    // The longest dims that one operand alone follows.
    const loop::Dim* rows = nullptr;
    const loop::Dim* columns = nullptr;
    for (const loop::Dim& dim : dims) {
      if (only(a, b, dim) && (!rows || dim.var->extent > rows->var->extent)) rows = &dim;
      if (only(b, a, dim) && (!columns || dim.var->extent > columns->var->extent)) columns = &dim;
    }
    columns_per_thread(rows, columns, reduced);
  }

 private:
  const Loop& nest() const { return std::get<Loop>(c_.find(dims_[0]).node); }
  const Reduce& reduce() const {
    for (const Stmt& stmt : nest().body) {
      if (const auto* found = std::get_if<Reduce>(&stmt.node)) return *found;
    }
    internal_error("a contraction without a reduce");
  }

  void columns_per_thread(const loop::Dim* rows, const loop::Dim* columns, const std::vector<loop::Dim>& reduced) {
    const std::string sum = reduce().states[0].result->name;
    // Unrolled: a dim other than the last (which neighbouring threads share), whose results reuse a load.
    const std::string last = nest().dims.back().var->name;
    const loop::Dim* several = nullptr;
    for (const loop::Dim* dim : {rows, columns}) {
      if (dim && dim->var->name != last && (!several || dim->var->extent > several->var->extent)) several = dim;
    }
    int64_t results = 1;
    const int64_t outputs = iterations(nest().dims);
    if (several) {
      for (const int64_t count : {8, 4, 2}) {
        if (several->var->extent % count == 0 && outputs / count >= c_.target().cores * kProductThreads) {
          results = count;
          break;
        }
      }
    }
    int64_t steps = 1;
    for (size_t i = reduced.size(); i-- > 0;) {
      if (steps * reduced[i].var->extent > 9) break;
      steps *= reduced[i].var->extent;
      c_.unroll(reduced[i].var->name);
    }
    if (results == 1) {
      spread_over_threads(c_, dims_, kProductThreads, 1);
      return;
    }
    const std::string u = several->var->name;
    c_.split(u, results);
    std::vector<std::string> outer;
    for (const std::string& name : dims_) outer.push_back(name == u ? u + "_0" : name);
    std::vector<std::string> order = outer;
    order.push_back(u + "_1");
    c_.reorder(order);
    spread_over_threads(c_, outer, kProductThreads, 1);
    c_.add("tile", {Chooser::arg(sum), Chooser::arg(u + "_1")});
    c_.unroll(u + "_1");
  }

  Chooser& c_;
  std::vector<std::string> dims_;
};

}  // namespace

WhyNot direct(CudaNest& nest) {
  Chooser& chooser = nest.chooser;
  const std::string& first_dim = nest.first();
  const std::string partial = cut_long_sum(chooser, first_dim);
  DirectProduct(chooser, partial.empty() ? first_dim : partial).run();
  if (partial.empty()) return std::nullopt;
  for (const Stmt& stmt : std::get<Loop>(chooser.find(first_dim).node).body) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce) continue;
    const std::string part = reduce->dims.front().var->name;
    chooser.unroll(part);
    break;
  }
  spread_over_threads(chooser, chooser.fuse_all(first_dim), kProductThreads, 1);
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
