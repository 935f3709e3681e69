// Shape rules of the contractions.

#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"

namespace tcc {
namespace {

std::vector<char> mark_axes(const std::vector<int64_t>& batch, const std::vector<int64_t>& contract, int rank) {
  std::vector<char> used(static_cast<size_t>(rank), 0);
  for (const int64_t axis : batch) used[static_cast<size_t>(axis)] = 1;
  for (const int64_t axis : contract) {
    if (used[static_cast<size_t>(axis)]) type_error("axis " + std::to_string(axis) + " is both a batch and a contracted axis");
    used[static_cast<size_t>(axis)] = 1;
  }
  return used;
}

void check_pairs(const Type& a, const Type& b, const std::vector<int64_t>& a_axes, const std::vector<int64_t>& b_axes, const char* what) {
  if (a_axes.size() != b_axes.size()) {
    type_error("the operands have " + std::to_string(a_axes.size()) + " and " + std::to_string(b_axes.size()) + " " + what +
               " axes, expected equally many");
  }
  for (size_t i = 0; i < a_axes.size(); ++i) {
    const Dim& x = a.dims[static_cast<size_t>(a_axes[i])];
    const Dim& y = b.dims[static_cast<size_t>(b_axes[i])];
    if (certainly_differ(x, y)) {
      type_error(std::string(what) + " axis " + std::to_string(a_axes[i]) + " of " + to_string(a) + " has extent " +
                 std::to_string(x.bound) + ", axis " + std::to_string(b_axes[i]) + " of " + to_string(b) + " has " +
                 std::to_string(y.bound));
    }
  }
}

void check_product_dtype(DType a, DType b, DType result) {
  const std::string text = std::string(name_of(a)) + " x " + std::string(name_of(b)) + " -> " + std::string(name_of(result));
  if (a == DType::boolean || b == DType::boolean) throw RuleError{"unsupported-dtype", "product " + text + ", expected numbers"};
  if (is_float(a) != is_float(b) || is_float(a) != is_float(result))
    type_error("product " + text + ", expected all floats or all integers");
  if (is_float(a) && a != b && !(size_bits(a) == 8 && size_bits(b) == 8))
    type_error("product " + text + ", expected operands of one dtype");
  if (is_float(a) && (result != a || a != b) && result != DType::f32)
    type_error("product " + text + ", expected a result of the operands' dtype or f32");
  if (!is_float(a) && size_bits(result) < size_bits(a)) type_error("product " + text + ", expected a result at least as wide");
}

}  // namespace

std::vector<Type> infer_dot_general(const InferInput& input) {
  const Type& a = input.operand(0);
  const Type& b = input.operand(1);
  const DType dtype = input.attrs.get_dtype("dtype");
  check_product_dtype(a.dtype, b.dtype, dtype);
  if (!a.ranked || !b.ranked) return {Type::unranked(dtype)};
  const auto& lhs_batch = input.attrs.get_ints("lhs_batch");
  const auto& rhs_batch = input.attrs.get_ints("rhs_batch");
  const auto& lhs_contract = input.attrs.get_ints("lhs_contract");
  const auto& rhs_contract = input.attrs.get_ints("rhs_contract");
  check_axes(lhs_batch, a.rank(), "lhs_batch");
  check_axes(rhs_batch, b.rank(), "rhs_batch");
  check_axes(lhs_contract, a.rank(), "lhs_contract");
  check_axes(rhs_contract, b.rank(), "rhs_contract");
  check_pairs(a, b, lhs_batch, rhs_batch, "batch");
  check_pairs(a, b, lhs_contract, rhs_contract, "contracted");
  const std::vector<char> a_used = mark_axes(lhs_batch, lhs_contract, a.rank()), b_used = mark_axes(rhs_batch, rhs_contract, b.rank());
  std::vector<Dim> dims;
  for (const int64_t axis : lhs_batch) dims.push_back(a.dims[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < a_used.size(); ++i) {
    if (!a_used[i]) dims.push_back(a.dims[i]);
  }
  for (size_t i = 0; i < b_used.size(); ++i) {
    if (!b_used[i]) dims.push_back(b.dims[i]);
  }
  return {make_type(dtype, std::move(dims))};
}

std::vector<Type> infer_conv_general(const InferInput& input) {
  const Type& x = input.operand(0);
  const Type& w = input.operand(1);
  if (x.dtype != w.dtype)
    type_error("`conv_general` of " + std::string(name_of(x.dtype)) + " with a kernel of " + std::string(name_of(w.dtype)) +
               ", expected one dtype");
  if (!x.ranked || !w.ranked) return {Type::unranked(x.dtype)};
  if (x.rank() < 3 || w.rank() != x.rank())
    type_error("the operands are " + to_string(x) + " and " + to_string(w) +
               ", expected [n, c, spatial...] and [o, c / groups, spatial...]");
  const int spatial = x.rank() - 2;
  const char* names[] = {"strides", "low", "high", "lhs_dilation", "rhs_dilation"};
  const std::vector<int64_t>* lists[5];
  for (int i = 0; i < 5; ++i) {
    lists[i] = &input.attrs.get_ints(names[i]);
    if (static_cast<int>(lists[i]->size()) != spatial) {
      type_error("`" + std::string(names[i]) + "` has " + std::to_string(lists[i]->size()) + " entries, the operand has " +
                 std::to_string(spatial) + " spatial axes");
    }
  }
  const int64_t groups = input.attrs.get_int("groups");
  if (groups < 1) type_error("`groups` is " + std::to_string(groups) + ", expected at least 1");
  if (x.dims[1].is_constant() && w.dims[1].is_constant() &&
      x.dims[1].bound != checked_multiply(w.dims[1].bound, groups, "the number of channels")) {
    type_error("the operand has " + std::to_string(x.dims[1].bound) + " channels, the kernel " + to_string(w) + " in " +
               std::to_string(groups) + " groups needs " + std::to_string(w.dims[1].bound * groups));
  }
  if (w.dims[0].is_constant() && w.dims[0].bound % groups != 0) {
    type_error("the kernel is " + to_string(w) + ", its " + std::to_string(w.dims[0].bound) + " outputs do not divide into " +
               std::to_string(groups) + " groups");
  }
  std::vector<Dim> dims = {x.dims[0], w.dims[0]};
  for (int i = 0; i < spatial; ++i) {
    const size_t s = static_cast<size_t>(i);
    const Dim& extent = x.dims[s + 2];
    const Dim& window = w.dims[s + 2];
    if (!extent.is_constant() || !window.is_constant()) {
      dims.push_back(unknown_dim());
      continue;
    }
    if ((*lists[3])[s] < 1)
      type_error("`lhs_dilation` is " + std::to_string((*lists[3])[s]) + " on axis " + std::to_string(i + 2) + ", expected at least 1");
    const int64_t spread =
        extent.bound == 0 ? 0 : checked_multiply(extent.bound - 1, (*lists[3])[s], "the extent of a dilated operand") + 1;
    dims.emplace_back(window_extent(spread, (*lists[1])[s], (*lists[2])[s], window.bound, (*lists[4])[s], (*lists[0])[s], i + 2, "kernel"));
  }
  return {make_type(x.dtype, std::move(dims))};
}

}  // namespace tcc
