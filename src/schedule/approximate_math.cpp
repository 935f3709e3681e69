// Marks functions whose result is rounded to 16 bits at once: an error of 2^-14 is lost in that rounding, and a GPU has instructions for it.
//
//   store cast<bf16>(mul(%x, exp(%x))), %y[%i]   ->   store cast<bf16>(mul(%x, approx.exp(%x))), %y[%i]
//
// "At once" is within one expression: what goes through a let, a reduce or a buffer of f32 keeps its digits.
#include "schedule/apply.h"
#include "tcc/loop/fields.h"

namespace tcc::schedule {
namespace {

using namespace tcc::loop;

/// `rounded`: the nearest cast around is from f32 to 16 bits.
ExprPtr marked(const ExprPtr& expr, bool rounded) {
  if (!expr) return nullptr;
  if (expr->kind == Expr::Kind::load) {
    const ExprPtr otherwise = marked(expr->otherwise, rounded);
    return otherwise == expr->otherwise ? expr : load(expr->buffer, expr->indices, otherwise);
  }
  if (expr->kind != Expr::Kind::op) return expr;
  bool inner = rounded;
  if (expr->op == Op::cast_) inner = expr->args[0]->dtype == DType::f32 && (expr->dtype == DType::f16 || expr->dtype == DType::bf16);
  std::vector<ExprPtr> args;
  for (const ExprPtr& arg : expr->args) args.push_back(marked(arg, inner));
  const ExprPtr result = args == expr->args ? expr : with_args(*expr, std::move(args));
  return rounded ? approximated(result) : result;
}

struct Marker : NoFields {
  void condition(ExprPtr& condition) { condition = marked(condition, false); }
  void expr(ExprPtr& expr) { expr = marked(expr, false); }
  void yields(ExprPtr& value, Block&) { value = marked(value, false); }
  void block(Block& block) {
    for (Stmt& stmt : block) fields_of(stmt, *this);
  }
  void combine(std::shared_ptr<const Combine>& combine) {
    if (!combine) return;
    auto copy = std::make_shared<Combine>(*combine);
    block(copy->body);
    for (ExprPtr& result : copy->results) expr(result);
    combine = std::move(copy);
  }
};

}  // namespace

loop::Unit approximate_math(loop::Unit unit, const Target& target) {
  if (target.is_cuda()) Marker().block(unit.body);
  return unit;
}

}  // namespace tcc::schedule
