// stage(a, scratch, at=i_0): what the code inside a dim reads of a buffer is copied first, and read from the copy.
//
//   map %i_0 in 4, %i_1 in 8 { store add(load %a[%i_0 * 8 + %i_1], load %a[%i_0 * 8 + %i_1 + 1] else 0), %b[...] }
// becomes
//   map %i_0 in 4 {
//     alloc %a.staged: f32[9] scratch
//     map %a_a in 9 { store load %a[%i_0 * 8 + %a_a] else 0, %a.staged[%a_a] }
//     map %i_1 in 8 { store add(load %a.staged[%i_1], load %a.staged[%i_1 + 1]), %b[...] }
//   }
//
// The region is a box: per axis, what comes from outside the dim is its corner, the range of the rest its extent. `order=ba` stores the axes in another
// order (letters: axes of the buffer, slowest first): packing. `phases=2` stores the last axis as [2, half]: %a[2 * %i + %k] becomes
// %a.staged[%k mod 2, %i + %k / 2], contiguous along %i. `panels=16` stores pieces of 16 elements of the last axis one after the other, as
// [pieces, other axes, 16]. In shared memory the box belongs to the block, so dims bound to threads count as inside
// wherever they stand; the copy is a Copy statement when the order is kept, and barriers stand around it.
//
// `stage(a, global, at=top)` copies what the whole unit reads of a parameter, in a nest of its own in front of all others: a kernel, which of a constant runs
// once, when the library is made or an instance is created.
//
// `join=c` takes the axes c and d for one, as a loop over both that was fused reads them: %a[%x / n, %x mod n], n the extent of the second, is a box of %x.
// The copy has an axis of one element for the second.
#include "loop/primitives/stage.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "loop/verify_collective.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {

namespace {

bool is_across_threads(Bind bind) { return bind == Bind::thread || bind == Bind::warp || bind == Bind::lane; }

bool uses_one_of(const Atom& atom, const std::set<const Var*>& vars) {
  if (atom.kind == Atom::Kind::var) return vars.contains(atom.var.get());
  if (!atom.operand) return false;
  return std::any_of(vars.begin(), vars.end(), [&](const Var* var) { return atom.operand->uses(var); });
}

class Stager {
 public:
  Stager(const Unit& unit, const std::string& buffer, Space space, std::string at, std::vector<int64_t> order, int64_t phases,
         int64_t panels, int64_t joined)
      : names_(unit),
        buffer_(find_buffer(unit, buffer)),
        space_(space),
        at_(std::move(at)),
        order_(std::move(order)),
        phases_(phases),
        panels_(panels),
        joined_(joined) {
    if (!buffer_) no_such_buffer(unit, buffer);
    if (panels_ > 0 && (phases_ > 1 || buffer_->extents.empty())) unfit("panels are of one axis, which has no phases");
    if (joined_ >= static_cast<int64_t>(buffer_->extents.size()) - 1 || (joined_ >= 0 && (space_ == Space::shared || phases_ > 1)))
      unfit("the axis to join has none after it, or is copied to shared memory or in phases");
    if (order_.empty()) {
      order_.resize(buffer_->extents.size());
      std::iota(order_.begin(), order_.end(), 0);
    } else {
      keeps_order_ = std::is_sorted(order_.begin(), order_.end());
    }
    std::vector<int64_t> sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); i++) {
      if (sorted[i] != static_cast<int64_t>(i) || sorted.size() != buffer_->extents.size())
        unfit("the order must name each axis of `" + buffer + "` once");
    }
  }

  bool edit(Block& block, const std::vector<Param>& params) {
    if (space_ != Space::global)
      return edit_inside(block, at_, [&](Block& body, const std::set<const Var*>& threads) { stage(body, threads); });
    if (at_ != "top") unfit("a copy in global memory is made at the top of its unit (`top`), not at `" + at_ + "`");
    if (std::none_of(params.begin(), params.end(), [&](const Param& param) { return param.buffer == buffer_; }))
      unfit("`" + buffer_->name + "` is not a parameter");
    stage(block, {});
    return true;
  }

 private:
  struct Region {
    std::vector<Index> corner;  // without constants until all loads are seen
    std::vector<int64_t> low, high;
    ExprPtr otherwise;
    bool seen = false;
  };

  void stage(Block& inner, const std::set<const Var*>& threads) {
    std::set<const Var*> inside = uses_of(inner).loops;
    const std::set<const Scalar*> defined = uses_of(inner).defines;
    if (space_ == Space::shared) inside.insert(threads.begin(), threads.end());

    if (uses_of(inner).writes.contains(buffer_.get())) unfit("`" + buffer_->name + "` is written inside `" + at_ + "`");
    Region region;
    walk_exprs(inner, [&](const Expr& expr) {
      if (expr.kind == Expr::Kind::load && expr.buffer == buffer_) add(region, expr, inside, defined);
    });
    if (!region.seen) unfit("nothing inside `" + at_ + "` reads `" + buffer_->name + "`");
    for (size_t axis = 0; axis < region.corner.size(); axis++) region.corner[axis] = region.corner[axis] + Index(region.low[axis]);

    Buffer prototype;
    const bool top = space_ == Space::global;
    prototype.name = names_.fresh(buffer_->name + (top ? ".packed" : ".staged"));
    prototype.dtype = buffer_->dtype;
    prototype.space = top ? Space::local : space_;  // between the nests of a unit, as others that primitives make
    for (const int64_t axis : axes_of(region)) prototype.extents.push_back(region.high[axis] - region.low[axis] + 1);
    if (phases_ > 1) {
      const int64_t length = prototype.extents.back();
      prototype.extents.back() = phases_;
      prototype.extents.push_back(ceil_div(length, phases_));
    }
    if (panels_ > 0) {
      const int64_t length = prototype.extents.back();
      prototype.extents.back() = panels_;
      prototype.extents.insert(prototype.extents.begin(), ceil_div(length, panels_));
    }
    const BufferRef staged = make_buffer(std::move(prototype));

    Block body;
    body.push_back({Alloc{staged}});
    if (space_ == Space::shared) body.push_back({Barrier{}});  // the last round's readers are done
    body.push_back(copy(region, staged));
    if (space_ == Space::shared) body.push_back({Barrier{}});
    rewrite_exprs(inner, [&](const ExprPtr& expr) -> ExprPtr {
      if (expr->kind != Expr::Kind::load || expr->buffer != buffer_) return expr;
      std::vector<Index> indices;
      for (const int64_t axis : axes_of(region)) indices.push_back(coordinates(*expr)[axis] - region.corner[axis]);
      if (phases_ > 1) {
        const Index last = indices.back();
        indices.back() = mod(last, phases_);
        indices.push_back(floor_div(last, phases_));
      }
      if (panels_ > 0) {
        const Index last = indices.back();
        indices.back() = mod(last, panels_);
        indices.insert(indices.begin(), floor_div(last, panels_));
      }
      return load(staged, indices);
    });
    append(body, std::move(inner));
    inner = std::move(body);
  }

  /// The axes of the copy, slowest first: in shared memory those of one element are left out, so that tiles of matrices have two.
  std::vector<int64_t> axes_of(const Region& region) const {
    if (space_ != Space::shared || phases_ > 1 || panels_ > 0) return order_;
    std::vector<int64_t> axes;
    for (const int64_t axis : order_) {
      if (region.high[axis] > region.low[axis]) axes.push_back(axis);
    }
    return axes.empty() && !order_.empty() ? std::vector<int64_t>{order_.back()} : axes;
  }

  void add(Region& region, const Expr& expr, const std::set<const Var*>& inside, const std::set<const Scalar*>& defined) const {
    const size_t rank = expr.indices.size();
    const std::vector<Index> at = coordinates(expr);
    std::vector<Index> corner(rank);
    std::vector<int64_t> low(rank), high(rank);
    for (size_t axis = 0; axis < rank; axis++) {
      Index inner = at[axis];
      for (const Term& term : at[axis].terms()) {
        if (term.atom.kind == Atom::Kind::scalar && defined.contains(term.atom.scalar.get())) {
          unfit("`" + buffer_->name + "` is read at an index that is computed inside `" + at_ + "`");
        }
        if (uses_one_of(term.atom, inside)) continue;
        const Index outer = only(term);
        corner[axis] = corner[axis] + outer;
        inner = inner - outer;
      }
      const std::optional<int64_t> least = inner.min(), most = inner.max();
      if (!least || !most) unfit("what is read of `" + buffer_->name + "` has no bound");
      low[axis] = *least;
      high[axis] = *most;
    }
    if (expr.otherwise) {
      if (region.otherwise && !equal(region.otherwise, expr.otherwise))
        unfit("`" + buffer_->name + "` is read with different values outside of it");
      const Uses uses = uses_of(expr.otherwise);
      const auto is_inside = [&](const Var* var) { return inside.contains(var); };
      const auto is_defined = [&](const Scalar* scalar) { return defined.contains(scalar); };
      if (std::any_of(uses.vars.begin(), uses.vars.end(), is_inside) || std::any_of(uses.scalars.begin(), uses.scalars.end(), is_defined))
        unfit("what is read outside of `" + buffer_->name + "` is computed inside `" + at_ + "`");
      region.otherwise = expr.otherwise;
    }
    if (!region.seen) {
      region.corner = std::move(corner);
      region.low = std::move(low);
      region.high = std::move(high);
      region.seen = true;
      return;
    }
    for (size_t axis = 0; axis < rank; axis++) {
      if (!(region.corner[axis] == corner[axis])) unfit("`" + buffer_->name + "` is read in places that have no common corner");
      region.low[axis] = std::min(region.low[axis], low[axis]);
      region.high[axis] = std::max(region.high[axis], high[axis]);
    }
  }

  /// Where the load is in the box: its indices, those of joined axes as one.
  std::vector<Index> coordinates(const Expr& load) const {
    std::vector<Index> at = load.indices;
    if (joined_ < 0) return at;
    const size_t axis = static_cast<size_t>(joined_);
    const int64_t extent = buffer_->extents[axis + 1];
    const std::optional<int64_t> least = at[axis + 1].min(), most = at[axis + 1].max();
    if (!least || *least < 0 || !most || *most >= extent)
      unfit("the second of the joined axes of `" + buffer_->name + "` is read outside of it");
    at[axis] = at[axis] * extent + at[axis + 1];
    at[axis + 1] = Index(0);
    return at;
  }

  static Index only(const Term& term) {
    switch (term.atom.kind) {
      case Atom::Kind::var: return Index(term.atom.var) * term.coefficient;
      case Atom::Kind::scalar: return Index::of_scalar(term.atom.scalar) * term.coefficient;
      case Atom::Kind::floor_div: return floor_div(*term.atom.operand, term.atom.divisor) * term.coefficient;
      case Atom::Kind::mod: return mod(*term.atom.operand, term.atom.divisor) * term.coefficient;
    }
    internal_error("no such atom");
  }

  Stmt copy(const Region& region, const BufferRef& staged) {
    const bool zero = !region.otherwise || (region.otherwise->kind == Expr::Kind::constant && region.otherwise->float_value == 0 &&
                                            region.otherwise->int_value == 0);
    const std::vector<int64_t> axes = axes_of(region);
    std::vector<Index> from = region.corner;
    if (space_ == Space::shared && keeps_order_ && zero && phases_ == 1 && panels_ == 0 && !axes.empty()) {
      Copy copy;
      copy.source = buffer_;
      copy.destination = staged;
      for (size_t i = 0; i < axes.size(); i++) {
        const VarRef var = make_var(variable_name(axes[i]), staged->extents[i]);
        copy.box.push_back(var);
        copy.to.emplace_back(var);
        from[axes[i]] = from[axes[i]] + Index(var);
      }
      copy.from = std::move(from);
      copy.vector_bytes = widest_access(copy);
      return {std::move(copy)};
    }
    Loop loop;
    std::vector<Index> to(staged->extents.size());
    const size_t first = panels_ > 0 ? 1 : 0;  // of `to` and the extents: the pieces come before the axes
    for (size_t i = 0; i < axes.size(); i++) {
      const int64_t axis = axes[i];
      const VarRef var = make_var(variable_name(axis), staged->extents[first + i]);
      loop.dims.push_back({var, Bind::none});
      from[axis] = from[axis] + Index(var);
      to[first + i] = Index(var);
      if (panels_ > 0 && i + 1 == axes.size()) {
        const VarRef panel = make_var(names_.fresh(buffer_->name + "_" + static_cast<char>('a' + axis) + "_panel"), staged->extents[0]);
        loop.dims.insert(loop.dims.begin(), {panel, Bind::none});
        from[axis] = from[axis] + Index(panel) * panels_;
        to[0] = Index(panel);
      }
      if (phases_ > 1 && i + 1 == axes.size()) {  // this one was the phase
        const VarRef step = make_var(names_.fresh(buffer_->name + "_" + static_cast<char>('a' + axis) + "_step"), staged->extents.back());
        loop.dims.push_back({step, Bind::none});
        from[axis] = from[axis] + Index(step) * phases_;
        to[i + 1] = Index(step);
      }
    }
    if (joined_ >= 0) {
      Index &first_of_two = from[joined_], &second = from[joined_ + 1];
      const int64_t extent = buffer_->extents[joined_ + 1];
      const Index whole = first_of_two + second;  // the second is 0: an axis of one element
      first_of_two = floor_div(whole, extent);
      second = mod(whole, extent);
    }
    std::vector<VarRef> all;
    for (const Dim& dim : loop.dims) all.push_back(dim.var);
    loop.body = guard_loads({Stmt{Store{staged, to, load(buffer_, from, region.otherwise)}}}, all);
    return {std::move(loop)};
  }

  std::string variable_name(int64_t axis) { return names_.fresh(buffer_->name + "_" + static_cast<char>('a' + axis)); }

  NameTable names_;
  BufferRef buffer_;
  Space space_;
  std::string at_;
  std::vector<int64_t> order_;
  int64_t phases_ = 1, panels_ = 0, joined_ = -1;
  bool keeps_order_ = true;
};

}  // namespace

namespace {

/// The dims of `loop` behind `at` go into a loop of their own, so that a copy has a place. Masks go with the dims that they are about.
void part(Loop& loop, size_t at) {
  if (at + 1 == loop.dims.size()) return;
  Loop inner = loop;
  inner.dims.assign(loop.dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, loop.dims.end());
  loop.dims.resize(at + 1);
  std::vector<ExprPtr> outside, inside;
  for (const ExprPtr& condition : conjuncts(loop.where)) (uses_any(condition, inner.dims) ? inside : outside).push_back(condition);
  loop.where = conjunction(outside);
  inner.where = conjunction(inside);
  loop.body.clear();
  loop.body.push_back({std::move(inner)});
}

using Edit = std::function<void(Block& body, const std::set<const Var*>& threads)>;

bool edit_inside(Block& block, const std::string& at, const std::set<const Var*>& threads, const Edit& f) {
  bool found = false;
  for (Stmt& stmt : block) {
    std::set<const Var*> inner_threads = threads;
    if (std::vector<Dim>* dims = dims_of(stmt)) {
      const int dim = find_dim(*dims, at);
      auto* loop = std::get_if<Loop>(&stmt.node);
      if (dim >= 0 && !loop) unfit("`" + at + "` is not a dim of a map or `for`");
      if (dim >= 0) part(*loop, static_cast<size_t>(dim));
      for (const Dim& around : *dims) {
        if (is_across_threads(around.bind)) inner_threads.insert(around.var.get());
      }
      if (dim >= 0) {
        f(loop->body, inner_threads);
        found = true;
        continue;
      }
    }
    for (Block* inner : blocks_of(stmt)) found |= edit_inside(*inner, at, inner_threads, f);
  }
  return found;
}

}  // namespace

bool edit_inside(Block& block, const std::string& at, const Edit& f) { return edit_inside(block, at, {}, f); }

int widest_access(Copy copy) {
  if (copy.source->space == Space::local) {  // what lies between the nests of a unit is in global memory
    Buffer source = *copy.source;
    source.space = Space::global;
    copy.source = make_buffer(std::move(source));
  }
  const int least = size_bytes(copy.source->dtype);
  for (copy.vector_bytes = 16; copy.vector_bytes > least; copy.vector_bytes /= 2) {
    if (faults_of(copy).empty()) break;
  }
  return copy.vector_bytes;
}

Unit stage(const Unit& unit, const std::string& buffer, Space space, const std::string& at, const std::vector<int64_t>& order,
           int64_t phases, int64_t panels, int64_t joined) {
  Unit result = unit;
  Stager stager(unit, buffer, space, at, order, phases, panels, joined);
  if (!stager.edit(result.body, result.params)) no_such_loop(unit, at);
  return result;
}

}  // namespace tcc::loop
