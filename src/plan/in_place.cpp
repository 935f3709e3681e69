// A result may take the place of an operand when each element is loaded by the one iteration that stores it, before it does:
//
//   map %i in 64 bind threads { %t0: f32 = load %a0[%i];  store mul(%t0, %s), %r0[%i] }     with %a0 and %r0 in one place
//   becomes
//   map %i in 64 bind threads { %t0: f32 = load %r0[%i];  store mul(%t0, %s), %r0[%i] }
//
// One parameter and not two that alias: code generation may go on to assume that parameters do not overlap, and that what is never stored does not change.
// Asked for is
// - that every load of the operand stands in front of a store of the same element, in the loops around that store and no others;
// - that the loops around a store are maps all of whose variables are in its index: a map writes each element once, so no other iteration comes by;
// - that one thread of one block executes the store: what stands outside of thread loops is executed by all of them, one could store before another loads;
// - that the kernels of the unit that come later do not read the operand.

#include "plan/in_place.h"

#include <algorithm>
#include <map>

#include "loop/primitives/edit.h"
#include "loop/visit.h"
#include "tcc/loop/rewrite.h"

namespace tcc::plan {
namespace {

using namespace tcc::loop;

struct Step {
  const Block* block;
  size_t index;
  const Stmt& stmt() const { return (*block)[index]; }
};

/// A load or store, and where it stands.
struct Access {
  Index element;  ///< flat
  std::vector<Step> path;
};

const loop::Buffer* find_param(const Kernel& kernel, const std::string& name) {
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
  Checker(const Kernel& kernel, const loop::Buffer* old, const loop::Buffer* result)
      : kernel_(kernel), old_(old), result_(result), digits_(digits_of(kernel.body)) {}

  bool run() {
    if (!old_->strides.empty() || !result_->strides.empty()) return false;
    int seen = 0;
    walk_exprs(kernel_.body, [&](const Expr& e) { seen += e.kind == Expr::Kind::load && e.buffer.get() == old_; });
    collect(kernel_.body);
    if (!plain_ || seen != static_cast<int>(loads_.size()) || stores_.empty()) return false;
    return std::all_of(stores_.begin(), stores_.end(), [&](const Access& store) { return is_alone(store); }) &&
           std::all_of(loads_.begin(), loads_.end(), [&](const Access& load) { return is_followed(load); });
  }

 private:
  void collect(const Block& block) {
    for (size_t i = 0; i < block.size() && plain_; ++i) {
      const Stmt& stmt = block[i];
      path_.push_back({&block, i});
      each_expr(stmt, [&](const ExprPtr& expr) { visit(expr, [&](const Expr& e) { look_at(e); }); });
      if (const auto* store = as<Store>(stmt)) {
        if (store->buffer.get() == result_) stores_.push_back({flatten(store->indices, result_->extents), path_});
        if (store->buffer.get() == old_) plain_ = false;
      } else if (as<Scatter>(stmt) || as<Copy>(stmt) || as<Mma>(stmt)) {
        const Uses uses = uses_of(stmt);
        for (const loop::Buffer* buffer : {old_, result_}) plain_ = plain_ && !uses.reads.count(buffer) && !uses.writes.count(buffer);
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
    if (e.otherwise) plain_ = false;
    loads_.push_back({flatten(e.indices, old_->extents), path_});
  }

  /// Whether one iteration of one thread executes the store for an element.
  bool is_alone(const Access& store) const {
    if (store.element.uses_scalars()) return false;
    bool block = kernel_.grid == 1, thread = kernel_.threads == 1, warp = kernel_.threads <= 32, lane = false;
    for (size_t i = 0; i + 1 < store.path.size(); ++i) {
      const Stmt& stmt = store.path[i].stmt();
      if (as<If>(stmt)) continue;
      const auto* loop = as<Loop>(stmt);
      if (!loop) return false;
      if (loop->tile) thread = true;
      for (const loop::Dim& dim : loop->dims) {
        if (dim.var->extent > 1 && !store.element.uses(dim.var.get())) return false;
        const auto digit = digits_.find(dim.var.get());
        if (digit == digits_.end() || digit->second.stride != 1) continue;
        block = block || dim.bind == Bind::block || dim.bind == Bind::threads;
        thread = thread || dim.bind == Bind::thread;
        warp = warp || dim.bind == Bind::warp;
        lane = lane || dim.bind == Bind::lane;
      }
    }
    return block && (thread || (warp && lane));
  }

  /// Whether the load comes before a store of the same element, and before all others of the innermost loop around it.
  bool is_followed(const Access& load) const {
    bool followed = false;
    for (const Access& store : stores_) {
      const size_t depth = load.path.size() - 1;
      const bool within = store.path.size() > depth && store.path[depth].block == load.path[depth].block;
      if (!within) continue;
      const size_t from = load.path[depth].index, to = store.path[depth].index;
      const bool before = from < to || (from == to && (store.path.size() == depth + 1 || as<If>(load.path[depth].stmt())));
      if (!before || !(load.element == store.element)) return false;
      followed = true;
    }
    return followed;
  }

  const Kernel& kernel_;
  const loop::Buffer *old_, *result_;
  std::map<const Var*, Digit> digits_;
  std::vector<Access> loads_, stores_;
  std::vector<Step> path_;
  bool plain_ = true;  ///< the operand is loaded and the result stored, element by element
};

/// An index of the same element in a buffer of other extents: that of a store of it, which is_followed found.
void redirect(Kernel& kernel, const loop::Buffer* old, const BufferRef& result) {
  std::vector<std::pair<Index, const std::vector<Index>*>> stored;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* store = as<Store>(stmt);
    if (store && store->buffer == result) stored.emplace_back(flatten(store->indices, result->extents), &store->indices);
  });
  std::vector<std::vector<Index>> indices;  // copies: the rewrite below replaces the statements
  for (const auto& [element, at] : stored) indices.push_back(*at);
  rewrite_exprs(kernel.body, [&](const ExprPtr& e) -> ExprPtr {
    if (e->kind != Expr::Kind::load || e->buffer.get() != old) return e;
    const Index element = flatten(e->indices, old->extents);
    for (size_t i = 0; i < stored.size(); ++i) {
      if (stored[i].first == element) return load(result, indices[i]);
    }
    return e;
  });
  std::erase_if(kernel.params, [&](const Param& param) { return param.buffer.get() == old; });
}

}  // namespace

bool can_overwrite(const Form& form, const std::string& old, const std::string& result) {
  const int writer = first_writer(form.kernels, result);
  if (writer < 0) return false;
  for (size_t i = static_cast<size_t>(writer) + 1; i < form.kernels.size(); ++i) {
    if (find_param(form.kernels[i], old)) return false;
  }
  const Kernel& kernel = form.kernels[static_cast<size_t>(writer)];
  const loop::Buffer *from = find_param(kernel, old), *to = find_param(kernel, result);
  if (!from) return true;  // earlier kernels read it
  return from->dtype == to->dtype && from->count() == to->count() && Checker(kernel, from, to).run();
}

std::vector<loop::Kernel> overwrite(const Form& form, const std::vector<Overwrite>& pairs) {
  std::vector<loop::Kernel> kernels = form.kernels;
  for (const auto& [old, result] : pairs) {
    Kernel& kernel = kernels[static_cast<size_t>(first_writer(kernels, result))];
    const loop::Buffer* from = find_param(kernel, old);
    if (!from) continue;
    for (const Param& param : kernel.params) {
      if (param.buffer->name != result) continue;
      const BufferRef to = param.buffer;
      redirect(kernel, from, to);
      break;
    }
  }
  return kernels;
}

std::vector<bool> loaded_parameters(const loop::Kernel& kernel) {
  const Uses uses = uses_of(kernel.body);
  std::vector<bool> loaded;
  for (const Param& param : kernel.params) loaded.push_back(uses.reads.count(param.buffer.get()) != 0);
  return loaded;
}

}  // namespace tcc::plan
