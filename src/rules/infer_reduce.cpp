// Shape rules of reductions, windows and topk.

#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"

namespace tcc {

std::vector<Type> infer_reduce(const InferInput& input) {
  const Type& x = input.operand(0);
  const bool logical = input.op == Op::reduce_and_ || input.op == Op::reduce_or_;
  if (logical ? is_float(x.dtype) : x.dtype == DType::boolean) {
    throw RuleError{"unsupported-dtype", "`" + std::string(name_of(input.op)) + "` of " + std::string(name_of(x.dtype)) + ", expected " +
                                             (logical ? "an integer or bool" : "a number")};
  }
  if (!x.ranked) return {x};
  const auto& axes = input.attrs.get_ints("axes");
  check_axes(axes, x.rank(), "axes");
  std::vector<char> reduced(x.dims.size(), 0);
  for (const int64_t axis : axes) reduced[static_cast<size_t>(axis)] = 1;
  std::vector<Dim> dims;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (!reduced[i]) dims.push_back(x.dims[i]);
  }
  return {make_type(x.dtype, std::move(dims))};
}

std::vector<Type> infer_argmax(const InferInput& input) {
  const Type& x = input.operand(0);
  if (!x.ranked) return {Type::unranked(DType::i64)};
  const int axis = check_axis(input.attrs.get_int("axis"), x.rank(), "axis");
  if (x.dims[static_cast<size_t>(axis)] == Dim(0))
    type_error("`" + std::string(name_of(input.op)) + "` over axis " + std::to_string(axis) + " of " + to_string(x) + ", which is empty");
  std::vector<Dim> dims = x.dims;
  dims.erase(dims.begin() + axis);
  return {make_type(DType::i64, std::move(dims))};
}

std::vector<Type> infer_reduce_window(const InferInput& input) {
  const Type& x = input.operand(0);
  const std::string& op = input.attrs.get_string("op");
  if (op != "max" && op != "min" && op != "sum")
    throw RuleError{"unsupported-attribute", "`op` is \"" + op + "\", expected max, min or sum"};
  if (!x.ranked) return {x};
  const std::vector<int64_t>* lists[] = {&input.attrs.get_ints("window"), &input.attrs.get_ints("strides"), &input.attrs.get_ints("low"),
                                         &input.attrs.get_ints("high"), &input.attrs.get_ints("dilations")};
  const char* names[] = {"window", "strides", "low", "high", "dilations"};
  for (int i = 0; i < 5; ++i) check_per_axis(*lists[i], x.rank(), names[i]);
  std::vector<Dim> dims;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (!x.dims[i].is_constant()) {
      const bool plain = (*lists[0])[i] == 1 && (*lists[1])[i] == 1 && (*lists[2])[i] == 0 && (*lists[3])[i] == 0;
      dims.push_back(plain ? x.dims[i] : unknown_dim());
      continue;
    }
    dims.emplace_back(window_extent(x.dims[i].bound, (*lists[2])[i], (*lists[3])[i], (*lists[0])[i], (*lists[4])[i], (*lists[1])[i],
                                    static_cast<int>(i), "window"));
  }
  return {make_type(x.dtype, std::move(dims))};
}

std::vector<Type> infer_topk(const InferInput& input) {
  const Type& x = input.operand(0);
  if (!x.ranked) return {x, Type::unranked(DType::i64)};
  const int axis = check_axis(input.attrs.get_int("axis"), x.rank(), "axis");
  const int64_t k = input.attrs.get_int("k");
  Type values = make_type(x.dtype, x.dims);
  Dim& dim = values.dims[static_cast<size_t>(axis)];
  if (k < 0 || (dim.is_constant() && k > dim.bound))
    type_error("`k` is " + std::to_string(k) + ", axis " + std::to_string(axis) + " of " + to_string(x) + " has fewer elements");
  dim = Dim(k);
  return {values, with_dtype(values, DType::i64)};
}

}  // namespace tcc
