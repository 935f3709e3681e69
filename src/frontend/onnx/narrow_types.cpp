#include "frontend/onnx/narrow_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontend/onnx/tensors.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {
namespace {

constexpr auto kTypes = std::to_array<NarrowType>({
    {23, "float4e2m1", 4, DType::f8e4m3fn, 1, 1, 6},
    {24, "float8e8m0", 8, DType::bf16, 0, 127, 0},
    {25, "uint2", 2, DType::u4, 0, 0, 3},
    {26, "int2", 2, DType::i4, 0, 0, 1},
    {27, "float6e2m3", 6, DType::f8e4m3fn, 3, 1, 7.5},
    {28, "float6e3m2", 6, DType::f8e4m3fn, 2, 3, 28},
});

constexpr auto kConverting = std::to_array<std::string_view>({"BitCast", "Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"});
constexpr auto kMoving = std::to_array<std::string_view>({"Flatten", "Identity", "Pad", "Reshape", "Squeeze", "Transpose", "Unsqueeze"});
constexpr auto kAsking = std::to_array<std::string_view>({"Shape", "Size"});

template <size_t N> bool is_among(const std::array<std::string_view, N>& ops, std::string_view domain, std::string_view op) {
  return domain.empty() && std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

const NarrowType* narrow_type(int onnx_type) {
  for (const NarrowType& type : kTypes) {
    if (type.number == onnx_type) return &type;
  }
  return nullptr;
}

ElementType element_type_of(int onnx_type) {
  if (const NarrowType* narrow = narrow_type(onnx_type)) return {narrow->carrier, narrow};
  const auto dtype = dtype_of(onnx_type);
  if (!dtype) throw RuleError{"unsupported-dtype", "elements of type " + onnx_type_name(onnx_type)};
  return {*dtype};
}

int64_t packed_bytes(const NarrowType& type, int64_t count) { return count / 8 * type.bits + (count % 8 * type.bits + 7) / 8; }

double number_of(const NarrowType& type, uint32_t bits) {
  if (type.is_power_of_two())
    return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(bits) - type.bias);
  if (!type.is_small_float()) {
    const auto value = static_cast<int>(bits);
    return is_signed_integer(type.carrier) && value > 1 ? value - 4 : value;
  }
  const uint32_t sign = bits >> (type.bits - 1), magnitude = bits & ((1U << (type.bits - 1)) - 1);
  const uint32_t mantissa = magnitude & ((1U << type.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(magnitude >> type.mantissa_bits);
  const uint32_t whole = exponent == 0 ? mantissa : mantissa + (1U << type.mantissa_bits);
  const double number = std::ldexp(static_cast<double>(whole), std::max(exponent, 1) - type.bias - type.mantissa_bits);
  return sign != 0 ? -number : number;
}

Tensor unpack(const NarrowType& type, const Shape& shape, const std::byte* packed) {
  Tensor tensor(type.carrier, shape);
  const auto bits = static_cast<int64_t>(type.bits);
  const uint32_t mask = (1U << bits) - 1;
  const int64_t size = packed_bytes(type, tensor.count());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int64_t at = i / 8 * bits + i % 8 * bits / 8, shift = i % 8 * bits % 8;
    uint32_t code = static_cast<uint32_t>(packed[at]) >> shift;
    if (shift + bits > 8 && at + 1 < size) code |= static_cast<uint32_t>(packed[at + 1]) << (8 - shift);
    tensor.set_double(i, number_of(type, code & mask));
  }
  return tensor;
}

bool takes_narrow_types(std::string_view domain, std::string_view op) {
  return is_among(kConverting, domain, op) || is_among(kAsking, domain, op) || moves_narrow_types(domain, op);
}

bool moves_narrow_types(std::string_view domain, std::string_view op) { return is_among(kMoving, domain, op); }

}  // namespace tcc::onnx
