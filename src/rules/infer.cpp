// Calls the shape rule of an op, and what the rules share.

#include "tcc/rules/infer.h"
#include "tcc/graph/rule_error.h"
#include "tcc/ops/op.h"

#include <algorithm>

#include "tcc/ops/attributes.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

void type_error(const std::string& message) { throw RuleError{"type-error", message}; }

bool certainly_differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.bound != b.bound; }

Type make_type(DType dtype, std::vector<Dim> dims) {
  Type type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  return type;
}

Type with_dtype(Type type, DType dtype) {
  type.dtype = dtype;
  return type;
}

int check_axis(int64_t axis, int rank, std::string_view name) {
  if (axis < 0 || axis >= rank) {
    type_error("`" + std::string(name) + "` is " + std::to_string(axis) + ", rank is " + std::to_string(rank));
  }
  return static_cast<int>(axis);
}

void check_axes(const std::vector<int64_t>& axes, int rank, std::string_view name) {
  std::vector<char> seen(static_cast<size_t>(rank), 0);
  for (const int64_t axis : axes) {
    char& mark = seen[static_cast<size_t>(check_axis(axis, rank, name))];
    if (mark)
      type_error("`" + std::string(name) + "` is " + to_string(std::span<const int64_t>(axes)) + ", which names axis " +
                 std::to_string(axis) + " twice");
    mark = 1;
  }
}

void check_per_axis(const std::vector<int64_t>& values, int rank, std::string_view name) {
  if (static_cast<int>(values.size()) != rank) {
    type_error("`" + std::string(name) + "` has " + std::to_string(values.size()) + " entries, rank is " + std::to_string(rank));
  }
}

Type type_of_shape(DType dtype, const std::vector<int64_t>& shape) {
  for (const int64_t extent : shape) {
    if (extent < 0) type_error("`shape` is " + to_string(std::span<const int64_t>(shape)) + ", extents are not negative");
  }
  return Type(dtype, shape);
}

Type broadcast_types(DType dtype, std::span<const Type* const> types) {
  size_t rank = 0;
  for (const Type* type : types) {
    if (!type->ranked) return Type::unranked(dtype);
    rank = std::max(rank, type->dims.size());
  }
  std::vector<Dim> dims(rank, Dim(1));
  for (const Type* type : types) {
    const size_t lead = rank - type->dims.size();
    for (size_t i = 0; i < type->dims.size(); ++i) {
      Dim& result = dims[lead + i];
      const Dim& dim = type->dims[i];
      if (dim == result || dim == Dim(1)) continue;
      if (result == Dim(1)) {
        result = dim;
      } else if (dim.is_constant() && result.is_constant()) {
        std::string text;
        for (const Type* each : types) text += (text.empty() ? "" : " and ") + to_string(*each);
        type_error("operands are " + text + ", which do not broadcast together");
      } else if (dim.is_constant()) {
        result = dim;  // the symbol stands for this extent or for 1
      } else if (!result.is_constant()) {
        result = unknown_dim();  // two different symbols
      }
    }
  }
  return make_type(dtype, std::move(dims));
}

int64_t window_extent(int64_t extent, int64_t low, int64_t high, int64_t window, int64_t dilation, int64_t stride, int axis,
                      std::string_view what) {
  const std::string name(what), at = " on axis " + std::to_string(axis);
  if (window < 1) type_error(name + " is " + std::to_string(window) + at + ", expected at least 1");
  if (dilation < 1) type_error("dilation is " + std::to_string(dilation) + at + ", expected at least 1");
  if (stride < 1) type_error("stride is " + std::to_string(stride) + at + ", expected at least 1");
  const int64_t padded = checked_add(checked_add(extent, low, "the padded extent"), high, "the padded extent");
  const int64_t reach =
      checked_add(checked_multiply(window - 1, dilation, "the extent of a dilated window"), 1, "the extent of a dilated window");
  if (padded == 0 && reach == 1) return 0;  // as no batch at all has no windows
  if (padded < reach) {
    type_error("the padded extent is " + std::to_string(padded) + at + ", the " + name + " needs at least " + std::to_string(reach));
  }
  return (padded - reach) / stride + 1;
}

std::vector<Type> infer_types(const InferInput& input) {
  check_attributes(input.attrs);
  if (input.num_results < 1) type_error("`" + std::string(name_of(input.op)) + "` has no results");
  std::vector<Type> types = infer_rule(input.op)(input);
  check(static_cast<int>(types.size()) == input.num_results, "a shape rule gave another number of results than asked for");
  for (const Type& type : types) check_size(type);
  check_work(input.op, input.operands, input.attrs, types);
  return types;
}

std::vector<Type> infer_node_types(const Node& node) {
  if (std::string fault = operand_count_fault(node.op, static_cast<int>(node.operands.size())); !fault.empty()) type_error(fault);
  if (std::string fault = attribute_fault(node.op, node.attrs); !fault.empty()) throw RuleError{"unsupported-attribute", fault};
  const int results = static_cast<int>(node.results.size());
  if (info(node.op).results >= 0 && info(node.op).results != results) {
    type_error("`" + std::string(name_of(node.op)) + "` has " + std::to_string(results) + " results, expected " +
               std::to_string(info(node.op).results));
  }
  std::vector<const Type*> types;
  types.reserve(node.operands.size());
  for (const Value* operand : node.operands) types.push_back(operand == nullptr ? nullptr : &operand->type);
  return infer_types({node.op, types, node.attrs, results});
}

}  // namespace tcc
