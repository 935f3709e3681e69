// Values whose elements take a loop of their own: reductions, contractions, windows; and those whose index is read from memory.

#include <algorithm>

#include "group/inliner.h"
#include "tcc/graph/ranges.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::apply;
using loop::ExprPtr;
using loop::Index;
using loop::VarRef;

Combiner combiner_in(const Attrs& attrs, const std::string& name) {
  const std::string& word = attrs.get_string(name);
  if (const std::optional<Combiner> combiner = combiner_named(word)) return *combiner;
  internal_error("no reduction is named `" + word + "`");
}

std::vector<VarRef> Inliner::loop_vars(const Shape& extents, Indices* at) {
  std::vector<VarRef> vars;
  for (int64_t extent : extents) {
    if (extent == 1) {
      at->emplace_back(0);
      continue;
    }
    vars.push_back(fresh_var(current_->depth + static_cast<int>(vars.size()), extent));
    at->emplace_back(vars.back());
  }
  return vars;
}

template <class F> ExprPtr Inliner::reduce(Combiner combiner, DType dtype, const std::vector<VarRef>& vars, F value) {
  for (const VarRef& var : vars) {
    if (var->extent == 0) return loop::identity_value(combiner, dtype);
  }
  if (vars.empty()) return cast_to(value(), dtype);
  loop::State state;
  state.result = fresh_scalar(dtype);
  state.combiner = combiner;
  in_scope(
      vars, [&] { state.value = cast_to(value(), dtype); },
      [&](loop::Block block) {
        loop::Reduce reduce;
        for (const VarRef& var : vars) reduce.dims.push_back({var, loop::Bind::none});
        reduce.body = std::move(block);
        reduce.states.push_back(state);
        return loop::Stmt{std::move(reduce)};
      });
  scalar_scope_[state.result.get()] = current_;
  return scalar_value(state.result);
}

std::vector<const Node*> Inliner::siblings_of(const Node& node) const {
  std::vector<const Node*> result;
  const auto level = reduce_level_.find(node.result());
  for (const Node* other : unit_of_.nodes) {
    if (other == &node || !is_reduce(*other) || other->op == Op::argmax_ || other->op == Op::argmin_) continue;
    if (reduced_axes(*other) != reduced_axes(node) || other->operand(0)->type.shape() != node.operand(0)->type.shape()) continue;
    if (level == reduce_level_.end() || reduce_level_.at(other->result()) != level->second) continue;
    result.push_back(other);
  }
  return result;
}

ExprPtr Inliner::inline_reduce(const Node& node, const Indices& at) {
  Indices reduced;
  const Shape shape = node.operand(0)->type.shape();
  Shape extents;
  for (int64_t axis : reduced_axes(node)) extents.push_back(shape[static_cast<size_t>(axis)]);
  const std::vector<VarRef> vars = loop_vars(extents, &reduced);
  Indices to(shape.size());
  const auto axes = reduced_axes(node);
  const auto kept = kept_axes(node);
  for (size_t i = 0; i < axes.size(); ++i) to[static_cast<size_t>(axes[i])] = reduced[i];
  for (size_t i = 0; i < kept.size(); ++i) to[static_cast<size_t>(kept[i])] = at[i];

  const DType dtype = compute_dtype(node.result()->type.dtype);
  const bool loops = !vars.empty() && std::none_of(vars.begin(), vars.end(), [](const VarRef& var) { return var->extent == 0; });
  const std::vector<const Node*> siblings = loops ? siblings_of(node) : std::vector<const Node*>();
  if (siblings.empty()) return reduce(combiner_of(node.op), dtype, vars, [&] { return value_at(node.operand(0), to); });

  // One pass over the elements for all of them.
  std::vector<const Node*> all{&node};
  all.insert(all.end(), siblings.begin(), siblings.end());
  std::sort(all.begin(), all.end(), [&](const Node* a, const Node* b) {
    const auto& nodes = unit_of_.nodes;
    return std::find(nodes.begin(), nodes.end(), a) < std::find(nodes.begin(), nodes.end(), b);
  });
  loop::Reduce statement;
  for (const VarRef& var : vars) statement.dims.push_back({var, loop::Bind::none});
  for (const Node* one : all) {
    loop::State state;
    state.result = fresh_scalar(compute_dtype(one->result()->type.dtype));
    state.combiner = combiner_of(one->op);
    statement.states.push_back(state);
  }
  in_scope(
      vars,
      [&] {
        for (size_t i = 0; i < all.size(); ++i)
          statement.states[i].value = cast_to(value_at(all[i]->operand(0), to), statement.states[i].result->dtype);
      },
      [&](loop::Block block) {
        statement.body = std::move(block);
        return loop::Stmt{statement};
      });
  ExprPtr result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == &node) {
      scalar_scope_[statement.states[i].result.get()] = current_;
      result = scalar_value(statement.states[i].result);
    } else {
      define(statement.states[i].result, all[i]->result(), at);
    }
  }
  return result;
}

ExprPtr Inliner::inline_arg_reduce(const Node& node, const Indices& at) {
  const bool largest = node.op == Op::argmax_, last = node.attrs.get_bool("last");
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  const int64_t extent = node.operand(0)->type.shape()[axis];
  if (extent == 1) return loop::constant_int(DType::i64, 0);
  Indices to = at;
  Indices along;
  const std::vector<VarRef> vars = loop_vars({extent}, &along);
  to.insert(to.begin() + static_cast<ptrdiff_t>(axis), along[0]);
  const DType dtype = compute_dtype(node.operand(0)->type.dtype);

  // (value, index) pairs: the better value wins, NaN over every number, then the first (last) index. The identity loses against all: its index is
  // beyond the last (before the first).
  loop::Reduce statement;
  for (const VarRef& var : vars) statement.dims.push_back({var, loop::Bind::none});
  loop::State value, position;
  value.result = fresh_scalar(dtype);
  value.combiner = position.combiner = largest ? Combiner::max : Combiner::min;
  value.init = loop::identity_value(value.combiner, dtype);
  position.result = fresh_scalar(DType::i64);
  position.init = loop::constant_int(DType::i64, last ? -1 : extent);
  in_scope(
      vars,
      [&] {
        value.value = value_at(node.operand(0), to);
        position.value = index_value(along[0]);
      },
      [&](loop::Block block) {
        auto combine = std::make_shared<loop::Combine>();
        combine->left = {fresh_scalar(dtype), fresh_scalar(DType::i64)};
        combine->right = {fresh_scalar(dtype), fresh_scalar(DType::i64)};
        const ExprPtr left = scalar_value(combine->left[0]), right = scalar_value(combine->right[0]);
        const ExprPtr left_at = scalar_value(combine->left[1]), right_at = scalar_value(combine->right[1]);
        ExprPtr better = apply(largest ? Op::gt_ : Op::lt_, {right, left});
        ExprPtr same = apply(Op::eq_, {right, left});
        if (is_float(dtype)) {
          const ExprPtr left_nan = apply(Op::isnan_, {left}), right_nan = apply(Op::isnan_, {right});
          better = apply(Op::or_, {better, apply(Op::and_, {right_nan, apply(Op::not_, {left_nan})})});
          same = apply(Op::or_, {same, apply(Op::and_, {right_nan, left_nan})});
        }
        const ExprPtr earlier = apply(last ? Op::gt_ : Op::lt_, {right_at, left_at});
        const loop::ScalarRef take = fresh_scalar(DType::boolean);
        combine->body.push_back({loop::Let{take, apply(Op::or_, {better, apply(Op::and_, {same, earlier})})}});
        combine->results = {apply(Op::select_, {scalar_value(take), right, left}),
                            apply(Op::select_, {scalar_value(take), right_at, left_at})};
        statement.combine = combine;
        statement.states = {value, position};
        statement.body = std::move(block);
        return loop::Stmt{statement};
      });
  scalar_scope_[value.result.get()] = current_;
  scalar_scope_[position.result.get()] = current_;
  return scalar_value(position.result);
}

ExprPtr Inliner::inline_dot(const Node& node, const Indices& at) {
  const Value* a = node.operand(0);
  const Value* b = node.operand(1);
  const auto& a_batch = node.attrs.get_ints("lhs_batch");
  const auto& b_batch = node.attrs.get_ints("rhs_batch");
  const auto& a_contract = node.attrs.get_ints("lhs_contract");
  const auto& b_contract = node.attrs.get_ints("rhs_contract");
  Indices a_at(static_cast<size_t>(a->type.rank())), b_at(static_cast<size_t>(b->type.rank()));
  std::vector<char> a_used(a_at.size()), b_used(b_at.size());
  auto set = [](Indices& to, std::vector<char>& used, int64_t axis, const Index& index) {
    to[static_cast<size_t>(axis)] = index;
    used[static_cast<size_t>(axis)] = 1;
  };
  size_t next = 0;
  for (size_t i = 0; i < a_batch.size(); ++i, ++next) {
    set(a_at, a_used, a_batch[i], at[next]);
    set(b_at, b_used, b_batch[i], at[next]);
  }
  const Shape a_shape = a->type.shape();
  Shape extents;
  for (int64_t axis : a_contract) extents.push_back(a_shape[static_cast<size_t>(axis)]);
  Indices contracted;
  const std::vector<VarRef> vars = loop_vars(extents, &contracted);
  for (size_t i = 0; i < a_contract.size(); ++i) {
    set(a_at, a_used, a_contract[i], contracted[i]);
    set(b_at, b_used, b_contract[i], contracted[i]);
  }
  for (size_t i = 0; i < a_at.size(); ++i) {
    if (!a_used[i]) a_at[i] = at[next++];
  }
  for (size_t i = 0; i < b_at.size(); ++i) {
    if (!b_used[i]) b_at[i] = at[next++];
  }
  const DType dtype = compute_dtype(node.result()->type.dtype);
  return reduce(Combiner::sum, dtype, vars, [&] {
    const ExprPtr first = cast_to(value_at(a, a_at), dtype);
    in_second_factor_ = true;
    const ExprPtr second = cast_to(value_at(b, b_at), dtype);
    in_second_factor_ = false;
    return bind(apply(Op::mul_, {first, second}));
  });
}

ExprPtr Inliner::inline_conv(const Node& node, const Indices& at) {
  const Value* x = node.operand(0);
  const Value* w = node.operand(1);
  const Attrs& attrs = node.attrs;
  const Shape w_shape = w->type.shape();
  const int64_t groups = attrs.get_int("groups"), outputs = w_shape[0] / groups;
  Indices reduced;
  const std::vector<VarRef> vars = loop_vars(Shape(w_shape.begin() + 1, w_shape.end()), &reduced);
  const DType dtype = compute_dtype(node.result()->type.dtype);
  return reduce(Combiner::sum, dtype, vars, [&] {
    Indices x_at{at[0], groups == 1 ? reduced[0] : floor_div(at[1], outputs) * w_shape[1] + reduced[0]};
    ExprPtr on_element;  // false in the gaps of a dilated input
    for (size_t i = 2; i < at.size(); ++i) {
      Index position = at[i] * attrs.get_ints("strides")[i - 2] + reduced[i - 1] * attrs.get_ints("rhs_dilation")[i - 2] -
                       Index(attrs.get_ints("low")[i - 2]);
      const int64_t step = attrs.get_ints("lhs_dilation")[i - 2];
      if (step != 1) {
        on_element = logical_and(on_element, in_range(mod(position, step), 0, 1));
        position = floor_div(position, step);
      }
      x_at.push_back(position);
    }
    Indices w_at = reduced;
    w_at.insert(w_at.begin(), at[1]);
    const DType x_dtype = compute_dtype(x->type.dtype);
    const ExprPtr zero = is_float(x_dtype) ? loop::constant_float(x_dtype, 0) : loop::constant_int(x_dtype, 0);
    ExprPtr element = value_or(x, x_at, zero);
    if (on_element) element = bind(apply(Op::select_, {on_element, element, zero}));
    return bind(apply(Op::mul_, {cast_to(element, dtype), cast_to(value_at(w, w_at), dtype)}));
  });
}

ExprPtr Inliner::inline_window(const Node& node, const Indices& at) {
  const Value* x = node.operand(0);
  const Attrs& attrs = node.attrs;
  const Combiner combiner = combiner_in(attrs, "op");
  Indices offset;
  const std::vector<VarRef> vars = loop_vars(attrs.get_ints("window"), &offset);
  const DType dtype = compute_dtype(x->type.dtype);
  return reduce(combiner, dtype, vars, [&] {
    Indices to;
    for (size_t i = 0; i < at.size(); ++i) {
      to.push_back(at[i] * attrs.get_ints("strides")[i] + offset[i] * attrs.get_ints("dilations")[i] - Index(attrs.get_ints("low")[i]));
    }
    return value_or(x, to, loop::identity_value(combiner, dtype));
  });
}

namespace {

/// Whether an index that is read has to be in [low, high] by a check. Constants are none of the caller's: what a model has there is looked at when it is
/// compiled, and a rule that puts an index beyond the end on purpose wants a 0 there.
bool needs_check(const Value* index, int64_t low, int64_t high) {
  const Value* source = source_of(index);
  const bool is_constant_weight = source->kind == Value::Kind::weight && !source->weight->is_state;
  if (is_constant_weight || (source->producer && source->producer->op == Op::full_)) return false;
  const auto known = known_range(index);
  return !(known && known->low >= low && known->high <= high);
}

/// An index that is read where there is none, because who asks for it selects it away (pad, concat, padded windows), is 0 there.
ExprPtr only_inside(const Value* indices, const Indices& at, const ExprPtr& index) {
  const Shape shape = indices->type.shape();
  ExprPtr inside;
  for (size_t i = 0; i < at.size(); ++i) inside = logical_and(inside, in_range(at[i], 0, shape[i]));
  return inside ? apply(Op::select_, {inside, index, loop::constant_int(DType::i64, 0)}) : index;
}

}  // namespace

int Inliner::number_of_check(const Node& node, const Value* index, int64_t low, int64_t high) {
  for (size_t i = 0; i < checks_.size(); ++i) {
    if (checks_[i].index == index && checks_[i].low == low && checks_[i].high == high) return static_cast<int>(i);
  }
  checks_.push_back({&node, index, low, high});
  return static_cast<int>(checks_.size()) - 1;
}

ExprPtr Inliner::inline_check(const Node& node, const Indices& at) {
  const Value* index = node.operand(1);
  const ExprPtr x = value_at(node.operand(0), at);
  const int64_t extent = node.attrs.get_int("extent");
  if (!needs_check(index, 0, extent - 1)) return x;
  const ExprPtr read = bind(cast_to(value_at(index, at), DType::i64));
  return bind(check_index(x, only_inside(index, at, read), read, extent, number_of_check(node, index, 0, extent - 1)));
}

Index Inliner::index_read(const Node& node, const Indices& at, int64_t extent) {
  const Value* indices = node.operand(1);
  Scope* scope = scope_of(at);
  for (const Scope::ReadIndex& known : scope->read_indices) {
    if (known.indices == indices && known.extent == extent && known.at == at) return known.index;
  }
  Scope* before = current_;
  current_ = scope;
  const ExprPtr read = bind(cast_to(value_at(indices, at), DType::i64));
  Index index;
  if (read->kind == loop::Expr::Kind::constant) {
    index = Index(read->int_value < 0 ? read->int_value + extent : read->int_value);
  } else {
    const ExprPtr negative = apply(Op::lt_, {read, loop::constant_int(DType::i64, 0)});
    ExprPtr wrapped = apply(Op::select_, {negative, apply(Op::add_, {read, loop::constant_int(DType::i64, extent)}), read});
    if (extent > 0 && needs_check(indices, -extent, extent - 1)) {
      wrapped = bind(only_inside(indices, at, bind(wrapped)));
      wrapped = check_index(wrapped, wrapped, read, extent, number_of_check(node, indices, -extent, extent - 1));
    }
    index = Index::of_scalar(bind(wrapped)->scalar);
  }
  current_ = before;
  scope->read_indices.push_back({indices, at, extent, index});
  return index;
}

ExprPtr Inliner::inline_gather(const Node& node, const Indices& at) {
  const Value* data = node.operand(0);
  const Value* indices = node.operand(1);
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis")), rank = static_cast<size_t>(indices->type.rank());
  const auto begin = at.begin() + static_cast<ptrdiff_t>(axis), end = begin + static_cast<ptrdiff_t>(rank);
  Indices to(at.begin(), begin);
  to.push_back(index_read(node, Indices(begin, end), data->type.shape()[axis]));
  to.insert(to.end(), end, at.end());
  const DType dtype = compute_dtype(data->type.dtype);
  return value_or(data, to, is_float(dtype) ? loop::constant_float(dtype, 0) : loop::constant_int(dtype, 0));
}

ExprPtr Inliner::inline_gather_elements(const Node& node, const Indices& at) {
  const Value* data = node.operand(0);
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  Indices to = at;
  to[axis] = index_read(node, at, data->type.shape()[axis]);
  const DType dtype = compute_dtype(data->type.dtype);
  return value_or(data, to, is_float(dtype) ? loop::constant_float(dtype, 0) : loop::constant_int(dtype, 0));
}

ExprPtr Inliner::inline_gather_nd(const Node& node, const Indices& at) {
  const Value* data = node.operand(0);
  const Value* indices = node.operand(1);
  const size_t batch = static_cast<size_t>(node.attrs.get_int("batch_dims")), rank = static_cast<size_t>(indices->type.rank());
  const Shape shape = data->type.shape();
  const int64_t depth = indices->type.shape().back();
  Indices tuple(at.begin(), at.begin() + static_cast<ptrdiff_t>(rank - 1));
  Indices to(at.begin(), at.begin() + static_cast<ptrdiff_t>(batch));
  for (int64_t i = 0; i < depth; ++i) {
    Indices one = tuple;
    one.emplace_back(i);
    to.push_back(index_read(node, one, shape[batch + static_cast<size_t>(i)]));
  }
  to.insert(to.end(), at.begin() + static_cast<ptrdiff_t>(rank - 1), at.end());
  const DType dtype = compute_dtype(data->type.dtype);
  return value_or(data, to, is_float(dtype) ? loop::constant_float(dtype, 0) : loop::constant_int(dtype, 0));
}

}  // namespace tcc::group
