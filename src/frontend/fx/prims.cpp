// The primitives that the framework's own decompositions are written in: operands have one dtype and shape each, conversion and broadcast are explicit.
#include <algorithm>
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

DType dtype_of(Call& call) {
  const auto dtype = call.maybe_dtype("dtype");
  if (!dtype) Call::refuse("malformed-file", "argument `dtype` of " + call.op() + " is None");
  return *dtype;
}

template <Op op> void import_unary(Call& call) { call.result(call.emit(op, {call.in("self")})); }
template <Op op> void import_binary(Call& call) { call.result(call.build().binary(op, call.in("self"), call.in("other"))); }

void import_convert(Call& call) { call.result(call.build().cast(call.in("a"), dtype_of(call))); }
void import_same(Call& call) { call.same("a"); }
void import_copy(Call& call) { call.result(call.in("a")); }
void import_clone(Call& call) { call.result(call.in("self")); }

void import_where(Call& call) { call.result(call.build().select(call.in("pred"), call.in("a"), call.in("b"))); }

void import_broadcast(Call& call) {
  Value* x = call.in("a");
  const std::vector<int64_t> dims = call.integers("broadcast_dimensions");
  if (dims.size() != static_cast<size_t>(x->type.rank()))
    Call::refuse("malformed-file", "`broadcast_dimensions` has another length than the rank");
  call.result(call.build().broadcast_in_dim(x, call.integers("shape"), dims));
}

void import_reshape(Call& call) { call.result(call.build().reshape(call.in("a"), call.integers("shape"))); }
void import_transpose(Call& call) { call.result(call.build().transpose(call.in("a"), call.integers("permutation"))); }

void import_squeeze(Call& call) {
  Value* x = call.in("a");
  Shape shape;
  const std::vector<int64_t> gone = call.integers("dimensions");
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
    if (std::find(gone.begin(), gone.end(), axis) == gone.end()) shape.push_back(x->type.dims[static_cast<size_t>(axis)].bound);
  }
  call.result(call.build().reshape(x, shape));
}

void import_cat(Call& call) { call.result(call.build().concat(call.tensors("tensors"), call.integer("dim"))); }
void import_reverse(Call& call) {
  std::vector<int64_t> axes = call.integers("dims");
  std::sort(axes.begin(), axes.end());
  call.result(axes.empty() ? call.in("a") : call.emit(Op::reverse_, {call.in("a")}, {{"axes", axes}}));
}

void import_iota(Call& call) {
  Builder& b = call.build();
  const DType dtype = dtype_of(call);
  Value* x = b.iota(DType::i64, {call.integer("length")}, 0);
  if (call.integer("step") != 1) x = b.mul(x, b.full_int(DType::i64, {}, call.integer("step")));
  if (call.integer("start") != 0) x = b.add(x, b.full_int(DType::i64, {}, call.integer("start")));
  call.result(b.cast(x, dtype));
}

void import_full(Call& call) { call.result(call.constant(dtype_of(call), call.scalar("fill_value"), call.integers("shape"))); }
void import_full_like(Call& call) { call.result(call.constant(dtype_of(call), call.scalar("fill_value"), shape_of(call.in("a")))); }
void import_empty(Call& call) { call.result(call.constant(dtype_of(call), int64_t{0}, call.integers("shape"))); }
void import_scalar_tensor(Call& call) {
  const Number value = call.scalar("s");
  const DType own = std::holds_alternative<double>(value)    ? DType::f32
                    : std::holds_alternative<int64_t>(value) ? DType::i64
                                                             : DType::boolean;
  call.result(call.constant(call.maybe_dtype("dtype").value_or(own), value));
}

enum class What { sum, prod, amax, amin };

/// None is all axes.
std::vector<int64_t> axes_of(Call& call, const Value* x) { return call.axes("dims", x); }

template <What what> void import_reduce(Call& call) {
  Value* x = call.to_dtype(call.in("inp"), call.maybe_dtype("output_dtype"));
  constexpr const char* name = what == What::sum ? "sum" : what == What::prod ? "prod" : what == What::amax ? "max" : "min";
  call.result(call.emit(Op::reduce_, {x}, {{"op", name}, {"axes", axes_of(call, x)}, {"keepdims", false}}));
}

void import_var(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("inp");
  const std::vector<int64_t> axes = axes_of(call, x);
  const auto reduce = [&](const char* op, Value* value, bool keep) {
    return call.emit(Op::reduce_, {value}, {{"op", op}, {"axes", axes}, {"keepdims", keep}});
  };
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x->type.dims[static_cast<size_t>(axis)].bound);
  Value* centred = b.sub(x, reduce("mean", x, true));
  Value* sum = reduce("sum", b.mul(centred, centred), false);
  call.result(b.binary(Op::div_, sum, std::max(0.0, count - call.maybe_number("correction").value_or(0))));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"prims.convert_element_type.default(a, dtype)", import_convert},
    {"prims.device_put.default(a, device, non_blocking=False)", import_copy},
    {"prims.view_of.default(a)", import_same},
    {"prims.clone.default(self, memory_format=None)", import_clone},
    {"prims.copy_strided.default(a, stride)", import_copy},
    {"prims.broadcast_in_dim.default(a, shape, broadcast_dimensions)", import_broadcast},
    {"prims.reshape.default(a, shape)", import_reshape},
    {"prims.transpose.default(a, permutation)", import_transpose},
    {"prims.squeeze.default(a, dimensions)", import_squeeze},
    {"prims.cat.default(tensors, dim)", import_cat},
    {"prims.rev.default(a, dims)", import_reverse},
    {"prims.where.default(pred, a, b)", import_where},
    {"prims.iota.default(length, start, step, dtype, device=None, requires_grad=False)", import_iota},
    {"prims.full.default(shape, fill_value, dtype, device=None, requires_grad=False)", import_full},
    {"prims.full_like.default(a, fill_value, dtype, device=None, requires_grad=False)", import_full_like},
    {"prims.empty.default(shape, dtype, device=None, requires_grad=False)", import_empty},
    {"prims.empty_permuted.default(shape, physical_layout, dtype, device=None, requires_grad=False)", import_empty},
    {"prims.empty_strided.default(shape, strides, dtype, device=None, requires_grad=False)", import_empty},
    {"prims.scalar_tensor.default(s, dtype=None, device=None)", import_scalar_tensor},
    {"prims.sum.default(inp, dims, output_dtype=None)", import_reduce<What::sum>},
    {"prims.prod.default(inp, dims, output_dtype=None)", import_reduce<What::prod>},
    {"prims.amax.default(inp, dims, output_dtype=None)", import_reduce<What::amax>},
    {"prims.amin.default(inp, dims, output_dtype=None)", import_reduce<What::amin>},
    {"prims.var.default(inp, dims, correction=1, output_dtype=None)", import_var},
    {"prims.abs.default(self)", import_unary<Op::abs_>},
    {"prims.neg.default(self)", import_unary<Op::neg_>},
    {"prims.sign.default(self)", import_unary<Op::sign_>},
    {"prims.ceil.default(self)", import_unary<Op::ceil_>},
    {"prims.floor.default(self)", import_unary<Op::floor_>},
    {"prims.trunc.default(self)", import_unary<Op::trunc_>},
    {"prims.round.default(self)", import_unary<Op::round_even_>},
    {"prims.sqrt.default(self)", import_unary<Op::sqrt_>},
    {"prims.rsqrt.default(self)", import_unary<Op::rsqrt_>},
    {"prims.reciprocal.default(self)", import_unary<Op::recip_>},
    {"prims.exp.default(self)", import_unary<Op::exp_>},
    {"prims.exp2.default(self)", import_unary<Op::exp2_>},
    {"prims.expm1.default(self)", import_unary<Op::expm1_>},
    {"prims.log.default(self)", import_unary<Op::log_>},
    {"prims.log2.default(self)", import_unary<Op::log2_>},
    {"prims.log1p.default(self)", import_unary<Op::log1p_>},
    {"prims.sin.default(self)", import_unary<Op::sin_>},
    {"prims.cos.default(self)", import_unary<Op::cos_>},
    {"prims.tan.default(self)", import_unary<Op::tan_>},
    {"prims.asin.default(self)", import_unary<Op::asin_>},
    {"prims.acos.default(self)", import_unary<Op::acos_>},
    {"prims.atan.default(self)", import_unary<Op::atan_>},
    {"prims.sinh.default(self)", import_unary<Op::sinh_>},
    {"prims.cosh.default(self)", import_unary<Op::cosh_>},
    {"prims.tanh.default(self)", import_unary<Op::tanh_>},
    {"prims.asinh.default(self)", import_unary<Op::asinh_>},
    {"prims.acosh.default(self)", import_unary<Op::acosh_>},
    {"prims.atanh.default(self)", import_unary<Op::atanh_>},
    {"prims.erf.default(self)", import_unary<Op::erf_>},
    {"prims.bitwise_not.default(self)", import_unary<Op::not_>},
    {"prims.isfinite.default(self)", import_unary<Op::isfinite_>},
    {"prims.add.default(self, other)", import_binary<Op::add_>},
    {"prims.sub.default(self, other)", import_binary<Op::sub_>},
    {"prims.mul.default(self, other)", import_binary<Op::mul_>},
    {"prims.div.default(self, other)", import_binary<Op::div_>},
    {"prims.fmod.default(self, other)", import_binary<Op::rem_>},
    {"prims.remainder.default(self, other)", import_binary<Op::mod_>},
    {"prims.pow.default(self, other)", import_binary<Op::pow_>},
    {"prims.atan2.default(self, other)", import_binary<Op::atan2_>},
    {"prims.maximum.default(self, other)", import_binary<Op::max_>},
    {"prims.minimum.default(self, other)", import_binary<Op::min_>},
    {"prims.bitwise_and.default(self, other)", import_binary<Op::and_>},
    {"prims.bitwise_or.default(self, other)", import_binary<Op::or_>},
    {"prims.bitwise_xor.default(self, other)", import_binary<Op::xor_>},
    {"prims.shift_left.default(self, other)", import_binary<Op::shl_>},
    {"prims.shift_right_arithmetic.default(self, other)", import_binary<Op::shr_>},
    {"prims.eq.default(self, other)", import_binary<Op::eq_>},
    {"prims.ne.default(self, other)", import_binary<Op::ne_>},
    {"prims.lt.default(self, other)", import_binary<Op::lt_>},
    {"prims.le.default(self, other)", import_binary<Op::le_>},
    {"prims.gt.default(self, other)", import_binary<Op::gt_>},
    {"prims.ge.default(self, other)", import_binary<Op::ge_>},
});

}  // namespace

std::span<const Handler> prims_handlers() { return kHandlers; }

}  // namespace tcc::fx
