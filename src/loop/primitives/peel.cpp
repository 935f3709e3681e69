// peel(i_1): the whole blocks of a split dim lose the mask, the remainder gets code of its own.
//
//   %s: f32 = reduce sum %i_0 in 3, %i_1 in 8 where lt(%i_0 * 8 + %i_1, 20) { ... }
// becomes
//   %s.main: f32 = reduce sum %i_0 in 2, %i_1 in 8 { ... }
//   %s: f32 = reduce sum %i_1.tail in 4 from %s.main { ... }
//
// A map whose outer part is a dim of the same loop that one thread runs becomes two loops likewise. Where the outer part is bound to blocks or
// threads, or stands in an outer loop, the choice is made there:
//   map %i_0 in 3 bind(parallel) { if lt(%i_0 * 8 + 7, 20) { map %i_1 in 8 {...} } else { map %i_1.tail in 4 {...} } }
#include <algorithm>
#include <memory>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

/// The mask of a split dim taken apart: `outer + inner < high`.
struct Tail {
  Index outer;
  int64_t high = 0, factor = 1;
  std::vector<ExprPtr> others;  ///< the rest of the condition
  int64_t rest() const { return high % factor; }
};

std::optional<Tail> find_tail(const ExprPtr& where, const VarRef& inner) {
  Tail tail;
  tail.factor = inner->extent;
  bool found = false;
  for (const ExprPtr& condition : conjuncts(where)) {
    const std::optional<UpperBound> bound = as_upper_bound(condition);
    bool inside = false;
    if (!found && bound && bound->index.coefficient_of(inner.get(), &inside) == 1 && !inside) {
      const Index outer = bound->index - Index(inner);
      const bool whole =
          outer.constant() % tail.factor == 0 &&
          std::all_of(outer.terms().begin(), outer.terms().end(), [&](const Term& term) { return term.coefficient % tail.factor == 0; });
      if (whole && bound->high % tail.factor != 0) {
        tail.outer = outer;
        tail.high = bound->high;
        found = true;
        continue;
      }
    }
    tail.others.push_back(condition);
  }
  if (!found) return std::nullopt;
  return tail;
}

bool is_serial(Bind bind) { return bind == Bind::none || bind == Bind::serial || bind == Bind::unroll; }

class Peeler {
 public:
  Peeler(const Unit& unit, std::string name) : names_(unit), name_(std::move(name)) {}

  std::optional<Block> edit(Stmt& stmt) {
    const std::vector<Dim>* dims = dims_of(stmt);
    const int at = dims ? find_dim(*dims, name_) : -1;
    if (at < 0) return std::nullopt;
    found_ = true;
    const auto* loop = std::get_if<Loop>(&stmt.node);
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    const ExprPtr where = loop ? loop->where : reduce ? reduce->where : nullptr;
    const std::optional<Tail> tail = find_tail(where, (*dims)[at].var);
    if (!tail) return Block{std::move(stmt)};  // nothing is left over
    const int outer_at = place_of_outer(*dims, *tail);
    if (reduce && outer_at >= 0) return peel_reduce(*reduce, *tail, at, outer_at);
    if (reduce) return Block{std::move(stmt)};  // its outer part is elsewhere: the mask stays
    if (outer_at >= 0 && is_serial((*dims)[outer_at].bind) && loop->kind == Loop::Kind::map) {
      return two_loops(*loop, *tail, at, outer_at);
    }
    return choose_at_run_time(*loop, *tail, at);
  }
  bool found() const { return found_; }

 private:
  /// Where among the dims the outer part is one variable with the coefficient of the split; -1 when it is not like that.
  static int place_of_outer(const std::vector<Dim>& dims, const Tail& tail) {
    if (tail.outer.terms().size() != 1 || tail.outer.constant() != 0) return -1;
    const Term& term = tail.outer.terms()[0];
    if (term.atom.kind != Atom::Kind::var || term.coefficient != tail.factor) return -1;
    for (size_t i = 0; i < dims.size(); i++) {
      if (dims[i].var == term.atom.var) return static_cast<int>(i);
    }
    return -1;
  }

  struct Renamed {
    std::vector<Dim> dims;
    std::vector<std::pair<VarRef, Index>> replaced;
  };

  Renamed main_dims(const std::vector<Dim>& dims, const Tail& tail, int outer_at) {
    Renamed result{dims, {}};
    const VarRef& outer = dims[outer_at].var;
    const VarRef shorter = make_var(outer->name, tail.high / tail.factor);
    result.dims[outer_at].var = shorter;
    result.replaced.emplace_back(outer, Index(shorter));
    return result;
  }

  /// The dims of the remainder, all fresh: `outer_at` (when >= 0) is gone, the inner one is as long as the rest.
  Renamed rest_dims(const std::vector<Dim>& dims, const Tail& tail, int at, int outer_at) {
    Renamed result;
    for (int i = 0; i < static_cast<int>(dims.size()); i++) {
      if (i == outer_at) {
        result.replaced.emplace_back(dims[i].var, Index(tail.high / tail.factor));
        continue;
      }
      const VarRef var = make_var(names_.fresh(dims[i].var->name + ".tail"), i == at ? tail.rest() : dims[i].var->extent);
      result.dims.push_back({var, dims[i].bind});
      result.replaced.emplace_back(dims[i].var, Index(var));
    }
    return result;
  }

  static Block replace(Block block, const Renamed& renamed) {
    for (const auto& [var, by] : renamed.replaced) block = substitute_var(block, var, by);
    return block;
  }
  static ExprPtr replace(ExprPtr expr, const Renamed& renamed) {
    for (const auto& [var, by] : renamed.replaced) expr = substitute_var(expr, var, by);
    return expr;
  }

  static Stmt with_dims(const Loop& loop, const Renamed& renamed, const std::vector<ExprPtr>& where) {
    Loop result = loop;
    result.dims = renamed.dims;
    result.where = replace(conjunction(where), renamed);
    result.body = replace(loop.body, renamed);
    return {std::move(result)};
  }

  Block fresh(const Block& block) {
    return clone_fresh(block, [&](const std::string& name) { return names_.fresh(name + ".tail"); });
  }

  /// The whole blocks, then the remainder, inside the dims that stand before the outer part.
  Block two_loops(const Loop& loop, const Tail& tail, int at, int outer_at) {
    Loop outer = loop, inner = loop;
    outer.dims.assign(loop.dims.begin(), loop.dims.begin() + outer_at);
    inner.dims.assign(loop.dims.begin() + outer_at, loop.dims.end());
    std::vector<ExprPtr> outside, inside;
    for (const ExprPtr& condition : tail.others) (uses_any(condition, inner.dims) ? inside : outside).push_back(condition);
    if (outer.dims.empty()) inside.insert(inside.begin(), outside.begin(), outside.end());
    Loop rest = inner;
    rest.body = fresh(loop.body);
    Block block;
    block.push_back(with_dims(inner, main_dims(inner.dims, tail, 0), inside));
    block.push_back(with_dims(rest, rest_dims(inner.dims, tail, at - outer_at, 0), inside));
    if (outer.dims.empty()) return block;
    outer.where = conjunction(outside);
    outer.body = std::move(block);
    return {Stmt{std::move(outer)}};
  }

  Block peel_reduce(const Reduce& reduce, const Tail& tail, int at, int outer_at) {
    const auto variant = [&](const Block& body, const Renamed& renamed) {
      Reduce result = reduce;
      result.dims = renamed.dims;
      result.where = replace(conjunction(tail.others), renamed);
      result.body = replace(body, renamed);
      return result;
    };
    const Renamed main_renamed = main_dims(reduce.dims, tail, outer_at);
    Reduce main = variant(reduce.body, main_renamed);
    for (State& state : main.states) state.value = replace(state.value, main_renamed);

    // The body of the rest has scalars of its own; values are cloned with it, as lets whose names are dropped again.
    Block body = reduce.body;
    std::vector<ScalarRef> value_names;
    for (const State& state : reduce.states) {
      value_names.push_back(make_scalar(names_.fresh(state.result->name + ".value"), state.value->dtype));
      body.push_back({Let{value_names.back(), state.value}});
    }
    body = fresh(body);
    const Renamed rest_renamed = rest_dims(reduce.dims, tail, at, outer_at);
    std::vector<ExprPtr> values(reduce.states.size());
    for (size_t i = reduce.states.size(); i-- > 0;) {
      values[i] = std::get<Let>(body.back().node).value;
      body.pop_back();
    }
    Reduce rest = variant(body, rest_renamed);
    for (size_t i = 0; i < reduce.states.size(); i++) {
      const ScalarRef part = make_scalar(names_.fresh(reduce.states[i].result->name + ".main"), reduce.states[i].result->dtype);
      main.states[i].result = part;
      rest.states[i].value = replace(values[i], rest_renamed);
      if (!reduce.combine) rest.states[i].init = scalar_value(part);
    }
    if (!reduce.combine) return {Stmt{std::move(main)}, Stmt{std::move(rest)}};
    rest.combine = std::make_shared<const Combine>(fresh(reduce));
    return joined(reduce, std::move(main), std::move(rest));
  }

  /// The combine of a reduce with scalars of its own.
  Combine fresh(const Reduce& reduce) {
    const Combine& combine = *reduce.combine;
    Block lets;
    const auto define = [&](const std::vector<ScalarRef>& scalars) {
      for (size_t i = 0; i < scalars.size(); i++) lets.push_back({Let{scalars[i], reduce.states[i].init}});
    };
    define(combine.left);
    define(combine.right);
    lets.insert(lets.end(), combine.body.begin(), combine.body.end());
    for (const ExprPtr& result : combine.results) lets.push_back({Let{make_scalar(names_.fresh("result"), result->dtype), result}});
    lets = fresh(lets);
    const size_t count = combine.results.size();
    Combine copy;
    for (size_t i = 0; i < count; i++) {
      copy.left.push_back(std::get<Let>(lets[i].node).scalar);
      copy.right.push_back(std::get<Let>(lets[count + i].node).scalar);
      copy.results.push_back(std::get<Let>(lets[lets.size() - count + i].node).value);
    }
    copy.body.assign(lets.begin() + static_cast<std::ptrdiff_t>(2 * count), lets.end() - static_cast<std::ptrdiff_t>(count));
    return copy;
  }

  /// With a combine of its own, `init` is its identity: both parts start from it and are combined afterwards.
  Block joined(const Reduce& reduce, Reduce main, Reduce rest) {
    const Combine& combine = *reduce.combine;
    for (State& state : rest.states) state.result = make_scalar(names_.fresh(state.result->name + ".rest"), state.result->dtype);
    Block lets = combine.body;
    for (size_t i = 0; i < combine.results.size(); i++) lets.push_back({Let{reduce.states[i].result, combine.results[i]}});
    Substitution operands;
    operands.var = [](const VarRef&) { return std::optional<Index>(); };
    operands.buffer = [](const BufferRef&) { return BufferRef(); };
    operands.scalar = [&](const ScalarRef& scalar) -> ExprPtr {
      for (size_t i = 0; i < combine.left.size(); i++) {
        if (combine.left[i] == scalar) return scalar_value(main.states[i].result);
        if (combine.right[i] == scalar) return scalar_value(rest.states[i].result);
      }
      return nullptr;
    };
    lets = fresh(substitute(lets, operands));
    const size_t first = lets.size() - combine.results.size();
    for (size_t i = 0; i < combine.results.size(); i++) std::get<Let>(lets[first + i].node).scalar = reduce.states[i].result;
    Block result{Stmt{std::move(main)}, Stmt{std::move(rest)}};
    result.insert(result.end(), lets.begin(), lets.end());
    return result;
  }

  /// An `if` as far out as what it asks is known; both branches have loops over the rest of the dims.
  Block choose_at_run_time(const Loop& loop, const Tail& tail, int at) {
    int known = 0;
    for (int i = 0; i < static_cast<int>(loop.dims.size()); i++) {
      const Bind bind = loop.dims[i].bind;
      const bool parallel =
          bind == Bind::block || bind == Bind::parallel || bind == Bind::thread || bind == Bind::warp || bind == Bind::lane;
      if (tail.outer.uses(loop.dims[i].var.get()) || (parallel && i < at)) known = i + 1;
    }
    if (known > at) unfit("`" + loop.dims[known - 1].var->name + "` decides about the remainder, it must stand outside `" + name_ + "`");
    Loop outer = loop;
    outer.dims.assign(loop.dims.begin(), loop.dims.begin() + known);
    Loop main = loop;
    main.dims.assign(loop.dims.begin() + known, loop.dims.end());
    std::vector<ExprPtr> outside, inside;
    for (const ExprPtr& condition : tail.others) (uses_any(condition, main.dims) ? inside : outside).push_back(condition);
    outer.where = conjunction(outside);
    main.where = conjunction(inside);
    Loop rest = main;
    rest.body = fresh(loop.body);
    const Renamed renamed = rest_dims(main.dims, tail, at - known, -1);
    If branch;
    branch.condition = apply(Op::lt_, {index_value(tail.outer), constant_int(DType::i64, tail.high - tail.factor + 1)});
    std::vector<ExprPtr> last = inside;
    if (const ExprPtr beyond = in_range(tail.outer, 0, tail.high)) last.push_back(beyond);
    branch.then.push_back({main});
    branch.otherwise.push_back(with_dims(rest, renamed, last));
    const std::optional<int64_t> least = tail.outer.min();
    const bool never_whole = least && *least + tail.factor > tail.high;  // a block that was padded
    Block peeled = never_whole ? std::move(branch.otherwise) : Block{Stmt{std::move(branch)}};
    if (outer.dims.empty()) {
      if (!outer.where) return peeled;
      If guard;
      guard.condition = outer.where;
      guard.then = std::move(peeled);
      return {Stmt{std::move(guard)}};
    }
    outer.body = std::move(peeled);
    return {Stmt{std::move(outer)}};
  }

  NameTable names_;
  std::string name_;
  bool found_ = false;
};

}  // namespace

Unit peel(const Unit& unit, const std::string& dim) {
  Unit result = unit;
  Peeler peeler(unit, dim);
  rewrite(result.body, [&](Stmt& stmt) { return peeler.edit(stmt); });
  if (!peeler.found()) no_such_loop(unit, dim);
  return result;
}

}  // namespace tcc::loop
