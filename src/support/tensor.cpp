// Tensors in host memory and conversion between their dtypes.
//
// Every conversion goes through one of four wide types (f64, f32, i64, u64): `load` widens, which is exact, and `store` narrows by the rule
// in tensor.h. So the number of loops is linear in the number of dtypes, and scalars and whole tensors share the rule.

#include "tcc/support/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"
#include "tcc/support/parallel.h"

namespace tcc {
namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kLargestAllocation = int64_t{1} << 46;  // what an x86-64 process can address, less than an overflowed size
constexpr int64_t kChunk = 1024;  // elements converted at once: both buffers stay in the first-level cache; even, for packed nibbles

template <DType D> struct Element {};  // storage type and wide type of each dtype
#define TCC_ELEMENT(dtype, storage, wide)    \
  template <> struct Element<DType::dtype> { \
    using Storage = storage;                 \
    using Wide = wide;                       \
  }
TCC_ELEMENT(f32, float, float);
TCC_ELEMENT(f64, double, double);
TCC_ELEMENT(f16, uint16_t, float);
TCC_ELEMENT(bf16, uint16_t, float);
TCC_ELEMENT(i8, int8_t, int64_t);
TCC_ELEMENT(i16, int16_t, int64_t);
TCC_ELEMENT(i32, int32_t, int64_t);
TCC_ELEMENT(i64, int64_t, int64_t);
TCC_ELEMENT(u8, uint8_t, uint64_t);
TCC_ELEMENT(u16, uint16_t, uint64_t);
TCC_ELEMENT(u32, uint32_t, uint64_t);
TCC_ELEMENT(u64, uint64_t, uint64_t);
TCC_ELEMENT(boolean, uint8_t, uint64_t);
TCC_ELEMENT(f8e4m3fn, uint8_t, float);
TCC_ELEMENT(f8e4m3fnuz, uint8_t, float);
TCC_ELEMENT(f8e5m2, uint8_t, float);
TCC_ELEMENT(f8e5m2fnuz, uint8_t, float);
TCC_ELEMENT(i4, uint8_t, int64_t);
TCC_ELEMENT(u4, uint8_t, uint64_t);
#undef TCC_ELEMENT

/// Calls f with std::integral_constant<DType, dtype>.
template <class F> decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
#define TCC_CASE(name) \
  case DType::name: return f(std::integral_constant<DType, DType::name>())
    TCC_CASE(f32);
    TCC_CASE(f64);
    TCC_CASE(f16);
    TCC_CASE(bf16);
    TCC_CASE(i8);
    TCC_CASE(i16);
    TCC_CASE(i32);
    TCC_CASE(i64);
    TCC_CASE(u8);
    TCC_CASE(u16);
    TCC_CASE(u32);
    TCC_CASE(u64);
    TCC_CASE(boolean);
    TCC_CASE(f8e4m3fn);
    TCC_CASE(f8e4m3fnuz);
    TCC_CASE(f8e5m2);
    TCC_CASE(f8e5m2fnuz);
    TCC_CASE(i4);
    TCC_CASE(u4);
#undef TCC_CASE
  }
  internal_error("not a dtype");
}

template <DType D> constexpr bool is_nibble = D == DType::i4 || D == DType::u4;
template <DType D> constexpr bool is_f8 = D >= DType::f8e4m3fn && D <= DType::f8e5m2fnuz;

/// The element at index i, exactly. Memory need not be aligned: views into files aren't.
template <DType D> typename Element<D>::Wide load(const std::byte* data, int64_t i) {
  using Storage = typename Element<D>::Storage;
  if constexpr (is_nibble<D>) {
    const int nibble = (std::to_integer<int>(data[i / 2]) >> (i % 2 * 4)) & 0xf;
    if constexpr (D == DType::i4) return nibble >= 8 ? nibble - 16 : nibble;
    return static_cast<typename Element<D>::Wide>(nibble);
  } else {
    Storage stored;
    std::memcpy(&stored, data + i * static_cast<int64_t>(sizeof(Storage)), sizeof(Storage));
    if constexpr (D == DType::f16) return f16_to_f32(stored);
    else if constexpr (D == DType::bf16) return bf16_to_f32(stored);
    else if constexpr (is_f8<D>) return f8_to_f32(D, stored);
    else if constexpr (D == DType::boolean) return stored != 0;
    else return stored;
  }
}

/// Truncates towards zero, saturates, NaN gives 0. `bits` is the width of Integer's range, for i4 and u4.
template <class Integer, class Wide>
Integer saturate(Wide value, int bits = std::numeric_limits<Integer>::digits + std::is_signed_v<Integer>) {
  const Wide beyond = std::ldexp(Wide(1), bits - std::is_signed_v<Integer>);  // the first value above the range, exact
  const Integer largest = static_cast<Integer>(std::numeric_limits<Integer>::max() >> (sizeof(Integer) * 8 - bits));
  if (std::isnan(value)) return 0;
  if (value >= beyond) return largest;
  if constexpr (std::is_signed_v<Integer>) {
    if (value < -beyond) return static_cast<Integer>(-largest - 1);
  } else {
    if (value <= 0) return 0;
  }
  return static_cast<Integer>(value);
}

/// Converts and writes the element at index i.
template <DType D, class Wide> void store(std::byte* data, int64_t i, Wide value) {
  using Storage = typename Element<D>::Storage;
  if constexpr (is_nibble<D>) {
    int nibble;
    if constexpr (!std::is_floating_point_v<Wide>) nibble = static_cast<int>(value & 0xf);
    else if constexpr (D == DType::i4) nibble = saturate<int8_t>(value, 4) & 0xf;
    else nibble = saturate<uint8_t>(value, 4);
    const int shift = static_cast<int>(i % 2 * 4);
    data[i / 2] = static_cast<std::byte>((std::to_integer<int>(data[i / 2]) & ~(0xf << shift)) | (nibble << shift));
  } else {
    Storage stored;
    if constexpr (D == DType::boolean) stored = value != 0;
    else if constexpr (D == DType::f32 || D == DType::f64) stored = static_cast<Storage>(value);
    else if constexpr (D == DType::f16) stored = f32_to_f16(static_cast<float>(value));
    else if constexpr (D == DType::bf16) stored = f32_to_bf16(static_cast<float>(value));
    else if constexpr (is_f8<D>) stored = f32_to_f8(D, static_cast<float>(value));
    else if constexpr (std::is_floating_point_v<Wide>) stored = saturate<Storage>(value);
    else stored = static_cast<Storage>(value);
    std::memcpy(data + i * static_cast<int64_t>(sizeof(Storage)), &stored, sizeof(Storage));
  }
}

template <class Wide> void store_chunk(DType dtype, std::byte* data, int64_t begin, const Wide* values, int64_t count) {
  visit(dtype, [&](auto d) {
    for (int64_t i = 0; i < count; ++i) store<d.value>(data, begin + i, values[i]);
  });
}

void check_shape(const Shape& shape) {
  for (int64_t extent : shape) check(extent >= 0, "a tensor's extent is negative");
}

}  // namespace

int64_t num_elements(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflow = false;
  for (int64_t extent : shape) {
    if (extent <= 0) return 0;
    if (!overflow) overflow = __builtin_mul_overflow(count, extent, &count);
  }
  return overflow ? std::numeric_limits<int64_t>::max() : count;
}

int64_t storage_bytes(DType dtype, int64_t count) {
  const int bits = size_bits(dtype);
  if (bits < 8) return count / 2 + count % 2;
  int64_t bytes;
  return __builtin_mul_overflow(count, static_cast<int64_t>(bits / 8), &bytes) ? std::numeric_limits<int64_t>::max() : bytes;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::string to_string(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  check_shape(shape_);
  const int64_t bytes = size_bytes();
  // From calloc, which takes fresh pages for large tensors and need not clear them; with a line more, so that the start can be aligned
  // and an empty tensor is defined too.
  void* memory = bytes < kLargestAllocation ? std::calloc(static_cast<size_t>(bytes) + kAlignment, 1) : nullptr;
  if (memory == nullptr) {
    throw Error(ExitCode::environment, "out-of-memory", "",
                "no memory for a tensor " + std::string(name_of(dtype)) + to_string(shape_) + " of " + std::to_string(bytes) + " bytes");
  }
  owner_ = std::shared_ptr<void>(memory, &std::free);
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  writable_ = static_cast<std::byte*>(memory) + (kAlignment - address % kAlignment) % kAlignment;
  data_ = writable_;
}

Tensor::Tensor(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner)
    : dtype_(dtype), shape_(std::move(shape)), data_(static_cast<const std::byte*>(data)), owner_(std::move(owner)) {
  check_shape(shape_);
  if (data_ == nullptr) {
    check(size_bytes() == 0, "a tensor that isn't empty views no bytes");
    static const std::byte nothing{};
    data_ = &nothing;  // defined, with no element to read
  }
}

std::byte* Tensor::mutable_bytes() {
  check(writable_ != nullptr, "a tensor that views other bytes is written");
  return writable_;
}

double Tensor::as_double(int64_t i) const {
  return visit(dtype_, [&](auto d) { return static_cast<double>(load<d.value>(data_, i)); });
}

int64_t Tensor::as_int64(int64_t i) const {
  return visit(dtype_, [&](auto d) {
    const auto value = load<d.value>(data_, i);
    if constexpr (std::is_floating_point_v<decltype(value)>) return saturate<int64_t>(value);
    else return static_cast<int64_t>(value);
  });
}

void Tensor::set_double(int64_t i, double value) {
  visit(dtype_, [&](auto d) { store<d.value>(mutable_bytes(), i, value); });
}

void Tensor::set_int64(int64_t i, int64_t value) {
  visit(dtype_, [&](auto d) { store<d.value>(mutable_bytes(), i, value); });
}

Tensor Tensor::reshaped(Shape shape) const {
  check(num_elements(shape) == count(), "a reshape changes the number of elements");
  check_shape(shape);
  Tensor result = *this;
  result.shape_ = std::move(shape);
  result.writable_ = nullptr;
  return result;
}

Tensor Tensor::cast_to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor result(dtype, shape_);
  const int64_t total = count();
  visit(dtype_, [&](auto source) {
    parallel_for(ceil_div(total, kChunk), 64, [&](int64_t begin, int64_t end) {
      typename Element<source.value>::Wide values[kChunk];
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * kChunk;
        const int64_t size = std::min(kChunk, total - first);
        for (int64_t i = 0; i < size; ++i) values[i] = load<source.value>(data_, first + i);
        store_chunk(dtype, result.writable_, first, values, size);
      }
    });
  });
  return result;
}

bool Tensor::same_bytes(const Tensor& other) const {
  if (dtype_ != other.dtype_ || shape_ != other.shape_ || defined() != other.defined()) return false;
  if (!defined() || data_ == other.data_) return true;
  const int64_t bytes = size_bytes();
  if (size_bits(dtype_) < 8 && count() % 2 == 1) {
    // The upper half of the last byte belongs to no element.
    return std::memcmp(data_, other.data_, static_cast<size_t>(bytes - 1)) == 0 && as_int64(count() - 1) == other.as_int64(count() - 1);
  }
  return std::memcmp(data_, other.data_, static_cast<size_t>(bytes)) == 0;
}

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor result(dtype, {});
  result.set_double(0, value);
  return result;
}

Tensor Tensor::from_ints(std::vector<int64_t> values) {
  Tensor result(DType::i64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), result.mutable_data<int64_t>());
  return result;
}

}  // namespace tcc
