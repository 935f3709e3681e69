// Reductions over an axis that is not the contiguous one, on CUDA: neighbouring threads take neighbouring columns, each with a vector of 16 bytes where it can,
// and go down the rows, several independent loads at a time. Where the columns are too few to fill the chip the rows are cut into parts first.
//
//   split_reduce(v0, 256) split(i_part, 4) vectorize(i_part_1) split(j_1_part, 8) unroll(j_1_part_1) ... bind(j_0, block) bind(i_part_0_1, thread)
//   tile(v0_part, i_part_1)
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

constexpr int64_t kColumnThreads = 128;  ///< of a block
/// Threads for each multiprocessor that hide the latency of memory when each has several loads of 16 bytes in flight; fewer still use most of the bandwidth.
constexpr int64_t kEnough = 1024, kFew = 256;
/// Rows and columns that are worth this.
constexpr int64_t kFewestRows = 8, kFewestColumns = 8;
/// A part of the rows must be worth writing and reading its result.
constexpr int64_t kRowsPerPart = 32;

class StridedReduction {
 public:
  explicit StridedReduction(CudaNest& nest) : c_(nest.chooser), first_(nest.first()) {}

  /// `few_only`: only when there are so few results that the sum must be cut.
  WhyNot run(bool few_only) {
    if (WhyNot why_not = misfit()) return why_not;
    const std::vector<Access> accesses = accesses_of(Block{Stmt{*reduce_}});
    int64_t v = reduce_->combine ? 1 : vector_width(c_, accesses, nest_->dims.back(), false);
    const int64_t columns = iterations(nest_->dims), rows = iterations(reduce_->dims), cores = c_.target().cores;
    std::string sum = reduce_->states[0].result->name, inner = reduce_->dims.front().var->name;
    const bool many = columns >= cores * 2 * kFew;  // with up to 16 loads in flight of each column
    if (few_only && many) return std::to_string(columns) + " results fill the chip";
    if (few_only && rows < 4 * kRowsPerPart) return "a sum of " + std::to_string(rows) + " is not worth parts";
    if (many || rows < 2 * kRowsPerPart) {
      while (v > 1 && columns / v < cores * kFew) v /= 2;
      schedule(first_, sum, inner, v);
      return std::nullopt;
    }
    while (v > 1 && columns / v * (rows / kRowsPerPart) < cores * kFew) v /= 2;
    const int64_t parts = std::min(cores * kEnough * v / columns, rows / kRowsPerPart);
    const std::string cut = longest_first(c_.fuse_all(inner));
    const int64_t extent = c_.extent(cut), chunk = chunk_of(extent, std::max<int64_t>(1, extent / std::max<int64_t>(parts, 1)));
    if (chunk >= extent) {
      schedule(first_, sum, cut, v);
      return std::nullopt;
    }
    c_.add("split_reduce", {Chooser::arg(sum), Chooser::arg(ceil_div(extent, chunk))});
    const Loop& partial = std::get<Loop>(c_.find(cut + "_0").node);
    for (const Stmt& stmt : partial.body) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce) continue;
      sum = reduce->states[0].result->name;
      inner = reduce->dims.front().var->name;
    }
    schedule(cut + "_0", sum, inner, v);
    schedule_reduces(c_, first_, kShortestJoined);
    return std::nullopt;
  }

 private:
  /// What it is not: one reduce of plain loads, which neighbouring columns read from neighbouring elements.
  WhyNot misfit() {
    nest_ = &std::get<Loop>(c_.find(first_).node);
    if (nest_->where) return "its results are masked";
    for (const Stmt& stmt : nest_->body) {
      if (std::holds_alternative<Let>(stmt.node) || std::holds_alternative<Store>(stmt.node)) continue;
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce || reduce_ || reduce->where) return "it is not one plain reduce";
      reduce_ = reduce;
    }
    if (!reduce_) return "it is not one plain reduce";
    bool simple = true;
    walk(reduce_->body, [&](const Stmt& stmt) { simple = simple && std::holds_alternative<Let>(stmt.node); });
    if (!simple) return "it is not one plain reduce";
    if (iterations(reduce_->dims) < kFewestRows) return "a sum of " + std::to_string(iterations(reduce_->dims)) + " is short";
    // Lets before the reduce come along; another result would have to be known to all parts.
    const VarRef across = nest_->dims.back().var;
    int64_t along_columns = 0, along_rows = 0;  // elements of what is read so
    for (const Access& access : accesses_of(Block{Stmt{*reduce_}})) {
      const std::optional<int64_t> stride = stride_of(access, across.get());
      if (!stride || *stride < 0 || *stride > 1 || (access.guarded && guard_varies(access, across.get(), 1)))
        return "neighbouring results do not read neighbouring elements";
      const std::optional<int64_t> along = stride_of(access, reduce_->dims.back().var.get());
      if (*stride == 1) along_columns += access.buffer->count();
      else if (along == 1) along_rows += access.buffer->count();
    }
    if (along_columns == 0 || along_columns < along_rows) return "neighbouring results do not read neighbouring elements";
    if (across->extent < kFewestColumns) return "there are " + std::to_string(across->extent) + " columns";
    return std::nullopt;
  }

  /// `split_reduce` cuts the first dim: that should be the one with the most iterations.
  std::string longest_first(std::vector<std::string> names) {
    const auto longest = std::max_element(names.begin(), names.end(),
                                          [&](const std::string& a, const std::string& b) { return c_.extent(a) < c_.extent(b); });
    if (longest == names.begin()) return names[0];
    std::rotate(names.begin(), longest, longest + 1);
    c_.reorder(names);
    return names[0];
  }

  /// Rows of a part: near the wanted number, dividing the whole so that no test is needed, many of them multiples of the unrolling.
  static int64_t chunk_of(int64_t extent, int64_t wanted) {
    int64_t best = 0;
    const auto worth = [&](int64_t chunk) {
      const int64_t unrolled = chunk % 8 == 0 ? 8 : chunk % 4 == 0 ? 4 : 1;
      return std::min(chunk, wanted * wanted / std::max<int64_t>(chunk, 1)) * unrolled;
    };
    for (int64_t chunk = std::max<int64_t>(wanted / 2, 1); chunk <= std::min(wanted * 2, extent); chunk++) {
      if (extent % chunk == 0 && (best == 0 || worth(chunk) > worth(best))) best = chunk;
    }
    return best > 0 ? best : align_up(wanted, int64_t{8});
  }

  /// Threads over the columns (and parts), rows unrolled.
  void schedule(const std::string& first, const std::string& sum, const std::string& reduced, int64_t v) {
    std::vector<std::string> outer = c_.fuse_all(first);
    const std::string vector = outer.back() + "_1";
    if (v > 1) {
      c_.split(outer.back(), v);
      outer.back() += "_0";
    }
    const std::string rows = c_.fuse_all(reduced).back();
    const int64_t extent = c_.extent(rows), most = v >= 4 ? 8 : 16;
    int64_t unrolled = most;
    while (unrolled > 4 && extent % unrolled != 0) unrolled--;
    if (extent % unrolled != 0) unrolled = most;
    if (extent > most) c_.split(rows, unrolled);
    spread_over_threads(c_, outer, kColumnThreads, 1);
    if (v > 1) {
      c_.add("tile", {Chooser::arg(sum), Chooser::arg(vector)});
      c_.vectorize(vector);
    }
    if (extent > most && extent % unrolled != 0) c_.peel(rows + "_1");
    c_.unroll(extent > most ? rows + "_1" : rows);
  }

  Chooser& c_;
  std::string first_;
  const Loop* nest_ = nullptr;
  const Reduce* reduce_ = nullptr;
};

}  // namespace

WhyNot strided_reduction(CudaNest& nest) {
  if (is_along_memory(nest.rows)) return "the reduced elements are neighbours in memory";
  return StridedReduction(nest).run(false);
}

WhyNot strided_sum_in_parts(CudaNest& nest) { return StridedReduction(nest).run(true); }

}  // namespace tcc::schedule::cuda
