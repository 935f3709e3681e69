// Appends nodes and the small idioms of decompositions: scalars, explicit broadcasts, reductions that keep their axes.

#include "tcc/rules/builder.h"
#include "tcc/graph/rule_error.h"
#include "tcc/ops/op.h"

#include <algorithm>
#include <numeric>

#include "tcc/ops/attributes.h"
#include "tcc/rules/infer.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

bool is_identity(const std::vector<int64_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool all_equal(const std::vector<int64_t>& values, int64_t expected) {
  return std::all_of(values.begin(), values.end(), [=](int64_t value) { return value == expected; });
}

std::vector<const Type*> types_of(const std::vector<Value*>& values) {
  std::vector<const Type*> types;
  types.reserve(values.size());
  for (const Value* value : values) types.push_back(value == nullptr ? nullptr : &value->type);
  return types;
}

}  // namespace

Node* Builder::emit_node(Op op, std::vector<Value*> operands, Attrs attrs, int num_results) {
  if (std::string fault = operand_count_fault(op, static_cast<int>(operands.size())); !fault.empty()) throw RuleError{"type-error", fault};
  if (std::string fault = attribute_fault(op, attrs); !fault.empty()) throw RuleError{"unsupported-attribute", fault};
  if (info(op).results >= 0) num_results = info(op).results;
  else if (num_results < 0) num_results = 1;
  const std::vector<const Type*> operand_types = types_of(operands);
  std::vector<Type> types = infer_types({op, operand_types, attrs, num_results});
  const std::string name = whole_.empty() ? name_ : whole_ + "." + std::string(name_of(op));
  Node* node = graph_.make_node(op, std::move(operands), std::move(attrs), std::move(types), loc_, name);
  region_.nodes.push_back(node);
  return node;
}

Value* Builder::full(DType dtype, const Shape& shape, double value) {
  if (!is_float(dtype)) return full_int(dtype, shape, static_cast<int64_t>(value));
  return emit(Op::full_, {}, {{"value", value}, {"shape", shape}, {"dtype", dtype}});
}

Value* Builder::full_int(DType dtype, const Shape& shape, int64_t value) {
  if (is_float(dtype)) return full(dtype, shape, static_cast<double>(value));
  return emit(Op::full_, {}, {{"value", value}, {"shape", shape}, {"dtype", dtype}});
}

Value* Builder::full_like(Value* like, double value) { return full(like->type.dtype, like->type.shape(), value); }

Value* Builder::constant(Tensor tensor, std::string_view name_hint) { return graph_.add_weight(name_hint, std::move(tensor), false); }

Value* Builder::cast(Value* x, DType dtype) { return x->type.dtype == dtype ? x : emit(Op::cast_, {x}, {{"dtype", dtype}}); }

Value* Builder::reshape(Value* x, const Shape& shape) {
  if (x->type.is_static() && x->type.shape() == shape) return x;
  return emit(Op::reshape_, {x}, {{"shape", shape}});
}

Value* Builder::transpose(Value* x, const std::vector<int64_t>& permutation) {
  return is_identity(permutation) ? x : emit(Op::transpose_, {x}, {{"permutation", permutation}});
}

Value* Builder::broadcast_in_dim(Value* x, const Shape& shape, const std::vector<int64_t>& dims) {
  if (x->type.is_static() && x->type.shape() == shape && is_identity(dims)) return x;
  return emit(Op::broadcast_in_dim_, {x}, {{"shape", shape}, {"dims", dims}});
}

Value* Builder::broadcast_to(Value* x, const Shape& shape) {
  const int64_t lead = static_cast<int64_t>(shape.size()) - x->type.rank();
  if (lead < 0)
    throw RuleError{"type-error", "`" + to_string(x->type) + "` does not broadcast to " + to_string(std::span<const int64_t>(shape))};
  std::vector<int64_t> dims(static_cast<size_t>(x->type.rank()));
  std::iota(dims.begin(), dims.end(), lead);
  return broadcast_in_dim(x, shape, dims);
}

std::vector<Value*> Builder::broadcast_together(std::vector<Value*> values) {
  const std::vector<const Type*> types = types_of(values);
  const Type common = broadcast_types(DType::f32, types);
  if (!common.is_static()) return values;  // broadcast implicitly until sizes are known
  const Shape shape = common.shape();
  for (Value*& value : values) value = broadcast_to(value, shape);
  return values;
}

Value* Builder::slice(Value* x, std::vector<int64_t> starts, std::vector<int64_t> limits, std::vector<int64_t> steps) {
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (all_equal(starts, 0) && all_equal(steps, 1) && x->type.is_static() && x->type.shape() == limits) return x;
  return emit(Op::slice_, {x}, {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"steps", std::move(steps)}});
}

Value* Builder::pad(Value* x, Value* value, std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  if (all_equal(low, 0) && all_equal(high, 0) && all_equal(interior, 0)) return x;
  return emit(Op::pad_, {x, value}, {{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}});
}

Value* Builder::concat(std::vector<Value*> values, int64_t axis) {
  return values.size() == 1 ? values[0] : emit(Op::concat_, std::move(values), {{"axis", axis}});
}

Value* Builder::iota(DType dtype, const Shape& shape, int64_t axis) {
  return emit(Op::iota_, {}, {{"shape", shape}, {"axis", axis}, {"dtype", dtype}});
}

Value* Builder::reduce(Op op, Value* x, std::vector<int64_t> axes) { return axes.empty() ? x : emit(op, {x}, {{"axes", std::move(axes)}}); }

Value* Builder::reduce_keep(Op op, Value* x, std::vector<int64_t> axes) {
  Shape kept = x->type.shape();
  for (const int64_t axis : axes) kept[static_cast<size_t>(check_axis(axis, x->type.rank(), "axes"))] = 1;
  return reshape(reduce(op, x, std::move(axes)), kept);
}

Value* Builder::binary(Op op, Value* a, Value* b) { return emit(op, broadcast_together({a, b})); }

Value* Builder::binary(Op op, Value* a, double b) {
  return emit(op, {a, full(a->type.dtype, a->type.is_static() ? a->type.shape() : Shape(), b)});
}

Value* Builder::select(Value* condition, Value* a, Value* b) { return emit(Op::select_, broadcast_together({condition, a, b})); }

}  // namespace tcc
