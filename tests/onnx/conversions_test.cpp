// Conversions between element types, through the interpreter and through libraries: of every f16 and bf16, of f32 at and beside each number of the
// target and each midpoint, and back from every pattern of bits. What is right is found by a search among the numbers of the target; its checksums over all
// f16 are those of ml_dtypes and ONNX's reference (conversions.txt, written by make_conversions.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include "frontend/model_builder.h"
#include "frontend/onnx/narrow_types.h"
#include "onnx/backend.h"

namespace tcc::onnx_suite {
namespace {

using onnx::ModelBuilder;
using T = onnx::pb::TensorProto;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

struct Target {
  const char* name;
  int type, bits;
  DType dtype;  ///< in the graph
  enum Kind { floating, powers, integer } kind;
  bool has_infinity = false, has_nan = true;
};
const Target kTargets[] = {
    {"f8e4m3fn", T::FLOAT8E4M3FN, 8, DType::f8e4m3fn, Target::floating},
    {"f8e4m3fnuz", T::FLOAT8E4M3FNUZ, 8, DType::f8e4m3fnuz, Target::floating},
    {"f8e5m2", T::FLOAT8E5M2, 8, DType::f8e5m2, Target::floating, true},
    {"f8e5m2fnuz", T::FLOAT8E5M2FNUZ, 8, DType::f8e5m2fnuz, Target::floating},
    {"float4e2m1", T::FLOAT4E2M1, 4, DType::f8e4m3fn, Target::floating, false, false},
    {"float6e2m3", T::FLOAT6E2M3, 6, DType::f8e4m3fn, Target::floating, false, false},
    {"float6e3m2", T::FLOAT6E3M2, 6, DType::f8e4m3fn, Target::floating, false, false},
    {"float8e8m0", T::FLOAT8E8M0, 8, DType::bf16, Target::powers},
    {"i4", T::INT4, 4, DType::i4, Target::integer},
    {"u4", T::UINT4, 4, DType::u4, Target::integer},
    {"int2", T::INT2, 2, DType::i4, Target::integer},
    {"uint2", T::UINT2, 2, DType::u4, Target::integer},
};

bool is_unsigned(const Target& target) { return is_unsigned_integer(target.dtype); }
bool has_negative_zero(const Target& target) { return target.dtype != DType::f8e4m3fnuz && target.dtype != DType::f8e5m2fnuz; }

/// The number of a pattern of bits, from the definition of the type.
double number_of(const Target& target, uint32_t code) {
  if (const auto* narrow = onnx::narrow_type(target.type)) return onnx::number_of(*narrow, code);
  if (target.kind == Target::floating) return f8_to_f32(target.dtype, static_cast<uint8_t>(code));
  return is_unsigned(target) || code < 8 ? code : static_cast<double>(code) - 16;
}

/// 0 and the positive finite numbers; the bits of each are its index.
std::vector<double> positive_numbers(const Target& target) {
  std::vector<double> numbers;
  for (uint32_t code = 0; code < 1U << (target.bits - 1) && std::isfinite(number_of(target, code)); ++code)
    numbers.push_back(number_of(target, code));
  return numbers;
}

double rounded(const Target& target, const std::vector<double>& numbers, double x, bool saturate) {
  if (std::isnan(x)) return target.has_nan ? kNaN : 0;
  const double size = std::abs(x), largest = numbers.back(), next = largest + (largest - numbers[numbers.size() - 2]);
  size_t above = static_cast<size_t>(std::lower_bound(numbers.begin(), numbers.end(), size) - numbers.begin());
  double result = 0;
  if (above < numbers.size() && numbers[above] == size) {
    result = size;
  } else {
    const double low = numbers[above - 1], high = above < numbers.size() ? numbers[above] : next;
    const double middle = (low + high) / 2;
    const bool up = size > middle || (size == middle && above % 2 == 0);
    result = !up ? low : above < numbers.size() ? high : saturate || !target.has_nan ? largest : target.has_infinity ? kInf : kNaN;
  }
  if (std::isnan(result)) return result;
  return std::signbit(x) && (result != 0 || has_negative_zero(target)) ? -result : result;
}

double power_near(double x, bool saturate, const std::string& mode) {
  const double size = std::abs(static_cast<double>(static_cast<float>(x)));
  if (std::isnan(size)) return kNaN;
  if (!saturate && (size < 0x1p-127 || std::isinf(size))) return kNaN;
  if (size <= 0x1p-127) return 0x1p-127;
  if (std::isinf(size)) return 0x1p127;
  const double low = std::ldexp(1.0, std::ilogb(size));
  double result = low;
  if (size > low && (mode == "up" || (mode == "nearest" && size >= 1.5 * low))) result = 2 * low;
  return result <= 0x1p127 ? result : saturate ? 0x1p127 : kNaN;
}

double low_bits(const Target& target, int64_t whole) {
  const int64_t size = int64_t{1} << target.bits, low = whole & (size - 1);
  return static_cast<double>(is_unsigned(target) || low < size / 2 ? low : low - size);
}

struct Variant {
  const Target* target;
  bool saturate;
  std::string mode;
  std::string name() const { return target->kind == Target::powers ? mode : saturate ? "saturate" : "overflow"; }
  double of(const std::vector<double>& numbers, double x) const {
    if (target->kind == Target::powers) return power_near(x, saturate, mode);
    if (target->kind == Target::floating) return rounded(*target, numbers, x, saturate);
    return low_bits(*target, std::isnan(x) ? 0 : static_cast<int64_t>(std::trunc(std::min(std::max(x, -0x1p31), 0x1p31 - 1))));
  }
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const Target& target : kTargets) {
    for (const bool saturate : {true, false}) {
      for (const char* mode : {"up", "down", "nearest"}) {
        if (mode == std::string("up") || target.kind == Target::powers) all.push_back({&target, saturate, mode});
      }
    }
  }
  return all;
}

int onnx_type(DType dtype) {
  static const std::map<DType, int> types = {
      {DType::f16, T::FLOAT16}, {DType::bf16, T::BFLOAT16}, {DType::f32, T::FLOAT},  {DType::f64, T::DOUBLE},   {DType::i8, T::INT8},
      {DType::u8, T::UINT8},    {DType::i32, T::INT32},     {DType::i64, T::INT64},  {DType::boolean, T::BOOL}, {DType::i16, T::INT16},
      {DType::u16, T::UINT16},  {DType::u32, T::UINT32},    {DType::u64, T::UINT64}, {DType::u4, T::UINT4},     {DType::i4, T::INT4}};
  return types.at(dtype);
}

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)); }

class Conversions : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { path_ = testing::TempDir() + "/tcc_conversions_" + std::to_string(getpid()) + ".onnx"; }
  void TearDown() override { std::filesystem::remove(path_); }

  std::vector<Tensor> run(const ModelBuilder& model, const std::vector<Tensor>& inputs) {
    model.save(path_);
    const auto backend = GetParam() == std::string("so") ? make_library_backend() : make_interpreter_backend();
    backend->compile(path_, {});
    return backend->run(inputs);
  }

  /// All variants of a conversion of x.
  void check(const Tensor& x, const std::vector<Variant>& all) {
    ModelBuilder model(28);
    model.input("x", onnx_type(x.dtype()), x.shape());
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string y = "y" + std::to_string(i);
      model.node("Cast", {"x"}, {y},
                 {onnx::int_attribute("to", all[i].target->type), onnx::int_attribute("saturate", all[i].saturate ? 1 : 0),
                  onnx::text_attribute("round_mode", all[i].mode)});
      model.output(y, all[i].target->type);
    }
    const auto outputs = run(model, {x});
    ASSERT_EQ(outputs.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto numbers = positive_numbers(*all[i].target);
      ASSERT_EQ(outputs[i].dtype(), all[i].target->dtype);
      int faults = 0;
      for (int64_t k = 0; k < x.count() && faults < 5; ++k) {
        const bool of_integer = all[i].target->kind == Target::integer && is_integer(x.dtype());
        const double expected = of_integer ? low_bits(*all[i].target, x.as_int64(k)) : all[i].of(numbers, x.as_double(k));
        const double found = outputs[i].as_double(k);
        if (same(found, expected) || (std::isnan(x.as_double(k)) && found == expected)) continue;
        ++faults;
        ADD_FAILURE() << name_of(x.dtype()) << " " << x.as_double(k) << " as " << all[i].target->name << ", " << all[i].name() << ": found "
                      << found << ", expected " << expected;
      }
    }
  }

  std::string path_;
};

template <class Bits> Tensor every(DType dtype) {
  Tensor x(dtype, {int64_t{1} << (8 * sizeof(Bits))});
  for (int64_t i = 0; i < x.count(); ++i) x.mutable_data<Bits>()[i] = static_cast<Bits>(i);
  return x;
}

TEST_P(Conversions, OfEveryF16) { check(every<uint16_t>(DType::f16), variants()); }
TEST_P(Conversions, OfEveryBf16) { check(every<uint16_t>(DType::bf16), variants()); }

TEST_P(Conversions, OfF32AndF64BesideNumbersAndMidpoints) {
  std::vector<float> values{0.0F, -0.0F, 1e-45F, 0x1p-127F, 0x1.8p-127F, 0x1p-128F, 3.4e38F, 0x1.8p127F, INFINITY, -INFINITY, NAN};
  const auto add = [&](double middle) {
    const auto at = static_cast<float>(middle);
    for (const float value : {at, std::nextafter(at, INFINITY), std::nextafter(at, -INFINITY)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  };
  for (const Target& target : kTargets) {
    if (target.kind == Target::integer) continue;
    const auto numbers = positive_numbers(target);
    for (size_t i = 0; i < numbers.size(); ++i) {
      add(numbers[i]);
      add(i + 1 < numbers.size() ? (numbers[i] + numbers[i + 1]) / 2 : numbers[i] + (numbers[i] - numbers[i - 1]) / 2);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  Tensor x(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), x.mutable_data<float>());
  check(x, variants());
  check(x.cast_to(DType::f64), variants());
}

TEST_P(Conversions, OfIntegersAndBools) {
  check(every<uint8_t>(DType::u8), variants());
  check(every<uint8_t>(DType::i8), variants());
  Tensor bits(DType::boolean, {2});
  bits.mutable_data<uint8_t>()[1] = 1;
  check(bits, variants());
  Tensor large(DType::i32, {9});
  const int32_t values[] = {-70000, -449, -9, 464, 465, 15, 61440, 1 << 30, -(1 << 30)};
  std::copy(std::begin(values), std::end(values), large.mutable_data<int32_t>());
  for (const DType dtype : {DType::i32, DType::i16, DType::u16, DType::u32, DType::i64, DType::u64})
    check(large.cast_to(dtype), variants());
}

/// All patterns of bits, packed as ONNX stores them.
void add_codes(ModelBuilder& model, const std::string& name, const Target& target) {
  auto& tensor = *model.graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(target.type);
  tensor.add_dims(int64_t{1} << target.bits);
  std::string raw(static_cast<size_t>(target.bits << target.bits) / 8, '\0');
  for (uint32_t code = 0; code < 1U << target.bits; ++code) {
    for (int bit = 0; bit < target.bits; ++bit) {
      const size_t at = static_cast<size_t>(code) * static_cast<size_t>(target.bits) + static_cast<size_t>(bit);
      if ((code >> bit & 1) != 0) raw[at / 8] = static_cast<char>(raw[at / 8] | 1 << at % 8);
    }
  }
  tensor.set_raw_data(raw);
}

TEST_P(Conversions, OfEachTypeToEachOther) {
  for (const Target& from : kTargets) {
    ModelBuilder model(28);
    add_codes(model, "x", from);
    const auto all = variants();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string y = "y" + std::to_string(i);
      model.node("Cast", {"x"}, {y},
                 {onnx::int_attribute("to", all[i].target->type), onnx::int_attribute("saturate", all[i].saturate ? 1 : 0),
                  onnx::text_attribute("round_mode", all[i].mode)});
      model.output(y, all[i].target->type);
    }
    const auto outputs = run(model, {});
    for (size_t k = 0; k < all.size(); ++k) {
      const auto numbers = positive_numbers(*all[k].target);
      for (int64_t i = 0; i < outputs[k].count(); ++i) {
        const double x = number_of(from, static_cast<uint32_t>(i)), expected = all[k].of(numbers, x), found = outputs[k].as_double(i);
        EXPECT_TRUE(same(found, expected) || (std::isnan(x) && found == expected))
            << from.name << " " << x << " as " << all[k].target->name << ", " << all[k].name() << ": found " << found << ", expected "
            << expected;
      }
    }
  }
}

TEST_P(Conversions, FromEveryPatternOfBits) {
  for (const Target& target : kTargets) {
    ModelBuilder model(28);
    add_codes(model, "constant", target);
    const int64_t count = int64_t{1} << target.bits;
    model.input("input", target.type, {count});
    const std::vector<DType> types{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::u8, DType::boolean};
    for (const char* from : {"constant", "input"}) {
      for (const DType dtype : types) {
        const std::string y = from + std::string(name_of(dtype));
        model.node("Cast", {from}, {y}, {onnx::int_attribute("to", onnx_type(dtype))});
        model.output(y, onnx_type(dtype));
      }
    }
    Tensor numbers(target.kind == Target::integer ? DType::i64 : DType::f64, {count}), input(target.dtype, {count});
    for (int64_t i = 0; i < count; ++i) {
      numbers.set_double(i, number_of(target, static_cast<uint32_t>(i)));
      if (target.bits == 8 && onnx::narrow_type(target.type) == nullptr) {
        input.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i);  // infinity, too
      } else {
        input.set_double(i, number_of(target, static_cast<uint32_t>(i)));
      }
    }
    const auto outputs = run(model, {input});
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Tensor expected = numbers.cast_to(types[k % types.size()]);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_TRUE(same(outputs[k].as_double(i), expected.as_double(i)))
            << target.name << " " << i << " as " << name_of(expected.dtype()) << ": " << outputs[k].as_double(i) << ", expected "
            << expected.as_double(i);
      }
    }
  }
}

TEST_P(Conversions, OfBits) {
  const Target byte{"u8", T::UINT8, 8, DType::u8, Target::integer}, truth{"bool", T::BOOL, 8, DType::boolean, Target::integer};
  std::vector<Target> all(std::begin(kTargets), std::end(kTargets));
  all.push_back(byte);
  all.push_back(truth);
  for (const Target& from : all) {
    if (from.bits == 6) continue;  // ONNX's BitCast lacks them
    ModelBuilder model(28);
    std::vector<const Target*> targets;
    if (from.dtype == DType::boolean) model.input("x", from.type, {256});
    else add_codes(model, "x", from);
    for (const Target& to : all) {
      if (to.bits != from.bits) continue;
      targets.push_back(&to);
      const std::string y = "y" + std::to_string(targets.size());
      model.node("BitCast", {"x"}, {y}, {onnx::int_attribute("to", to.type)});
      model.output(y, to.type);
    }
    Tensor bools(DType::boolean, {256});
    for (int64_t i = 0; i < 256; ++i) bools.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i & 1);
    const auto outputs = run(model, from.dtype == DType::boolean ? std::vector<Tensor>{bools} : std::vector<Tensor>());
    ASSERT_EQ(outputs.size(), targets.size());
    for (size_t k = 0; k < targets.size(); ++k) {
      for (int64_t i = 0; i < outputs[k].count(); ++i) {
        const auto code = static_cast<uint32_t>(from.dtype == DType::boolean ? i & 1 : i);
        const double expected = targets[k]->dtype == DType::boolean ? (code != 0 ? 1 : 0)
                                : targets[k]->dtype == DType::u8    ? code
                                                                    : number_of(*targets[k], code);
        EXPECT_TRUE(same(outputs[k].as_double(i), expected))
            << from.name << " " << code << " read as " << targets[k]->name << ": " << outputs[k].as_double(i) << ", expected " << expected;
      }
    }
  }
}

// One scale for each row, or for each block of a row.
TEST_P(Conversions, Quantized) {
  constexpr int64_t kRows = 6, kColumns = 40;
  std::mt19937 random(11);
  Tensor x(DType::f32, {kRows, kColumns});
  for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, (static_cast<double>(random() % 2001) - 1000) / 64);
  for (const int64_t block : {0, 8, 40}) {
    const int64_t columns = block == 0 ? 1 : kColumns / block;
    const std::vector<int64_t> shape = block == 0 ? std::vector<int64_t>{kRows} : std::vector<int64_t>{kRows, columns};
    std::vector<float> scales;
    for (int64_t i = 0; i < kRows * columns; ++i)
      scales.push_back(std::ldexp(1.0F + 0.25F * static_cast<float>(i % 3), static_cast<int>(i % 5) - 3));
    ModelBuilder model(28);
    model.input("x", T::FLOAT, {kRows, kColumns});
    model.floats("scale", shape, scales);
    std::vector<Variant> all;
    for (const Variant& variant : variants()) {
      if (variant.target->kind == Target::powers) continue;
      all.push_back(variant);
      const std::string y = "y" + std::to_string(all.size());
      model.node("QuantizeLinear", {"x", "scale"}, {y},
                 {onnx::int_attribute("output_dtype", variant.target->type), onnx::int_attribute("saturate", variant.saturate ? 1 : 0),
                  onnx::int_attribute("axis", block == 0 ? 0 : 1), onnx::int_attribute("block_size", block)});
      model.output(y, variant.target->type);
      model.node("DequantizeLinear", {y, "scale"}, {y + "d"},
                 {onnx::int_attribute("axis", block == 0 ? 0 : 1), onnx::int_attribute("block_size", block)});
      model.output(y + "d", T::FLOAT);
    }
    const auto outputs = run(model, {x});
    for (size_t k = 0; k < all.size(); ++k) {
      const Target& target = *all[k].target;
      const auto numbers = positive_numbers(target);
      const double least = is_unsigned(target) ? 0 : -std::ldexp(1.0, target.bits - 1),
                   most = std::ldexp(1.0, target.bits - (is_unsigned(target) ? 0 : 1)) - 1;
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t row = i / kColumns, column = i % kColumns;
        const float scale = scales[static_cast<size_t>(block == 0 ? row : row * columns + column / block)];
        const double ratio = static_cast<float>(x.as_double(i)) / scale;
        const double expected =
            target.kind == Target::integer ? std::min(std::max(std::nearbyint(ratio), least), most) : all[k].of(numbers, ratio);
        const double found = outputs[2 * k].as_double(i), back = outputs[2 * k + 1].as_double(i);
        EXPECT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected)))
            << target.name << " of " << ratio << ": " << found << ", expected " << expected;
        const double product = static_cast<float>(expected) * scale;
        EXPECT_TRUE(back == product || (std::isnan(back) && std::isnan(product)))
            << target.name << " back: " << back << ", expected " << product;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Via, Conversions, testing::Values("interpreter", "so"), [](const auto& info) { return std::string(info.param); });

uint32_t crc32(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// The search above agrees with ml_dtypes and ONNX's reference.
TEST(ConversionsReference, OfEveryF16) {
  const Tensor x = every<uint16_t>(DType::f16);
  std::ifstream file(std::string(TCC_TEST_DATA_DIR) + "/conversions.txt");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream words(line);
    std::string target, name, which, checksum;
    words >> target >> name >> which >> checksum;
    for (const Variant& variant : variants()) {
      if (variant.target->name != target || variant.name() != name || (variant.target->kind == Target::powers && !variant.saturate))
        continue;
      const auto numbers = positive_numbers(*variant.target);
      std::string bytes;
      for (int64_t i = 0; i < x.count(); ++i) {
        const double value = x.as_double(i);
        if (which != "every" && std::isnan(value)) continue;
        if ((which == "finite" && !std::isfinite(value)) || (which == "positive" && !(std::isfinite(value) && value > 0))) continue;
        float result = static_cast<float>(variant.of(numbers, value));
        if (std::isnan(result)) result = std::bit_cast<float>(0x7fc00000);
        bytes.append(reinterpret_cast<const char*>(&result), sizeof result);
      }
      std::ostringstream found;
      found << std::hex << std::setw(8) << std::setfill('0') << crc32(bytes);
      EXPECT_EQ(found.str(), checksum) << line;
    }
  }
  EXPECT_EQ(lines, 18);
}

}  // namespace
}  // namespace tcc::onnx_suite
