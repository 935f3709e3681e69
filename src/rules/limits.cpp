#include "tcc/rules/limits.h"
#include "tcc/graph/rule_error.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tcc/rules/infer.h"

namespace tcc {
namespace {

constexpr auto kWindowAttributes =
    std::to_array<std::string_view>({"blocksize", "dilations", "groups", "high", "interior", "kernel", "lhs_dilation", "low", "num_groups",
                                     "output_padding", "output_shape", "pads", "rhs_dilation", "size", "strides", "window"});

/// a * b for numbers that are not negative, kMaxWork + 1 where it is more.
int64_t capped_product(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kMaxWork + 1 : std::min(product, kMaxWork + 1);
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}

int64_t capped_count(const Type& type) { return type.is_static() ? std::min(type.count(), kMaxWork + 1) : 1; }

int64_t extent_at(const Type& type, int64_t axis) {
  const bool known = type.ranked && axis >= 0 && axis < type.rank() && type.dims[static_cast<size_t>(axis)].is_constant();
  return known ? type.dims[static_cast<size_t>(axis)].bound : 1;
}

}  // namespace

void too_large(const std::string& message) { throw RuleError{"too-large", message}; }

int64_t checked_add(int64_t a, int64_t b, const char* what) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) too_large(std::string(what) + " is " + std::to_string(a) + " + " + std::to_string(b));
  return sum;
}

int64_t checked_multiply(int64_t a, int64_t b, const char* what) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) too_large(std::string(what) + " is " + std::to_string(a) + " * " + std::to_string(b));
  return product;
}

int64_t checked_extent(double extent, const char* what) {
  if (!(extent >= 0 && extent <= static_cast<double>(kMaxTensorBytes))) too_large(std::string(what) + " is " + number_text(extent));
  return static_cast<int64_t>(extent);
}

int64_t bounded_product(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent > 1 && (__builtin_mul_overflow(product, extent, &product) || product > kMaxTensorBytes)) return -1;
  }
  return product;
}

void check_size(const Type& type) {
  if (!type.ranked) return;
  if (type.rank() > kMaxRank) too_large("a tensor has " + std::to_string(type.rank()) + " axes, the most is " + std::to_string(kMaxRank));
  std::vector<int64_t> extents;
  for (const Dim& dim : type.dims) {
    if (dim.is_constant() && dim.bound < 0) type_error("the result is " + to_string(type) + ", extents are not negative");
    extents.push_back(dim.is_constant() ? dim.bound : 1);
  }
  const int64_t count = bounded_product(extents);
  if (count < 0 || storage_bytes(type.dtype, count) > kMaxTensorBytes)
    too_large("a tensor is " + to_string(type) + ", the most that one may take is " + size_text(kMaxTensorBytes));
}

void check_table(double elements, const std::string& what) {
  if (elements > static_cast<double>(kMaxTableElements))
    too_large(what + " takes a table of " + number_text(elements) + " elements, the most that is made while compiling is 2^24");
}

void check_attributes(const Attrs& attrs) {
  const auto check_number = [](const std::string& name, int64_t number) {
    if (number > kMaxWindowNumber || number < -kMaxWindowNumber)
      too_large("`" + name + "` is " + std::to_string(number) + ", the most is " + std::to_string(kMaxWindowNumber));
  };
  for (const auto& [name, value] : attrs.all()) {
    if (std::find(kWindowAttributes.begin(), kWindowAttributes.end(), name) == kWindowAttributes.end()) continue;
    if (const auto* number = std::get_if<int64_t>(&value)) check_number(name, *number);
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
      for (const int64_t number : *numbers) check_number(name, number);
    }
  }
}

int64_t work_of(Op op, std::span<const Type* const> operands, const Attrs& attrs, std::span<const Type> results) {
  int64_t work = 0;
  for (const Type* operand : operands) work = std::max(work, operand == nullptr ? 0 : capped_count(*operand));
  for (const Type& result : results) work = std::max(work, capped_count(result));
  if (results.empty()) return work;
  const int64_t count = capped_count(results[0]);
  if (op == Op::dot_general_) {
    int64_t terms = 1;
    for (const int64_t axis : attrs.get_ints("lhs_contract")) terms = capped_product(terms, extent_at(*operands[0], axis));
    work = std::max(work, capped_product(count, terms));
  } else if (op == Op::conv_general_) {
    const Type& kernel = *operands[1];
    int64_t terms = 1;
    for (int64_t axis = 1; axis < kernel.rank(); ++axis) terms = capped_product(terms, extent_at(kernel, axis));
    work = std::max(work, capped_product(count, terms));
  } else if (op == Op::reduce_window_) {
    int64_t terms = 1;
    for (const int64_t extent : attrs.get_ints("window")) terms = capped_product(terms, std::max<int64_t>(extent, 0));
    work = std::max(work, capped_product(count, terms));
  }
  return work;
}

void check_work(Op op, std::span<const Type* const> operands, const Attrs& attrs, std::span<const Type> results) {
  if (work_of(op, operands, attrs, results) > kMaxWork)
    too_large("a `" + std::string(name_of(op)) + "` has more than 2^56 multiplications");
}

std::string size_text(int64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", size, units[unit]);
  return text;
}

}  // namespace tcc
