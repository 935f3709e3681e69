// split_factors(s, 128): a sum of products of f32 becomes one of products of bf16, each factor the sum of three parts. Tensor cores multiply those.
//
//   map %i in 64, %j in 64 {
//     %s: f32 = reduce sum %k in 512 { %x: f32 = load %a[%i, %k];  %y: f32 = load %b[%k, %j];  yield mul(%x, %y) }
//     store %s, %c[%i, %j]
//   }
// becomes
//   alloc %a.parts: bf16[3, 64, 512]
//   map %a_a in 64, %a_b in 512 { %x = load %a[%a_a, %a_b];  ...;  store ..., %a.parts[0, %a_a, %a_b];  store ..., %a.parts[1, ...];  store ..., %a.parts[2, ...] }
//   ... the same of %b
//   map %i in 64, %j in 64 {
//     %s: f32 = reduce sum %pair in 6, %k_0 in 4 {
//       %s.apart: f32 = reduce sum %k_1 in 128 {
//         %x: bf16 = load %a.parts[f(%pair), %i, %k_0 * 128 + %k_1];  %y: bf16 = load %b.parts[g(%pair), %k_0 * 128 + %k_1, %j]
//         yield mul(cast<f32>(%x), cast<f32>(%y))
//       }
//       yield select(or(%pair = 5, isfinite(%s.apart)), %s.apart, 0)
//     }
//     store %s, %c[%i, %j]
//   }
//
// The parts of x are x without its low 16 bits, the same of what is left, and the rest: 8 bits of the mantissa each, of one sign, so that their sum is x. Where
// x is so small that a part would be below the least bf16, the sum is off by up to 2^-134. The six pairs of parts (0, 0), (0, 1), (1, 0), (0, 2), (1, 1),
// (2, 0) leave out 2^-21 of a product at most, 2^-24 in the mean. f and g go through them with (0, 0), which is nearly all of the sum, as the last one: what is
// small is added up first.
//
// Parts of a sum of 128 terms are added from zero, and then join the rest by one addition in f32. Tensor cores cut off what they add to an accumulator: over a
// long sum that would be a drift to zero (docs/math.md has the numbers).
//
// Infinities and NaN are parts (x, NaN, NaN). The sum over the pair (0, 0) is then the infinity or NaN that it is of x itself: the first part of what is not zero
// is not zero. The sums over the other pairs have a NaN there, and count as zero.
//
// The sum must be over one dim, of loads of two buffers of f32, in a map at the top of the unit.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {

namespace {

/// Of the bits of an f32, the last one that bf16 has.
constexpr int64_t kLastBitOfBf16 = int64_t{1} << 16;

constexpr int64_t kParts = 3, kPairs = 6;

/// The part of either factor in a pair: (1, 0), (0, 2), (0, 1), (2, 0), (1, 1), (0, 0).
Index first_part(const VarRef& pair) { return mod(floor_div(Index(18) - Index(pair) * 3, 4), kParts); }
Index second_part(const VarRef& pair) { return mod(floor_div(Index(27) - Index(pair) * 5, 4), kParts); }

bool is_zero(const ExprPtr& expr) { return expr->kind == Expr::Kind::constant && expr->float_value == 0; }

class FactorSplitter {
 public:
  FactorSplitter(const Unit& unit, std::string accumulator, int64_t apart)
      : names_(unit), accumulator_(std::move(accumulator)), apart_(apart) {}

  bool run(Block& top) {
    for (size_t i = 0; i < top.size(); i++) {
      auto* nest = std::get_if<Loop>(&top[i].node);
      if (!nest || nest->kind != Loop::Kind::map) continue;
      for (Stmt& stmt : nest->body) {
        auto* reduce = std::get_if<Reduce>(&stmt.node);
        if (!reduce || reduce->states.size() != 1 || reduce->states[0].result->name != accumulator_) continue;
        const Uses uses = uses_of(top[i]);
        Block before = split(*reduce, uses);
        top.insert(top.begin() + static_cast<std::ptrdiff_t>(i), before.begin(), before.end());
        return true;
      }
    }
    return false;
  }

 private:
  /// Rewrites the sum; returns the nests that make the parts.
  Block split(Reduce& reduce, const Uses& uses) {
    const State& state = reduce.states[0];
    if (reduce.combine || state.combiner != Combiner::sum || state.init || state.result->dtype != DType::f32 || reduce.dims.size() != 1)
      unfit("`" + accumulator_ + "` is not a plain sum in f32 over one dim");
    const std::array<ExprPtr, 2> factors = factors_of(reduce);
    Block before;
    std::array<BufferRef, 2> parts;
    for (size_t i = 0; i < 2; i++) {
      const BufferRef& buffer = factors[i]->buffer;
      if (uses.writes.contains(buffer.get())) unfit("`" + buffer->name + "` is written where it is read");
      parts[i] = make_parts(buffer, before);
    }
    const VarRef k = reduce.dims[0].var, pair = make_var(names_.fresh("pair"), kPairs);
    const int64_t within = std::min(apart_, k->extent);
    const VarRef outer = make_var(free_name(names_, k->name + "_0"), ceil_div(k->extent, within));
    const VarRef inner = make_var(free_name(names_, k->name + "_1"), within);
    const Index at = Index(outer) * within + Index(inner);

    Reduce sum;
    sum.dims = {{inner, Bind::none}};
    sum.where = logical_and(substitute_var(reduce.where, k, at), in_range(at, 0, k->extent));
    std::array<ExprPtr, 2> values;
    for (size_t i = 0; i < 2; i++) {
      std::vector<Index> indices{i == 0 ? first_part(pair) : second_part(pair)};
      for (const Index& index : factors[i]->indices)
        indices.push_back(substitute(index, [&](const VarRef& var) { return var == k ? std::optional(at) : std::nullopt; }));
      const ScalarRef part = make_scalar(names_.fresh(parts[i]->name + ".value"), DType::bf16);
      sum.body.push_back({Let{part, load(parts[i], indices, factors[i]->otherwise ? constant_float(DType::bf16, 0) : nullptr)}});
      values[i] = cast_to(scalar_value(part), DType::f32);
    }
    State apart{make_scalar(names_.fresh(accumulator_ + ".apart"), DType::f32), Combiner::sum, nullptr,
                tcc::loop::apply(Op::mul_, {values[0], values[1]})};
    const ExprPtr added = scalar_value(apart.result);
    sum.states = {std::move(apart)};

    const ExprPtr counts = tcc::loop::apply(Op::or_, {in_range(Index(pair), kPairs - 1, kPairs), tcc::loop::apply(Op::isfinite_, {added})});
    reduce.dims = {{pair, Bind::none}, {outer, Bind::none}};
    reduce.where = nullptr;
    reduce.states[0].value = tcc::loop::apply(Op::select_, {counts, added, constant_float(DType::f32, 0)});
    reduce.body = {Stmt{std::move(sum)}};
    return before;
  }

  /// The loads that are multiplied.
  std::array<ExprPtr, 2> factors_of(const Reduce& reduce) const {
    std::map<const Scalar*, ExprPtr> lets;
    for (const Stmt& stmt : reduce.body) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (!let) unfit("there is more than a product in the sum `" + accumulator_ + "`");
      lets[let->scalar.get()] = let->value;
    }
    const auto without_names = [&](ExprPtr expr) {
      while (expr->kind == Expr::Kind::scalar && lets.contains(expr->scalar.get())) expr = lets.at(expr->scalar.get());
      return expr;
    };
    const ExprPtr product = without_names(reduce.states[0].value);
    if (product->kind != Expr::Kind::op || product->op != Op::mul_) unfit("`" + accumulator_ + "` is not a sum of products");
    std::array<ExprPtr, 2> factors{without_names(product->args[0]), without_names(product->args[1])};
    for (const ExprPtr& factor : factors) {
      if (factor->kind != Expr::Kind::load || factor->dtype != DType::f32 || (factor->otherwise && !is_zero(factor->otherwise)))
        unfit("a factor of `" + accumulator_ + "` is not a load of f32");
    }
    if (factors[0]->buffer == factors[1]->buffer) unfit("both factors of `" + accumulator_ + "` are `" + factors[0]->buffer->name + "`");
    return factors;
  }

  BufferRef make_parts(const BufferRef& buffer, Block& before) {
    std::vector<int64_t> extents = buffer->extents;
    extents.insert(extents.begin(), kParts);
    const BufferRef parts = make_buffer(names_.fresh(buffer->name + ".parts"), DType::bf16, extents, Space::local);
    Loop nest;
    std::vector<Index> at;
    for (size_t axis = 0; axis < buffer->extents.size(); axis++) {
      const VarRef var = make_var(names_.fresh(buffer->name + "_" + static_cast<char>('a' + axis)), buffer->extents[axis]);
      nest.dims.push_back({var, Bind::none});
      at.emplace_back(var);
    }
    const auto let = [&](const std::string& name, const ExprPtr& value) {
      const ScalarRef scalar = make_scalar(names_.fresh(buffer->name + "." + name), value->dtype);
      nest.body.push_back({Let{scalar, value}});
      return scalar_value(scalar);
    };
    const auto op = [](Op op, std::vector<ExprPtr> args) { return tcc::loop::apply(op, std::move(args)); };
    const auto bits_of = [&](const ExprPtr& value) {
      return op(Op::and_, {bitcast_to(value, DType::i32), constant_int(DType::i32, -kLastBitOfBf16)});
    };
    const ExprPtr zero = constant_float(DType::f32, 0), x = let("x", load(buffer, at));
    // Of what is not zero, not zero.
    const ExprPtr bits = let("bits", bits_of(x));
    const ExprPtr vanishes = op(Op::and_, {op(Op::eq_, {bitcast_to(bits, DType::f32), zero}), op(Op::ne_, {x, zero})});
    const ExprPtr kept = op(Op::select_, {vanishes, op(Op::or_, {bits, constant_int(DType::i32, kLastBitOfBf16)}), bits});
    // A NaN whose low bits alone say so would become an infinity.
    const ExprPtr high = let("high", op(Op::select_, {op(Op::isnan_, {x}), x, bitcast_to(kept, DType::f32)}));
    const ExprPtr rest = let("rest", op(Op::sub_, {x, high}));
    const ExprPtr middle = let("middle", bitcast_to(bits_of(rest), DType::f32));
    const ExprPtr values[] = {high, middle, op(Op::sub_, {rest, middle})};
    for (int64_t part = 0; part < kParts; part++) {
      std::vector<Index> to{Index(part)};
      to.insert(to.end(), at.begin(), at.end());
      nest.body.push_back({Store{parts, to, cast_to(values[part], DType::bf16)}});
    }
    before.push_back({Alloc{parts}});
    before.push_back({std::move(nest)});
    return parts;
  }

  NameTable names_;
  std::string accumulator_;
  int64_t apart_;
};

}  // namespace

Unit split_factors(const Unit& unit, const std::string& accumulator, int64_t apart) {
  if (apart < 1) unfit("sums of " + std::to_string(apart) + " terms");
  Unit result = unit;
  if (!FactorSplitter(unit, accumulator, apart).run(result.body)) no_such_reduce(unit, accumulator, "in a top-level map");
  return result;
}

}  // namespace tcc::loop
