// skip_zeros(s): products of a zero that a select gives are not added to the tile of %s.
//
//   map %i in 4 bind(unroll) {
//     %x: f32 = load %a[(%i + %k) / 2];  %y: f32 = load %b[%k];  %old: f32 = load %s.tile[%i]
//     store add(%old, mul(select(lt(index((%i + %k) mod 2), 1), %x, 0.0), %y)), %s.tile[%i]
//   }
// becomes
//   map %i in 4 bind(unroll) where lt(index((%i + %k) mod 2), 1) {
//     %x: f32 = load %a[(%i + %k) / 2];  %y: f32 = load %b[%k];  %old: f32 = load %s.tile[%i]
//     store add(%old, mul(%x, %y)), %s.tile[%i]
//   }
//
// What a convolution with stride 2 sends back to its input is such a sum: three of four products are with zeros between the elements of the gradient. Where the
// dims that the condition names are unrolled it is known for each product, and those with zeros are gone. The sum is the same but for the factors of such zeros
// that are no numbers: nothing stands for them in the convolution, either.
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

bool is_zero(const ExprPtr& expr) { return expr->kind == Expr::Kind::constant && expr->float_value == 0 && expr->int_value == 0; }

/// The select whose zero makes the product zero.
const Expr* zero_factor(const ExprPtr& product) {
  if (product->kind != Expr::Kind::op || product->op != Op::mul_) return nullptr;
  for (const ExprPtr& factor : product->args) {
    if (factor->kind == Expr::Kind::op && factor->op == Op::select_ && is_zero(factor->args[2])) return factor.get();
  }
  return nullptr;
}

bool skip(Loop& loop, const std::string& accumulator) {
  bool found = false;
  for (Stmt& stmt : loop.body) {
    auto* store = std::get_if<Store>(&stmt.node);
    if (!store || !is_copy(store->buffer->name, accumulator + ".tile") || store->value->kind != Expr::Kind::op ||
        store->value->op != Op::add_)
      continue;
    if (found) unfit("the tile of `" + accumulator + "` is stored twice in a loop");
    const ExprPtr product = store->value->args[1];
    const Expr* factor = zero_factor(product);
    if (!factor) continue;
    const ExprPtr condition = factor->args[0], value = factor->args[1];
    std::set<const Scalar*> scalars;
    collect_scalars(condition, scalars);
    for (const Scalar* scalar : uses_of(loop.body).defines) {
      if (scalars.contains(scalar)) unfit("whether a product of `" + accumulator + "` is zero is computed with it");
    }
    Expr bare = *product;
    for (ExprPtr& argument : bare.args) {
      if (argument.get() == factor) argument = value;
    }
    Expr sum = *store->value;
    sum.args[1] = std::make_shared<const Expr>(std::move(bare));
    store->value = std::make_shared<const Expr>(std::move(sum));
    std::vector<ExprPtr> conditions = conjuncts(loop.where);
    for (const ExprPtr& part : conjuncts(condition)) conditions.push_back(part);
    loop.where = conjunction(conditions);
    found = true;
  }
  return found;
}

}  // namespace

Unit skip_zeros(const Unit& unit, const std::string& accumulator) {
  Unit result = unit;
  bool found = false;
  for_each_block(result.body, [&](Block& block) {
    for (Stmt& stmt : block) {
      if (auto* loop = std::get_if<Loop>(&stmt.node); loop && loop->kind == Loop::Kind::map) found |= skip(*loop, accumulator);
    }
  });
  if (!found) unfit("no product of the tile of `" + accumulator + "` is with a select that gives zero");
  return result;
}

}  // namespace tcc::loop
