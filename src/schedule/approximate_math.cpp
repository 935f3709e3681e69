// Marks functions whose result is rounded to 16 bits at once: an error of 2^-14 is lost in that rounding, and a GPU has instructions for it.
//
//   store cast<bf16>(mul(%x, exp(%x))), %y[%i]   ->   store cast<bf16>(mul(%x, approx.exp(%x))), %y[%i]
//
// "At once" is within one expression, or through lets all of whose uses are rounded so: what goes through a reduce or a buffer of f32, and what is compared, keeps
// its digits.
#include <algorithm>
#include <map>
#include <vector>

#include "schedule/apply.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::schedule {
namespace {

using namespace tcc::loop;

bool is_rounding(const Expr& expr) {
  return expr.op == Op::cast_ && expr.args[0]->dtype == DType::f32 && (expr.dtype == DType::f16 || expr.dtype == DType::bf16);
}

/// Whether what is inside of the op is rounded, where the op itself is or not.
bool rounds_inside(const Expr& expr, bool rounded) {
  if (expr.op == Op::cast_) return is_rounding(expr);
  return rounded && expr.dtype != DType::boolean;
}

/// Which lets of f32 are rounded to 16 bits wherever they are used.
class RoundedLets {
 public:
  explicit RoundedLets(const Block& block) {
    visit(block);
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let) {  // what uses a let comes behind it
      const std::vector<Use>& uses = uses_[*let];
      rounded_[*let] =
          !uses.empty() && std::ranges::all_of(uses, [&](const Use& use) { return use.let ? rounded_[use.let] : use.rounded; });
    }
  }
  bool contains(const Scalar* let) const {
    const auto found = rounded_.find(let);
    return found != rounded_.end() && found->second;
  }

 private:
  struct Use {
    bool rounded;
    const Scalar* let;  ///< whose value it is part of, with no cast between; null
  };

  void visit(const Block& block) {
    for (const Stmt& stmt : block) {
      const auto* let = as<Let>(stmt);
      if (let) lets_.push_back(let->scalar.get());
      each_expr(stmt, [&](const ExprPtr& expr) { look(expr, false, let ? let->scalar.get() : nullptr); });
      for (const Block* inner : blocks_of(stmt)) visit(*inner);
    }
  }
  void look(const ExprPtr& expr, bool rounded, const Scalar* let) {
    if (!expr) return;
    if (expr->kind == Expr::Kind::scalar) uses_[expr->scalar.get()].push_back({rounded, let});
    if (expr->kind == Expr::Kind::load) look(expr->otherwise, rounded, let);
    if (expr->kind != Expr::Kind::op) return;
    const bool passes = expr->op != Op::cast_ && expr->dtype != DType::boolean;
    for (const ExprPtr& arg : expr->args) look(arg, rounds_inside(*expr, rounded), passes ? let : nullptr);
  }

  std::vector<const Scalar*> lets_;
  std::map<const Scalar*, std::vector<Use>> uses_;
  std::map<const Scalar*, bool> rounded_;
};

/// `rounded`: the nearest cast around is from f32 to 16 bits.
ExprPtr marked(const ExprPtr& expr, bool rounded) {
  if (!expr) return nullptr;
  if (expr->kind == Expr::Kind::load) {
    const ExprPtr otherwise = marked(expr->otherwise, rounded);
    return otherwise == expr->otherwise ? expr : load(expr->buffer, expr->indices, otherwise);
  }
  if (expr->kind != Expr::Kind::op) return expr;
  std::vector<ExprPtr> args;
  for (const ExprPtr& arg : expr->args) args.push_back(marked(arg, rounds_inside(*expr, rounded)));
  const ExprPtr result = args == expr->args ? expr : with_args(*expr, std::move(args));
  return rounded ? approximated(result) : result;
}

struct Marker : NoFields {
  explicit Marker(const RoundedLets& lets) : lets(lets) {}

  const RoundedLets& lets;
  void condition(ExprPtr& condition) { condition = marked(condition, false); }
  void expr(ExprPtr& expr) { expr = marked(expr, false); }
  void yields(ExprPtr& value, Block&) { value = marked(value, false); }
  void block(Block& block) {
    for (Stmt& stmt : block) {
      auto* let = std::get_if<Let>(&stmt.node);
      if (let && lets.contains(let->scalar.get())) let->value = marked(let->value, true);
      else fields_of(stmt, *this);
    }
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
  if (target.is_cuda()) {
    const RoundedLets lets(unit.body);
    Marker(lets).block(unit.body);
  }
  return unit;
}

}  // namespace tcc::schedule
