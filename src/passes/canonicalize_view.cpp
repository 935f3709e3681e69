// Rewrites of views: reshape, transpose, broadcast_in_dim, reverse. Two of a kind become one, those that change nothing go, and a view of a constant
// that is the same everywhere is a constant.
//   transpose that moves only axes of extent 1, broadcast that adds only such axes   ->  reshape
//   transpose(broadcast_in_dim(x))                                                   ->  broadcast_in_dim(x), if need be of a transposed x
//   axes merged, moved together, and split again                                     ->  one transpose

#include <algorithm>
#include <numeric>

#include "passes/rewrite.h"

namespace tcc {
namespace {

using Axes = std::vector<int64_t>;

Value* of_constant(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::full_);
  return inner != nullptr ? r.full(node.result()->type, splat_of_full(*inner)) : nullptr;
}

Value* to_same(Rewriter&, Node& node) { return node.operand(0)->type == node.result()->type ? node.operand(0) : nullptr; }

Value* reshape_of_reshape(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::reshape_);
  return inner != nullptr ? r.reshape(inner->operand(0), node.result()->type.shape()) : nullptr;
}

Value* to_reshape(Rewriter& r, Node& node) { return r.reshape(node.operand(0), node.result()->type.shape()); }

/// For each axis of `merged` the run of axes of `shape` that it consists of; nothing when axes are split as well. Unit axes join the run before them.
std::optional<std::vector<Axes>> merged_runs(const Shape& shape, const Shape& merged) {
  std::vector<Axes> runs(merged.size());
  size_t next = 0;
  for (size_t axis = 0; axis < merged.size(); ++axis) {
    int64_t extent = 1;
    while (next < shape.size() && (extent < merged[axis] || shape[next] == 1)) {
      extent *= shape[next];
      runs[axis].push_back(static_cast<int64_t>(next++));
    }
    if (extent != merged[axis]) return std::nullopt;
  }
  return next == shape.size() ? std::optional(runs) : std::nullopt;
}

// Row-major order is kept inside a run, so moving the run is moving its axes.
Value* split_of_moved_runs(Rewriter& r, Node& node) {
  const Node* move = made_by(node.operand(0), Op::transpose_);
  const Node* merge = move != nullptr ? made_by(move->operand(0), Op::reshape_) : nullptr;
  if (merge == nullptr || node.result()->type.count() == 0) return nullptr;
  Value* x = merge->operand(0);
  const auto runs = merged_runs(x->type.shape(), merge->result()->type.shape());
  if (!runs) return nullptr;
  Axes permutation;
  Shape shape;
  for (const int64_t axis : move->attrs.get_ints("permutation")) {
    for (const int64_t inner : (*runs)[static_cast<size_t>(axis)]) {
      permutation.push_back(inner);
      shape.push_back(x->type.dims[static_cast<size_t>(inner)].bound);
    }
  }
  return shape == node.result()->type.shape() ? r.emit(Op::transpose_, {x}, {{"permutation", permutation}}) : nullptr;
}

bool is_identity(const Axes& permutation) {
  return std::is_sorted(permutation.begin(), permutation.end());  // a permutation in order is the identity
}

Value* transpose_of_nothing(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  const Axes& permutation = node.attrs.get_ints("permutation");
  if (is_identity(permutation)) return x;
  int64_t last = -1;
  for (const int64_t axis : permutation) {
    if (x->type.dims[static_cast<size_t>(axis)].bound == 1) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return to_reshape(r, node);
}

Value* transpose_of_transpose(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::transpose_);
  if (inner == nullptr) return nullptr;
  const Axes& first = inner->attrs.get_ints("permutation");
  Axes permutation;
  for (const int64_t axis : node.attrs.get_ints("permutation")) permutation.push_back(first[static_cast<size_t>(axis)]);
  if (is_identity(permutation)) return inner->operand(0);
  return r.emit(Op::transpose_, {inner->operand(0)}, {{"permutation", permutation}});
}

Value* transpose_of_broadcast(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::broadcast_in_dim_);
  if (inner == nullptr) return nullptr;
  Value* x = inner->operand(0);
  const Axes& permutation = node.attrs.get_ints("permutation");
  const Axes& dims = inner->attrs.get_ints("dims");
  Axes place(permutation.size());  // where an axis of the broadcast goes
  for (size_t i = 0; i < permutation.size(); ++i) place[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  Axes order(dims.size()), moved;  // axes of x in the order in which they come out
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return place[static_cast<size_t>(dims[static_cast<size_t>(a)])] < place[static_cast<size_t>(dims[static_cast<size_t>(b)])];
  });
  for (const int64_t axis : order) moved.push_back(place[static_cast<size_t>(dims[static_cast<size_t>(axis)])]);
  Value* turned = is_identity(order) ? x : r.emit(Op::transpose_, {x}, {{"permutation", order}});
  return r.emit(Op::broadcast_in_dim_, {turned}, {{"shape", node.result()->type.shape()}, {"dims", moved}});
}

Value* broadcast_of_nothing(Rewriter& r, Node& node) {
  const Value* x = node.operand(0);
  if (x->type.count() == node.result()->type.count() && x->type.count() > 0) return to_reshape(r, node);
  return nullptr;
}

Value* broadcast_of_broadcast(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::broadcast_in_dim_);
  if (inner == nullptr) return nullptr;
  const Axes& outer_dims = node.attrs.get_ints("dims");
  Axes dims;
  for (const int64_t axis : inner->attrs.get_ints("dims")) dims.push_back(outer_dims[static_cast<size_t>(axis)]);
  return r.emit(Op::broadcast_in_dim_, {inner->operand(0)}, {{"shape", node.result()->type.shape()}, {"dims", dims}});
}

// A reshape that only adds axes of extent 1 says no more than `dims` can.
Value* broadcast_of_reshape(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::reshape_);
  if (inner == nullptr) return nullptr;
  const Shape from = inner->operand(0)->type.shape(), to = inner->result()->type.shape();
  const Axes& outer_dims = node.attrs.get_ints("dims");
  Axes dims;
  size_t next = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (next < from.size() && from[next] == to[axis]) {
      dims.push_back(outer_dims[axis]);
      ++next;
    } else if (to[axis] != 1) {
      return nullptr;
    }
  }
  if (next != from.size()) return nullptr;
  return r.emit(Op::broadcast_in_dim_, {inner->operand(0)}, {{"shape", node.result()->type.shape()}, {"dims", dims}});
}

Value* reverse_of_nothing(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  Axes axes;
  for (const int64_t axis : node.attrs.get_ints("axes")) {
    if (x->type.dims[static_cast<size_t>(axis)].bound > 1) axes.push_back(axis);
  }
  if (axes.empty()) return x;
  return axes.size() < node.attrs.get_ints("axes").size() ? r.emit(Op::reverse_, {x}, {{"axes", axes}}) : nullptr;
}

Value* reverse_of_reverse(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::reverse_);
  if (inner == nullptr) return nullptr;
  Axes axes;  // reversed an odd number of times
  std::vector<char> odd(static_cast<size_t>(node.result()->type.rank()), 0);
  for (const Node* each : {inner, static_cast<const Node*>(&node)}) {
    for (const int64_t axis : each->attrs.get_ints("axes")) odd[static_cast<size_t>(axis)] ^= 1;
  }
  for (size_t axis = 0; axis < odd.size(); ++axis) {
    if (odd[axis]) axes.push_back(static_cast<int64_t>(axis));
  }
  if (axes.empty()) return inner->operand(0);
  return r.emit(Op::reverse_, {inner->operand(0)}, {{"axes", axes}});
}

}  // namespace

std::vector<RewriteRow> view_rewrites() {
  return {
      {Op::reshape_, to_same},
      {Op::reshape_, of_constant},
      {Op::reshape_, reshape_of_reshape},
      {Op::reshape_, split_of_moved_runs},
      {Op::flatten_, to_reshape},
      {Op::transpose_, of_constant},
      {Op::transpose_, transpose_of_nothing},
      {Op::transpose_, transpose_of_transpose},
      {Op::transpose_, transpose_of_broadcast},
      {Op::broadcast_in_dim_, of_constant},
      {Op::broadcast_in_dim_, broadcast_of_nothing},
      {Op::broadcast_in_dim_, broadcast_of_broadcast},
      {Op::broadcast_in_dim_, broadcast_of_reshape},
      {Op::reverse_, of_constant},
      {Op::reverse_, reverse_of_nothing},
      {Op::reverse_, reverse_of_reverse},
  };
}

}  // namespace tcc
