// A roofline: arithmetic against memory, divided by what runs in parallel, plus the launch.
#include "schedule/cost.h"

#include <algorithm>
#include <map>

#include "tcc/loop/edit.h"
#include "tcc/ops/op.h"

namespace tcc::schedule {

namespace {

using namespace tcc::loop;

class CostModel {
 public:
  Work work;

  void run(const Block& block, double times, bool vector) {
    for (const Stmt& stmt : block) run(stmt, times, vector);
  }

  void finish() {
    for (const auto& [buffer, bytes] : touched_) {
      work.unique_bytes += std::min(bytes, static_cast<double>(buffer->count()) * size_bits(buffer->dtype) / 8);
    }
  }

 private:
  void run(const Stmt& stmt, double times, bool vector) {
    const size_t outer_unrolled = unrolled_.size();
    const double outer_threads = threads_;
    if (const auto* dims = dims_of(stmt)) {
      for (const auto& dim : *dims) {
        times *= static_cast<double>(dim.var->extent);
        vector |= dim.bind == Bind::vector;
        if (dim.bind == Bind::unroll) unrolled_.push_back(dim.var.get());
        if (dim.bind == Bind::thread || dim.bind == Bind::warp || dim.bind == Bind::lane) threads_ *= static_cast<double>(dim.var->extent);
      }
    }
    std::visit([&](const auto& node) { run(node, times, vector); }, stmt.node);
    unrolled_.resize(outer_unrolled);
    threads_ = outer_threads;
  }

  void run(const Loop& loop, double times, bool vector) {
    for (const ExprPtr& condition : conjuncts(loop.where)) {
      if (const double share = share_known(condition); share < 1) times *= share;
      else count(condition, times, vector);
    }
    run(loop.body, times, vector);
  }
  void run(const Reduce& reduce, double times, bool vector) {
    count(reduce.where, times, vector);
    count_states(reduce.states, reduce.combine.get(), times, vector);
    run(reduce.body, times, vector);
  }
  void run(const Scan& scan, double times, bool vector) {
    count_states(scan.states, scan.combine.get(), times, vector);
    run(scan.body, times, vector);
    run(scan.after, times, vector);
  }
  void run(const Let& let, double times, bool vector) { count(let.value, times, vector); }
  void run(const Store& store, double times, bool vector) {
    count(store.value, times, vector);
    touch(store.buffer, times);
  }
  void run(const Scatter& scatter, double times, bool vector) {
    count(scatter.value, times, vector);
    touch(scatter.buffer, times);
    add(4 * times, false);
  }
  void run(const If& branch, double times, bool vector) {
    count(branch.condition, times, vector);
    // One of the two runs: count the longer one.
    run(branch.then.size() >= branch.otherwise.size() ? branch.then : branch.otherwise, times, vector);
  }
  void run(const Copy& copy, double times, bool) {
    double elements = times / threads_;  // the threads of a block share it
    for (const VarRef& var : copy.box) elements *= static_cast<double>(var->extent);
    touch(copy.source, elements);
    if (copy.value) count(copy.value, elements, true);
  }
  void run(const Mma& mma, double times, bool) {
    work.matrix_ops[mma.shape] += 2.0 * static_cast<double>(mma.m * mma.n * mma.k) * times / threads_;  // all warps together
  }
  // What these cost is not counted.
  void run(const Alloc&, double, bool) {}
  void run(const Barrier&, double, bool) {}
  void run(const PipeDecl&, double, bool) {}
  void run(const PipeOp&, double, bool) {}
  void run(const MmaWait&, double, bool) {}
  void run(const Roles& roles, double times, bool vector) {
    for (const Role& role : roles.roles) run(role.body, times, vector);
  }

  /// The share of iterations for which a condition on places holds: `x mod d < n` where unrolled loops decide it when the kernel is made, so that it costs nothing
  /// then, and comparisons of few places, of blocks and steps; else 1.
  double share_known(const ExprPtr& condition) const {
    if (const std::optional<UpperBound> bound = as_upper_bound(condition);
        bound && bound->index.terms().size() == 1 && bound->index.constant() == 0) {
      const Term& term = bound->index.terms()[0];
      if (term.atom.kind == Atom::Kind::mod && term.coefficient == 1 && bound->high < term.atom.divisor) {
        const bool known = std::ranges::all_of(term.atom.operand->terms(), [&](const Term& inner) {
          return inner.atom.kind == Atom::Kind::var &&
                 std::find(unrolled_.begin(), unrolled_.end(), inner.atom.var.get()) != unrolled_.end();
        });
        if (known) return static_cast<double>(bound->high) / static_cast<double>(term.atom.divisor);
      }
    }
    return share_counted(condition);
  }

  static double share_counted(const ExprPtr& condition) {
    constexpr int64_t kMostPlaces = 4096;
    const std::optional<Index> distance = distance_of(condition);
    if (!distance) return 1;
    std::vector<VarRef> vars;
    collect_vars(*distance, vars);
    int64_t places = 1;
    for (const VarRef& var : vars) places *= std::min(var->extent, kMostPlaces + 1);
    if (distance->uses_scalars() || places > kMostPlaces) return 1;
    int64_t holds = 0;
    for (int64_t number = 0; number < places; ++number) {
      int64_t rest = number;
      std::map<const Var*, int64_t> at;
      for (const VarRef& var : vars) {
        at[var.get()] = rest % var->extent;
        rest /= var->extent;
      }
      holds += substitute(*distance, [&](const VarRef& var) { return std::optional<Index>(at.at(var.get())); }).constant() >= 0;
    }
    return static_cast<double>(holds) / static_cast<double>(places);
  }

  void count_states(const std::vector<State>& states, const Combine* combine, double times, bool vector) {
    for (const State& state : states) {
      count(state.value, times, vector);
      add(times, vector);
    }
    if (!combine) return;
    run(combine->body, times, vector);
    for (const ExprPtr& result : combine->results) count(result, times, vector);
  }
  double repeats(const Expr& load) const {
    double again = 1;
    for (const Var* var : unrolled_) {
      const bool used = std::any_of(load.indices.begin(), load.indices.end(), [&](const Index& index) { return index.uses(var); });
      if (!used) again *= static_cast<double>(var->extent);
    }
    return again;
  }
  void count(const ExprPtr& expr, double times, bool vector) {
    visit(expr, [&](const Expr& e) {
      if (e.kind == Expr::Kind::op) add(arithmetic_cost(e.op) * times, vector);
      if (e.kind == Expr::Kind::load) touch(e.buffer, times, repeats(e));
    });
  }
  void add(double ops, bool vector) {
    work.ops += ops;
    if (vector) work.vector_ops += ops;
  }
  /// `again`: how many of the times it is what an unrolled loop has in a register already.
  void touch(const BufferRef& buffer, double times, double again = 1) {
    const double bytes = times * size_bits(buffer->dtype) / 8;
    work.load_bytes += bytes;
    if (buffer->space == Space::global) work.global_bytes += bytes / again;
    if (buffer->space == Space::shared) work.shared_bytes += bytes / again;
    if (buffer->space == Space::global) touched_[buffer] += bytes;
  }

  struct ById {
    bool operator()(const BufferRef& a, const BufferRef& b) const { return a->id < b->id; }
  };
  std::map<BufferRef, double, ById> touched_;
  std::vector<const Var*> unrolled_;  ///< of the loops around
  double threads_ = 1;
};

}  // namespace

Work measure_work(const Block& block) {
  CostModel meter;
  meter.run(block, 1, false);
  meter.finish();
  return meter.work;
}

double time_ns(const Work& work, const Target& target, double parallel) {
  const double share = std::clamp(parallel / target.cores, 1.0 / target.cores, 1.0);
  if (target.is_cuda()) {
    double matrix = 0;
    for (const auto& [instruction, ops] : work.matrix_ops) {
      const TensorCore* core = target.tensor_core(instruction);
      matrix += ops / (core ? core->flops_per_ns : target.flops_per_ns);
    }
    const double other = work.ops / (target.flops_per_ns / 2), memory = work.unique_bytes / target.bytes_per_ns;
    const double arithmetic = std::max(matrix, other) + kApart * std::min(matrix, other);
    const double cache = work.global_bytes / target.cache_bytes_per_ns, shared = work.shared_bytes / target.shared_bytes_per_ns;
    return std::max({arithmetic, memory, cache, shared}) / share;  // registers are free
  }
  // Half of the peak rate: loads, stores and address arithmetic take their part.
  const double per_core = target.flops_per_ns / 2 / target.cores / 2, lanes = target.vector_bytes / 4.0;
  const double arithmetic = work.vector_ops / per_core + (work.ops - work.vector_ops) / (per_core / lanes);
  const double loads =
      work.load_bytes / (work.vector_ops > work.ops / 2 ? target.vector_load_bytes_per_ns : target.scalar_load_bytes_per_ns);
  const double memory = work.unique_bytes / target.bytes_per_ns;
  return std::max((arithmetic + loads) / (share * target.cores), memory);
}

bool pays(const Packing& packing, const Target& target) {
  constexpr double kShare = 0.25;  // less is gained by panels
  const double copy_ns = 2 * packing.bytes / packing.bytes_per_ns;
  const double product_ns = 2 / (target.flops_per_ns / target.cores);
  return copy_ns <= kShare * packing.products * product_ns;
}

double estimate_ns(const loop::Kernel& kernel, const Target& target) {
  const Work work = measure_work(kernel.body);
  if (target.is_cuda()) {
    const double threads = static_cast<double>(kernel.grid) * kernel.threads;
    return target.launch_ns + time_ns(work, target, std::max(1.0, threads / target.busy_threads));
  }
  return target.launch_ns + time_ns(work, target, static_cast<double>(kernel.grid));
}

}  // namespace tcc::schedule
