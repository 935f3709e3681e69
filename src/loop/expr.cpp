// Expressions: checked construction and the folding that index arithmetic needs. Floats are never folded here: the interpreter and the emitters decide
// how they are computed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/ops/scalar.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {
namespace {

ExprPtr make(Expr expr) { return std::make_shared<const Expr>(std::move(expr)); }

/// The expression as an index, when it is an i64 constant or an index.
std::optional<Index> as_index(const ExprPtr& expr) {
  if (expr->kind == Expr::Kind::index) return expr->index;
  if (expr->kind == Expr::Kind::constant && expr->dtype == DType::i64) return Index(expr->int_value);
  return std::nullopt;
}

bool is_compare(Op op) { return op == Op::eq_ || op == Op::ne_ || op == Op::lt_ || op == Op::le_ || op == Op::gt_ || op == Op::ge_; }

/// Decides a comparison of two indices by the range of their difference; null when it depends.
ExprPtr fold_compare(Op op, const Index& a, const Index& b) {
  const Index difference = a - b;
  const auto low = difference.min(), high = difference.max();
  if (!low || !high) return nullptr;
  auto decide = [](bool always, bool never) -> ExprPtr {
    if (always) return constant_int(DType::boolean, 1);
    if (never) return constant_int(DType::boolean, 0);
    return nullptr;
  };
  switch (op) {
    case Op::lt_: return decide(*high < 0, *low >= 0);
    case Op::le_: return decide(*high <= 0, *low > 0);
    case Op::gt_: return decide(*low > 0, *high <= 0);
    case Op::ge_: return decide(*low >= 0, *high < 0);
    case Op::eq_: return decide(*low == 0 && *high == 0, *low > 0 || *high < 0);
    case Op::ne_: return decide(*low > 0 || *high < 0, *low == 0 && *high == 0);
    default: return nullptr;
  }
}

ExprPtr fold_indices(Op op, const Index& a, const Index& b) {
  switch (op) {
    case Op::add_: return index_value(a + b);
    case Op::sub_: return index_value(a - b);
    case Op::mul_:
      if (b.is_constant()) return index_value(a * b.constant());
      if (a.is_constant()) return index_value(b * a.constant());
      return nullptr;
    case Op::div_:  // truncates: the same as floor where nothing is negative
      if (b.is_constant() && b.constant() > 0 && a.min().value_or(-1) >= 0) return index_value(floor_div(a, b.constant()));
      return nullptr;
    case Op::mod_:
      if (b.is_constant() && b.constant() > 0) return index_value(mod(a, b.constant()));
      return nullptr;
    default: return is_compare(op) ? fold_compare(op, a, b) : nullptr;
  }
}

ExprPtr fold(Op op, DType dtype, const std::vector<ExprPtr>& args) {
  if (args.size() == 2) {
    const auto a = as_index(args[0]), b = as_index(args[1]);
    if (a && b) {
      if (ExprPtr folded = fold_indices(op, *a, *b)) return folded;
    }
  }
  if (op == Op::check_index_) {  // what is in range needs no check; never folded otherwise
    const auto index = as_index(args[1]), extent = as_index(args[3]);
    if (!index || !extent || !extent->is_constant()) return nullptr;
    const auto low = index->min(), high = index->max();
    return low && high && *low >= 0 && *high < extent->constant() ? args[0] : nullptr;
  }
  if (op == Op::select_ && args[0]->kind == Expr::Kind::constant) return args[0]->int_value ? args[1] : args[2];
  // and/or with a constant side.
  if ((op == Op::and_ || op == Op::or_) && dtype == DType::boolean) {
    for (int side = 0; side < 2; ++side) {
      const ExprPtr& known = args[static_cast<size_t>(side)];
      if (known->kind != Expr::Kind::constant) continue;
      return (known->int_value != 0) == (op == Op::and_) ? args[static_cast<size_t>(1 - side)] : known;
    }
  }
  if (is_float(dtype)) return nullptr;
  const bool constants =
      std::all_of(args.begin(), args.end(), [](const ExprPtr& e) { return e->kind == Expr::Kind::constant && !is_float(e->dtype); });
  if (!constants) return nullptr;
  std::vector<ScalarValue> values;
  for (const ExprPtr& arg : args) values.push_back(ScalarValue::of_int(arg->int_value));
  return constant_int(dtype, evaluate_scalar(op, dtype, args[0]->dtype, values).i);
}

}  // namespace

ExprPtr constant_float(DType dtype, double value) {
  check(is_float(dtype), "constant_float needs a float dtype");
  Expr expr;
  expr.dtype = dtype;
  expr.float_value = round_to(dtype, value);
  return make(std::move(expr));
}

ExprPtr constant_int(DType dtype, int64_t value) {
  check(!is_float(dtype), "constant_int needs an integer dtype or bool");
  Expr expr;
  expr.dtype = dtype;
  expr.int_value = wrap_to(dtype, value);
  return make(std::move(expr));
}

ExprPtr zero_of(DType dtype) { return is_float(dtype) ? constant_float(dtype, 0) : constant_int(dtype, 0); }

ExprPtr index_value(const Index& index) {
  if (index.is_constant()) return constant_int(DType::i64, index.constant());
  Expr expr;
  expr.kind = Expr::Kind::index;
  expr.dtype = DType::i64;
  expr.index = index;
  return make(std::move(expr));
}

ExprPtr scalar_value(const ScalarRef& scalar) {
  check(scalar != nullptr, "scalar_value of nothing");
  Expr expr;
  expr.kind = Expr::Kind::scalar;
  expr.dtype = scalar->dtype;
  expr.scalar = scalar;
  return make(std::move(expr));
}

ExprPtr load(const BufferRef& buffer, std::vector<Index> indices, ExprPtr otherwise) {
  check(buffer != nullptr, "load of nothing");
  if (indices.size() != buffer->extents.size()) {
    internal_error("load of %" + buffer->name + " with " + std::to_string(indices.size()) + " indices, it has " +
                   std::to_string(buffer->extents.size()));
  }
  check(!otherwise || otherwise->dtype == buffer->dtype, "load ... else: the other value has another dtype than the buffer");
  Expr expr;
  expr.kind = Expr::Kind::load;
  expr.dtype = buffer->dtype;
  expr.buffer = buffer;
  expr.indices = std::move(indices);
  expr.otherwise = std::move(otherwise);
  return make(std::move(expr));
}

ExprPtr apply(Op op, std::vector<ExprPtr> args) {
  std::vector<DType> dtypes;
  for (const ExprPtr& arg : args) {
    check(arg != nullptr, "an operand of an expression is missing");
    dtypes.push_back(arg->dtype);
  }
  const auto dtype = result_dtype(op, dtypes);
  if (!dtype) {
    std::string given;
    for (DType d : dtypes) given += (given.empty() ? "" : ", ") + std::string(name_of(d));
    internal_error("`" + std::string(name_of(op)) + "` does not take (" + given + ") in the loop IR");
  }
  if (ExprPtr folded = fold(op, *dtype, args)) return folded;
  Expr expr;
  expr.kind = Expr::Kind::op;
  expr.dtype = *dtype;
  expr.op = op;
  expr.args = std::move(args);
  return make(std::move(expr));
}

ExprPtr with_args(const Expr& op, std::vector<ExprPtr> args) {
  if (op.op == Op::cast_) return cast_to(args[0], op.dtype);
  if (op.op == Op::bitcast_) return bitcast_to(args[0], op.dtype);
  const ExprPtr result = apply(op.op, std::move(args));
  return op.approximate ? approximated(result) : result;
}

bool has_approximation(Op op) { return op == Op::exp_ || op == Op::exp2_ || op == Op::tanh_ || op == Op::erf_ || op == Op::rsqrt_; }

ExprPtr approximated(const ExprPtr& op) {
  if (op->kind != Expr::Kind::op || !has_approximation(op->op) || compute_dtype(op->dtype) != DType::f32) return op;
  Expr marked = *op;
  marked.approximate = true;
  return make(std::move(marked));
}

ExprPtr check_index(const ExprPtr& x, const ExprPtr& index, const ExprPtr& reported, int64_t extent, int site) {
  return apply(Op::check_index_, {x, index, reported, constant_int(DType::i64, extent), constant_int(DType::i64, site)});
}

int num_index_checks(const Block& body) {
  int64_t number = 0;
  walk_exprs(body, [&](const Expr& e) {
    if (e.kind == Expr::Kind::op && e.op == Op::check_index_) number = std::max(number, e.args[4]->int_value + 1);
  });
  return static_cast<int>(number);
}

ExprPtr cast_to(const ExprPtr& value, DType dtype) {
  if (value->dtype == dtype) return value;
  if (value->kind == Expr::Kind::constant && !is_float(value->dtype) && !is_float(dtype)) {
    return constant_int(dtype, dtype == DType::boolean ? value->int_value != 0 : value->int_value);
  }
  Expr expr;
  expr.kind = Expr::Kind::op;
  expr.dtype = dtype;
  expr.op = Op::cast_;
  expr.args = {value};
  return make(std::move(expr));
}

ExprPtr bitcast_to(const ExprPtr& value, DType dtype) {
  check(size_bits(value->dtype) == size_bits(dtype), "bitcast between dtypes of different widths");
  if (value->dtype == dtype) return value;
  Expr expr;
  expr.kind = Expr::Kind::op;
  expr.dtype = dtype;
  expr.op = Op::bitcast_;
  expr.args = {value};
  return make(std::move(expr));
}

ExprPtr in_range(const Index& index, int64_t low, int64_t high) {
  const auto min = index.min(), max = index.max();
  ExprPtr above, below;
  if (!min || *min < low) above = apply(Op::ge_, {index_value(index), constant_int(DType::i64, low)});
  if (!max || *max >= high) below = apply(Op::lt_, {index_value(index), constant_int(DType::i64, high)});
  return logical_and(above, below);
}

ExprPtr logical_and(const ExprPtr& a, const ExprPtr& b) {
  auto is_true = [](const ExprPtr& e) { return !e || (e->kind == Expr::Kind::constant && e->int_value != 0); };
  if (is_true(a)) return is_true(b) ? nullptr : b;
  if (is_true(b)) return a;
  return apply(Op::and_, {a, b});
}

bool equal(const ExprPtr& a, const ExprPtr& b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->dtype != b->dtype) return false;
  switch (a->kind) {
    case Expr::Kind::constant:
      if (!is_float(a->dtype)) return a->int_value == b->int_value;
      return same_bits(a->float_value, b->float_value);  // a NaN equals itself, the zeros differ
    case Expr::Kind::index: return a->index == b->index;
    case Expr::Kind::scalar: return a->scalar == b->scalar;
    case Expr::Kind::load: return a->buffer == b->buffer && a->indices == b->indices && equal(a->otherwise, b->otherwise);
    case Expr::Kind::op:
      return a->op == b->op && a->approximate == b->approximate &&
             std::equal(a->args.begin(), a->args.end(), b->args.begin(), b->args.end(),
                        [](const ExprPtr& x, const ExprPtr& y) { return equal(x, y); });
  }
  internal_error("no such expression");
}

}  // namespace tcc::loop
