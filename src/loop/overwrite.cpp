// A result may take the place of an operand when every element has been loaded before it is stored:
//
//   map %i in 64 bind(parallel) { %t0: f32 = load %a0[%i];  store mul(%t0, %s), %r0[%i] }     with %a0 and %r0 in one place
//   becomes
//   map %i in 64 bind(parallel) { %t0: f32 = load %r0[%i];  store mul(%t0, %s), %r0[%i] }
//
// One parameter and not two that alias: code generation may go on to assume that parameters do not overlap, and that what is never stored does not change.
// A load is safe where
// - it stands in front of a store of the same element, in the loops around that store and no others;
// - or in loops of its own that are those of the store again, in front of them: the thread that loads the element is the one that stores it;
// - or in a reduction over a row whose elements the loops around both store and no other iteration does, and all threads of the row have loaded when one
//   of them stores: the reduction joins them at a barrier, or what is stored depends on its result;
// - or in front of a barrier that the store stands behind, where each iteration of the loops around both loads nothing but the box that it stores.
// And for all of them
// - the loops around a store are maps all of whose variables are in its index: a map writes each element once, so no other iteration comes by;
// - one thread of one block executes the store: what stands outside of thread loops is executed by all of them, one could store before another loads;
// - the kernels of the unit that come later do not read the operand.

#include "tcc/loop/overwrite.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "loop/self_stores.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {
namespace {

struct Step {
  const Block* block;
  size_t index;
  const Stmt& stmt() const { return (*block)[index]; }
};

/// A load or store, and where it stands.
struct Access {
  std::vector<Index> indices;
  std::vector<Step> path;
};

/// Whether different values of the variables give different sums: terms of bare variables, each a step beyond what the smaller ones reach.
bool is_injective(const Index& index) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, extent
  for (const Term& term : index.terms()) {
    if (!term.atom.var) return false;
    steps.emplace_back(std::abs(term.coefficient), term.atom.var->extent);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [step, extent] : steps) {
    if (step <= reach) return false;
    reach += step * (extent - 1);
  }
  return true;
}

const Buffer* find_param(const Kernel& kernel, const std::string& name) {
  for (const Param& param : kernel.params) {
    if (param.buffer->name == name) return param.buffer.get();
  }
  return nullptr;
}

bool writes(const Kernel& kernel, const std::string& name) {
  return std::any_of(kernel.params.begin(), kernel.params.end(), [&](const Param& p) { return p.written && p.buffer->name == name; });
}

/// The kernel that writes the parameter first, -1 for none.
int first_writer(const std::vector<Kernel>& kernels, const std::string& name) {
  const auto at = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& kernel) { return writes(kernel, name); });
  return at == kernels.end() ? -1 : static_cast<int>(at - kernels.begin());
}

class Checker {
 public:
  Checker(const Kernel& kernel, const Buffer* old, const Buffer* result)
      : kernel_(kernel), old_(old), result_(result), same_extents_(old->extents == result->extents), digits_(digits_of(kernel.body)) {}

  bool run() {
    if (!same_extents_ && (old_->row_padding() > 0 || result_->row_padding() > 0)) return false;
    if (old_->row_padding() != result_->row_padding()) return false;
    int seen = 0;
    walk_exprs(kernel_.body, [&](const Expr& e) { seen += e.kind == Expr::Kind::load && e.buffer.get() == old_; });
    collect(kernel_.body);
    if (!plain_ || seen != static_cast<int>(loads_.size()) || stores_.empty()) return false;
    return std::all_of(stores_.begin(), stores_.end(), [&](const Access& store) { return is_alone(store); }) &&
           std::all_of(loads_.begin(), loads_.end(),
                       [&](const Access& load) { return is_followed(load) || is_of_a_row(load) || is_of_a_box(load); });
  }

 private:
  void collect(const Block& block) {
    for (size_t i = 0; i < block.size() && plain_; ++i) {
      const Stmt& stmt = block[i];
      path_.push_back({&block, i});
      each_expr(stmt, [&](const ExprPtr& expr) { visit(expr, [&](const Expr& e) { look_at(e); }); });
      if (const auto* store = as<Store>(stmt)) {
        if (store->buffer.get() == result_) stores_.push_back({store->indices, path_});
        if (store->buffer.get() == old_) plain_ = false;
      } else if (as<Scatter>(stmt) || as<Copy>(stmt) || as<Mma>(stmt)) {
        const Uses uses = uses_of(stmt);
        for (const Buffer* buffer : {old_, result_}) plain_ = plain_ && !uses.reads.count(buffer) && !uses.writes.count(buffer);
      }
      for (const Block* inner : blocks_of(stmt)) collect(*inner);
      path_.pop_back();
    }
  }

  void look_at(const Expr& e) {
    if (e.kind != Expr::Kind::load) return;
    if (e.buffer.get() == result_) plain_ = false;
    if (e.buffer.get() != old_) return;
    // Where the index may be outside, equal flat indices need not be equal elements.
    if (e.otherwise && !same_extents_) plain_ = false;
    loads_.push_back({e.indices, path_});
  }

  bool is_same_element(const std::vector<Index>& load, const std::vector<Index>& store) const {
    return same_extents_ ? load == store : flatten(load, old_->extents) == flatten(store, result_->extents);
  }

  /// Which digits of the numbers of block and thread the loops around take.
  struct Digits {
    bool block, thread, warp, lane = false;
    bool all_threads() const { return thread || (warp && lane); }
  };
  Digits no_digits() const { return {kernel_.grid == 1, kernel_.threads == 1, kernel_.threads <= 32}; }
  void add(Digits& digits, const std::vector<Dim>& dims) const {
    for (const Dim& dim : dims) {
      const auto digit = digits_.find(dim.var.get());
      if (digit == digits_.end() || digit->second.stride != 1) continue;
      digits.block = digits.block || dim.bind == Bind::block || dim.bind == Bind::parallel;
      digits.thread = digits.thread || dim.bind == Bind::thread;
      digits.warp = digits.warp || dim.bind == Bind::warp;
      digits.lane = digits.lane || dim.bind == Bind::lane;
    }
  }

  /// Whether one iteration of one thread executes the store for an element.
  bool is_alone(const Access& store) const {
    Digits digits = no_digits();
    for (size_t i = 0; i + 1 < store.path.size(); ++i) {
      const Stmt& stmt = store.path[i].stmt();
      if (as<If>(stmt)) continue;
      if (const auto* all = as<Roles>(stmt)) {
        for (const Role& role : all->roles) {
          if (&role.body == store.path[i + 1].block) digits.warp = role.warps == 1;
        }
        continue;
      }
      const auto* loop = as<Loop>(stmt);
      if (!loop) return false;
      if (loop->tile) digits.thread = true;
      add(digits, loop->dims);
      for (const Dim& dim : loop->dims) {
        const bool in_index =
            std::any_of(store.indices.begin(), store.indices.end(), [&](const Index& index) { return index.uses(dim.var.get()); });
        if (dim.var->extent > 1 && !in_index) return false;
      }
    }
    return digits.block && digits.all_threads() &&
           std::none_of(store.indices.begin(), store.indices.end(), [](const Index& index) { return index.uses_scalars(); });
  }

  /// Whether the load comes before a store of the same element by the same thread, and before all others of the innermost loop around it.
  bool is_followed(const Access& load) const {
    bool followed = false;
    for (const Access& store : stores_) {
      const size_t depth = load.path.size() - 1;
      if (store.path.size() <= depth || store.path[depth].block != load.path[depth].block) {
        followed = followed || is_mirrored(load, store);
        continue;
      }
      const size_t from = load.path[depth].index, to = store.path[depth].index;
      const bool before = from < to || (from == to && (store.path.size() == depth + 1 || as<If>(load.path[depth].stmt())));
      if (!before || !is_same_element(load.indices, store.indices)) return false;
      followed = true;
    }
    return followed;
  }

  /// The number of steps that both paths have in common.
  static size_t common_steps(const Access& a, const Access& b) {
    size_t depth = 0;
    const auto is_common = [&] { return a.path[depth].block == b.path[depth].block && a.path[depth].index == b.path[depth].index; };
    while (depth + 1 < a.path.size() && depth + 1 < b.path.size() && is_common()) ++depth;
    return depth;
  }

  /// Whether what is next on the path of the load stands in front of what is next on that of the store, in one block: not in two roles, say.
  static bool in_front(const Access& load, const Access& store, size_t depth) {
    return load.path[depth].block == store.path[depth].block && load.path[depth].index < store.path[depth].index;
  }

  /// Whether the loops around the load alone are those around the store alone, over again, and in front.
  bool is_mirrored(const Access& load, const Access& store) const {
    const size_t depth = common_steps(load, store);
    if (load.path.size() != store.path.size() || !in_front(load, store, depth)) return false;
    std::map<const Var*, Index> map;
    for (size_t i = depth; i + 1 < load.path.size(); ++i) {
      const auto *x = as<Loop>(load.path[i].stmt()), *y = as<Loop>(store.path[i].stmt());
      if (!x || !y || x->tile || y->tile || x->dims.size() != y->dims.size()) return false;
      for (size_t d = 0; d < x->dims.size(); ++d) {
        const Dim &from = x->dims[d], &to = y->dims[d];
        if (from.bind != to.bind || from.var->extent != to.var->extent || !same_digit(from, to)) return false;
        map[from.var.get()] = Index(to.var);
      }
    }
    std::vector<Index> moved;
    for (const Index& index : load.indices) {
      moved.push_back(substitute(index, [&](const VarRef& var) {
        const auto at = map.find(var.get());
        return at == map.end() ? std::optional<Index>() : std::optional<Index>(at->second);
      }));
    }
    return is_same_element(moved, store.indices);
  }
  bool same_digit(const Dim& a, const Dim& b) const {
    const auto x = digits_.find(a.var.get()), y = digits_.find(b.var.get());
    if (x == digits_.end() || y == digits_.end()) return x == y;
    return x->second.stride == y->second.stride && x->second.radix == y->second.radix;
  }

  /// Whether the load is in a reduction over (part of) what the loops around it and the stores write, done by the time that any thread stores.
  bool is_of_a_row(const Access& load) const {
    if (!same_extents_) return false;
    for (const Access& store : stores_) {
      const size_t depth = common_steps(load, store);
      if (!in_front(load, store, depth)) return false;
      Digits digits = no_digits();
      std::vector<VarRef> row;  // variables of the loops around both
      for (size_t i = 0; i < depth; ++i) {
        const auto* loop = as<Loop>(load.path[i].stmt());
        if (!loop) continue;
        add(digits, loop->dims);
        for (const Dim& dim : loop->dims) {
          if (dim.var->extent > 1) row.push_back(dim.var);
        }
      }
      const bool alone = digits.all_threads();
      int64_t across = 1;
      for (size_t i = depth; i < load.path.size(); ++i) {
        const auto* reduce = as<Reduce>(load.path[i].stmt());
        if (!reduce) {
          if (i == depth || !as<Let>(load.path[i].stmt())) return false;
          continue;
        }
        add(digits, reduce->dims);
        for (const Dim& dim : reduce->dims) across *= dim.bind == Bind::thread || dim.bind == Bind::warp ? dim.var->extent : 1;
      }
      if (!digits.all_threads() || !keeps_to_row(load, store, row)) return false;
      const bool joined = across > 32;  // at a barrier: more than a warp
      if (!alone && !joined && !depends(store, load.path[depth].stmt())) return false;
    }
    return true;
  }

  /// Whether an element that is loaded is stored by the same iteration of the loops around both: these alone make the indices that load and store share.
  static bool keeps_to_row(const Access& load, const Access& store, const std::vector<VarRef>& row) {
    std::vector<VarRef> shared;
    for (size_t i = 0; i < load.indices.size(); ++i) {
      if (!(load.indices[i] == store.indices[i]) || load.indices[i].uses_scalars() || !is_injective(load.indices[i])) continue;
      collect_vars(load.indices[i], shared);
    }
    return std::all_of(row.begin(), row.end(),
                       [&](const VarRef& var) { return std::find(shared.begin(), shared.end(), var) != shared.end(); });
  }

  /// Whether the loops around the load alone read, in front of a barrier, no more than the box that those around the store alone write behind it.
  bool is_of_a_box(const Access& load) const {
    if (!same_extents_) return false;
    return std::all_of(stores_.begin(), stores_.end(), [&](const Access& store) {
      const size_t depth = common_steps(load, store);
      if (!in_front(load, store, depth)) return false;
      const Block& block = *load.path[depth].block;
      const auto from = block.begin() + static_cast<ptrdiff_t>(load.path[depth].index);
      const auto to = block.begin() + static_cast<ptrdiff_t>(store.path[depth].index);
      const bool joined = std::any_of(from, to, [](const Stmt& stmt) { return as<Barrier>(stmt) != nullptr; });
      const std::optional<std::vector<VarRef>> loading = own_vars(load, depth), storing = own_vars(store, depth);
      return joined && loading && storing && fills_box(load.indices, *loading, store.indices, *storing);
    });
  }

  /// The variables of the loops around the access from a step on; nothing where there is anything else, or not all iterations are executed.
  static std::optional<std::vector<VarRef>> own_vars(const Access& access, size_t from) {
    std::vector<VarRef> vars;
    for (size_t i = from; i + 1 < access.path.size(); ++i) {
      const auto* loop = as<Loop>(access.path[i].stmt());
      if (!loop || loop->where) return std::nullopt;
      for (const Dim& dim : loop->dims) vars.push_back(dim.var);
    }
    return vars;
  }

  /// Whether the indices are corners plus offsets, with the same corners, multiples of the size of the box: offsets that are loaded are in the box, and those that
  /// are stored are all of it. A map stores an element once, so other iterations of the loops around both have other corners.
  static bool fills_box(const std::vector<Index>& load, const std::vector<VarRef>& loading, const std::vector<Index>& store,
                        const std::vector<VarRef>& storing) {
    int64_t variables = 0;
    for (size_t i = 0; i < load.size(); ++i) {
      if (load[i].uses_scalars() || store[i].uses_scalars()) return false;
      const auto read = split(load[i], loading), written = split(store[i], storing);
      if (!read || !written || !(read->corner == written->corner) || !is_injective(written->offset)) return false;
      int64_t size = 1;
      for (const Term& term : written->offset.terms()) size *= term.atom.var->extent;
      variables += static_cast<int64_t>(written->offset.terms().size());
      const int64_t last_read = reach(read->offset), last_written = reach(written->offset);
      if (last_read < 0 || last_read >= size || last_written != size - 1 || written->corner.constant() % size != 0) return false;
      for (const Term& term : written->corner.terms()) {
        if (term.coefficient % size != 0) return false;
      }
    }
    return variables == std::count_if(storing.begin(), storing.end(), [](const VarRef& var) { return var->extent > 1; });
  }

  struct Split {
    Index corner, offset;
  };
  /// The index without the terms of the variables, and these; nothing where a term is of both kinds.
  static std::optional<Split> split(const Index& index, const std::vector<VarRef>& own) {
    const auto is_own = [&](const VarRef& var) { return std::find(own.begin(), own.end(), var) != own.end(); };
    Split parts{index, Index(0)};
    for (const Term& term : index.terms()) {
      if (!term.atom.var || !is_own(term.atom.var)) continue;
      parts.offset = parts.offset + Index(term.atom.var) * term.coefficient;
    }
    parts.corner = index - parts.offset;
    std::vector<VarRef> vars;
    collect_vars(parts.corner, vars);
    return std::any_of(vars.begin(), vars.end(), is_own) ? std::nullopt : std::optional<Split>(parts);
  }

  /// The largest value of an index of bare variables; -1 where it can be below zero.
  static int64_t reach(const Index& offset) {
    int64_t last = 0;
    for (const Term& term : offset.terms()) {
      if (term.coefficient < 0) return -1;
      last += term.coefficient * (term.atom.var->extent - 1);
    }
    return last;
  }

  /// Whether what is stored depends on a result of the statement, through scalars.
  bool depends(const Access& store, const Stmt& on) const {
    std::map<const Scalar*, std::set<const Scalar*>> needs;
    walk(kernel_.body, [&](const Stmt& stmt) {
      if (!as<Let>(stmt) && !as<Reduce>(stmt)) return;
      const Uses uses = uses_of(stmt);
      for (const ScalarRef& scalar : defined_by(stmt)) needs[scalar.get()] = uses.scalars;
    });
    std::set<const Scalar*> seen = uses_of(as<Store>(store.path.back().stmt())->value).scalars;
    std::vector<const Scalar*> stack(seen.begin(), seen.end());
    while (!stack.empty()) {
      const Scalar* scalar = stack.back();
      stack.pop_back();
      for (const Scalar* next : needs[scalar]) {
        if (seen.insert(next).second) stack.push_back(next);
      }
    }
    const auto results = defined_by(on);
    return std::any_of(results.begin(), results.end(), [&](const ScalarRef& scalar) { return seen.count(scalar.get()) != 0; });
  }

  const Kernel& kernel_;
  const Buffer *old_, *result_;
  const bool same_extents_;
  std::map<const Var*, Digit> digits_;
  std::vector<Access> loads_, stores_;
  std::vector<Step> path_;
  bool plain_ = true;  ///< the operand is loaded and the result stored, element by element
};

/// Where the extents differ, the index of the same element is that of the store that is_followed found, or of its place in memory where other loops load it.
void redirect(Kernel& kernel, const Buffer* old, const BufferRef& result) {
  std::vector<std::pair<Index, const std::vector<Index>*>> stored;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* store = as<Store>(stmt);
    if (store && store->buffer == result) stored.emplace_back(flatten(store->indices, result->extents), &store->indices);
  });
  std::vector<std::vector<Index>> indices;  // copies: the rewrite below replaces the statements
  for (const auto& [element, at] : stored) indices.push_back(*at);
  rewrite_exprs(kernel.body, [&](const ExprPtr& e) -> ExprPtr {
    if (e->kind != Expr::Kind::load || e->buffer.get() != old) return e;
    if (old->extents == result->extents) return load(result, e->indices, e->otherwise);
    const Index element = flatten(e->indices, old->extents);
    for (size_t i = 0; i < stored.size(); ++i) {
      if (stored[i].first == element) return load(result, indices[i]);
    }
    return load(result, unflatten(element, result->extents));
  });
  std::erase_if(kernel.params, [&](const Param& param) { return param.buffer.get() == old; });
}

/// Loads before stores in each run of statements: no compiler moves a load over a store that might be to the same place, and a thread that waits for one
/// load after the other has little in flight.
void load_first(Block& block) {
  for (Stmt& stmt : block) {
    for (Block* inner : blocks_of(stmt)) load_first(*inner);
  }
  std::set<const Buffer*> stored;
  for (const Stmt& stmt : block) {
    if (const auto* store = as<Store>(stmt)) {
      stored.insert(store->buffer.get());
      continue;
    }
    if (!as<Let>(stmt)) return;
    for (const Buffer* buffer : uses_of(stmt).reads) {
      if (stored.count(buffer)) return;
    }
  }
  std::stable_partition(block.begin(), block.end(), [](const Stmt& stmt) { return as<Let>(stmt) != nullptr; });
}

}  // namespace

bool can_overwrite(const std::vector<Kernel>& kernels, const std::string& old, const std::string& result) {
  const int writer = first_writer(kernels, result);
  if (writer < 0) return false;
  for (size_t i = static_cast<size_t>(writer) + 1; i < kernels.size(); ++i) {
    if (find_param(kernels[i], old)) return false;
  }
  const Kernel& kernel = kernels[static_cast<size_t>(writer)];
  const Buffer *from = find_param(kernel, old), *to = find_param(kernel, result);
  if (!from) return true;  // earlier kernels read it
  return from->dtype == to->dtype && from->count() == to->count() && Checker(kernel, from, to).run();
}

std::vector<Kernel> overwrite(std::vector<Kernel> kernels, const std::vector<Overwrite>& pairs) {
  for (const auto& [old, result] : pairs) {
    const auto writer = static_cast<size_t>(first_writer(kernels, result));
    Kernel& kernel = kernels[writer];
    const Buffer* from = find_param(kernel, old);
    if (!from) continue;
    for (const Param& param : kernel.params) {
      if (param.buffer->name != result) continue;
      const BufferRef to = param.buffer;
      redirect(kernel, from, to);
      load_first(kernel.body);
      // Somebody has to write the result: what follows a copy of the operand, if it was one.
      const bool goes_on = std::any_of(kernels.begin() + static_cast<ptrdiff_t>(writer) + 1, kernels.end(),
                                       [&](const Kernel& later) { return writes(later, result); });
      if (goes_on) drop_self_stores(kernel, to);
      break;
    }
  }
  return kernels;
}

std::vector<bool> loaded_parameters(const Kernel& kernel) {
  const Uses uses = uses_of(kernel.body);
  std::vector<bool> loaded;
  for (const Param& param : kernel.params) loaded.push_back(uses.reads.count(param.buffer.get()) != 0);
  return loaded;
}

}  // namespace tcc::loop
