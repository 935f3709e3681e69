// Element-wise arithmetic, comparison, logic and conversion. ONNX converts nothing by itself: operands of one type variable agree or the
// model is refused; only Pow's exponent is free.
#include <array>
#include <limits>

#include "frontend/onnx/conversions.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

template <Op op> void import_unary(NodeContext& node) { node.result(op, {node.in(0)}); }

/// The right operand, shaped so that numpy's broadcast does what opset 6 says: with `broadcast` its axes stand under those of the left one
/// from `axis` on (at the end when there is no `axis`).
Value* legacy_right(NodeContext& node) {
  Value* right = node.in(1);
  if (node.opset() >= 7) return right;
  const bool broadcast = node.flag("broadcast", false);
  const bool has_axis = node.has_attribute("axis");
  int64_t axis = node.integer("axis", 0);
  if (!broadcast || !has_axis) return right;
  const int64_t left_rank = node.rank(0), right_rank = node.rank(1);
  if (axis < 0) axis += left_rank;
  const int64_t trailing = left_rank - axis - right_rank;
  if (axis < 0 || trailing < 0) {
    node.refuse("type-error", "`axis` is " + std::to_string(axis) + ", the operands have ranks " + std::to_string(left_rank) + " and " +
                                  std::to_string(right_rank));
  }
  if (trailing == 0) return right;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < trailing; ++i) axes.push_back(right_rank + i);
  return node.emit(Op::dynamic_unsqueeze_, {right, node.ints(axes, "axes")});
}

template <Op op> void import_binary(NodeContext& node) { node.result(op, {node.in(0), legacy_right(node)}); }

void import_identity(NodeContext& node) {
  if (node.is_list(0) || node.is_nothing(0)) node.set(0, node.tensor_or_sequence(0));
  else node.result(Op::identity_, {node.in(0)});
}

/// Max, Min, Sum: any number of operands, from the left.
template <Op op> void import_variadic(NodeContext& node) {
  const auto values = node.all_inputs();
  if (values.size() == 1) return node.result(Op::identity_, values);
  Value* total = values[0];
  for (size_t i = 1; i + 1 < values.size(); ++i) total = node.emit(op, {total, values[i]});
  node.result(op, {total, values.back()});
}

void import_mean(NodeContext& node) { node.result(Op::elementwise_mean_, node.all_inputs()); }

/// base ** exponent in the type of the base. Where the types differ the sum is done where both fit, as NumPy does, then cast back.
void import_pow(NodeContext& node) {
  Value* base = node.in(0);
  Value* exponent = legacy_right(node);
  const DType from = base->type.dtype, to = exponent->type.dtype;
  if (from == to) return node.result(Op::pow_, {base, exponent});
  Builder& b = node.build();
  if (is_float(from)) {
    node.result(Op::pow_, {base, b.cast(exponent, from)});
  } else if (is_float(to)) {
    node.result(Op::cast_, {node.emit(Op::pow_, {b.cast(base, to), exponent})}, {{"dtype", from}});
  } else {  // wrapping arithmetic: the low bits are the same in 64
    node.result(Op::cast_, {node.emit(Op::pow_, {b.cast(base, DType::i64), b.cast(exponent, DType::i64)})}, {{"dtype", from}});
  }
}

void import_mod(NodeContext& node) {
  const bool fmod = node.flag("fmod", false);
  if (!fmod && is_float(node.dtype()) && node.opset() < 28) node.refuse("type-error", "`fmod` is 0, floats need 1");
  node.result(fmod ? Op::rem_ : Op::mod_, {node.in(0), node.in(1)});
}

void import_bit_shift(NodeContext& node) {
  const std::string direction = node.text("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    node.refuse("unsupported-attribute", "`direction` is `" + direction + "`, LEFT and RIGHT are known");
  node.result(direction == "LEFT" ? Op::shl_ : Op::shr_, {node.in(0), node.in(1)});
}

void import_is_inf(NodeContext& node) {
  const bool positive = node.flag("detect_positive", true), negative = node.flag("detect_negative", true);
  Value* x = node.in(0);
  const double inf = std::numeric_limits<double>::infinity();
  if (positive && negative) node.result(Op::isinf_, {x});
  else if (positive) node.result(Op::eq_, {x, node.scalar(node.dtype(), inf)});
  else if (negative) node.result(Op::eq_, {x, node.scalar(node.dtype(), -inf)});
  else node.result(Op::and_, {node.emit(Op::isinf_, {x}), node.build().full_int(DType::boolean, {}, 0)});
}

void import_where(NodeContext& node) { node.result(Op::select_, {node.in(0), node.in(1), node.in(2)}); }

void convert(NodeContext& node, ElementType to) {
  Rounding rounding;
  rounding.saturate = node.opset() < 19 || node.flag("saturate", true);
  if (node.opset() >= 24) rounding.mode = node.text("round_mode", "up");
  if (rounding.mode != "up" && rounding.mode != "down" && rounding.mode != "nearest") {
    node.refuse("unsupported-attribute", "`round_mode` is `" + rounding.mode + "`, up, down and nearest are known");
  }
  node.set(0, converted(node, node.in(0), to, rounding));
  node.set_narrow(0, to.narrow);
}

void import_cast(NodeContext& node) { convert(node, node.element_attribute("to")); }

void import_bit_cast(NodeContext& node) {
  const ElementType from = node.element(0), to = node.element_attribute("to");
  if (width_of(to) != width_of(from)) {
    node.refuse("type-error", "a " + name_of(from) + " is read as a " + name_of(to) + ", expected equal widths");
  }
  node.set(0, with_same_bits(node, node.in(0), from, to));
  node.set_narrow(0, to.narrow);
}

void import_cast_like(NodeContext& node) { convert(node, node.element(1)); }

/// Bounds were attributes before opset 11. NaN stays NaN.
void import_clip(NodeContext& node) {
  Value *low = node.maybe(1), *high = node.maybe(2);
  if (node.opset() < 11) {
    low = node.has_attribute("min") ? node.scalar(node.dtype(), node.number("min", 0)) : nullptr;
    high = node.has_attribute("max") ? node.scalar(node.dtype(), node.number("max", 0)) : nullptr;
  }
  node.result(Op::clip_, {node.in(0), low, high});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Abs", import_unary<Op::abs_>},
    {"", "Acos", import_unary<Op::acos_>},
    {"", "Acosh", import_unary<Op::acosh_>},
    {"", "Add", import_binary<Op::add_>},
    {"", "And", import_binary<Op::and_>},
    {"", "Asin", import_unary<Op::asin_>},
    {"", "Asinh", import_unary<Op::asinh_>},
    {"", "Atan", import_unary<Op::atan_>},
    {"", "Atanh", import_unary<Op::atanh_>},
    {"", "BitCast", import_bit_cast},
    {"", "BitShift", import_bit_shift},
    {"", "BitwiseAnd", import_binary<Op::and_>},
    {"", "BitwiseNot", import_unary<Op::not_>},
    {"", "BitwiseOr", import_binary<Op::or_>},
    {"", "BitwiseXor", import_binary<Op::xor_>},
    {"", "Cast", import_cast},
    {"", "CastLike", import_cast_like},
    {"", "Ceil", import_unary<Op::ceil_>},
    {"", "Clip", import_clip},
    {"", "Cos", import_unary<Op::cos_>},
    {"", "Cosh", import_unary<Op::cosh_>},
    {"", "Div", import_binary<Op::div_>},
    {"", "Equal", import_binary<Op::eq_>},
    {"", "Erf", import_unary<Op::erf_>},
    {"", "Exp", import_unary<Op::exp_>},
    {"", "Floor", import_unary<Op::floor_>},
    {"", "Greater", import_binary<Op::gt_>},
    {"", "GreaterOrEqual", import_binary<Op::ge_>},
    {"", "Identity", import_identity},
    {"", "IsInf", import_is_inf},
    {"", "IsNaN", import_unary<Op::isnan_>},
    {"", "Less", import_binary<Op::lt_>},
    {"", "LessOrEqual", import_binary<Op::le_>},
    {"", "Log", import_unary<Op::log_>},
    {"", "Max", import_variadic<Op::max_>},
    {"", "Mean", import_mean},
    {"", "Min", import_variadic<Op::min_>},
    {"", "Mod", import_mod},
    {"", "Mul", import_binary<Op::mul_>},
    {"", "Neg", import_unary<Op::neg_>},
    {"", "Not", import_unary<Op::not_>},
    {"", "Or", import_binary<Op::or_>},
    {"", "Pow", import_pow},
    {"", "Reciprocal", import_unary<Op::recip_>},
    {"", "Round", import_unary<Op::round_even_>},
    {"", "Sign", import_unary<Op::sign_>},
    {"", "Sin", import_unary<Op::sin_>},
    {"", "Sinh", import_unary<Op::sinh_>},
    {"", "Sqrt", import_unary<Op::sqrt_>},
    {"", "Sub", import_binary<Op::sub_>},
    {"", "Sum", import_variadic<Op::add_>},
    {"", "Tan", import_unary<Op::tan_>},
    {"", "Tanh", import_unary<Op::tanh_>},
    {"", "Where", import_where},
    {"", "Xor", import_binary<Op::xor_>},
});

}  // namespace

std::span<const Handler> pointwise_handlers() { return kHandlers; }

}  // namespace tcc::onnx
