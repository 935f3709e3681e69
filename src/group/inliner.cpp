// Scopes, memory and the values that need no loop: loads, pointwise, creates, views, pad and concat. inliner.h says how it works.

#include "group/inliner.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "group/placement.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::apply;
using loop::ExprPtr;
using loop::Index;
using loop::VarRef;

Inliner::Inliner(const Unit& unit) : unit_of_(unit) {
  const auto parameter = [&](std::string name, const Value* value) {
    const size_t number = params_.size();
    const int64_t padding = unit.row_padding.empty() ? 0 : unit.row_padding[number];
    const std::vector<int64_t> order = unit.order.empty() ? std::vector<int64_t>() : unit.order[number];
    if (!order.empty()) orders_[value] = order;
    return loop::make_parameter(std::move(name), value->type.dtype, in_memory(value->type.shape(), order), padding);
  };
  for (size_t i = 0; i < unit.inputs.size(); ++i) {
    const Value* value = unit.inputs[i];
    auto buffer = parameter("a" + std::to_string(i), value);
    if (!inputs_.insert(value).second) second_buffers_[value] = buffer;
    else buffers_[value] = buffer;
    params_.push_back({buffer, false, !unit.constant.empty() && unit.constant[i]});
  }
  int number = 0;
  for (const Value* value : unit.outputs) {
    auto buffer = parameter("r" + std::to_string(number++), value);
    buffers_[value] = buffer;
    outputs_.insert(value);
    params_.push_back({buffer, true});
  }
  for (const Node* node : unit.nodes) {
    int level = 0;
    for (const Value* operand : node->operands) {
      const auto it = reduce_level_.find(operand);
      if (it != reduce_level_.end()) level = std::max(level, it->second);
    }
    for (const Value* result : node->results) reduce_level_[result] = level + (is_reduce(*node) ? 1 : 0);
  }
}

Scope Inliner::open(std::vector<VarRef> vars) const {
  Scope scope;
  scope.parent = current_;
  scope.depth = (current_ ? current_->depth : 0) + static_cast<int>(vars.size());
  scope.vars = std::move(vars);
  return scope;
}

loop::Stmt Inliner::loop_of(const std::vector<VarRef>& vars, loop::Block block) {
  loop::Loop map;
  for (const VarRef& var : vars) map.dims.push_back({var, loop::Bind::none});
  map.body = std::move(block);
  return {std::move(map)};
}

VarRef Inliner::fresh_var(int depth, int64_t extent) {
  const std::string letter = loop_letter(depth);
  // i, ib, ic, ...: no underscores, which are what schedules append when they split a loop.
  std::string name = letter;
  for (int i = 1; !names_.insert(name).second; ++i)
    name = letter + (i < 26 ? std::string(1, static_cast<char>('a' + i)) : "x" + std::to_string(i));
  return loop::make_var(name, extent);
}

loop::ScalarRef Inliner::fresh_scalar(DType dtype) { return loop::make_scalar("t" + std::to_string(next_scalar_++), dtype); }

void Inliner::define(const loop::ScalarRef& scalar, const Value* value, const Indices& at) {
  scalar_scope_[scalar.get()] = current_;
  if (value) current_->memo[value].emplace_back(at, as_read(value, scalar_value(scalar)));
}

ExprPtr Inliner::bind(const ExprPtr& expr) {
  if (expr->kind == loop::Expr::Kind::constant || expr->kind == loop::Expr::Kind::scalar) return expr;
  const loop::ScalarRef scalar = fresh_scalar(expr->dtype);
  append({loop::Let{scalar, expr}});
  scalar_scope_[scalar.get()] = current_;
  return scalar_value(scalar);
}

bool Inliner::defines(const Scope& scope, const std::vector<VarRef>& vars, const std::vector<const loop::Scalar*>& scalars) const {
  for (const VarRef& var : scope.vars) {
    if (std::find(vars.begin(), vars.end(), var) != vars.end()) return true;
  }
  return std::any_of(scalars.begin(), scalars.end(), [&](const loop::Scalar* scalar) { return scalar_scope_.at(scalar) == &scope; });
}

Scope* Inliner::scope_of(const Indices& at) const {
  const std::vector<VarRef> vars = vars_of(at);
  std::vector<const loop::Scalar*> scalars;
  for (const Index& index : at) {
    if (!index.uses_scalars()) continue;
    substitute_scalars(index, [&](const loop::ScalarRef& scalar) {
      scalars.push_back(scalar.get());
      return std::optional<Index>();
    });
  }
  Scope* scope = current_;
  while (scope->parent && !defines(*scope, vars, scalars)) scope = scope->parent;
  return scope;
}

ExprPtr Inliner::value_at(const Value* value, const Indices& at) {
  Scope* scope = scope_of(at);
  // What the first factor of a product has loaded is in another buffer for the second.
  const bool remembers = !in_second_factor_ || second_buffers_.empty();
  if (remembers) {
    for (const auto& [index, expr] : scope->memo[value]) {
      if (index == at) return expr;
    }
  }
  Scope* before = current_;
  current_ = scope;
  const ExprPtr expr = as_read(value, value_here(value, at));
  current_ = before;
  if (remembers) scope->memo[value].emplace_back(at, expr);
  return expr;
}

/// Who reads what the unit stores, here or in another kernel, reads the same: what is recomputed from it is what was computed the first time.
ExprPtr Inliner::as_read(const Value* value, const ExprPtr& expr) {
  const DType dtype = value->type.dtype, computed = compute_dtype(dtype);
  if (computed == dtype || !outputs_.count(value)) return expr;
  return cast_to(bind(as_stored(expr, dtype)), computed);
}

Indices Inliner::place_of(const Value* value, const Indices& at) const {
  const auto order = orders_.find(value);
  if (order == orders_.end()) return at;
  Indices place;
  for (const int64_t axis : order->second) place.push_back(at[static_cast<size_t>(axis)]);
  return place;
}

ExprPtr Inliner::load_from(const loop::BufferRef& buffer, const Indices& at, ExprPtr otherwise) {
  bool inside = true;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto low = at[i].min(), high = at[i].max();
    inside = inside && low && high && *low >= 0 && *high < buffer->extents[i];
  }
  if (inside) return load(buffer, at);
  if (!otherwise) otherwise = is_float(buffer->dtype) ? loop::constant_float(buffer->dtype, 0) : loop::constant_int(buffer->dtype, 0);
  return load(buffer, at, otherwise);
}

ExprPtr Inliner::value_here(const Value* value, const Indices& at) {
  if (inputs_.count(value)) {
    const auto second = in_second_factor_ ? second_buffers_.find(value) : second_buffers_.end();
    const loop::BufferRef& buffer = second == second_buffers_.end() ? buffers_.at(value) : second->second;
    return cast_to(bind(load_from(buffer, place_of(value, at), nullptr)), compute_dtype(value->type.dtype));
  }
  if (!value->producer) internal_error("the unit reads `" + value->name + "`, which is not among its inputs");
  const Node& node = *value->producer;
  switch (info(node.op).lowering) {
    case Lowering::pointwise: return inline_pointwise(node, at);
    case Lowering::create: return inline_create(node, at);
    case Lowering::view: return node.op == Op::pad_ ? inline_pad(node, at) : value_at(node.operand(0), pull_back(node, at));
    case Lowering::concat: return inline_concat(node, at);
    case Lowering::reduce: return node.op == Op::argmax_ || node.op == Op::argmin_ ? inline_arg_reduce(node, at) : inline_reduce(node, at);
    case Lowering::contract: return node.op == Op::dot_general_ ? inline_dot(node, at) : inline_conv(node, at);
    case Lowering::window: return inline_window(node, at);
    case Lowering::indexed:
      return node.op == Op::gather_            ? inline_gather(node, at)
             : node.op == Op::gather_elements_ ? inline_gather_elements(node, at)
                                               : inline_gather_nd(node, at);
    default: internal_error(std::string(name_of(node.op)) + " can't be computed element by element");
  }
}

ExprPtr Inliner::value_or(const Value* value, const Indices& at, const ExprPtr& fallback) {
  const Shape shape = value->type.shape();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return fallback;  // without elements every index is outside
  ExprPtr condition;
  for (size_t i = 0; i < at.size(); ++i) condition = logical_and(condition, in_range(at[i], 0, shape[i]));
  if (!condition) return value_at(value, at);
  // What is outside of a transposed value is outside of the value.
  if (!inputs_.count(value) && value->producer && value->producer->op == Op::transpose_)
    return value_or(value->producer->operand(0), pull_back(*value->producer, at), fallback);
  if (inputs_.count(value) && fallback->kind == loop::Expr::Kind::constant) {
    // The load itself knows what is outside. Not remembered: the same index has another value with another fallback.
    const DType dtype = value->type.dtype;
    const ExprPtr otherwise =
        is_float(dtype) ? loop::constant_float(dtype, fallback->float_value) : loop::constant_int(dtype, fallback->int_value);
    return cast_to(bind(load_from(buffers_.at(value), place_of(value, at), otherwise)), compute_dtype(dtype));
  }
  return bind(apply(Op::select_, {condition, value_at(value, at), fallback}));
}

ExprPtr Inliner::as_stored(const ExprPtr& value, DType dtype) {
  if (value->dtype == dtype) return value;
  if (value->kind == loop::Expr::Kind::op && value->op == Op::cast_ && value->args[0]->dtype == dtype) return value->args[0];
  return cast_to(value, dtype);
}

void Inliner::store(const Value* value, const Indices& at) {
  const ExprPtr expr = value_at(value, at);
  append({loop::Store{buffers_.at(value), place_of(value, at), as_stored(expr, value->type.dtype)}});
}

ExprPtr Inliner::inline_pointwise(const Node& node, const Indices& at) {
  if (node.op == Op::check_index_) return inline_check(node, at);
  std::vector<ExprPtr> args;
  for (const Value* operand : node.operands) args.push_back(value_at(operand, at));
  const DType dtype = node.result()->type.dtype;
  if (node.op == Op::cast_) {
    // A cast to a narrow float rounds, then is computed with as f32 again.
    return cast_to(bind(cast_to(args[0], dtype)), compute_dtype(dtype));
  }
  if (node.op == Op::bitcast_) {
    auto expr = std::make_shared<loop::Expr>();
    expr->kind = loop::Expr::Kind::op;
    expr->op = Op::bitcast_;
    expr->dtype = dtype;
    expr->args = {as_stored(args[0], node.operand(0)->type.dtype)};
    return cast_to(bind(expr), compute_dtype(dtype));
  }
  return bind(apply(node.op, std::move(args)));
}

ExprPtr Inliner::inline_create(const Node& node, const Indices& at) {
  const DType dtype = node.attrs.get_dtype("dtype"), computed = compute_dtype(dtype);
  if (node.op == Op::iota_) return bind(cast_to(index_value(at[static_cast<size_t>(node.attrs.get_int("axis"))]), computed));
  const AttrValue& value = *node.attrs.find("value");
  Tensor rounded(dtype, Shape{});
  if (const auto* integer = std::get_if<int64_t>(&value)) rounded.set_int64(0, *integer);
  else if (const auto* boolean = std::get_if<bool>(&value)) rounded.set_int64(0, *boolean);
  else rounded.set_double(0, node.attrs.get_float("value"));
  return is_float(dtype) ? loop::constant_float(computed, rounded.as_double(0)) : loop::constant_int(computed, rounded.as_int64(0));
}

ExprPtr Inliner::inline_pad(const Node& node, const Indices& at) {
  const auto& low = node.attrs.get_ints("low");
  const auto& interior = node.attrs.get_ints("interior");
  const ExprPtr fallback = value_at(node.operand(1), {});
  Indices to(at.size());
  ExprPtr on_element;  // false in the gaps that interior padding makes
  for (size_t i = 0; i < at.size(); ++i) {
    to[i] = at[i] - Index(low[i]);
    const int64_t step = interior.empty() ? 1 : interior[i] + 1;
    if (step == 1) continue;
    on_element = logical_and(on_element, in_range(mod(to[i], step), 0, 1));
    to[i] = floor_div(to[i], step);
  }
  const ExprPtr value = value_or(node.operand(0), to, fallback);
  return on_element ? bind(apply(Op::select_, {on_element, value, fallback})) : value;
}

ExprPtr Inliner::inline_concat(const Node& node, const Indices& at) {
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  // The pieces that the index can reach, with where each begins.
  const int64_t low = at[axis].min().value_or(0), high = at[axis].max().value_or(std::numeric_limits<int64_t>::max());
  struct Piece {
    const Value* value;
    int64_t begin;
  };
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (const Value* operand : node.operands) {
    const int64_t end = begin + operand->type.shape()[axis];
    if (end > begin && end > low && begin <= high) pieces.push_back({operand, begin});
    begin = end;
  }
  check(!pieces.empty(), "a concat is read outside of all its pieces");
  auto value_of = [&](const Piece& piece) {
    Indices to = at;
    to[axis] = at[axis] - Index(piece.begin);
    return value_at(piece.value, to);
  };
  ExprPtr result = value_of(pieces.back());
  for (size_t i = pieces.size() - 1; i-- > 0;) {
    const ExprPtr condition = in_range(at[axis], low, pieces[i + 1].begin);
    result = bind(apply(Op::select_, {condition, value_of(pieces[i]), result}));
  }
  return result;
}

}  // namespace tcc::group
