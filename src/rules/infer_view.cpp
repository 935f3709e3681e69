// Shape rules of the prims that create tensors or move elements without computing.

#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"
#include "tcc/support/tensor.h"

namespace tcc {
namespace {

std::string text_of(const std::vector<int64_t>& values) { return to_string(std::span<const int64_t>(values)); }

}  // namespace

std::vector<Type> infer_full(const InferInput& input) {
  return {type_of_shape(input.attrs.get_dtype("dtype"), input.attrs.get_ints("shape"))};
}

std::vector<Type> infer_iota(const InferInput& input) {
  const Type type = type_of_shape(input.attrs.get_dtype("dtype"), input.attrs.get_ints("shape"));
  if (type.dtype == DType::boolean) throw RuleError{"unsupported-dtype", "`iota` of bool, expected a number"};
  check_axis(input.attrs.get_int("axis"), type.rank(), "axis");
  return {type};
}

std::vector<Type> infer_broadcast_in_dim(const InferInput& input) {
  const Type& x = input.operand(0);
  const Type result = type_of_shape(x.dtype, input.attrs.get_ints("shape"));
  if (!x.ranked) return {result};
  const auto& dims = input.attrs.get_ints("dims");
  check_per_axis(dims, x.rank(), "dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int axis = check_axis(dims[i], result.rank(), "dims");
    if (i > 0 && dims[i] <= dims[i - 1]) type_error("`dims` is " + text_of(dims) + ", expected increasing axes");
    const Dim& from = x.dims[i];
    if (from.is_constant() && from.bound != 1 && certainly_differ(from, result.dims[static_cast<size_t>(axis)])) {
      type_error("the operand is " + to_string(x) + ", whose axis " + std::to_string(i) + " does not broadcast to axis " +
                 std::to_string(axis) + " of " + to_string(result));
    }
  }
  return {result};
}

std::vector<Type> infer_reshape(const InferInput& input) {
  const Type& x = input.operand(0);
  const Type result = type_of_shape(x.dtype, input.attrs.get_ints("shape"));
  if (x.is_static() && x.count() != result.count()) {
    type_error("`reshape` from " + to_string(x) + " with " + std::to_string(x.count()) + " elements to " + to_string(result) + " with " +
               std::to_string(result.count()));
  }
  return {result};
}

std::vector<Type> infer_transpose(const InferInput& input) {
  const Type& x = input.operand(0);
  if (!x.ranked) return {x};
  const auto& permutation = input.attrs.get_ints("permutation");
  check_per_axis(permutation, x.rank(), "permutation");
  check_axes(permutation, x.rank(), "permutation");
  std::vector<Dim> dims;
  for (const int64_t axis : permutation) dims.push_back(x.dims[static_cast<size_t>(axis)]);
  return {make_type(x.dtype, std::move(dims))};
}

std::vector<Type> infer_slice(const InferInput& input) {
  const Type& x = input.operand(0);
  const auto& starts = input.attrs.get_ints("starts");
  const auto& limits = input.attrs.get_ints("limits");
  const auto& steps = input.attrs.get_ints("steps");
  const int rank = x.ranked ? x.rank() : static_cast<int>(starts.size());
  check_per_axis(starts, rank, "starts");
  check_per_axis(limits, rank, "limits");
  check_per_axis(steps, rank, "steps");
  std::vector<Dim> dims;
  for (size_t i = 0; i < starts.size(); ++i) {
    const bool inside = !x.ranked || !x.dims[i].is_constant() || limits[i] <= x.dims[i].bound;
    if (steps[i] < 1 || starts[i] < 0 || starts[i] > limits[i] || !inside) {
      type_error("the slice of axis " + std::to_string(i) + " is " + std::to_string(starts[i]) + " to " + std::to_string(limits[i]) +
                 " by " + std::to_string(steps[i]) + ", the operand is " + to_string(x));
    }
    const int64_t range = limits[i] - starts[i];
    dims.emplace_back(range / steps[i] + (range % steps[i] != 0));
  }
  return {make_type(x.dtype, std::move(dims))};
}

std::vector<Type> infer_reverse(const InferInput& input) {
  const Type& x = input.operand(0);
  if (x.ranked) check_axes(input.attrs.get_ints("axes"), x.rank(), "axes");
  return {with_dtype(x, x.dtype)};
}

std::vector<Type> infer_pad(const InferInput& input) {
  const Type& x = input.operand(0);
  const Type& value = input.operand(1);
  if (value.dtype != x.dtype)
    type_error("the padding value is " + std::string(name_of(value.dtype)) + ", expected " + std::string(name_of(x.dtype)));
  if (value.ranked && value.rank() != 0) type_error("the padding value is " + to_string(value) + ", expected rank 0");
  if (!x.ranked) return {x};
  const auto& low = input.attrs.get_ints("low");
  const auto& high = input.attrs.get_ints("high");
  const auto& interior = input.attrs.get_ints("interior");
  check_per_axis(low, x.rank(), "low");
  check_per_axis(high, x.rank(), "high");
  check_per_axis(interior, x.rank(), "interior");
  std::vector<Dim> dims;
  for (size_t i = 0; i < low.size(); ++i) {
    if (interior[i] < 0 || low[i] < 0 || high[i] < 0) type_error("the padding of axis " + std::to_string(i) + " is negative");
    if (low[i] == 0 && high[i] == 0 && interior[i] == 0) {
      dims.push_back(x.dims[i]);
    } else if (x.dims[i].is_constant()) {
      const int64_t extent = x.dims[i].bound;
      const int64_t between = extent > 0 ? checked_multiply(extent - 1, interior[i], "the interior padding") : 0;
      const int64_t outside = checked_add(low[i], high[i], "the padded extent");
      dims.emplace_back(checked_add(checked_add(extent, between, "the padded extent"), outside, "the padded extent"));
    } else {
      dims.push_back(unknown_dim());
    }
  }
  return {make_type(x.dtype, std::move(dims))};
}

std::vector<Type> infer_concat(const InferInput& input) {
  const DType dtype = input.operand(0).dtype;
  int rank = -1;
  for (const Type* type : input.operands) {
    if (type->dtype != dtype)
      type_error("operands of `concat` are " + std::string(name_of(dtype)) + " and " + std::string(name_of(type->dtype)) +
                 ", expected one dtype");
    if (!type->ranked) return {Type::unranked(dtype)};
    if (rank >= 0 && type->rank() != rank)
      type_error("operands of `concat` are " + to_string(input.operand(0)) + " and " + to_string(*type) + ", expected one rank");
    rank = type->rank();
  }
  const size_t axis = static_cast<size_t>(check_axis(input.attrs.get_int("axis"), rank, "axis"));
  std::vector<Dim> dims = input.operand(0).dims;
  for (const Type* type : input.operands.subspan(1)) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i == axis) {
        dims[i] = dims[i].is_constant() && type->dims[i].is_constant() ? Dim(dims[i].bound + type->dims[i].bound) : unknown_dim();
      } else if (certainly_differ(dims[i], type->dims[i])) {
        type_error("operands of `concat` along axis " + std::to_string(axis) + " are " + to_string(input.operand(0)) + " and " +
                   to_string(*type) + ", which differ on axis " + std::to_string(i));
      } else if (!dims[i].is_constant()) {
        dims[i] = type->dims[i];
      }
    }
  }
  return {make_type(dtype, std::move(dims))};
}

}  // namespace tcc
