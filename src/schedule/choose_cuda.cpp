// Schedules for CUDA.
//
//   pointwise     one long dim: 16-byte vectors, 256 threads, a few vectors per thread
//   transposes    choose_cuda_transpose.cpp
//   rows          a warp per row up to 1024 elements, a block per longer row; a row that is read more than once stays in registers
//   reduction     along contiguous memory as rows, across it choose_cuda_columns.cpp; otherwise a thread per result; few results of long reductions in pieces
//   contraction   choose_cuda_contract.cpp, else choose_cuda_direct.cpp
//   ordered       a thread per scan
#include <algorithm>

#include "loop/primitives/edit.h"
#include "schedule/choose_cuda.h"
#include "schedule/choose_cuda_columns.h"
#include "schedule/choose_cuda_contract.h"
#include "schedule/choose_cuda_transpose.h"
#include "tcc/loop/primitives.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

constexpr int64_t kThreads = 256;
/// Results for each multiprocessor from which on a thread a result keeps it busy, however its rows lie.
constexpr int64_t kThreadsForRows = 512;
/// A register buffer of one thread may hold so many values; all of them together twice that. Blocks of 1024 threads have 64 registers a thread.
constexpr int64_t kKeptPerThread = 64, kKeptPerThreadOf1024 = 32;

class CudaNest {
 public:
  CudaNest(Chooser& chooser, std::string first) : c_(chooser), first_(std::move(first)) {}

  void run() {
    const Loop& loop = std::get<Loop>(c_.find(first_).node);
    switch (kind_of(loop)) {
      case NestKind::pointwise:
        if (!choose_cuda_transpose(c_, first_)) pointwise(c_.fuse_all(first_));
        break;
      case NestKind::ordered: one_per_thread(c_.fuse_all(first_), 1); break;
      case NestKind::rows: rows(); break;
      case NestKind::reduction: reduction(); break;
      case NestKind::contraction: contraction(); break;
    }
  }

 private:
  const Loop& nest(const std::string& dim) const { return std::get<Loop>(c_.find(dim).node); }

  /// Whether some factor of a sum of products belongs to several results. Without one (a gradient of a scale) nothing is gained by tiles: it is a
  /// reduction of rows or columns.
  bool reuses_factors() const {
    const Loop& loop = nest(first_);
    for (const Stmt& stmt : loop.body) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce) continue;
      for (const Access& access : accesses_of(Block{stmt})) {
        const auto follows = [&](const loop::Dim& dim) { return access.flat.uses(dim.var.get()); };
        if (access.guarded) return true;
        if (!std::any_of(reduce->dims.begin(), reduce->dims.end(), follows)) continue;
        for (const loop::Dim& dim : loop.dims) {
          if (dim.var->extent > 1 && !follows(dim)) return true;
        }
      }
    }
    return false;
  }

  void contraction() {
    if (!reuses_factors()) {
      reduction();
      return;
    }
    if (choose_cuda_contract(c_, first_) || columns(true)) return;
    choose_cuda_direct(c_, first_);
  }

  /// A reduction down columns; its parts are combined by a nest of their own.
  bool columns(bool few_only) {
    const Columns done = choose_cuda_columns(c_, first_, few_only);
    if (done == Columns::in_parts) split_done(first_, false);
    return done != Columns::no;
  }

  void pointwise(const std::vector<std::string>& dims) {
    const std::string last = dims.back();
    const Loop& loop = nest(last);
    const int64_t v = vector_width(accesses_of(loop.body), loop.dims.back(), true);
    if (v == 1) {
      one_per_thread(dims, 1);
      return;
    }
    const int64_t most = vectors_that_pay(loop.body);  // before the split: it makes another loop
    c_.split(last, v);
    c_.vectorize(last + "_1");
    std::vector<std::string> outer(dims.begin(), dims.end() - 1);
    outer.push_back(last + "_0");
    const int64_t vectors = iterations(loop_dims(outer));
    const int64_t resident = int64_t{c_.target().cores} * c_.target().multiprocessor_threads;
    const int64_t wanted = vectors >= resident * 4 ? 4 : vectors >= resident * 2 ? 2 : 1;
    one_per_thread(outer, std::min(wanted, most));
  }

  /// Several vectors in flight hide the latency of memory. A long body hides it by itself, and unrolled it would only cost registers and time to assemble.
  static int64_t vectors_that_pay(const Block& body) {
    int64_t cost = 0;
    walk_exprs(body, [&](const Expr& e) { cost += e.kind == Expr::Kind::op ? arithmetic_cost(e.op) : 0; });
    return cost <= 48 ? 4 : cost <= 96 ? 2 : 1;
  }

  std::vector<loop::Dim> loop_dims(const std::vector<std::string>& names) const {
    std::vector<loop::Dim> result;
    for (const loop::Dim& dim : *dims_of(c_.find(names[0]))) {
      if (std::find(names.begin(), names.end(), dim.var->name) != names.end()) result.push_back(dim);
    }
    return result;
  }

  void one_per_thread(const std::vector<std::string>& dims, int64_t per_thread) { spread_over_threads(c_, dims, kThreads, per_thread); }

  // ------------------------------------------------------------------------------------------------------------ rows

  /// The dims of one loop of a row as one: a vector part (1 when memory is not contiguous) below everything else.
  struct Inner {
    std::string dim, vector;
    int64_t steps = 1;  ///< iterations of `dim`
  };

  static int score(const std::vector<Access>& accesses, const Var* var) {
    int result = 0;
    for (const Access& access : accesses) {
      const std::optional<int64_t> stride = stride_of(access, var);
      if (stride == 1) result++;
      else if (!stride || *stride != 0) result--;
    }
    return result;
  }

  void rows() {
    std::vector<std::string> inner;
    int inside = 0;
    int64_t longest = 1;
    bool plain = true;
    for (const Stmt& stmt : nest(first_).body) {
      const auto* dims = dims_of(stmt);
      if (!dims || dims->empty()) continue;
      inner.push_back(dims->front().var->name);
      inside += score(accesses_of({stmt}), dims->back().var.get());
      longest = std::max(longest, iterations(*dims));
      for (const Block* block : blocks_of(stmt)) walk(*block, [&](const Stmt& s) { plain = plain && dims_of(s) == nullptr; });
    }
    std::vector<std::string> outer = c_.fuse_all(first_);
    const loop::Dim across = nest(outer.back()).dims.back();
    const int outside = score(accesses_of(nest(outer.back()).body), across.var.get());
    const int64_t count = iterations(nest(outer.back()).dims);
    if (!plain || longest < 16 || (outside > inside && (count >= 4096 || longest < 512))) {
      if (plain) {
        for (const std::string& first : inner) load_together(first);
      }
      one_per_thread(outer, 1);
      return;
    }
    spread_rows(outer, inner, longest);
  }

  /// A warp or a block for each row.
  void spread_rows(const std::vector<std::string>& outer, const std::vector<std::string>& inner, int64_t longest) {
    const std::string row = fuse_everything(c_, outer);
    int64_t v = 8;
    std::vector<std::vector<std::string>> names;
    for (const std::string& first : inner) {
      names.push_back(c_.fuse_all(first));
      const Stmt& stmt = c_.find(names.back().back());
      v = std::min(v, vector_width(accesses_of({stmt}), dims_of(stmt)->back(), false));
    }
    std::vector<std::string> steps;
    for (std::vector<std::string>& loop : names) {
      const std::string last = loop.back();
      if (v > 1) {
        c_.split(last, v);
        c_.vectorize(last + "_1");
        loop.back() = last + "_0";
      }
      steps.push_back(fuse_everything(c_, loop));
    }
    const int64_t count = c_.extent(row), cores = c_.target().cores;
    const bool warps = longest <= 1024;
    int64_t threads = c_.target().warp_threads;
    while (!warps && threads < c_.target().block_threads && threads * 16 < longest) threads *= 2;
    if (!warps) threads = std::max<int64_t>(threads, 128);
    if (warps) {
      const int64_t per_block = count >= cores * 8 ? 8 : count >= cores * 4 ? 4 : 1;
      c_.split(row, per_block);
      c_.bind(row + "_0", "block");
      c_.bind(row + "_1", "warp");
    } else {
      c_.bind(row, "block");
    }
    const int64_t kept = threads > 512 ? kKeptPerThreadOf1024 : kKeptPerThread;
    for (const std::string& dim : steps) {
      const int64_t extent = c_.extent(dim);
      const bool reduces = std::holds_alternative<Reduce>(c_.find(dim).node);
      c_.split(dim, threads);
      const std::string across = dim + "_1";
      if (reduces) c_.add("reduce_across", {Chooser::arg(across), Chooser::arg(std::string(warps ? "lane" : "thread"))});
      else c_.bind(across, warps ? "lane" : "thread");
      const int64_t per_thread = (extent + threads - 1) / threads;
      if (per_thread * v <= kept) {
        c_.unroll(dim + "_0");
      } else if (extent % (threads * 4) == 0) {  // too long to keep: loads in flight all the same
        c_.split(dim + "_0", 4);
        c_.unroll(dim + "_0_1");
      }
    }
    keep_what_is_read_again();
  }

  /// Keeps loads and costly values that several loops over the row share.
  void keep_what_is_read_again() {
    std::vector<std::string> candidates;
    walk(c_.unit().body, [&](const Stmt& stmt) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce || reduce->dims.empty()) return;
      int64_t held = 1;
      for (const loop::Dim& dim : reduce->dims) {
        if (dim.bind == Bind::serial || dim.bind == Bind::none) return;
        if (dim.bind != Bind::lane && dim.bind != Bind::thread) held *= dim.var->extent;
      }
      if (held > kKeptPerThread) return;
      for (const Stmt& inner : reduce->body) {
        const auto* let = std::get_if<Let>(&inner.node);
        if (let && let->value->kind == Expr::Kind::load) candidates.push_back(let->scalar->name);
      }
      if (reduce->combine) return;
      for (const State& state : reduce->states) {
        if (is_costly(state.value)) candidates.push_back(state.result->name);
      }
    });
    int kept = 0;
    for (const std::string& name : candidates) {
      if (kept == 2 || !defines(name)) continue;
      const loop::Unit trial = keep(c_.unit(), name, Space::registers);
      if (work_again(trial) >= work_again(c_.unit())) continue;
      c_.add("keep", {Chooser::arg(name), Chooser::arg(std::string("registers"))});
      kept++;
    }
  }

  bool defines(const std::string& scalar) const {
    bool found = false;
    walk(c_.unit().body, [&](const Stmt& stmt) {
      for (const ScalarRef& defined : defined_by(stmt)) found |= defined->name == scalar;
    });
    return found;
  }

  /// Global loads and costly operations as written.
  static int work_again(const loop::Unit& unit) {
    int count = 0;
    walk_exprs(unit.body, [&](const Expr& expr) {
      if (expr.kind == Expr::Kind::load) count += expr.buffer->space == Space::global;
      if (expr.kind != Expr::Kind::op) return;
      Expr bare = expr;
      bare.args.clear();
      count += is_costly(std::make_shared<const Expr>(bare));
    });
    return count;
  }

  // ------------------------------------------------------------------------------------------------------- reduction

  void reduction() {
    std::vector<std::string> results, inner;
    int inside = 0;
    int64_t longest = 1;
    bool direct = true, single_dims = true;
    for (const Stmt& stmt : nest(first_).body) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce) continue;
      results.push_back(reduce->states[0].result->name);
      inner.push_back(reduce->dims.front().var->name);
      inside += score(accesses_of({stmt}), reduce->dims.back().var.get());
      longest = std::max(longest, iterations(reduce->dims));
      single_dims = single_dims && !reduce->where;
      walk(reduce->body, [&](const Stmt& s) { direct = direct && dims_of(s) == nullptr; });
    }
    const loop::Dim across = nest(first_).dims.back();
    const int outside = score(accesses_of(nest(first_).body), across.var.get());
    const int64_t count = iterations(nest(first_).dims), cores = c_.target().cores;
    const bool along = direct && !results.empty() && inside > 0 && (inside >= outside || count < 64) && longest >= 32;
    if (!along && columns(false)) return;
    bool scatters = false;
    walk(nest(first_).body, [&](const Stmt& stmt) { scatters |= std::holds_alternative<Scatter>(stmt.node); });
    if (results.size() == 1 && !scatters && direct && single_dims && count < 2 * cores && longest > (along ? 16384 : 256)) {
      split_long_reduce(results[0], inner[0], count, along);
      return;
    }
    if (along && !scatters && count < cores * kThreadsForRows) {
      spread_rows(c_.fuse_all(first_), inner, longest);
      return;
    }
    unroll_windows(inner);
    one_per_thread(c_.fuse_all(first_), 1);
  }

  /// Unrolls what one thread runs in order, so that its loads don't wait for each other.
  void load_together(const std::string& first) {
    const std::string steps = c_.fuse_all(first).back();
    const int64_t extent = c_.extent(steps);
    if (extent <= 32) {
      c_.unroll(steps);
      return;
    }
    for (const int64_t together : {16, 12, 8, 4}) {
      if (extent % together != 0) continue;
      c_.split(steps, together);
      c_.unroll(steps + "_1");
      return;
    }
  }

  void unroll_windows(const std::vector<std::string>& inner) {
    for (const std::string& first : inner) {
      const std::vector<loop::Dim> dims = *dims_of(c_.find(first));
      if (iterations(dims) > 32) continue;
      for (const loop::Dim& dim : dims) c_.unroll(dim.var->name);
    }
  }

  /// Two nests: partial results, then their combination; each is scheduled as what it is.
  void split_long_reduce(const std::string& result, const std::string& inner, int64_t count, bool along) {
    std::vector<std::string> names = c_.fuse_all(inner);
    const int64_t cores = c_.target().cores, wanted = std::max<int64_t>(1, along ? 4 * cores / count : cores * kThreads / count);
    const auto chunk_for = [&](int64_t extent, int64_t least) {
      int64_t chunk = 1;  // a power of two keeps vectors whole
      while (chunk * wanted < extent || chunk < least) chunk *= 2;
      return chunk;
    };
    int64_t first = c_.extent(names[0]), chunk = chunk_for(first, 4);
    if (along && names.size() > 1 && first / chunk * 2 < wanted && chunk_for(c_.extent(names.back()), 512) < c_.extent(names.back())) {
      // The outermost dim has too few iterations: pieces of the contiguous one are parts.
      const std::string last = names.back();
      c_.split(last, chunk_for(c_.extent(last), 512));
      names.back() = last + "_1";
      names.insert(names.begin(), last + "_0");
      c_.reorder(names);
      first = c_.extent(names[0]);
      chunk = 1;
    }
    const int64_t parts = (first + chunk - 1) / chunk;
    if (parts < 2) {
      if (along) spread_rows(c_.fuse_all(first_), {inner}, iterations(*dims_of(c_.find(names[0]))));
      else one_per_thread(c_.fuse_all(first_), 1);
      return;
    }
    c_.add("split_reduce", {Chooser::arg(result), Chooser::arg(parts)});
    std::string nest_dim;
    for (const Stmt& stmt : c_.unit().body) {
      const auto* loop = std::get_if<Loop>(&stmt.node);
      if (loop && !loop->dims.empty() && loop->dims[0].var->name == names[0] + "_0") nest_dim = names[0] + "_0";
    }
    split_done(nest_dim, along);
    split_done(first_, along);
  }

  void split_done(const std::string& dim, bool along) {
    std::vector<std::string> inner;
    int64_t longest = 1;
    for (const Stmt& stmt : nest(dim).body) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce) continue;
      inner.push_back(reduce->dims.front().var->name);
      longest = std::max(longest, iterations(reduce->dims));
    }
    const std::vector<std::string> outer = c_.fuse_all(dim);
    if (longest >= (along ? 32 : 64) && (along || dim == first_)) {
      spread_rows(outer, inner, longest);
      return;
    }
    for (const std::string& part : inner) load_together(part);
    one_per_thread(outer, 1);
  }

  Chooser& c_;
  std::string first_;
};

}  // namespace

std::string fuse_everything(Chooser& chooser, const std::vector<std::string>& dims) {
  std::string name = dims[0];
  for (size_t i = 1; i < dims.size(); i++) name = chooser.fuse(name, dims[i]);
  return name;
}

void spread_over_threads(Chooser& c, const std::vector<std::string>& dims, int64_t threads, int64_t per_thread) {
  const std::string all = fuse_everything(c, dims);
  const int64_t extent = c.extent(all);
  const int64_t warp = c.target().warp_threads;
  threads = std::min(threads, std::max(warp, (extent + warp - 1) / warp * warp));
  c.split(all, threads * per_thread);
  c.bind(all + "_0", "block");
  if (per_thread == 1) {
    c.bind(all + "_1", "thread");
    return;
  }
  if (extent % (threads * per_thread) != 0) c.peel(all + "_1");
  c.split(all + "_1", threads);
  c.unroll(all + "_1_0");
  c.bind(all + "_1_1", "thread");
}

int64_t vector_width(const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store) {
  int64_t v = 8;
  bool contiguous = false;
  for (const Access& access : accesses) {
    const std::optional<int64_t> stride = stride_of(access, dim.var.get());
    if (!stride || (*stride != 0 && *stride != 1)) return 1;
    if (*stride == 0) {
      if (access.store) return 1;
      continue;
    }
    if (access.guarded) return 1;
    contiguous |= access.store || !need_store;
    v = std::min<int64_t>(v, 16 / size_bytes(access.buffer->dtype));
    while (v > 1) {  // every other part of the offset must be a multiple
      bool multiple = access.flat.constant() % v == 0;
      for (const Term& term : access.flat.terms()) {
        const bool own = term.atom.kind == Atom::Kind::var && term.atom.var == dim.var;
        multiple = multiple && (own || term.coefficient % v == 0);
      }
      if (multiple) break;
      v /= 2;
    }
  }
  if (!contiguous) return 1;
  while (v > 1 && dim.var->extent % v != 0) v /= 2;
  return std::max<int64_t>(v, 1);
}

void choose_cuda_nest(Chooser& chooser, const std::string& first_dim) { CudaNest(chooser, first_dim).run(); }

}  // namespace tcc::schedule
