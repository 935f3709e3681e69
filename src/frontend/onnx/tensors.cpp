// Every form in which ONNX stores a tensor: raw little-endian bytes, one of the typed lists, or a place in another file; and sparse ones,
// which become dense. Raw and external bytes are viewed where they lie unless an element would be misaligned there.
#include "frontend/onnx/tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "frontend/onnx/external_data.h"
#include "frontend/onnx/narrow_types.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::onnx {
namespace {

[[noreturn]] void malformed(const std::string& message) { throw RuleError{"malformed-file", message}; }

Shape shape_of(const pb::TensorProto& proto) {
  Shape shape;
  for (const int64_t extent : proto.dims()) {
    if (extent < 0) malformed("tensor `" + proto.name() + "` has a size of " + std::to_string(extent) + ", 0 or more was expected");
    shape.push_back(extent);
  }
  return shape;
}

void expect_size(const pb::TensorProto& proto, DType dtype, const Shape& shape, int64_t found, int64_t expected, const char* unit) {
  if (found == expected) return;
  malformed("tensor `" + proto.name() + "` has " + std::to_string(found) + " " + unit + ", its type " + std::string(name_of(dtype)) +
            to_string(shape) + " needs " + std::to_string(expected));
}

Tensor view_or_copy(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner) {
  const auto align = static_cast<uintptr_t>(size_bytes(dtype));
  if (data != nullptr && reinterpret_cast<uintptr_t>(data) % align == 0) return Tensor(dtype, shape, data, std::move(owner));
  Tensor copy(dtype, shape);
  if (copy.size_bytes() > 0) std::memcpy(copy.mutable_bytes(), data, static_cast<size_t>(copy.size_bytes()));
  return copy;
}

/// A list whose entries are the elements (or, for 4-bit types, the packed bytes), truncated to the width of the element: 16-bit and smaller
/// types sit as bit patterns in the low bits.
template <class Element, class List> Tensor from_list(const pb::TensorProto& proto, DType dtype, const Shape& shape, const List& list) {
  const int64_t expected = size_bits(dtype) == 4 ? storage_bytes(dtype, num_elements(shape)) : num_elements(shape);
  expect_size(proto, dtype, shape, list.size(), expected, "values");
  Tensor tensor(dtype, shape);
  auto* out = reinterpret_cast<Element*>(tensor.mutable_bytes());
  for (int i = 0; i < list.size(); ++i) out[i] = static_cast<Element>(list.Get(i));
  return tensor;
}

/// Raw bytes are packed; so are the entries of the list, but for the 6-bit types, which have one element in each.
Tensor narrow_tensor(const pb::TensorProto& proto, const NarrowType& type, const TensorSource& source) {
  const Shape shape = shape_of(proto);
  check_size(Type(type.carrier, shape));
  const int64_t count = num_elements(shape), bytes = packed_bytes(type, count);
  if (proto.data_location() == pb::TensorProto::EXTERNAL) {
    return unpack(type, shape, external_bytes(proto, *source.files, bytes).bytes.data());
  }
  const auto expect = [&](int64_t found, int64_t expected, const char* unit) {
    if (found == expected) return;
    malformed("tensor `" + proto.name() + "` has " + std::to_string(found) + " " + unit + ", its type " + std::string(type.name) +
              to_string(shape) + " needs " + std::to_string(expected));
  };
  if (proto.has_raw_data()) {
    expect(static_cast<int64_t>(proto.raw_data().size()), bytes, "bytes");
    return unpack(type, shape, reinterpret_cast<const std::byte*>(proto.raw_data().data()));
  }
  const auto& list = proto.int32_data();
  const bool packed = 8 % type.bits == 0;
  expect(list.size(), packed ? bytes : count, "values");
  if (packed) {
    std::vector<std::byte> all(static_cast<size_t>(list.size()));
    std::transform(list.begin(), list.end(), all.begin(), [](int32_t entry) { return static_cast<std::byte>(entry); });
    return unpack(type, shape, all.data());
  }
  Tensor tensor(type.carrier, shape);
  for (int i = 0; i < list.size(); ++i) tensor.set_double(i, number_of(type, static_cast<uint32_t>(list.Get(i)) & ((1U << type.bits) - 1)));
  return tensor;
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type) {
  switch (onnx_type) {
    case pb::TensorProto::FLOAT: return DType::f32;
    case pb::TensorProto::UINT8: return DType::u8;
    case pb::TensorProto::INT8: return DType::i8;
    case pb::TensorProto::UINT16: return DType::u16;
    case pb::TensorProto::INT16: return DType::i16;
    case pb::TensorProto::INT32: return DType::i32;
    case pb::TensorProto::INT64: return DType::i64;
    case pb::TensorProto::BOOL: return DType::boolean;
    case pb::TensorProto::FLOAT16: return DType::f16;
    case pb::TensorProto::DOUBLE: return DType::f64;
    case pb::TensorProto::UINT32: return DType::u32;
    case pb::TensorProto::UINT64: return DType::u64;
    case pb::TensorProto::BFLOAT16: return DType::bf16;
    case pb::TensorProto::FLOAT8E4M3FN: return DType::f8e4m3fn;
    case pb::TensorProto::FLOAT8E4M3FNUZ: return DType::f8e4m3fnuz;
    case pb::TensorProto::FLOAT8E5M2: return DType::f8e5m2;
    case pb::TensorProto::FLOAT8E5M2FNUZ: return DType::f8e5m2fnuz;
    case pb::TensorProto::UINT4: return DType::u4;
    case pb::TensorProto::INT4: return DType::i4;
    default: return std::nullopt;
  }
}

std::string onnx_type_name(int onnx_type) {
  if (const NarrowType* narrow = narrow_type(onnx_type)) return std::string(narrow->name);
  if (const auto dtype = dtype_of(onnx_type)) return std::string(name_of(*dtype));
  switch (onnx_type) {
    case pb::TensorProto::UNDEFINED: return "undefined";
    case pb::TensorProto::STRING: return "string";
    case pb::TensorProto::COMPLEX64: return "complex64";
    case pb::TensorProto::COMPLEX128: return "complex128";
    default: return "number " + std::to_string(onnx_type);
  }
}

Tensor tensor_of(const pb::TensorProto& proto, const TensorSource& source) {
  if (proto.has_segment()) throw RuleError{"unsupported-dtype", "tensor `" + proto.name() + "` is stored in segments"};
  const auto [dtype, narrow] = element_type_of(proto.data_type());
  if (narrow != nullptr) return narrow_tensor(proto, *narrow, source);
  const Shape shape = shape_of(proto);
  check_size(Type(dtype, shape));
  const int64_t bytes = storage_bytes(dtype, num_elements(shape));

  if (proto.data_location() == pb::TensorProto::EXTERNAL) {
    const FilePart external = external_bytes(proto, *source.files, bytes);
    return view_or_copy(dtype, shape, external.bytes.data(), external.file);
  }
  if (proto.has_raw_data()) {
    expect_size(proto, dtype, shape, static_cast<int64_t>(proto.raw_data().size()), bytes, "bytes");
    return view_or_copy(dtype, shape, proto.raw_data().data(), source.owner);
  }
  switch (dtype) {
    case DType::f32: return from_list<float>(proto, dtype, shape, proto.float_data());
    case DType::f64: return from_list<double>(proto, dtype, shape, proto.double_data());
    case DType::i64: return from_list<int64_t>(proto, dtype, shape, proto.int64_data());
    case DType::u64: return from_list<uint64_t>(proto, dtype, shape, proto.uint64_data());
    case DType::u32: return from_list<uint32_t>(proto, dtype, shape, proto.uint64_data());
    case DType::i32: return from_list<int32_t>(proto, dtype, shape, proto.int32_data());
    case DType::f16:
    case DType::bf16:
    case DType::u16:
    case DType::i16: return from_list<uint16_t>(proto, dtype, shape, proto.int32_data());
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::u4:
    case DType::i4:
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return from_list<uint8_t>(proto, dtype, shape, proto.int32_data());
  }
  internal_error("a dtype without a storage form");
}

Tensor tensor_of(const pb::SparseTensorProto& proto, const TensorSource& source) {
  const Tensor values = tensor_of(proto.values(), source);
  const Tensor indices = tensor_of(proto.indices(), source);
  Shape shape(proto.dims().begin(), proto.dims().end());
  for (const int64_t extent : shape) {
    if (extent < 0) malformed("a sparse tensor has a size of " + std::to_string(extent) + ", 0 or more was expected");
  }
  check_size(Type(values.dtype(), shape));
  if (const int64_t bytes = storage_bytes(values.dtype(), num_elements(shape)); bytes > kMaxFoldedBytes) {
    too_large("sparse tensor `" + proto.values().name() + "` takes " + size_text(bytes) + " when its zeros are stored, the most is " +
              size_text(kMaxFoldedBytes));
  }
  Tensor dense(values.dtype(), shape);
  const auto strides = row_major_strides(shape);
  const bool linear = indices.rank() == 1;  // else one row of coordinates per value
  if (indices.dtype() != DType::i64 || indices.count() != values.count() * (linear ? 1 : static_cast<int64_t>(shape.size()))) {
    malformed("sparse tensor `" + proto.values().name() + "`: indices " + to_string(indices.shape()) + " don't fit " +
              std::to_string(values.count()) + " values");
  }
  const auto element = static_cast<size_t>(size_bytes(values.dtype()));
  if (size_bits(values.dtype()) < 8) throw RuleError{"unsupported-dtype", "sparse tensors of " + std::string(name_of(values.dtype()))};
  for (int64_t i = 0; i < values.count(); ++i) {
    int64_t at = 0;
    if (linear) {
      at = indices.data<int64_t>()[i];
    } else {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t coordinate = indices.data<int64_t>()[i * static_cast<int64_t>(shape.size()) + static_cast<int64_t>(axis)];
        if (coordinate < 0 || coordinate >= shape[axis]) at = -1;
        if (at >= 0) at += coordinate * strides[axis];
      }
    }
    if (at < 0 || at >= dense.count())
      malformed("sparse tensor `" + proto.values().name() + "`: an index lies outside " + to_string(shape));
    std::memcpy(dense.mutable_bytes() + static_cast<size_t>(at) * element, values.bytes() + static_cast<size_t>(i) * element, element);
  }
  return dense;
}

const pb::TypeProto& value_type(const pb::TypeProto& proto) {
  return proto.has_optional_type() ? proto.optional_type().elem_type() : proto;
}

Type type_of(const pb::TypeProto& proto, const std::string& name) {
  if (!proto.has_tensor_type()) {
    const char* kind = proto.has_sequence_type()        ? "a sequence"
                       : proto.has_map_type()           ? "a map"
                       : proto.has_optional_type()      ? "an optional"
                       : proto.has_sparse_tensor_type() ? "a sparse tensor"
                                                        : "without a type";
    throw RuleError{proto.value_case() == pb::TypeProto::VALUE_NOT_SET ? "malformed-file" : "unsupported-dtype",
                    "`" + name + "` is " + kind + ", a tensor was expected"};
  }
  const DType dtype = element_type_of(proto.tensor_type().elem_type()).dtype;
  if (!proto.tensor_type().has_shape()) return Type::unranked(dtype);
  Type type(dtype, {});
  for (const auto& dim : proto.tensor_type().shape().dim()) {
    // Exporters write sizes below 0 for "unknown".
    if (dim.has_dim_value() && dim.dim_value() >= 0) type.dims.emplace_back(dim.dim_value());
    else if (dim.has_dim_param() && !dim.dim_param().empty()) type.dims.emplace_back(dim.dim_param());
    else type.dims.emplace_back(std::string("?"));
  }
  check_size(type);
  return type;
}

}  // namespace tcc::onnx
