// Evaluators of cast, bitcast, full and iota.

#include <cstring>
#include <variant>

#include "rules/working.h"

namespace tcc {

/// A bitcast has the bits of the types in f64 mode too: the operand is rounded to its own dtype first.
std::vector<Tensor> eval_convert(const EvalInput& input) {
  if (input.node.op == Op::cast_) return {input.operands[0].cast_to(rules::held_dtype(input))};
  const Tensor x = input.operands[0].cast_to(input.node.operand(0)->type.dtype);
  const Tensor bits(input.node.result()->type.dtype, x.shape(), x.bytes(), std::make_shared<Tensor>(x));
  return {bits.cast_to(rules::held_dtype(input))};
}

std::vector<Tensor> eval_full(const EvalInput& input) {
  const AttrValue* value = input.node.attrs.find("value");
  check(value != nullptr, "`full` has no value");
  Tensor one(rules::held_dtype(input), {});
  if (const auto* number = std::get_if<int64_t>(value)) one.set_int64(0, *number);
  else if (const auto* flag = std::get_if<bool>(value)) one.set_int64(0, *flag);
  else one.set_double(0, std::get<double>(*value));
  return {rules::broadcast_to(one, rules::result_shape(input))};
}

std::vector<Tensor> eval_iota(const EvalInput& input) {
  const Shape shape = rules::result_shape(input);
  const size_t axis = static_cast<size_t>(input.node.attrs.get_int("axis"));
  Tensor line(DType::i64, {shape[axis]});
  for (int64_t i = 0; i < shape[axis]; ++i) line.mutable_data<int64_t>()[i] = i;
  rules::Strided along{0, std::vector<int64_t>(shape.size(), 0)};
  along.strides[axis] = 1;
  return {rules::gather_strided(line.cast_to(rules::held_dtype(input)), shape, along)};
}

}  // namespace tcc
