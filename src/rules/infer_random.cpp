// Shape rules of the random composites.

#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

void check_seed(const Type& seed) {
  if (seed.dtype != DType::i64 || (seed.ranked && seed.rank() != 0)) type_error("`seed` is " + to_string(seed) + ", expected i64[]");
}

void check_float(const char* what, DType dtype) {
  if (!is_float(dtype))
    throw RuleError{"unsupported-dtype", std::string(what) + " is " + std::string(name_of(dtype)) + ", expected a float"};
}

}  // namespace

std::vector<Type> infer_random(const InferInput& input) {
  const bool seed_first = input.op == Op::rng_bits_ || input.op == Op::random_uniform_ || input.op == Op::random_normal_;
  check_seed(input.operand(seed_first ? 0 : 1));
  if (input.op == Op::dropout_) {
    const Type& x = input.operand(0);
    check_float("the operand", x.dtype);
    if (const double ratio = input.attrs.get_float("ratio"); !(ratio >= 0 && ratio <= 1))
      throw RuleError{"unsupported-attribute", "`ratio` is " + std::to_string(ratio) + ", expected 0 to 1"};
    return {x, with_dtype(x, DType::boolean)};
  }
  const DType dtype = input.attrs.get_dtype("dtype");
  switch (input.op) {
    case Op::rng_bits_:
      if (dtype != DType::u32 && dtype != DType::u64)
        throw RuleError{"unsupported-dtype", "`dtype` is " + std::string(name_of(dtype)) + ", expected u32 or u64"};
      return {type_of_shape(dtype, input.attrs.get_ints("shape"))};
    case Op::bernoulli_: check_float("the probability", input.operand(0).dtype); return {with_dtype(input.operand(0), dtype)};
    case Op::multinomial_: {
      const Type& logits = input.operand(0);
      check_float("the operand", logits.dtype);
      if (is_float(dtype) || dtype == DType::boolean)
        throw RuleError{"unsupported-dtype", "`dtype` is " + std::string(name_of(dtype)) + ", expected an integer"};
      if (!logits.ranked) return {Type::unranked(dtype)};
      if (logits.rank() != 2) type_error("the operand is " + to_string(logits) + ", expected rows of classes");
      if (logits.dims[1].is_constant() && logits.dims[1].bound == 0)
        type_error("the operand is " + to_string(logits) + ", which has no class");
      return {make_type(dtype, {logits.dims[0], Dim(input.attrs.get_int("sample_size"))})};
    }
    default:
      check_float("`dtype`", dtype);
      if (input.operands.size() > 1 && input.operands[1] != nullptr) return {with_dtype(input.operand(1), dtype)};
      return {type_of_shape(dtype, input.attrs.get_ints("shape"))};
  }
}

}  // namespace tcc
