// Random numbers as prims of integers.
#pragma once

#include "tcc/rules/rules_common.h"

namespace tcc::rules {

/// rng_bits for `shape`: u32, or u64.
Value* random_bits(Builder& b, Value* seed, const Shape& shape, int64_t stream, DType dtype = DType::u32);
/// Uniform in [0, 1), in `dtype` (a float), with as many random bits as the dtype has, f64 with 32. Exact: no value rounds to 1.
Value* random_unit(Builder& b, Value* seed, const Shape& shape, int64_t stream, DType dtype);
/// What dropout keeps, bool of `shape`; a pure function of its arguments, so that a backward pass makes the same mask again.
Value* dropout_kept(Builder& b, Value* seed, const Shape& shape, double ratio, int64_t stream);
/// kept ? x / (1 - ratio) : 0. 16-bit floats are rounded once.
Value* drop(Builder& b, Value* x, Value* kept, double ratio);

}  // namespace tcc::rules
