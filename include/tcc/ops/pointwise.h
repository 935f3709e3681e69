// The pointwise prims by the numbers that they take, for a `switch` that the compiler finds incomplete when a row is added to ops.def:
//
//   switch (*float_op(op)) {
//     case FloatOp::neg_: ...        one case for each prim that takes floats, and no default
#pragma once

#include <cstdint>
#include <optional>

#include "tcc/ops/op.h"

namespace tcc {

// Which numbers the classes of ops.def take. TCC_TAKES_<class>(F, I) is F where they are floats, I where they are integers or bool, both where they are either.
// A row of ops.def can't define a macro, so these are not a column of TCC_SCALAR_CLASS; a class without its line here does not compile.
#define TCC_TAKES_unary(f, i) f i
#define TCC_TAKES_unary_float(f, i) f
#define TCC_TAKES_unary_bits(f, i) i
#define TCC_TAKES_test(f, i) f i
#define TCC_TAKES_binary(f, i) f i
#define TCC_TAKES_binary_float(f, i) f
#define TCC_TAKES_binary_bits(f, i) i
#define TCC_TAKES_shift(f, i) i
#define TCC_TAKES_compare(f, i) f i
#define TCC_TAKES_select(f, i)
#define TCC_TAKES_ternary(f, i) f i
#define TCC_TAKES_convert(f, i)
#define TCC_TAKES_check(f, i)

#define TCC_ENUMERATOR(name) name##_ = static_cast<uint16_t>(Op::name##_),

/// Ops of classes that take floats.
enum class FloatOp : uint16_t {
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) TCC_TAKES_##scalar_class(TCC_ENUMERATOR(name), )
#include "tcc/ops/ops.def"
};

/// Ops of classes that take integers or bool.
enum class IntegerOp : uint16_t {
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) TCC_TAKES_##scalar_class(, TCC_ENUMERATOR(name))
#include "tcc/ops/ops.def"
};

constexpr bool takes_floats(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::none: break;
#define TCC_SCALAR_CLASS(name, ...) \
  case ScalarClass::name: return TCC_TAKES_##name(true ||, ) false;
#include "tcc/ops/ops.def"
  }
  return false;
}
constexpr bool takes_integers(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::none: break;
#define TCC_SCALAR_CLASS(name, ...) \
  case ScalarClass::name: return TCC_TAKES_##name(, true ||) false;
#include "tcc/ops/ops.def"
  }
  return false;
}

#undef TCC_ENUMERATOR
#undef TCC_TAKES_unary
#undef TCC_TAKES_unary_float
#undef TCC_TAKES_unary_bits
#undef TCC_TAKES_test
#undef TCC_TAKES_binary
#undef TCC_TAKES_binary_float
#undef TCC_TAKES_binary_bits
#undef TCC_TAKES_shift
#undef TCC_TAKES_compare
#undef TCC_TAKES_select
#undef TCC_TAKES_ternary
#undef TCC_TAKES_convert
#undef TCC_TAKES_check

/// Nothing for other ops.
inline std::optional<FloatOp> float_op(Op op) {
  return takes_floats(info(op).scalar_class) ? std::optional(static_cast<FloatOp>(op)) : std::nullopt;
}
inline std::optional<IntegerOp> integer_op(Op op) {
  return takes_integers(info(op).scalar_class) ? std::optional(static_cast<IntegerOp>(op)) : std::nullopt;
}

}  // namespace tcc
