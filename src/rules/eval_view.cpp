// Evaluators of the views: each is a strided copy (working.h) between a dense tensor and a view of another.

#include <cstring>

#include "rules/working.h"

#include "tcc/support/integer_math.h"

namespace tcc {

std::vector<Tensor> eval_broadcast_in_dim(const EvalInput& input) {
  const Tensor& x = input.operands[0];
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  const std::vector<int64_t>& dims = input.node.attrs.get_ints("dims");
  const Shape shape = rules::result_shape(input);
  rules::Strided from{0, std::vector<int64_t>(shape.size(), 0)};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (x.shape()[i] != 1) from.strides[static_cast<size_t>(dims[i])] = strides[i];
  }
  return {rules::gather_strided(x, shape, from)};
}

std::vector<Tensor> eval_reshape(const EvalInput& input) { return {input.operands[0].reshaped(rules::result_shape(input))}; }

std::vector<Tensor> eval_transpose(const EvalInput& input) {
  return {rules::transpose(input.operands[0], input.node.attrs.get_ints("permutation"))};
}

std::vector<Tensor> eval_slice(const EvalInput& input) {
  const Tensor& x = input.operands[0];
  const std::vector<int64_t>& starts = input.node.attrs.get_ints("starts");
  const std::vector<int64_t>& steps = input.node.attrs.get_ints("steps");
  rules::Strided from{0, row_major_strides(x.shape())};
  for (size_t i = 0; i < starts.size(); ++i) {
    from.offset += starts[i] * from.strides[i];
    from.strides[i] *= steps[i];
  }
  return {rules::gather_strided(x, rules::result_shape(input), from)};
}

std::vector<Tensor> eval_reverse(const EvalInput& input) {
  const Tensor& x = input.operands[0];
  rules::Strided from{0, row_major_strides(x.shape())};
  for (int64_t axis : input.node.attrs.get_ints("axes")) {
    int64_t& stride = from.strides[static_cast<size_t>(axis)];
    from.offset += (x.shape()[static_cast<size_t>(axis)] - 1) * stride;
    stride = -stride;
  }
  return {rules::gather_strided(x, x.shape(), from)};
}

/// The part of the operand that stays is copied into a tensor full of the value: element i of an axis goes to low + i * (1 + interior).
std::vector<Tensor> eval_pad(const EvalInput& input) {
  const DType dtype = input.operands[0].dtype();
  const Tensor x = rules::unpacked(input.operands[0]);
  const Shape shape = rules::result_shape(input);
  const Tensor filled = rules::broadcast_to(rules::unpacked(input.operands[1]), shape);
  Tensor result(x.dtype(), shape);
  std::memcpy(result.mutable_bytes(), filled.bytes(), static_cast<size_t>(filled.size_bytes()));

  const std::vector<int64_t>& low = input.node.attrs.get_ints("low");
  const std::vector<int64_t>& interior = input.node.attrs.get_ints("interior");
  rules::Strided from{0, row_major_strides(x.shape())};
  rules::Strided to{0, row_major_strides(shape)};
  Shape kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t step = 1 + interior[i];
    const int64_t first = low[i] < 0 ? ceil_div(-low[i], step) : 0;  // the first that lands at 0 or later
    const int64_t room = shape[i] - 1 - low[i];
    const int64_t last = room < 0 ? -1 : std::min(x.shape()[i] - 1, room / step);  // the last that lands inside
    kept.push_back(std::max<int64_t>(0, last - first + 1));
    from.offset += first * from.strides[i];
    to.offset += (low[i] + first * step) * to.strides[i];
    to.strides[i] *= step;
  }
  rules::copy_strided(kept, result.mutable_bytes(), to, x.bytes(), from, size_bytes(x.dtype()));
  return {result.cast_to(dtype)};
}

std::vector<Tensor> eval_concat(const EvalInput& input) {
  const size_t axis = static_cast<size_t>(input.node.attrs.get_int("axis"));
  const DType dtype = input.operands[0].dtype();
  const Shape shape = rules::result_shape(input);
  Tensor result(rules::unpacked(Tensor(dtype, {})).dtype(), shape);
  rules::Strided to{0, row_major_strides(shape)};
  for (const Tensor& operand : input.operands) {
    const Tensor x = rules::unpacked(operand);
    rules::copy_strided(x.shape(), result.mutable_bytes(), to, x.bytes(), {0, row_major_strides(x.shape())}, size_bytes(x.dtype()));
    to.offset += x.shape()[axis] * to.strides[axis];
  }
  return {result.cast_to(dtype)};
}

}  // namespace tcc
