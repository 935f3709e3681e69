// Rewrites of ops that read parts of tensors or put them together: slice, pad, concat, gather, and of contractions and reductions whose operand is a view.
//   slice(slice(x)), slice of all, slice inside one operand of a concat     gather at constant indices that step evenly   ->  slice
//   concat of neighbouring slices of x  ->  one slice                       dot_general(transpose(x), y)                  ->  dot_general(x, y)
//                                                                           dot_general over neighbouring axes            ->  over one

#include <algorithm>

#include "passes/rewrite.h"

namespace tcc {
namespace {

using Axes = std::vector<int64_t>;

constexpr int64_t kMaxIndices = 4096;       // of a gather that may be a slice
constexpr int64_t kMaxPositions = 1 << 20;  // of a gather_nd that may be a reshape

struct SliceBounds {
  Axes starts, limits, steps;
};
SliceBounds bounds_of(const Node& slice) {
  return {slice.attrs.get_ints("starts"), slice.attrs.get_ints("limits"), slice.attrs.get_ints("steps")};
}
SliceBounds all_of(const Value* x) {
  const size_t rank = static_cast<size_t>(x->type.rank());
  return {Axes(rank, 0), x->type.shape(), Axes(rank, 1)};
}
Value* emit_slice(Rewriter& r, Value* x, SliceBounds bounds) {
  return r.emit(Op::slice_, {x},
                {{"starts", std::move(bounds.starts)}, {"limits", std::move(bounds.limits)}, {"steps", std::move(bounds.steps)}});
}

Value* of_constant(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::full_);
  return inner != nullptr ? r.full(node.result()->type, splat_of_full(*inner)) : nullptr;
}

Value* slice_of_all(Rewriter&, Node& node) { return node.operand(0)->type == node.result()->type ? node.operand(0) : nullptr; }

Value* slice_of_slice(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::slice_);
  if (inner == nullptr) return nullptr;
  const SliceBounds first = bounds_of(*inner), second = bounds_of(node);
  SliceBounds both = first;
  const Shape extents = node.result()->type.shape();
  for (size_t i = 0; i < both.starts.size(); ++i) {
    both.steps[i] = first.steps[i] * second.steps[i];
    both.starts[i] = std::min(first.starts[i] + second.starts[i] * first.steps[i], first.limits[i]);
    both.limits[i] = extents[i] == 0 ? both.starts[i] : both.starts[i] + (extents[i] - 1) * both.steps[i] + 1;
  }
  return emit_slice(r, inner->operand(0), std::move(both));
}

Value* slice_of_concat(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::concat_);
  if (inner == nullptr) return nullptr;
  SliceBounds bounds = bounds_of(node);
  const size_t axis = static_cast<size_t>(inner->attrs.get_int("axis"));
  int64_t begin = 0;
  for (Value* piece : inner->operands) {
    const int64_t end = begin + piece->type.dims[axis].bound;
    if (begin <= bounds.starts[axis] && bounds.limits[axis] <= end) {
      bounds.starts[axis] -= begin;
      bounds.limits[axis] -= begin;
      return emit_slice(r, piece, std::move(bounds));
    }
    begin = end;
  }
  return nullptr;
}

Value* pad_of_nothing(Rewriter& r, Node& node) {
  if (node.operand(0)->type == node.result()->type) return node.operand(0);
  const Node* inner = made_by(node.operand(0), Op::full_);
  if (inner == nullptr) return nullptr;
  const Splat value = splat_of_full(*inner);
  return r.is_splat(node.operand(1), value.as_double()) ? r.full(node.result()->type, value) : nullptr;
}

/// The slice that a and its right neighbour b make together along the axis, if they do.
std::optional<SliceBounds> joined(const Node& a, const Node& b, size_t axis) {
  if (a.operand(0) != b.operand(0)) return std::nullopt;
  SliceBounds left = bounds_of(a), right = bounds_of(b);
  if (left.steps[axis] != 1 || left.limits[axis] != right.starts[axis]) return std::nullopt;
  left.limits[axis] = right.limits[axis];
  right.starts[axis] = left.starts[axis];
  const bool same = left.starts == right.starts && left.limits == right.limits && left.steps == right.steps;
  return same ? std::optional(left) : std::nullopt;
}

// Empty operands go, nested concats along the same axis are spliced in, neighbouring slices of one value are joined.
Value* concat_of_few(Rewriter& r, Node& node) {
  const int64_t axis = node.attrs.get_int("axis");
  std::vector<Value*> pieces;
  bool changed = false;
  const auto append = [&](Value* piece) {
    if (piece->type.dims[static_cast<size_t>(axis)].bound == 0) {
      changed = true;
      return;
    }
    const Node* slice = made_by(piece, Op::slice_);
    const Node* previous = pieces.empty() ? nullptr : made_by(pieces.back(), Op::slice_);
    if (slice != nullptr && previous != nullptr) {
      if (auto bounds = joined(*previous, *slice, static_cast<size_t>(axis))) {
        pieces.back() = emit_slice(r, slice->operand(0), std::move(*bounds));
        changed = true;
        return;
      }
    }
    pieces.push_back(piece);
  };
  for (Value* operand : node.operands) {
    const Node* inner = made_by(operand, Op::concat_);
    if (inner == nullptr || inner->attrs.get_int("axis") != axis) {
      append(operand);
      continue;
    }
    changed = true;
    for (Value* piece : inner->operands) append(piece);
  }
  if (pieces.size() == 1) return pieces[0];
  if (pieces.empty()) return node.operand(0);
  return changed ? r.emit(Op::concat_, std::move(pieces), {{"axis", axis}}) : nullptr;
}

// Indices known at compile time: one index, or several with even steps, in range, are a slice.
Value* gather_at_constants(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  const Value* indices = node.operand(1);
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  const int64_t extent = x->type.dims[axis].bound, count = indices->type.count();
  if (count == 0 || count > kMaxIndices) return nullptr;
  std::vector<int64_t> positions;
  if (const Node* iota = made_by(indices, Op::iota_); iota != nullptr && indices->type.rank() == 1) {
    for (int64_t i = 0; i < count; ++i) positions.push_back(i);
  } else if (const auto same = r.splat(indices); same && count == 1) {
    positions.push_back(same->integer);
  } else if (const Tensor* tensor = r.constant(indices)) {
    for (int64_t i = 0; i < count; ++i) positions.push_back(tensor->as_int64(i));
  }
  if (positions.empty()) return nullptr;
  for (int64_t& position : positions) {
    if (position < 0) position += extent;
    if (position < 0 || position >= extent) return nullptr;
  }
  const int64_t step = count > 1 ? positions[1] - positions[0] : 1;
  if (step < 1) return nullptr;
  for (size_t i = 1; i < positions.size(); ++i) {
    if (positions[i] - positions[i - 1] != step) return nullptr;
  }
  SliceBounds bounds = all_of(x);
  bounds.starts[axis] = positions.front();
  bounds.limits[axis] = positions.back() + 1;
  bounds.steps[axis] = step;
  return r.reshape(emit_slice(r, x, std::move(bounds)), node.result()->type.shape());
}

// Constant index tuples that name every element once and in order: exporters write such a gather for a mask that they only reshape.
Value* gather_of_all(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  const Tensor* indices = r.constant(node.operand(1));
  if (indices == nullptr || indices->count() > kMaxPositions || node.attrs.get_int("batch_dims") != 0 ||
      x->type.count() != node.result()->type.count())
    return nullptr;
  const int64_t depth = indices->shape().back(), tuples = depth == 0 ? 0 : indices->count() / depth;
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t position = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = x->type.dims[static_cast<size_t>(k)].bound;
      int64_t index = indices->as_int64(i * depth + k);
      if (index < 0) index += extent;
      if (index < 0 || index >= extent) return nullptr;
      position = position * extent + index;
    }
    if (position != i) return nullptr;
  }
  return r.reshape(x, node.result()->type.shape());
}

Value* reduce_of_unit_axes(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  for (const int64_t axis : node.attrs.get_ints("axes")) {
    if (x->type.dims[static_cast<size_t>(axis)].bound != 1) return nullptr;
  }
  return r.reshape(x, node.result()->type.shape());
}

/// Whether the axes that neither list names keep their order when seen through the permutation.
bool keeps_free_order(const Axes& permutation, const Axes& batch, const Axes& contract) {
  int64_t last = -1;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const int64_t axis = static_cast<int64_t>(i);
    if (std::find(batch.begin(), batch.end(), axis) != batch.end() || std::find(contract.begin(), contract.end(), axis) != contract.end())
      continue;
    if (permutation[i] < last) return false;
    last = permutation[i];
  }
  return true;
}

// The axes of a contraction are named, so a transpose in front only changes the names.
Value* dot_of_transpose(Rewriter& r, Node& node) {
  for (int side = 0; side < 2; ++side) {
    const Node* inner = made_by(node.operand(side), Op::transpose_);
    if (inner == nullptr) continue;
    const char* batch_name = side == 0 ? "lhs_batch" : "rhs_batch";
    const char* contract_name = side == 0 ? "lhs_contract" : "rhs_contract";
    const Axes& permutation = inner->attrs.get_ints("permutation");
    Axes batch = node.attrs.get_ints(batch_name), contract = node.attrs.get_ints(contract_name);
    if (!keeps_free_order(permutation, batch, contract)) continue;
    for (Axes* axes : {&batch, &contract}) {
      for (int64_t& axis : *axes) axis = permutation[static_cast<size_t>(axis)];
    }
    std::vector<Value*> operands = node.operands;
    operands[static_cast<size_t>(side)] = inner->operand(0);
    Attrs attrs = node.attrs;
    attrs.set(batch_name, std::move(batch));
    attrs.set(contract_name, std::move(contract));
    return r.emit(Op::dot_general_, std::move(operands), std::move(attrs));
  }
  return nullptr;
}

// Two axes that are summed over and lie side by side in both operands are one: [B, S, M] x [B, S, N] over B and S is a plain matrix product.
Value* dot_over_neighbours(Rewriter& r, Node& node) {
  const Axes& lhs = node.attrs.get_ints("lhs_contract");
  const Axes& rhs = node.attrs.get_ints("rhs_contract");
  for (size_t i = 0; i < lhs.size(); ++i) {
    for (size_t j = 0; j < lhs.size(); ++j) {
      if (lhs[j] != lhs[i] + 1 || rhs[j] != rhs[i] + 1) continue;
      std::vector<Value*> operands;
      Attrs attrs = node.attrs;
      for (int side = 0; side < 2; ++side) {
        const int64_t axis = side == 0 ? lhs[i] : rhs[i];  // the next one goes into it
        Shape shape = node.operand(side)->type.shape();
        shape[static_cast<size_t>(axis)] *= shape[static_cast<size_t>(axis) + 1];
        shape.erase(shape.begin() + axis + 1);
        operands.push_back(r.reshape(node.operand(side), shape));
        for (const char* name : {side == 0 ? "lhs_batch" : "rhs_batch", side == 0 ? "lhs_contract" : "rhs_contract"}) {
          Axes axes;
          for (const int64_t old : node.attrs.get_ints(name)) {
            if (old != axis + 1) axes.push_back(old > axis ? old - 1 : old);
          }
          attrs.set(name, std::move(axes));
        }
      }
      return r.emit(Op::dot_general_, std::move(operands), std::move(attrs));
    }
  }
  return nullptr;
}

}  // namespace

std::vector<RewriteRow> access_rewrites() {
  return {
      {Op::slice_, of_constant},
      {Op::slice_, slice_of_all},
      {Op::slice_, slice_of_slice},
      {Op::slice_, slice_of_concat},
      {Op::pad_, pad_of_nothing},
      {Op::concat_, concat_of_few},
      {Op::gather_, gather_at_constants},
      {Op::gather_nd_, gather_of_all},
      {Op::reduce_sum_, reduce_of_unit_axes},
      {Op::reduce_prod_, reduce_of_unit_axes},
      {Op::reduce_max_, reduce_of_unit_axes},
      {Op::reduce_min_, reduce_of_unit_axes},
      {Op::reduce_and_, reduce_of_unit_axes},
      {Op::reduce_or_, reduce_of_unit_axes},
      {Op::dot_general_, dot_of_transpose},
      {Op::dot_general_, dot_over_neighbours},
  };
}

}  // namespace tcc
