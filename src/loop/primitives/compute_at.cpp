// compute_at(x, top): a let inside a nest is computed for all iterations that it depends on before the nest, into a temporary. For the input of a
// convolution that is im2col: afterwards both operands are contiguous along the sum.
//
//   map %i in 2, %o in 8 { %s: f32 = reduce sum %k in 3 { %x: f32 = load %a[%i + %k - 1] else 0.0;  %w: f32 = load %b[%o, %k];  yield mul(%x, %w) } ... }
// becomes
//   alloc %x.all: f32[2, 3]
//   map %i_at in 2, %k_at in 3 { store load %a[%i_at + %k_at - 1] else 0.0, %x.all[%i_at, %k_at] }
//   map %i in 2, %o in 8 { %s: f32 = reduce sum %k in 3 { %x: f32 = load %x.all[%i, %k];  ... } ... }
//
// With `first=sum` the temporary has the dims of the reduce first, here [3, 2]: contiguous along the results.
//
// With `as=f16` that is not the let, but the factor of a product that reads it, below casts from f16: of
//
//   %s: f32 = reduce sum %k in 3 { %x: i8 = load %a[%i, %k];  %w: f16 = load %b[%k];  yield mul(cast<f32>(cast<f16>(mul(cast<f32>(%x), 0.5))), cast<f32>(%w)) }
//
// the factor is cast<f16>(mul(cast<f32>(%x), 0.5)).
//
// What the let needs must be lets of its block or of blocks around it; the loops around it must have no mask (the first form).
#include <algorithm>
#include <map>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

bool reads(const ExprPtr& expr, const BufferRef& buffer) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found = found || (e.kind == Expr::Kind::load && e.buffer == buffer); });
  return found;
}

/// Makes a let of the factor that reads what the let `scalar` does; returns its name.
std::string name_factor(Unit& unit, NameTable& names, const std::string& scalar, DType dtype) {
  const Place place = find_definition(unit.body, scalar);
  if (!place) no_such_value(unit, scalar);
  const auto* read = std::get_if<Let>(&place.stmt().node);
  if (!read || read->value->kind != Expr::Kind::load || place.path.size() < 2) unfit("`" + scalar + "` is not a load in a reduce");
  const Place::Step& step = place.path[place.path.size() - 2];
  auto* reduce = std::get_if<Reduce>(&(*step.block)[step.index].node);
  if (!reduce || reduce->states.size() != 1) unfit("`" + scalar + "` is not a load in a reduce of one value");
  const BufferRef buffer = read->value->buffer;
  Substitution values;
  std::map<const Scalar*, ExprPtr> lets;
  values.scalar = [&](const ScalarRef& other) {
    const auto at = lets.find(other.get());
    return at == lets.end() ? nullptr : at->second;
  };
  for (const Stmt& stmt : reduce->body) {
    const auto* let = std::get_if<Let>(&stmt.node);
    if (!let) unfit("there is more than a product in the sum `" + reduce->states[0].result->name + "`");
    lets[let->scalar.get()] = substitute(let->value, values);
  }
  ExprPtr product = reduce->states[0].value;
  while (product->kind == Expr::Kind::scalar && lets.contains(product->scalar.get())) product = lets.at(product->scalar.get());
  if (product->kind != Expr::Kind::op || product->op != Op::mul_) unfit("`" + scalar + "` is not in a factor of a product");
  std::vector<ExprPtr> factors = product->args;
  const ExprPtr inlined[] = {substitute(factors[0], values), substitute(factors[1], values)};
  const size_t which = reads(inlined[0], buffer) ? 0 : 1;
  if (reads(inlined[0], buffer) == reads(inlined[1], buffer)) unfit("`" + scalar + "` is not in one factor of a product");
  ExprPtr factor = inlined[which];
  const DType to = factor->dtype;
  while (factor->dtype != dtype && factor->kind == Expr::Kind::op && factor->op == Op::cast_) factor = factor->args[0];
  if (is_float(dtype) && size_bits(dtype) >= 16 && size_bits(factor->dtype) == 8)
    factor = cast_to(factor, dtype);  // which holds all of its values
  if (factor->dtype != dtype) unfit("the factor that reads `" + scalar + "` is not " + std::string(tcc::name_of(dtype)));
  const ScalarRef named = make_scalar(names.fresh(scalar + ".wide"), dtype);
  factors[which] = cast_to(scalar_value(named), to);
  std::set<const Scalar*> roots;
  collect_scalars(factors[1 - which], roots);
  Block body;
  needed_lets(reduce->body, roots, body);
  body.push_back({Let{named, factor}});
  reduce->body = std::move(body);
  reduce->states[0].value = tcc::loop::apply(Op::mul_, std::move(factors));
  return named->name;
}

/// The lets of the same block and of those around it that the value needs, in order.
Block lets_needed_by(const Let& let, const Place& place) {
  std::set<const Scalar*> roots;
  collect_scalars(let.value, roots);
  Block lets;
  for (auto step = place.path.rbegin(); step != place.path.rend(); ++step) {
    Block own;
    if (!needed_lets(*step->block, roots, own)) unfit("`" + let.scalar->name + "` depends on a reduce");
    for (const Stmt& stmt : own) collect_scalars(std::get<Let>(stmt.node).value, roots);
    lets.insert(lets.begin(), own.begin(), own.end());
  }
  return lets;
}

}  // namespace

Unit compute_at(const Unit& unit, const std::string& given, const std::string& where, bool sum_first, std::optional<DType> dtype) {
  if (where != "top") unfit("a let is computed at the top of its unit (`top`), not at `" + where + "`");
  Unit result = unit;
  NameTable names(unit);
  const std::string scalar = dtype ? name_factor(result, names, given, *dtype) : given;
  const Place place = find_definition(result.body, scalar);
  if (!place) no_such_value(unit, scalar);
  auto* let = std::get_if<Let>(&place.stmt().node);
  if (!let) unfit("`" + scalar + "` is not a let");

  Block lets = lets_needed_by(*let, place);
  lets.push_back({Let{let->scalar, let->value}});
  const Uses uses = uses_of(lets);
  for (const Scalar* read : uses.scalars) {
    if (!uses.defines.contains(read)) unfit("`" + scalar + "` depends on what outer loops compute");
  }

  std::vector<Dim> dims;
  for (const Place::Step& step : place.path) {
    Stmt& around = (*step.block)[step.index];
    const std::vector<Dim>* own = dims_of(around);
    if (!own || &around == &place.stmt()) continue;
    if (const ExprPtr* mask = where_of(around); mask && *mask) unfit("a loop around `" + scalar + "` has a mask");
    std::vector<Dim> used;
    for (const Dim& dim : *own) {
      if (uses.vars.contains(dim.var.get())) used.push_back(dim);
    }
    const bool before = sum_first && std::holds_alternative<Reduce>(around.node);
    dims.insert(before ? dims.begin() : dims.end(), used.begin(), used.end());
  }
  if (dims.empty()) unfit("`" + scalar + "` depends on no loop");

  std::vector<int64_t> extents;
  std::vector<Index> indices;
  for (const Dim& dim : dims) {
    extents.push_back(dim.var->extent);
    indices.emplace_back(dim.var);
  }
  const BufferRef buffer = make_buffer(names.fresh(scalar + ".all"), let->scalar->dtype, extents, Space::local);
  const ExprPtr value = let->value;
  let->value = load(buffer, indices);

  Loop nest;
  lets.back() = {Store{buffer, indices, value}};
  nest.body = clone_fresh(lets, [&](const std::string& name) { return names.fresh(name + ".at"); });
  for (const Dim& dim : dims) {
    const VarRef var = make_var(names.fresh(dim.var->name + "_at"), dim.var->extent);
    nest.dims.push_back({var, Bind::none});
    nest.body = substitute_var(nest.body, dim.var, var);
  }
  const size_t top = place.path.front().index;
  const std::set<const Buffer*> written = uses_of(result.body[top]).writes;
  for (const Buffer* read : uses_of(nest.body).reads) {
    if (written.contains(read)) unfit("`" + scalar + "` is read from `" + read->name + "`, which its own nest writes");
  }
  result.body.insert(result.body.begin() + static_cast<std::ptrdiff_t>(top), {Stmt{Alloc{buffer}}, Stmt{std::move(nest)}});
  return result;
}

}  // namespace tcc::loop
