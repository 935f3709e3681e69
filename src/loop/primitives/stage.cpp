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
// %a.staged[%k mod 2, %i + %k / 2], contiguous along %i. In shared memory the box belongs to the block, so dims bound to threads count as inside
// wherever they stand; the copy is a Copy statement when the order is kept, and barriers stand around it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tcc/loop/edit.h"
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

/// The largest power of two, up to `limit`, that divides an index whatever its variables are.
int64_t alignment(const Index& index, int64_t limit) {
  int64_t result = std::gcd(limit, index.constant());
  for (const Term& term : index.terms()) result = std::gcd(result, term.coefficient);
  return result;
}

class Stager {
 public:
  Stager(const Unit& unit, const std::string& buffer, Space space, std::string at, std::vector<int64_t> order, int64_t phases)
      : names_(unit), buffer_(find_buffer(unit, buffer)), space_(space), at_(std::move(at)), order_(std::move(order)), phases_(phases) {
    if (!buffer_) no_such_buffer(unit, buffer);
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

  void edit(Block& block, const std::set<const Var*>& threads) {
    for (Stmt& stmt : block) {
      std::set<const Var*> inner_threads = threads;
      if (std::vector<Dim>* dims = dims_of(stmt)) {
        const int at = find_dim(*dims, at_);
        if (at >= 0) {
          auto* loop = std::get_if<Loop>(&stmt.node);
          if (!loop) unfit("`" + at_ + "` is not a dim of a map or `for`");
          for (int i = 0; i <= at; i++) {
            if (is_across_threads((*dims)[i].bind)) inner_threads.insert((*dims)[i].var.get());
          }
          stage(*loop, at, inner_threads);
          found_ = true;
          continue;
        }
        for (const Dim& dim : *dims) {
          if (is_across_threads(dim.bind)) inner_threads.insert(dim.var.get());
        }
      }
      for (Block* inner : blocks_of(stmt)) edit(*inner, inner_threads);
    }
  }
  bool found() const { return found_; }

 private:
  struct Region {
    std::vector<Index> corner;  // without constants until all loads are seen
    std::vector<int64_t> low, high;
    ExprPtr otherwise;
    bool seen = false;
  };

  void stage(Loop& loop, int at, const std::set<const Var*>& threads) {
    // The dims after `at` go into a loop of their own, so that the copy has a place.
    if (at + 1 < static_cast<int>(loop.dims.size())) {
      Loop inner = loop;
      inner.dims.assign(loop.dims.begin() + at + 1, loop.dims.end());
      loop.dims.resize(static_cast<size_t>(at) + 1);
      std::vector<ExprPtr> outside, inside;
      for (const ExprPtr& condition : conjuncts(loop.where)) (uses_any(condition, inner.dims) ? inside : outside).push_back(condition);
      loop.where = conjunction(outside);
      inner.where = conjunction(inside);
      loop.body.clear();
      loop.body.push_back({std::move(inner)});
    }
    std::set<const Var*> inside = uses_of(loop.body).loops;
    const std::set<const Scalar*> defined = uses_of(loop.body).defines;
    if (space_ == Space::shared) inside.insert(threads.begin(), threads.end());

    if (uses_of(loop.body).writes.contains(buffer_.get())) unfit("`" + buffer_->name + "` is written inside `" + at_ + "`");
    Region region;
    walk_exprs(loop.body, [&](const Expr& expr) {
      if (expr.kind == Expr::Kind::load && expr.buffer == buffer_) add(region, expr, inside, defined);
    });
    if (!region.seen) unfit("nothing inside `" + at_ + "` reads `" + buffer_->name + "`");
    for (size_t axis = 0; axis < region.corner.size(); axis++) region.corner[axis] = region.corner[axis] + Index(region.low[axis]);

    Buffer prototype;
    prototype.name = names_.fresh(buffer_->name + ".staged");
    prototype.dtype = buffer_->dtype;
    prototype.space = space_;
    for (const int64_t axis : order_) prototype.extents.push_back(region.high[axis] - region.low[axis] + 1);
    if (phases_ > 1) {
      const int64_t length = prototype.extents.back();
      prototype.extents.back() = phases_;
      prototype.extents.push_back(ceil_div(length, phases_));
    }
    const BufferRef staged = make_buffer(std::move(prototype));

    Block body;
    body.push_back({Alloc{staged}});
    if (space_ == Space::shared) body.push_back({Barrier{}});  // the last round's readers are done
    body.push_back(copy(region, staged));
    if (space_ == Space::shared) body.push_back({Barrier{}});
    rewrite_exprs(loop.body, [&](const ExprPtr& expr) -> ExprPtr {
      if (expr->kind != Expr::Kind::load || expr->buffer != buffer_) return expr;
      std::vector<Index> indices;
      for (const int64_t axis : order_) indices.push_back(expr->indices[axis] - region.corner[axis]);
      if (phases_ > 1) {
        const Index last = indices.back();
        indices.back() = mod(last, phases_);
        indices.push_back(floor_div(last, phases_));
      }
      return load(staged, indices);
    });
    for (Stmt& stmt : loop.body) body.push_back(std::move(stmt));
    loop.body = std::move(body);
  }

  void add(Region& region, const Expr& expr, const std::set<const Var*>& inside, const std::set<const Scalar*>& defined) const {
    const size_t rank = expr.indices.size();
    std::vector<Index> corner(rank);
    std::vector<int64_t> low(rank), high(rank);
    for (size_t axis = 0; axis < rank; axis++) {
      Index inner = expr.indices[axis];
      for (const Term& term : expr.indices[axis].terms()) {
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
    if (space_ == Space::shared && keeps_order_ && zero && phases_ == 1) {
      Copy copy;
      copy.source = buffer_;
      copy.destination = staged;
      copy.from = region.corner;
      copy.to.assign(region.corner.size(), Index(0));
      copy.extents = staged->extents;
      copy.vector_bytes = vector_bytes(region, staged);
      return {std::move(copy)};
    }
    Loop loop;
    std::vector<Index> from(region.corner.size()), to(staged->extents.size());
    for (size_t i = 0; i < order_.size(); i++) {
      const int64_t axis = order_[i];
      const VarRef var = make_var(names_.fresh(buffer_->name + "_" + static_cast<char>('a' + axis)), staged->extents[i]);
      loop.dims.push_back({var, Bind::none});
      from[axis] = region.corner[axis] + Index(var);
      to[i] = Index(var);
      if (phases_ > 1 && i + 1 == order_.size()) {  // this one was the phase
        const VarRef step = make_var(names_.fresh(buffer_->name + "_" + static_cast<char>('a' + axis) + "_step"), staged->extents.back());
        loop.dims.push_back({step, Bind::none});
        from[axis] = from[axis] + Index(step) * phases_;
        to[i + 1] = Index(step);
      }
    }
    std::vector<VarRef> all;
    for (const Dim& dim : loop.dims) all.push_back(dim.var);
    loop.body = guard_loads({Stmt{Store{staged, to, load(buffer_, from, region.otherwise)}}}, all);
    return {std::move(loop)};
  }

  /// The widest access of a copy: all rows of the box start and end at multiples of it, in the source as in the destination.
  int vector_bytes(const Region& region, const BufferRef& staged) const {
    const int64_t size = size_bytes(buffer_->dtype), last = static_cast<int64_t>(region.corner.size()) - 1;
    if (last < 0) return static_cast<int>(size);
    const std::vector<int64_t> strides = buffer_->element_strides();
    if (strides[last] != 1) return static_cast<int>(size);
    int64_t elements = 16 / size;
    elements = std::gcd(elements, staged->extents[last]);
    elements = std::gcd(elements, buffer_->extents[last]);
    elements = alignment(region.corner[last], elements);
    for (int64_t axis = 0; axis < last; axis++) elements = std::gcd(elements, strides[axis]);
    return static_cast<int>(std::max<int64_t>(elements, 1) * size);
  }

  NameTable names_;
  BufferRef buffer_;
  Space space_;
  std::string at_;
  std::vector<int64_t> order_;
  int64_t phases_ = 1;
  bool keeps_order_ = true;
  bool found_ = false;
};

}  // namespace

Unit stage(const Unit& unit, const std::string& buffer, Space space, const std::string& at, const std::vector<int64_t>& order,
           int64_t phases) {
  Unit result = unit;
  Stager stager(unit, buffer, space, at, order, phases);
  stager.edit(result.body, {});
  if (!stager.found()) no_such_loop(unit, at);
  return result;
}

}  // namespace tcc::loop
