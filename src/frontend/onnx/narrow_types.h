// Element types of ONNX that the graph has no dtype for.
//
// A value of such a type is carried by a dtype that holds all of its numbers: 2-bit integers by i4 and u4, the 4- and 6-bit floats by f8e4m3fn, powers of
// two (float8e8m0) by bf16. So ops that move values or convert them need not know of these types. Conversions to them round to their numbers
// (conversions.h); where only the type of an operand says what to convert to, the importer remembers it.
#pragma once

#include <cstdint>
#include <string_view>

#include "tcc/support/tensor.h"

namespace tcc::onnx {

struct NarrowType {
  int number;             ///< of ONNX
  std::string_view name;  ///< in ONNX
  int bits;               ///< of an element; they are packed, the first one in the lowest bits
  DType carrier;
  // Of floats with a sign:
  int mantissa_bits, bias;
  double largest;
  bool is_small_float() const { return carrier == DType::f8e4m3fn; }
  bool is_power_of_two() const { return carrier == DType::bf16; }
};

const NarrowType* narrow_type(int onnx_type);  ///< nullptr for any other type
/// What the model calls the type of an element, and how the graph has it.
struct ElementType {
  DType dtype;
  const NarrowType* narrow = nullptr;
  bool operator==(const ElementType&) const = default;
};
/// RuleError "unsupported-dtype" where neither is known.
ElementType element_type_of(int onnx_type);

int64_t packed_bytes(const NarrowType& type, int64_t count);
/// The numbers of packed elements.
Tensor unpack(const NarrowType& type, const Shape& shape, const std::byte* packed);
/// The numbers of elements whose bits are one in each entry.
double number_of(const NarrowType& type, uint32_t bits);

/// Whether ONNX lets the op have operands of these types. Others are refused: on the carrier they would compute something else.
bool takes_narrow_types(std::string_view domain, std::string_view op);
/// Whether the results of the op have the type of its operand.
bool moves_narrow_types(std::string_view domain, std::string_view op);

}  // namespace tcc::onnx
