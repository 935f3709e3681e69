// The pointwise prims by the numbers that they take, for a `switch` that the compiler finds incomplete when a row is added to ops.def:
//
//   switch (*float_op(op)) {
//     case FloatOp::neg_: ...        one case for each prim that takes floats, and no default
#pragma once

#include <cstdint>
#include <optional>

#include "tcc/ops/op.h"

namespace tcc {

constexpr bool takes_floats(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::unary:
    case ScalarClass::unary_float:
    case ScalarClass::test:
    case ScalarClass::binary:
    case ScalarClass::binary_float:
    case ScalarClass::compare:
    case ScalarClass::ternary: return true;
    default: return false;
  }
}
constexpr bool takes_integers(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::unary:
    case ScalarClass::unary_bits:
    case ScalarClass::test:
    case ScalarClass::binary:
    case ScalarClass::binary_bits:
    case ScalarClass::shift:
    case ScalarClass::compare:
    case ScalarClass::ternary: return true;
    default: return false;
  }
}

// What follows a class in the enumerations below: its ops, or nothing.
#define TCC_IN(name) name##_ = static_cast<uint16_t>(Op::name##_),
#define TCC_OUT(name)

/// Ops of classes that take floats.
enum class FloatOp : uint16_t {
#define TCC_CLASS_unary TCC_IN
#define TCC_CLASS_unary_float TCC_IN
#define TCC_CLASS_unary_bits TCC_OUT
#define TCC_CLASS_test TCC_IN
#define TCC_CLASS_binary TCC_IN
#define TCC_CLASS_binary_float TCC_IN
#define TCC_CLASS_binary_bits TCC_OUT
#define TCC_CLASS_shift TCC_OUT
#define TCC_CLASS_compare TCC_IN
#define TCC_CLASS_select TCC_OUT
#define TCC_CLASS_ternary TCC_IN
#define TCC_CLASS_convert TCC_OUT
#define TCC_CLASS_check TCC_OUT
#define TCC_POINTWISE(name, scalar_class, cost, gradient, attributes) TCC_CLASS_##scalar_class(name)
#include "tcc/ops/ops.def"
};

/// Ops of classes that take integers or bool.
enum class IntegerOp : uint16_t {
#undef TCC_CLASS_unary_float
#undef TCC_CLASS_unary_bits
#undef TCC_CLASS_binary_float
#undef TCC_CLASS_binary_bits
#undef TCC_CLASS_shift
#define TCC_CLASS_unary_float TCC_OUT
#define TCC_CLASS_unary_bits TCC_IN
#define TCC_CLASS_binary_float TCC_OUT
#define TCC_CLASS_binary_bits TCC_IN
#define TCC_CLASS_shift TCC_IN
#define TCC_POINTWISE(name, scalar_class, cost, gradient, attributes) TCC_CLASS_##scalar_class(name)
#include "tcc/ops/ops.def"
};

#undef TCC_CLASS_unary
#undef TCC_CLASS_unary_float
#undef TCC_CLASS_unary_bits
#undef TCC_CLASS_test
#undef TCC_CLASS_binary
#undef TCC_CLASS_binary_float
#undef TCC_CLASS_binary_bits
#undef TCC_CLASS_shift
#undef TCC_CLASS_compare
#undef TCC_CLASS_select
#undef TCC_CLASS_ternary
#undef TCC_CLASS_convert
#undef TCC_CLASS_check
#undef TCC_IN
#undef TCC_OUT

/// Nothing for other ops.
inline std::optional<FloatOp> float_op(Op op) {
  return takes_floats(info(op).scalar_class) ? std::optional(static_cast<FloatOp>(op)) : std::nullopt;
}
inline std::optional<IntegerOp> integer_op(Op op) {
  return takes_integers(info(op).scalar_class) ? std::optional(static_cast<IntegerOp>(op)) : std::nullopt;
}

}  // namespace tcc
