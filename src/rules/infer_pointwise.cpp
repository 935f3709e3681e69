// Shape rules of element-wise ops. In stage `graph` operands broadcast as numpy does; stage `prims` asks for equal shapes (verify.cpp).

#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

std::string op_text(const InferInput& input) { return "`" + std::string(name_of(input.op)) + "`"; }

void check_same_dtype(const InferInput& input, size_t first) {
  const DType dtype = input.operands[first]->dtype;
  for (size_t i = first + 1; i < input.operands.size(); ++i) {
    const DType other = input.operands[i]->dtype;
    if (other != dtype) {
      type_error("operand " + std::to_string(i) + " of " + op_text(input) + " is " + std::string(name_of(other)) + ", expected " +
                 std::string(name_of(dtype)) + " as operand " + std::to_string(first));
    }
  }
}

[[noreturn]] void wrong_dtype(const InferInput& input, DType found, std::string_view expected) {
  throw RuleError{"unsupported-dtype", op_text(input) + " of " + std::string(name_of(found)) + ", expected " + std::string(expected)};
}

void check_numeric(const InferInput& input, DType dtype) {
  if (dtype == DType::boolean) wrong_dtype(input, dtype, "a number");
}

}  // namespace

std::vector<Type> infer_unary(const InferInput& input) { return {input.operand(0)}; }

std::vector<Type> infer_check_index(const InferInput& input) {
  const Type& index = input.operand(1);
  if (index.dtype != DType::i32 && index.dtype != DType::i64) wrong_dtype(input, index.dtype, "i32 or i64 as index");
  if (input.attrs.get_int("extent") < 1)
    type_error("`extent` is " + std::to_string(input.attrs.get_int("extent")) + ", expected 1 or more");
  return {with_dtype(broadcast_types(input.operand(0).dtype, input.operands), input.operand(0).dtype)};
}

std::vector<Type> infer_unary_float(const InferInput& input) {
  if (!is_float(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "a float");
  return {input.operand(0)};
}

std::vector<Type> infer_unary_bits(const InferInput& input) {
  if (is_float(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "an integer or bool");
  return {input.operand(0)};
}

std::vector<Type> infer_test(const InferInput& input) {
  if (!is_float(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "a float");
  return {with_dtype(input.operand(0), DType::boolean)};
}

std::vector<Type> infer_binary(const InferInput& input) {
  check_same_dtype(input, 0);
  check_numeric(input, input.operand(0).dtype);
  return {broadcast_types(input.operand(0).dtype, input.operands)};
}

std::vector<Type> infer_binary_bits(const InferInput& input) {
  check_same_dtype(input, 0);
  if (is_float(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "an integer or bool");
  return {broadcast_types(input.operand(0).dtype, input.operands)};
}

std::vector<Type> infer_binary_float(const InferInput& input) {
  check_same_dtype(input, 0);
  if (!is_float(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "a float");
  return {broadcast_types(input.operand(0).dtype, input.operands)};
}

std::vector<Type> infer_shift(const InferInput& input) {
  check_same_dtype(input, 0);
  if (!is_integer(input.operand(0).dtype)) wrong_dtype(input, input.operand(0).dtype, "an integer");
  return {broadcast_types(input.operand(0).dtype, input.operands)};
}

std::vector<Type> infer_compare(const InferInput& input) {
  check_same_dtype(input, 0);
  if (input.op != Op::eq_ && input.op != Op::ne_) check_numeric(input, input.operand(0).dtype);
  return {broadcast_types(DType::boolean, input.operands)};
}

std::vector<Type> infer_select(const InferInput& input) {
  if (input.operand(0).dtype != DType::boolean) {
    type_error("the condition of `select` is " + std::string(name_of(input.operand(0).dtype)) + ", expected bool");
  }
  check_same_dtype(input, 1);
  return {broadcast_types(input.operand(1).dtype, input.operands)};
}

std::vector<Type> infer_ternary(const InferInput& input) {
  check_same_dtype(input, 0);
  check_numeric(input, input.operand(0).dtype);
  return {broadcast_types(input.operand(0).dtype, input.operands)};
}

std::vector<Type> infer_cast(const InferInput& input) {
  const DType from = input.operand(0).dtype, to = input.attrs.get_dtype("dtype");
  if (input.op == Op::bitcast_ && size_bits(from) != size_bits(to)) {
    type_error("`bitcast` from " + std::string(name_of(from)) + " to " + std::string(name_of(to)) + ", expected dtypes of equal width");
  }
  return {with_dtype(input.operand(0), to)};
}

std::vector<Type> infer_cast_like(const InferInput& input) { return {with_dtype(input.operand(0), input.operand(1).dtype)}; }

}  // namespace tcc
