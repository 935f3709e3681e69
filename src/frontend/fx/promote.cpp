#include "frontend/fx/promote.h"

#include <optional>

namespace tcc::fx {

namespace {

int kind_of(DType dtype) { return is_float(dtype) ? 2 : is_integer(dtype) ? 1 : 0; }

std::optional<DType> promote_known(std::optional<DType> a, std::optional<DType> b) {
  if (!a || !b) return a ? a : b;
  return promote_types(*a, *b);
}

/// `higher` counts unless `lower` is of a higher kind.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  return kind_of(*lower) > kind_of(*higher) ? promote_types(*higher, *lower) : *higher;
}

DType dtype_of(const Number& number) {
  return std::holds_alternative<double>(number) ? DType::f32 : std::holds_alternative<int64_t>(number) ? DType::i64 : DType::boolean;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (is_float(a)) return size_bits(a) == size_bits(b) ? DType::f32 : size_bits(a) > size_bits(b) ? a : b;
  if (is_signed_integer(a) == is_signed_integer(b)) return size_bits(a) > size_bits(b) ? a : b;
  const DType with_sign = is_signed_integer(a) ? a : b, without = is_signed_integer(a) ? b : a;
  if (size_bits(with_sign) > size_bits(without)) return with_sign;
  return size_bits(without) == 8 ? DType::i16 : size_bits(without) == 16 ? DType::i32 : DType::i64;
}

DType promoted(std::span<const Operand> operands) {
  std::optional<DType> with_axes, rank_0, numbers;
  for (const Operand& operand : operands) {
    if (!operand.is_tensor()) numbers = promote_known(numbers, dtype_of(operand.number));
    else if (operand.value->type.rank() == 0) rank_0 = promote_known(rank_0, operand.value->type.dtype);
    else with_axes = promote_known(with_axes, operand.value->type.dtype);
  }
  return combine(with_axes, combine(rank_0, numbers)).value_or(DType::f32);
}

DType promoted_to_float(std::span<const Operand> operands) {
  const DType dtype = promoted(operands);
  return is_float(dtype) ? dtype : DType::f32;
}

Value* as_tensor(Call& call, const Operand& operand, DType dtype) {
  return operand.is_tensor() ? call.build().cast(operand.value, dtype) : call.constant(dtype, operand.number);
}

}  // namespace tcc::fx
