// Tensors made of nothing: constants, ranges, random numbers; copies.
#include <array>
#include <cmath>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

Number integer(int64_t value) { return value; }

/// The dtype of a number, where none is asked for.
DType dtype_of(const Number& number) {
  return std::holds_alternative<double>(number) ? DType::f32 : std::holds_alternative<int64_t>(number) ? DType::i64 : DType::boolean;
}

template <int value> void import_filled(Call& call) {
  call.result(call.constant(call.maybe_dtype("dtype").value_or(DType::f32), integer(value), call.integers("size")));
}

void import_full(Call& call) {
  const Number value = call.scalar("fill_value");
  call.result(call.constant(call.maybe_dtype("dtype").value_or(dtype_of(value)), value, call.integers("size")));
}

/// Shaped like a tensor, and of its dtype unless another is asked for.
template <int value> void import_filled_like(Call& call) {
  const Value* x = call.in("self");
  call.result(call.constant(call.maybe_dtype("dtype").value_or(x->type.dtype), integer(value), shape_of(x)));
}

void import_full_like(Call& call) {
  const Value* x = call.in("self");
  call.result(call.constant(call.maybe_dtype("dtype").value_or(x->type.dtype), call.scalar("fill_value"), shape_of(x)));
}

template <int value> void import_new(Call& call) {
  const DType dtype = call.maybe_dtype("dtype").value_or(call.in("self")->type.dtype);
  call.result(call.constant(dtype, integer(value), call.integers("size")));
}

void import_new_full(Call& call) {
  const DType dtype = call.maybe_dtype("dtype").value_or(call.in("self")->type.dtype);
  call.result(call.constant(dtype, call.scalar("fill_value"), call.integers("size")));
}

void import_scalar_tensor(Call& call) { call.result(call.constant(call.maybe_dtype("dtype").value_or(DType::f32), call.scalar("s"))); }

void range(Call& call, const Number& start, const Number& end, const Number& step) {
  const bool floats = std::holds_alternative<double>(start) || std::holds_alternative<double>(end) || std::holds_alternative<double>(step);
  const DType dtype = call.maybe_dtype("dtype").value_or(floats ? DType::f32 : DType::i64);
  if (to_double(step) == 0) Call::refuse("type-error", "`step` is 0");
  int64_t count = 0;
  const double steps = std::ceil((to_double(end) - to_double(start)) / to_double(step));
  if (!(std::abs(steps) < 1e15)) Call::refuse("type-error", "a range of " + std::to_string(steps) + " elements");
  if (floats) {
    count = static_cast<int64_t>(steps);
  } else {
    const auto first = static_cast<int64_t>(to_double(start)), last = static_cast<int64_t>(to_double(end)),
               by = static_cast<int64_t>(to_double(step));
    count = by > 0 ? (last - first + by - 1) / by : (first - last - by - 1) / -by;
  }
  if (count < 0) Call::refuse("type-error", "the range is empty in the direction of `step`");
  const DType computed = floats ? DType::f64 : DType::i64;  // as the framework does, rounded once
  Value* x = call.build().iota(is_float(dtype) ? computed : DType::i64, {count}, 0);
  const DType now = x->type.dtype;
  if (to_double(step) != 1) x = call.build().mul(x, call.constant(now, step));
  if (to_double(start) != 0) x = call.build().add(x, call.constant(now, start));
  call.result(call.build().cast(x, dtype));
}

void import_arange_end(Call& call) { range(call, integer(0), call.scalar("end"), integer(1)); }
void import_arange(Call& call) { range(call, call.scalar("start"), call.scalar("end"), integer(1)); }
void import_arange_step(Call& call) { range(call, call.scalar("start"), call.scalar("end"), call.scalar("step")); }

void import_linspace(Call& call) {
  const int64_t steps = call.integer("steps");
  const double start = call.number("start"), end = call.number("end");
  if (steps < 0) Call::refuse("type-error", "`steps` is " + std::to_string(steps));
  Value* x = call.build().iota(DType::f64, {steps}, 0);
  x = call.build().binary(Op::mul_, x, steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0);
  call.result(call.build().cast(call.build().binary(Op::add_, x, start), call.maybe_dtype("dtype").value_or(DType::f32)));
}

void eye(Call& call, int64_t rows, int64_t columns) {
  Builder& b = call.build();
  Value* same = b.binary(Op::eq_, b.iota(DType::i64, {rows, columns}, 0), b.iota(DType::i64, {rows, columns}, 1));
  call.result(b.cast(same, call.maybe_dtype("dtype").value_or(DType::f32)));
}

void import_eye(Call& call) { eye(call, call.integer("n"), call.integer("n")); }
void import_eye_m(Call& call) { eye(call, call.integer("n"), call.integer("m")); }

// ---- random numbers: tcc's own generator, from the run-time input `seed`

Value* uniform(Call& call, const Shape& shape, DType dtype) {
  return call.emit(Op::random_uniform_, {call.seed()},
                   {{"shape", shape}, {"dtype", dtype}, {"stream", call.count_random_op()}, {"low", 0.0}, {"high", 1.0}});
}

Value* normal(Call& call, const Shape& shape, DType dtype) {
  return call.emit(Op::random_normal_, {call.seed()},
                   {{"shape", shape}, {"dtype", dtype}, {"stream", call.count_random_op()}, {"mean", 0.0}, {"scale", 1.0}});
}

using Draw = Value* (*)(Call & call, const Shape& shape, DType dtype);

template <Draw draw> void import_random(Call& call) {
  call.result(draw(call, call.integers("size"), call.maybe_dtype("dtype").value_or(DType::f32)));
}

template <Draw draw> void import_random_like(Call& call) {
  const Value* x = call.in("self");
  call.result(draw(call, shape_of(x), call.maybe_dtype("dtype").value_or(x->type.dtype)));
}

void integers(Call& call, int64_t low, int64_t high) {
  const double span = static_cast<double>(high) - static_cast<double>(low);
  if (!(span >= 1 && span <= 0x1p53))
    Call::refuse("type-error", "no integers from " + std::to_string(low) + " below " + std::to_string(high));
  Value* drawn = call.build().binary(Op::mul_, uniform(call, call.integers("size"), DType::f64), span);
  Value* whole = call.build().binary(Op::add_, call.emit(Op::floor_, {drawn}), static_cast<double>(low));
  call.result(call.build().cast(whole, call.maybe_dtype("dtype").value_or(DType::i64)));
}

void import_randint(Call& call) { integers(call, 0, call.integer("high")); }
void import_randint_low(Call& call) { integers(call, call.integer("low"), call.integer("high")); }

/// The order of as many random numbers.
void import_randperm(Call& call) {
  const int64_t n = call.integer("n");
  if (n < 0) Call::refuse("type-error", "`n` is " + std::to_string(n));
  const Node* sorted =
      call.build().emit_node(Op::topk_, {uniform(call, {n}, DType::f64)}, {{"k", n}, {"axis", int64_t{0}}, {"largest", false}});
  call.result(call.build().cast(sorted->result(1), call.maybe_dtype("dtype").value_or(DType::i64)));
}

void import_bernoulli(Call& call) {
  Value* x = call.in("self");
  call.result(call.emit(Op::bernoulli_, {x, call.seed()}, {{"dtype", x->type.dtype}, {"stream", call.count_random_op()}}));
}

/// 1 with the probability p, in the tensor's dtype; its values count for nothing.
void import_bernoulli_p(Call& call) {
  Builder& b = call.build();
  const Value* x = call.in("self");
  Value* drawn = uniform(call, shape_of(x), DType::f32);
  call.result(b.cast(b.binary(Op::lt_, drawn, call.constant(DType::f32, call.number("p"))), x->type.dtype));
}

void import_dropout(Call& call) {
  Value* x = call.in("input");
  const double ratio = call.number("p");
  if (!call.flag("train") || ratio == 0) return call.same("input");
  call.result(call.emit(Op::dropout_, {x, call.seed()}, {{"ratio", ratio}, {"stream", call.count_random_op()}}));
}

void import_native_dropout(Call& call) {
  Value* x = call.in("input");
  const double ratio = call.number("p");
  const bool trains = !call.has("train") || call.flag("train");
  if (!trains || ratio == 0) return call.results({x, call.build().full_int(DType::boolean, shape_of(x), 1)});
  const Node* node = call.build().emit_node(Op::dropout_, {x, call.seed()}, {{"ratio", ratio}, {"stream", call.count_random_op()}});
  call.results({node->result(0), node->result(1)});
}

// ---- copies: new storage, the same value

void import_clone(Call& call) { call.result(call.in("self")); }
void import_copy_to(Call& call) { call.result(call.to_dtype(call.in("self"), call.maybe_dtype("dtype"))); }

/// What `copy_` leaves in its first argument.
void import_copy(Call& call) {
  const Value* x = call.in("self");
  call.result(call.build().broadcast_to(call.build().cast(call.in("src"), x->type.dtype), shape_of(x)));
}

void import_fill(Call& call) {
  const Value* x = call.in("self");
  Value* value = as_tensor(call, call.operand("value"), x->type.dtype);
  call.result(call.build().broadcast_to(value, shape_of(x)));
}

void import_zero(Call& call) {
  const Value* x = call.in("self");
  call.result(call.constant(x->type.dtype, integer(0), shape_of(x)));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"zeros.default(size, dtype=None, layout=None, device=None, pin_memory=None)", import_filled<0>},
    {"ones.default(size, dtype=None, layout=None, device=None, pin_memory=None)", import_filled<1>},
    {"empty.memory_format(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_filled<0>},
    {"empty_strided.default(size, stride, dtype=None, layout=None, device=None, pin_memory=None)", import_filled<0>},
    {"empty_permuted.default(size, physical_layout, dtype=None, layout=None, device=None, pin_memory=None)", import_filled<0>},
    {"new_empty_strided.default(self, size, stride, dtype=None, layout=None, device=None, pin_memory=None)", import_new<0>},
    {"full.default(size, fill_value, dtype=None, layout=None, device=None, pin_memory=None)", import_full},
    {"zeros_like.default(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_filled_like<0>},
    {"ones_like.default(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_filled_like<1>},
    {"empty_like.default(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_filled_like<0>},
    {"full_like.default(self, fill_value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_full_like},
    {"new_zeros.default(self, size, dtype=None, layout=None, device=None, pin_memory=None)", import_new<0>},
    {"new_ones.default(self, size, dtype=None, layout=None, device=None, pin_memory=None)", import_new<1>},
    {"new_empty.default(self, size, dtype=None, layout=None, device=None, pin_memory=None)", import_new<0>},
    {"new_full.default(self, size, fill_value, dtype=None, layout=None, device=None, pin_memory=None)", import_new_full},
    {"scalar_tensor.default(s, dtype=None, layout=None, device=None, pin_memory=None)", import_scalar_tensor},
    {"arange.default(end, dtype=None, layout=None, device=None, pin_memory=None)", import_arange_end},
    {"arange.start(start, end, dtype=None, layout=None, device=None, pin_memory=None)", import_arange},
    {"arange.start_step(start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None)", import_arange_step},
    {"linspace.default(start, end, steps, dtype=None, layout=None, device=None, pin_memory=None)", import_linspace},
    {"eye.default(n, dtype=None, layout=None, device=None, pin_memory=None)", import_eye},
    {"eye.m(n, m, dtype=None, layout=None, device=None, pin_memory=None)", import_eye_m},
    {"rand.default(size, dtype=None, layout=None, device=None, pin_memory=None)", import_random<uniform>},
    {"randn.default(size, dtype=None, layout=None, device=None, pin_memory=None)", import_random<normal>},
    {"rand_like.default(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_random_like<uniform>},
    {"randn_like.default(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None)", import_random_like<normal>},
    {"randint.default(high, size, dtype=None, layout=None, device=None, pin_memory=None)", import_randint},
    {"randint.low(low, high, size, dtype=None, layout=None, device=None, pin_memory=None)", import_randint_low},
    {"bernoulli.default(self, generator=None)", import_bernoulli},
    {"randperm.default(n, dtype=None, layout=None, device=None, pin_memory=None)", import_randperm},
    {"bernoulli.p(self, p, generator=None)", import_bernoulli_p},
    {"dropout.default(input, p, train)", import_dropout},
    {"native_dropout.default(input, p, train)", import_native_dropout},
    {"clone.default(self, memory_format=None)", import_clone},
    {"lift_fresh_copy.default(self)", import_clone},
    {"lift_fresh.default(self)", import_clone},
    {"_to_copy.default(self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None)",
     import_copy_to},
    {"copy.default(self, src, non_blocking=False)", import_copy},
    {"fill.Scalar(self, value)", import_fill},
    {"fill.Tensor(self, value)", import_fill},
    {"zero.default(self)", import_zero},
});

}  // namespace

std::span<const Handler> creation_handlers() { return kHandlers; }

}  // namespace tcc::fx
