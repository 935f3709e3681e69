// The pointwise prims on single values, for constant folding and the interpreter of loops: floats in f64 or f32 (narrower floats in f32, rounded after each
// op), integers in 64 bits with the low bits kept. What each op computes is in scalar_functions.h, as it is for whole tensors.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tcc/ops/op.h"
#include "tcc/support/dtype.h"

namespace tcc {

/// A value of a known dtype: `f` for floats (exact for every float dtype), `i` for integers and bool (u64: its bits).
union ScalarValue {
  double f;
  int64_t i;
  static ScalarValue of_float(double value) {
    ScalarValue v;
    v.f = value;
    return v;
  }
  static ScalarValue of_int(int64_t value) {
    ScalarValue v;
    v.i = value;
    return v;
  }
};

/// The dtype of a pointwise prim's result; nullopt when it does not take these. `cast` and `bitcast` are not among them: they need a dtype.
std::optional<DType> result_dtype(Op op, std::span<const DType> operands);
/// `dtype` of the result, `operand_dtype` of the first operand (of the second for select).
ScalarValue evaluate_scalar(Op op, DType dtype, DType operand_dtype, std::span<const ScalarValue> args);
ScalarValue cast_scalar(ScalarValue value, DType from, DType to);
ScalarValue bitcast_scalar(ScalarValue value, DType from, DType to);

double round_to(DType dtype, double value);   ///< the nearest value of a float dtype, by the rule of tensor.h
int64_t wrap_to(DType dtype, int64_t value);  ///< the low bits, extended as the dtype is signed; bool: whether it is not 0
inline bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

}  // namespace tcc
