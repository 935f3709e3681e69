// Shape rules of gathers and scatters.

#include <algorithm>
#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/ops/combiner.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

void check_index_dtype(const Type& indices) {
  if (indices.dtype != DType::i32 && indices.dtype != DType::i64) {
    throw RuleError{"unsupported-dtype", "indices of " + std::string(name_of(indices.dtype)) + ", expected i32 or i64"};
  }
}

/// How many leading axes of data the last axis of `indices` addresses.
int index_depth(const Type& data, const Type& indices, int64_t batch_dims) {
  if (indices.rank() < 1 || !indices.dims.back().is_constant())
    type_error("indices are " + to_string(indices) + ", expected a last axis of known extent");
  const int64_t depth = indices.dims.back().bound;
  if (depth < 1 || batch_dims + depth > data.rank()) {
    type_error("indices are " + to_string(indices) + " and address " + std::to_string(depth) + " axes, the operand is " + to_string(data) +
               (batch_dims > 0 ? " with " + std::to_string(batch_dims) + " batch axes" : ""));
  }
  return static_cast<int>(depth);
}

void check_same_dims(const std::vector<Dim>& found, const std::vector<Dim>& expected, DType dtype, const char* what) {
  bool equal = found.size() == expected.size();
  for (size_t i = 0; equal && i < found.size(); ++i) equal = !certainly_differ(found[i], expected[i]);
  if (!equal)
    type_error(std::string(what) + " are " + to_string(make_type(dtype, found)) + ", expected " + to_string(make_type(dtype, expected)));
}

}  // namespace

std::vector<Type> infer_gather(const InferInput& input) {
  const Type& data = input.operand(0);
  const Type& indices = input.operand(1);
  check_index_dtype(indices);
  if (!data.ranked || !indices.ranked) return {Type::unranked(data.dtype)};
  const int axis = check_axis(input.attrs.get_int("axis"), data.rank(), "axis");
  std::vector<Dim> dims(data.dims.begin(), data.dims.begin() + axis);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), data.dims.begin() + axis + 1, data.dims.end());
  return {make_type(data.dtype, std::move(dims))};
}

std::vector<Type> infer_gather_elements(const InferInput& input) {
  const Type& data = input.operand(0);
  const Type& indices = input.operand(1);
  check_index_dtype(indices);
  if (!data.ranked || !indices.ranked) return {with_dtype(indices, data.dtype)};
  const int axis = check_axis(input.attrs.get_int("axis"), data.rank(), "axis");
  if (indices.rank() != data.rank())
    type_error("indices are " + to_string(indices) + ", the operand is " + to_string(data) + ", expected one rank");
  for (int i = 0; i < data.rank(); ++i) {
    const Dim& extent = data.dims[static_cast<size_t>(i)];
    const Dim& wanted = indices.dims[static_cast<size_t>(i)];
    if (i != axis && extent.is_constant() && wanted.is_constant() && wanted.bound > extent.bound) {
      type_error("indices are " + to_string(indices) + ", longer on axis " + std::to_string(i) + " than the operand " + to_string(data));
    }
  }
  return {make_type(data.dtype, indices.dims)};
}

std::vector<Type> infer_gather_nd(const InferInput& input) {
  const Type& data = input.operand(0);
  const Type& indices = input.operand(1);
  check_index_dtype(indices);
  if (!data.ranked || !indices.ranked) return {Type::unranked(data.dtype)};
  const int64_t batch_dims = input.attrs.get_int("batch_dims");
  if (batch_dims < 0 || batch_dims >= std::min(data.rank(), indices.rank())) {
    type_error("`batch_dims` is " + std::to_string(batch_dims) + ", the operands are " + to_string(data) + " and " + to_string(indices));
  }
  for (int64_t i = 0; i < batch_dims; ++i) {
    if (certainly_differ(data.dims[static_cast<size_t>(i)], indices.dims[static_cast<size_t>(i)])) {
      type_error("operands are " + to_string(data) + " and " + to_string(indices) + ", which differ on batch axis " + std::to_string(i));
    }
  }
  const int depth = index_depth(data, indices, batch_dims);
  std::vector<Dim> dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), data.dims.begin() + batch_dims + depth, data.dims.end());
  return {make_type(data.dtype, std::move(dims))};
}

std::vector<Type> infer_scatter(const InferInput& input) {
  const Type& data = input.operand(0);
  const Type& indices = input.operand(1);
  const Type& updates = input.operand(2);
  check_index_dtype(indices);
  if (updates.dtype != data.dtype)
    type_error("updates are " + std::string(name_of(updates.dtype)) + ", expected " + std::string(name_of(data.dtype)) + " as the operand");
  const std::string& combiner = input.attrs.get_string("combiner");
  if (!scatter_combiner_named(combiner)) {
    throw RuleError{"unsupported-attribute", "`combiner` is \"" + combiner + "\", expected assign, add, mul, max or min"};
  }
  const Type result = with_dtype(data, data.dtype);
  if (!data.ranked || !indices.ranked || !updates.ranked) return {result};
  if (input.op == Op::scatter_elements_) {
    check_axis(input.attrs.get_int("axis"), data.rank(), "axis");
    if (indices.rank() != data.rank())
      type_error("indices are " + to_string(indices) + ", the operand is " + to_string(data) + ", expected one rank");
    check_same_dims(updates.dims, indices.dims, updates.dtype, "updates");
    return {result};
  }
  const int depth = index_depth(data, indices, 0);
  std::vector<Dim> expected(indices.dims.begin(), indices.dims.end() - 1);
  expected.insert(expected.end(), data.dims.begin() + depth, data.dims.end());
  check_same_dims(updates.dims, expected, updates.dtype, "updates");
  return {result};
}

}  // namespace tcc
