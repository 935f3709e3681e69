// Small idioms that the decompositions share.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tcc/rules/rules.h"

namespace tcc::rules {

inline Shape shape_of(const Value* x) { return x->type.shape(); }
inline DType dtype_of(const Value* x) { return x->type.dtype; }
inline int64_t extent_of(const Value* x, int64_t axis) { return x->type.dims[static_cast<size_t>(axis)].bound; }

/// A possibly negative axis of a value of rank `rank`; RuleError when the value does not have it.
int64_t normal_axis(int64_t axis, int rank, const char* attribute = "axis");
std::vector<int64_t> axes_from(int64_t first, int rank);                      ///< first .. rank - 1
std::vector<int64_t> other_axes(int rank, const std::vector<int64_t>& axes);  ///< those not in `axes`, increasing
int64_t extent_over(const Value* x, const std::vector<int64_t>& axes);

/// f16 and bf16 as f32, where several roundings in a row would cost accuracy (and a sum could overflow); other values as they are.
Value* widen(Builder& b, Value* x);
/// A value of shape [C] (or a scalar) spread along `axis` of `shape`.
Value* along(Builder& b, Value* x, const Shape& shape, int64_t axis);
/// What a reduction over `axes` left, spread over `shape` again.
Value* spread(Builder& b, Value* reduced, const Shape& shape, const std::vector<int64_t>& axes);
/// The mean over `axes`, which leave the shape. x is of a dtype wide enough.
Value* mean(Builder& b, Value* x, const std::vector<int64_t>& axes);

/// numpy.matmul with the result in `dtype`.
Value* matmul(Builder& b, Value* x, Value* y, DType dtype);
/// What conv and conv_transpose ask of their operands; RuleError.
void check_conv_operands(const Node& node, const char* op);
/// y with a bias (may be null) added along axis 1.
Value* with_bias(Builder& b, Value* y, Value* bias);
/// Stable: e = exp(-|x|), (x >= 0 ? 1 : e) / (1 + e).
Value* sigmoid(Builder& b, Value* x);
Value* softplus(Builder& b, Value* x);

}  // namespace tcc::rules
