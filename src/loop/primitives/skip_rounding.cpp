// skip_rounding(s): terms of a sum that are computed in f32 keep their bits: a value that is rounded to 16 bits and widened again is not. Nor does one of 8
// bits, which 16 hold, become f32 by way of them.
//
//   %s: f32 = reduce sum %k in 64 { ... yield mul(%x, cast<f32>(cast<bf16>(mul(%q, %t)))) }
// becomes
//   %s: f32 = reduce sum %k in 64 { ... yield mul(%x, mul(%q, %t)) }
//
// Dequantised weights are rounded to the dtype of the model, for instructions that multiply in 16 bits. Where the product is in f32 the rounding costs two
// conversions a term, and makes it less exact.
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

ExprPtr without_one_rounding(const ExprPtr& expr) {
  const auto is_cast = [](const ExprPtr& e, DType to) { return e->kind == Expr::Kind::op && e->op == Op::cast_ && e->dtype == to; };
  if (!is_cast(expr, DType::f32)) return expr;
  const ExprPtr& rounded = expr->args[0];
  if (!is_cast(rounded, DType::bf16) && !is_cast(rounded, DType::f16)) return expr;
  const ExprPtr& value = rounded->args[0];
  return value->dtype == DType::f32 ? value : size_bits(value->dtype) <= 8 ? cast_to(value, DType::f32) : expr;
}

}  // namespace

ExprPtr without_rounding(const ExprPtr& expr) { return rewrite_expr(expr, without_one_rounding); }

Unit skip_rounding(const Unit& unit, const std::string& accumulator) {
  Unit result = unit;
  const Place place = find_definition(result.body, accumulator);
  if (!place || !std::get_if<Reduce>(&place.stmt().node)) no_such_reduce(unit, accumulator, "in a map");
  Block sum{place.stmt()};
  rewrite_exprs(sum, without_one_rounding);
  place.stmt() = sum.front();
  return result;
}

}  // namespace tcc::loop
