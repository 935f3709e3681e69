// One value at a time: slow and plain, the oracle of what the emitters make.
#include "tcc/ops/scalar.h"

#include <algorithm>
#include <vector>

#include "tcc/ops/scalar_functions.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc {
namespace {

bool is_unsigned(DType dtype) { return is_unsigned_integer(dtype) || dtype == DType::boolean; }

/// Calls f with values of the type that `dtype` is computed in.
template <class F> ScalarValue in_float(DType dtype, F f) {
  if (dtype == DType::f64) return ScalarValue::of_float(f(double{}));
  return ScalarValue::of_float(round_to(dtype, static_cast<double>(f(float{}))));
}

}  // namespace

std::optional<DType> result_dtype(Op op, std::span<const DType> operands) {
  const ScalarClass scalar_class = info(op).scalar_class;
  auto has = [&](size_t count) { return operands.size() == count; };
  const DType first = operands.empty() ? DType::f32 : operands[0];
  const bool bits = is_integer(first) || first == DType::boolean;
  auto pair = [&] { return has(2) && operands[1] == first; };
  auto when = [](bool ok, DType dtype) { return ok ? std::optional(dtype) : std::nullopt; };
  switch (scalar_class) {
    case ScalarClass::unary: return when(has(1) && first != DType::boolean, first);
    case ScalarClass::unary_float: return when(has(1) && is_float(first), first);
    case ScalarClass::unary_bits: return when(has(1) && bits, first);
    case ScalarClass::test: return when(has(1), DType::boolean);
    case ScalarClass::binary: return when(pair(), first);
    case ScalarClass::binary_float: return when(pair() && is_float(first), first);
    case ScalarClass::binary_bits: return when(pair() && bits, first);
    case ScalarClass::shift: return when(pair() && is_integer(first), first);
    case ScalarClass::compare: return when(pair(), DType::boolean);
    case ScalarClass::select: return when(has(3) && first == DType::boolean && operands[1] == operands[2], has(3) ? operands[1] : first);
    case ScalarClass::ternary: return when(has(3) && operands[1] == first && operands[2] == first, first);
    case ScalarClass::check: {  // in loops: the value, the index and its bounds
      const bool integers =
          operands.size() == 5 && std::all_of(operands.begin() + 1, operands.end(), [](DType d) { return d == DType::i64; });
      return integers ? std::optional(operands[0]) : std::nullopt;
    }
    case ScalarClass::convert:
    case ScalarClass::none: return std::nullopt;
  }
  return std::nullopt;
}

namespace {

/// The function of as many numbers as there are arguments.
template <class T, class Get> T apply(Op op, size_t count, Get get) {
  switch (count) {
    case 1: return with_function<1, T>(op, [&](auto f) { return f(get(0)); });
    case 2: return with_function<2, T>(op, [&](auto f) { return f(get(0), get(1)); });
    default: return with_function<3, T>(op, [&](auto f) { return f(get(0), get(1), get(2)); });
  }
}

/// Calls f with the values of the arguments in the type that `dtype` is compared and tested in.
template <class F> bool in_widest(DType dtype, std::span<const ScalarValue> args, F f) {
  if (is_float(dtype)) return f([&](size_t i) { return args[i].f; });
  if (is_unsigned(dtype)) return f([&](size_t i) { return static_cast<uint64_t>(args[i].i); });
  return f([&](size_t i) { return args[i].i; });
}

}  // namespace

ScalarValue evaluate_scalar(Op op, DType dtype, DType operand_dtype, std::span<const ScalarValue> args) {
  switch (info(op).scalar_class) {
    case ScalarClass::select: return args[0].i ? args[1] : args[2];
    case ScalarClass::check: return args[0];
    case ScalarClass::test:
      return ScalarValue::of_int(
          in_widest(operand_dtype, args, [&](auto get) { return with_test(op, [&](auto f) { return f(get(0)); }); }));
    case ScalarClass::compare:
      return ScalarValue::of_int(
          in_widest(operand_dtype, args, [&](auto get) { return with_comparison(op, [&](auto f) { return f(get(0), get(1)); }); }));
    default: break;
  }
  if (is_float(dtype)) {
    return in_float(dtype, [&]<class T>(T) { return apply<T>(op, args.size(), [&](size_t i) { return static_cast<T>(args[i].f); }); });
  }
  if (dtype == DType::boolean && op == Op::not_) return ScalarValue::of_int(args[0].i == 0);
  const int64_t wide =
      is_unsigned(dtype)
          ? static_cast<int64_t>(apply<uint64_t>(op, args.size(), [&](size_t i) { return static_cast<uint64_t>(args[i].i); }))
          : apply<int64_t>(op, args.size(), [&](size_t i) { return args[i].i; });
  return ScalarValue::of_int(wrap_to(dtype, wide));
}

ScalarValue cast_scalar(ScalarValue value, DType from, DType to) {
  if (from == to) return value;
  Tensor one(to, {});  // Tensor's setters are the one place that knows the rule
  if (is_float(from)) one.set_double(0, value.f);
  else if (from == DType::u64 && is_float(to))
    one.set_double(
        0, to == DType::f64 ? static_cast<double>(static_cast<uint64_t>(value.i)) : static_cast<float>(static_cast<uint64_t>(value.i)));
  else one.set_int64(0, value.i);
  return is_float(to) ? ScalarValue::of_float(one.as_double(0)) : ScalarValue::of_int(one.as_int64(0));
}

ScalarValue bitcast_scalar(ScalarValue value, DType from, DType to) {
  Tensor one(from, {});
  if (is_float(from)) one.set_double(0, value.f);
  else one.set_int64(0, value.i);
  const Tensor other(to, {}, one.bytes(), nullptr);
  return is_float(to) ? ScalarValue::of_float(other.as_double(0)) : ScalarValue::of_int(other.as_int64(0));
}

double round_to(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  if (dtype == DType::f32) return static_cast<double>(static_cast<float>(value));
  return cast_scalar(ScalarValue::of_float(value), DType::f64, dtype).f;
}

int64_t wrap_to(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::i8: return static_cast<int8_t>(value);
    case DType::i16: return static_cast<int16_t>(value);
    case DType::i32: return static_cast<int32_t>(value);
    case DType::u8: return static_cast<uint8_t>(value);
    case DType::u16: return static_cast<uint16_t>(value);
    case DType::u32: return static_cast<uint32_t>(value);
    case DType::i4: return static_cast<int64_t>(static_cast<uint64_t>(value) << 60) >> 60;
    case DType::u4: return value & 15;
    default: return value;
  }
}

}  // namespace tcc
