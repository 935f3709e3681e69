// tile(s, i_1, j_1): the named dims of the map go inside the reduce that defines %s, whose accumulators then live in a buffer: a register tile.
//
//   map %i_0 in 4, %j_0 in 4, %i_1 in 6, %j_1 in 16 where lt(%j_0 * 16 + %j_1, 60) {
//     %s: f32 = reduce sum %k in 64 { %x: f32 = load %a[...];  %y: f32 = load %b[...];  yield mul(%x, %y) }
//     store max(%s, 0), %c[...]
//   }
// becomes
//   map %i_0 in 4, %j_0 in 4 {
//     alloc %s.tile: f32[6, 16] registers
//     map %i_1.init in 6, %j_1.init in 16 { store 0, %s.tile[%i_1.init, %j_1.init] }
//     for %k in 64 { map %i_1 in 6, %j_1 in 16 { %x = ...; store add(load %s.tile[%i_1, %j_1], mul(%x, %y)), %s.tile[%i_1, %j_1] } }
//     map %i_1.out in 6, %j_1.out in 16 where lt(%j_0 * 16 + %j_1.out, 60) { %s: f32 = load %s.tile[...];  store max(%s, 0), %c[...] }
//   }
//
// With `apart=k`, k among several dims of the reduce, what the dims inside it give is summed from zero and then added to the tile: in long sums
// the rounding errors of a few short ones.
//
// A mask on a tiled dim guards the last map only: what is accumulated outside is never stored, and its loads are made safe. A named dim of the reduce
// itself (`tile(s, i_1, k_1)`) keeps partial results apart; the last map starts with the reduce over it. What is computed before the reduce in the map's
// body must be lets; they are computed again where they are used.
#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

class Tiler {
 public:
  Tiler(const Unit& unit, std::string accumulator, std::vector<std::string> dims, Space space, std::string apart)
      : names_(unit), accumulator_(std::move(accumulator)), named_(std::move(dims)), space_(space), apart_(std::move(apart)) {}

  std::optional<Block> edit(Stmt& stmt) {
    auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || loop->kind != Loop::Kind::map) return std::nullopt;
    for (size_t i = 0; i < loop->body.size(); i++) {
      const auto* reduce = std::get_if<Reduce>(&loop->body[i].node);
      if (!reduce) continue;
      for (const State& state : reduce->states) {
        if (is_copy(state.result->name, accumulator_)) {
          found_ = true;
          return interchange(*loop, i);
        }
      }
    }
    return std::nullopt;
  }
  bool found() const { return found_; }

 private:
  struct Copy {
    std::vector<Dim> dims;
    Substitution substitution;
    std::vector<Index> indices;
  };

  /// Fresh dims that stand for `dims` in a copy of their loop.
  Copy copy_dims(const std::vector<Dim>& dims, const std::string& suffix) {
    Copy copy;
    auto map = std::make_shared<std::vector<std::pair<VarRef, Index>>>();
    for (const Dim& dim : dims) {
      const VarRef var = make_var(names_.fresh(dim.var->name + suffix), dim.var->extent);
      copy.dims.push_back({var, dim.bind});
      copy.indices.emplace_back(var);
      map->emplace_back(dim.var, Index(var));
    }
    copy.substitution.var = [map](const VarRef& var) -> std::optional<Index> {
      for (const auto& [from, to] : *map) {
        if (from == var) return to;
      }
      return std::nullopt;
    };
    copy.substitution.scalar = [](const ScalarRef&) { return ExprPtr(); };
    copy.substitution.buffer = [](const BufferRef&) { return BufferRef(); };
    return copy;
  }

  Block fresh(const Block& block, const std::string& suffix) {
    return clone_fresh(block, [&](const std::string& name) { return names_.fresh(name + suffix); });
  }

  Block interchange(const Loop& loop, size_t position) {
    const Reduce& reduce = std::get<Reduce>(loop.body[position].node);
    std::vector<Dim> outer, tiled, reduced, kept;  // kept: of the reduce, but accumulated apart
    for (const Dim& dim : loop.dims) (is_named(dim) ? tiled : outer).push_back(dim);
    for (const Dim& dim : reduce.dims) (is_named(dim) ? kept : reduced).push_back(dim);
    for (const std::string& name : named_) {
      if (find_dim(tiled, name) < 0 && find_dim(kept, name) < 0)
        unfit("`" + name + "` is neither a dim of the map around `" + accumulator_ + "` nor of its reduce");
    }
    if (reduce.combine && !kept.empty()) unfit("a reduce with a combine of its own can't keep partial results");
    std::vector<Dim> all = tiled;
    all.insert(all.end(), kept.begin(), kept.end());

    std::vector<ExprPtr> outside, inside;
    for (const ExprPtr& condition : conjuncts(loop.where)) (uses_any(condition, tiled) ? inside : outside).push_back(condition);

    unmasked_.clear();
    for (const Dim& dim : tiled) {
      if (std::any_of(inside.begin(), inside.end(), [&](const ExprPtr& condition) { return uses(condition, dim.var.get()); }))
        unmasked_.push_back(dim.var);
    }

    Block before(loop.body.begin(), loop.body.begin() + static_cast<std::ptrdiff_t>(position));
    const Block after(loop.body.begin() + static_cast<std::ptrdiff_t>(position) + 1, loop.body.end());

    Loop result = loop;
    result.dims = outer;
    result.where = conjunction(outside);
    result.body.clear();
    std::vector<int64_t> extents;
    std::vector<Index> indices;
    for (const Dim& dim : all) {
      extents.push_back(dim.var->extent);
      indices.emplace_back(dim.var);
    }
    std::vector<BufferRef> tiles;
    for (const State& state : reduce.states) {
      tiles.push_back(make_buffer(names_.fresh(state.result->name + ".tile"), state.result->dtype, extents, space_));
      result.body.push_back({Alloc{tiles.back()}});
    }
    result.body.push_back(init(reduce, before, all, kept, tiles));
    if (apart_.empty()) {
      result.body.push_back(accumulate(reduce, before, all, reduced, tiles, indices));
    } else {
      const int last = find_dim(reduced, apart_);
      if (last < 0 || static_cast<size_t>(last) + 1 == reduced.size() || reduce.combine)
        unfit("`" + apart_ + "` has no dim of the reduce of `" + accumulator_ + "` inside it");
      for (Stmt& stmt : accumulate_apart(reduce, before, all, reduced, static_cast<size_t>(last) + 1, tiles, indices))
        result.body.push_back(std::move(stmt));
    }
    for (Stmt& stmt : finish(reduce, before, after, tiled, kept, tiles, inside)) result.body.push_back(std::move(stmt));
    if (!result.dims.empty()) return {Stmt{std::move(result)}};
    if (!result.where) return std::move(result.body);
    If guard;
    guard.condition = result.where;
    guard.then = std::move(result.body);
    return {Stmt{std::move(guard)}};
  }

  bool is_named(const Dim& dim) const {
    return std::any_of(named_.begin(), named_.end(), [&](const std::string& name) { return is_copy(dim.var->name, name); });
  }

  /// The lets before the reduce that `roots` need, in front of `block`.
  Block with_lets(const Block& before, Block block, const std::set<const Scalar*>& roots) const {
    Block result;
    if (!needed_lets(before, roots, result)) unfit("`" + accumulator_ + "` depends on another reduce of the same body: tile that first");
    append(result, std::move(block));
    return result;
  }

  Stmt init(const Reduce& reduce, const Block& before, const std::vector<Dim>& all, const std::vector<Dim>& kept,
            const std::vector<BufferRef>& tiles) {
    Loop loop;
    const Copy copy = copy_dims(all, ".init");
    loop.dims = copy.dims;
    Block stores;
    std::set<const Scalar*> roots;
    for (size_t i = 0; i < reduce.states.size(); i++) {
      const State& state = reduce.states[i];
      // With partial results apart, each starts from the identity; the given start comes in at the end.
      const ExprPtr value = state.init && kept.empty() ? state.init : identity_value(state.combiner, state.result->dtype);
      collect_scalars(value, roots);
      stores.push_back({Store{tiles[i], copy.indices, substitute(value, copy.substitution)}});
    }
    Block lets = with_lets(before, {}, roots);
    append(lets, std::move(stores));
    loop.body = substitute(guard_loads(fresh(lets, ".init"), unmasked_), copy.substitution);
    return {std::move(loop)};
  }

  Stmt accumulate(const Reduce& reduce, const Block& before, const std::vector<Dim>& all, const std::vector<Dim>& reduced,
                  const std::vector<BufferRef>& tiles, const std::vector<Index>& indices) {
    Loop loop;
    loop.dims = all;
    std::vector<ExprPtr> outside, inside;
    for (const ExprPtr& condition : conjuncts(reduce.where)) (uses_any(condition, all) ? inside : outside).push_back(condition);
    loop.where = conjunction(inside);
    std::set<const Scalar*> roots;
    collect_scalars(reduce.body, roots);
    Block body = reduce.body;
    std::vector<ExprPtr> left, values;
    for (const State& state : reduce.states) {
      collect_scalars(state.value, roots);
      values.push_back(state.value);
    }
    for (size_t i = 0; i < tiles.size(); i++) {
      const ScalarRef old = make_scalar(names_.fresh(reduce.states[i].result->name + ".old"), tiles[i]->dtype);
      body.push_back({Let{old, load(tiles[i], indices)}});
      left.push_back(scalar_value(old));
    }
    std::vector<ExprPtr> results;
    if (reduce.combine) {
      const Combine& combine = *reduce.combine;
      for (size_t i = 0; i < values.size(); i++) {  // the combine may name a value more than once
        const ScalarRef value = make_scalar(names_.fresh(reduce.states[i].result->name + ".value"), tiles[i]->dtype);
        body.push_back({Let{value, values[i]}});
        values[i] = scalar_value(value);
      }
      Substitution operands;
      operands.var = [](const VarRef&) { return std::optional<Index>(); };
      operands.buffer = [](const BufferRef&) { return BufferRef(); };
      operands.scalar = [&](const ScalarRef& scalar) -> ExprPtr {
        for (size_t i = 0; i < values.size(); i++) {
          if (combine.left[i] == scalar) return left[i];
          if (combine.right[i] == scalar) return values[i];
        }
        return nullptr;
      };
      for (Stmt& stmt : substitute(combine.body, operands)) body.push_back(std::move(stmt));
      for (const ExprPtr& value : combine.results) results.push_back(substitute(value, operands));
    } else {
      for (size_t i = 0; i < values.size(); i++) results.push_back(combine_values(reduce.states[i].combiner, left[i], values[i]));
    }
    for (size_t i = 0; i < tiles.size(); i++) body.push_back({Store{tiles[i], indices, results[i]}});
    // Lets of the map's body come along under names of their own: the last map computes them too.
    Block lets = with_lets(before, {}, roots);
    const size_t num_lets = lets.size();
    append(lets, std::move(body));
    loop.body = guard_loads(num_lets > 0 ? fresh(lets, ".in") : lets, unmasked_);
    if (reduced.empty()) return {std::move(loop)};
    Loop steps;
    steps.kind = Loop::Kind::for_;
    steps.dims = reduced;
    steps.where = conjunction(outside);
    steps.body.push_back({std::move(loop)});
    return {std::move(steps)};
  }

  /// The first `num_outer` dims go around; the others are summed into a tile of their own, which is then added to the first.
  Block accumulate_apart(const Reduce& reduce, const Block& before, const std::vector<Dim>& all, const std::vector<Dim>& reduced,
                         size_t num_outer, const std::vector<BufferRef>& tiles, const std::vector<Index>& indices) {
    const auto middle = reduced.begin() + static_cast<std::ptrdiff_t>(num_outer);
    Block block;
    std::vector<BufferRef> parts;
    Loop zero, add;
    const Copy zeroed = copy_dims(all, ".zero"), added = copy_dims(all, ".add");
    zero.dims = zeroed.dims;
    add.dims = added.dims;
    for (size_t i = 0; i < tiles.size(); i++) {
      const State& state = reduce.states[i];
      const DType dtype = state.result->dtype;
      parts.push_back(make_buffer(names_.fresh(state.result->name + ".part"), dtype, tiles[i]->extents, space_));
      block.push_back({Alloc{parts.back()}});
      zero.body.push_back({Store{parts[i], zeroed.indices, identity_value(state.combiner, dtype)}});
      const ScalarRef sum = make_scalar(names_.fresh(state.result->name + ".sum"), dtype);
      add.body.push_back({Let{sum, load(tiles[i], added.indices)}});
      add.body.push_back(
          {Store{tiles[i], added.indices, combine_values(state.combiner, scalar_value(sum), load(parts[i], added.indices))}});
    }
    Loop outer;
    outer.kind = Loop::Kind::for_;
    outer.dims.assign(reduced.begin(), middle);
    outer.body.push_back({std::move(zero)});
    outer.body.push_back(accumulate(reduce, before, all, std::vector<Dim>(middle, reduced.end()), parts, indices));
    outer.body.push_back({std::move(add)});
    block.push_back({std::move(outer)});
    return block;
  }

  Block finish(const Reduce& reduce, const Block& before, const Block& after, const std::vector<Dim>& tiled, const std::vector<Dim>& kept,
               const std::vector<BufferRef>& tiles, const std::vector<ExprPtr>& where) {
    Loop loop;
    const Copy copy = copy_dims(tiled, ".out");
    loop.dims = copy.dims;
    loop.where = conjunction(where);
    if (loop.where) loop.where = substitute(loop.where, copy.substitution);
    Block body = before;
    if (kept.empty()) {
      for (size_t i = 0; i < tiles.size(); i++) body.push_back({Let{reduce.states[i].result, load(tiles[i], copy.indices)}});
    } else {
      const Copy parts = copy_dims(kept, ".sum");
      Reduce sum;
      sum.dims = parts.dims;
      std::vector<Index> indices = copy.indices;
      indices.insert(indices.end(), parts.indices.begin(), parts.indices.end());
      for (size_t i = 0; i < tiles.size(); i++) {
        State state = reduce.states[i];
        state.value = load(tiles[i], indices);
        sum.states.push_back(std::move(state));
      }
      body.push_back({std::move(sum)});
    }
    for (const Stmt& stmt : after) body.push_back(stmt);
    loop.body = substitute(body, copy.substitution);
    if (loop.dims.empty()) return std::move(loop.body);
    return {Stmt{std::move(loop)}};
  }

  NameTable names_;
  std::string accumulator_;
  std::vector<std::string> named_;
  Space space_;
  std::string apart_;
  std::vector<VarRef> unmasked_;  ///< tiled dims whose mask guards the last map only
  bool found_ = false;
};

}  // namespace

Unit tile(const Unit& unit, const std::string& accumulator, const std::vector<std::string>& dims, Space space, const std::string& apart) {
  Unit result = unit;
  Tiler tiler(unit, accumulator, dims, space, apart);
  rewrite(result.body, [&](Stmt& stmt) { return tiler.edit(stmt); });
  if (!tiler.found()) no_such_reduce(unit, accumulator, "directly inside a map");
  return result;
}

}  // namespace tcc::loop
