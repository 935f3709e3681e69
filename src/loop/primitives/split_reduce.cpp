// split_reduce(s, 64): few results with long reductions get parallel pieces: a nest computes partial results into a temporary, another combines them.
//
//   map %i in 4 { %s: f32 = reduce sum %k in 1000 { ... };  store sqrt(%s), %b[%i] }
// becomes
//   alloc %s.parts: f32[64, 4]
//   map %k_0 in 64, %i_part in 4 { %s_part: f32 = reduce sum %k_1_part in 16 where lt(...) { ... };  store %s_part, %s.parts[%k_0, %i_part] }
//   map %i in 4 { %s: f32 = reduce sum %part in 64 { yield load %s.parts[%part, %i] };  store sqrt(%s), %b[%i] }
//
// The two nests are scheduled apart, so the names of the first are no copies of those of the second. The first dim of the reduce is cut. The reduce must stand
// directly in a top-level map, or at the top of the unit.
//
// split_reduce(s, 7, multiple=16): the pieces are multiples of 16 long, so that what is done in steps of 16 inside needs no test. The last piece runs past the
// end instead of testing for it: the reduce must be a sum of products of loads from buffers that end there, whose loads give zeros beyond.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {

namespace {

/// Whether the reduce adds zeros where the variable is at its extent or beyond: it sums products, and both factors are loads that give zero there because
/// their buffers end. One of them may be computed of such a load, as dequantised weights are: with a zero point it is not zero there, but finite.
bool adds_zeros_from(const Reduce& reduce, const VarRef& var) {
  if (reduce.states.size() != 1 || reduce.combine || reduce.where || reduce.states[0].combiner != Combiner::sum) return false;
  std::map<const Scalar*, ExprPtr> lets;
  for (const Stmt& stmt : reduce.body) {
    const auto* let = std::get_if<Let>(&stmt.node);
    if (!let) return false;
    lets[let->scalar.get()] = let->value;
  }
  const auto without_names = [&](ExprPtr expr) {
    while (expr->kind == Expr::Kind::scalar && lets.contains(expr->scalar.get())) expr = lets.at(expr->scalar.get());
    return expr;
  };
  const ExprPtr product = without_names(reduce.states[0].value);
  if (product->kind != Expr::Kind::op || product->op != Op::mul_) return false;
  const auto ends = [&](const ExprPtr& factor) {
    if (factor->kind != Expr::Kind::load) return false;
    if (factor->otherwise &&
        (factor->otherwise->kind != Expr::Kind::constant || factor->otherwise->float_value != 0 || factor->otherwise->int_value != 0))
      return false;
    for (size_t axis = 0; axis < factor->indices.size(); axis++) {
      if (factor->indices[axis] == Index(var) + (factor->buffer->extents[axis] - var->extent)) return true;
    }
    return false;
  };
  const std::function<bool(const ExprPtr&)> is_made_of_such = [&](const ExprPtr& arg) {
    const ExprPtr value = without_names(arg);
    return value->kind == Expr::Kind::op ? std::any_of(value->args.begin(), value->args.end(), is_made_of_such) : ends(value);
  };
  int num_zero = 0, num_finite = 0;
  for (const ExprPtr& arg : product->args) {
    ExprPtr factor = without_names(arg);
    while (factor->kind == Expr::Kind::op && factor->op == Op::cast_) factor = without_names(factor->args[0]);
    num_zero += ends(factor);
    num_finite += is_made_of_such(factor);
  }
  return num_zero >= 1 && num_finite == 2;
}

class Splitter {
 public:
  Splitter(const Unit& unit, std::string accumulator, int64_t parts, int64_t multiple)
      : names_(unit), accumulator_(std::move(accumulator)), parts_(parts), multiple_(multiple) {}

  bool run(Block& top) {
    for (size_t i = 0; i < top.size(); i++) {
      Block* body = &top;
      size_t at = i;
      auto* loop = std::get_if<Loop>(&top[i].node);
      if (loop && loop->kind == Loop::Kind::map) {
        body = &loop->body;
        for (at = 0; at < body->size() && !defines((*body)[at]); at++) {}
        if (at == body->size()) continue;
      } else if (!defines(top[i])) {
        continue;
      }
      Block before(body->begin(), body->begin() + static_cast<std::ptrdiff_t>(at));
      Block inserted = cut(std::get<Reduce>((*body)[at].node), before, loop);
      top.insert(top.begin() + static_cast<std::ptrdiff_t>(i), inserted.begin(), inserted.end());
      return true;
    }
    return false;
  }

 private:
  bool defines(const Stmt& stmt) const {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce) return false;
    for (const State& state : reduce->states) {
      if (state.result->name == accumulator_) return true;
    }
    return false;
  }

  /// Makes the reduce combine partial results; gives the temporary and the nest that computes them.
  Block cut(Reduce& reduce, const Block& before, const Loop* loop) {
    const std::vector<Dim> kept = loop ? loop->dims : std::vector<Dim>{};
    const VarRef cut = reduce.dims[0].var;
    const int64_t shortest = (cut->extent + parts_ - 1) / parts_, multiple = std::max<int64_t>(multiple_, 1);
    const int64_t chunk = align_up(shortest, multiple), parts = ceil_div(cut->extent, chunk);
    const bool past_end = multiple_ > 0 && parts * chunk > cut->extent;
    if (past_end && !adds_zeros_from(reduce, cut))
      unfit("`" + accumulator_ + "` is not a sum of products of which both factors end where `" + cut->name + "` does");

    Reduce partial = reduce;
    Block body = before;
    std::set<const Scalar*> roots;
    collect_scalars(Block{Stmt{reduce}}, roots);
    Block lets;
    if (!needed_lets(before, roots, lets)) unfit("`" + accumulator_ + "` depends on another reduce of the same body");
    lets.push_back({partial});
    const ExprPtr where = loop ? loop->where : nullptr;

    Loop nest;
    nest.where = where;
    const VarRef part = make_var(names_.fresh(cut->name + "_0"), parts), within = make_var(names_.fresh(cut->name + "_1"), chunk);
    auto& inner = std::get<Reduce>(lets.back().node);
    for (State& state : inner.states) state.init = reduce.combine ? state.init : nullptr;
    inner.dims[0].var = within;
    const Index index = Index(part) * chunk + Index(within);
    lets = substitute_var(lets, cut, index);
    if (past_end) lets = guard_loads(lets, {part, within});
    ExprPtr& condition = std::get<Reduce>(lets.back().node).where;
    if (!past_end) condition = logical_and(condition, in_range(index, 0, cut->extent));

    // Where the results go: [part, dims of the map].
    std::vector<int64_t> extents{parts};
    for (const Dim& dim : kept) extents.push_back(dim.var->extent);
    std::vector<Index> indices{Index(part)};
    for (const Dim& dim : kept) indices.emplace_back(dim.var);
    Block result;
    std::vector<BufferRef> buffers;
    for (const State& state : reduce.states) {
      buffers.push_back(make_buffer(names_.fresh(state.result->name + ".parts"), state.result->dtype, extents, Space::local));
      result.push_back({Alloc{buffers.back()}});
      lets.push_back({Store{buffers.back(), indices, scalar_value(state.result)}});
    }
    lets = clone_fresh(lets, [&](const std::string& name) { return names_.fresh(name + "_part"); });
    nest.dims.push_back({part, Bind::none});
    nest.body = std::move(lets);
    for (const Dim& dim : kept) {
      const VarRef var = make_var(names_.fresh(dim.var->name + "_part"), dim.var->extent);
      nest.dims.push_back({var, dim.bind});
      nest.body = substitute_var(nest.body, dim.var, var);
      nest.where = substitute_var(nest.where, dim.var, var);
    }
    result.push_back({std::move(nest)});

    const VarRef all = make_var(names_.fresh("part"), parts);
    indices[0] = Index(all);
    reduce.dims = {{all, Bind::none}};
    reduce.where = nullptr;
    reduce.body.clear();
    for (size_t i = 0; i < buffers.size(); i++) reduce.states[i].value = load(buffers[i], indices);
    return result;
  }

  NameTable names_;
  std::string accumulator_;
  int64_t parts_, multiple_;
};

}  // namespace

Unit split_reduce(const Unit& unit, const std::string& accumulator, int64_t parts, int64_t multiple) {
  if (parts < 1) unfit("the number of parts is " + std::to_string(parts));
  Unit result = unit;
  if (!Splitter(unit, accumulator, parts, multiple).run(result.body)) no_such_reduce(unit, accumulator, "in a top-level map");
  return result;
}

}  // namespace tcc::loop
