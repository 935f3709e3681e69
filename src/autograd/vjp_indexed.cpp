// vjp rules of gathers, scatters and topk.
//
// A gather is transposed by adding at the indices. Where they are constants (the taps of a resize, a reflecting pad, a slice of positions) and none
// is read often, that is a sum of few gathers from the cotangent instead: no scatter, and the same bits every time.

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

/// An inverse with more gathers than this is not worth it.
constexpr size_t kMostReaders = 8;

/// For each position of an axis of `extent`, which elements of `indices` read it; nothing when some position has too many readers.
std::vector<std::vector<int64_t>> readers_of(const Tensor& indices, int64_t extent) {
  std::vector<std::vector<int64_t>> readers(static_cast<size_t>(extent));
  for (int64_t i = 0, count = indices.count(); i < count; ++i) {
    int64_t at = indices.as_int64(i);
    if (at < 0) at += extent;
    if (at < 0 || at >= extent) continue;
    readers[static_cast<size_t>(at)].push_back(i);
    if (readers[static_cast<size_t>(at)].size() > kMostReaders) return {};
  }
  return readers;
}

/// g [before..., count, after...] by the readers of each position; null when gathering them would read far more than g.
Value* gather_readers(Vjp& v, Value* g, const std::vector<std::vector<int64_t>>& readers, int64_t axis, int64_t count) {
  Builder& b = v.b;
  size_t most = 0;
  for (const auto& list : readers) most = std::max(most, list.size());
  if (most == 0 || static_cast<int64_t>(most * readers.size()) > 4 * count) return nullptr;
  Value* sum = nullptr;
  for (size_t k = 0; k < most; ++k) {
    std::vector<int64_t> from;
    Tensor is_read(DType::boolean, {static_cast<int64_t>(readers.size())});
    bool all_are_read = true;
    for (size_t i = 0; i < readers.size(); ++i) {
      const bool has_reader = k < readers[i].size();
      from.push_back(has_reader ? readers[i][k] : 0);
      is_read.set_int64(static_cast<int64_t>(i), has_reader ? 1 : 0);
      all_are_read = all_are_read && has_reader;
    }
    Value* part = b.emit(Op::gather_, {g, b.constant(Tensor::from_ints(from), "readers")}, {{"axis", axis}});
    if (!all_are_read) part = v.where(b.broadcast_in_dim(b.constant(is_read, "is_read"), part->type.shape(), {axis}), part);
    sum = sum == nullptr ? part : b.add(sum, part);
  }
  return sum;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return inverse;
}

/// Zeros with the updates added at tuples of indices.
Value* add_at(Vjp& v, const Shape& shape, Value* indices, Value* updates) {
  return add_to_zeros(v.b, Op::scatter_nd_, shape, indices, updates, {});
}

}  // namespace

Value* add_to_zeros(Builder& b, Op scatter, const Shape& shape, Value* indices, Value* updates, Attrs attrs) {
  const DType dtype = updates->type.dtype;
  Value* wide = rules::widen(b, updates);
  attrs.set("combiner", "add");
  return b.cast(b.emit(scatter, {b.full(wide->type.dtype, shape, 0), indices, wide}, attrs), dtype);
}

void vjp_gather(Vjp& v) {
  Builder& b = v.b;
  Value *data = v.x(0), *indices = v.x(1);
  const Shape shape = data->type.shape(), index_shape = indices->type.shape();
  const int64_t rank = static_cast<int64_t>(shape.size()), axis = rules::normal_axis(v.attrs().get_int("axis"), data->type.rank());
  const int64_t count = num_elements(index_shape);
  const int64_t extent = shape[static_cast<size_t>(axis)];
  // The axes of the indices as one.
  Shape joined(shape.begin(), shape.begin() + axis);
  joined.push_back(count);
  joined.insert(joined.end(), shape.begin() + axis + 1, shape.end());
  if (indices->kind == Value::Kind::weight && !indices->weight->is_state && count > 0 && extent > 0) {
    const auto readers = readers_of(indices->weight->tensor, extent);
    if (!readers.empty()) {
      if (Value* sum = gather_readers(v, b.reshape(v.g, joined), readers, axis, count)) return v.give(0, sum);
    }
  }
  // The axis first, so that every index addresses a slice.
  std::vector<int64_t> permutation{axis};
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) permutation.push_back(i);
  }
  Shape first;
  for (int64_t i : permutation) first.push_back(shape[static_cast<size_t>(i)]);
  Value* updates = b.transpose(b.reshape(v.g, joined), permutation);
  Shape tuples{count, 1};
  v.give(0, b.transpose(add_at(v, first, b.reshape(indices, tuples), updates), inverse_of(permutation)));
}

void vjp_gather_elements(Vjp& v) {
  v.give(0, add_to_zeros(v.b, Op::scatter_elements_, v.x(0)->type.shape(), v.x(1), v.g, {{"axis", v.attrs().get_int("axis")}}));
}

/// Batch axes become leading indices, which count up.
void vjp_gather_nd(Vjp& v) {
  Builder& b = v.b;
  Value* indices = v.x(1);
  const int64_t batch = v.attrs().get_int("batch_dims");
  if (batch > 0) {
    Shape column = indices->type.shape();
    column.back() = 1;
    std::vector<Value*> columns;
    for (int64_t i = 0; i < batch; ++i) columns.push_back(b.iota(indices->type.dtype, column, i));
    columns.push_back(indices);
    indices = b.concat(columns, static_cast<int64_t>(column.size()) - 1);
  }
  v.give(0, add_at(v, v.x(0)->type.shape(), indices, v.g));
}

namespace {

/// y = data with updates combined in at the indices. `assign` routes to the update, also where another one overwrote it (as frameworks do: which
/// is last is not defined there). max and min share among all that equal the result; a product of the others comes from products without zeros.
void differentiate_scatter(Vjp& v) {
  Builder& b = v.b;
  Value *data = v.x(0), *indices = v.x(1), *updates = v.x(2), *y = v.y();
  const bool elements = v.node.op == Op::scatter_elements_;
  auto scatter = [&](Value* onto, Value* values, const char* combiner) {
    Attrs attrs{{"combiner", combiner}};
    if (elements) attrs.set("axis", v.attrs().get_int("axis"));
    return b.emit(v.node.op, {onto, indices, values}, attrs);
  };
  auto at_indices = [&](Value* from) {
    return elements ? b.emit(Op::gather_elements_, {from, indices}, {{"axis", v.attrs().get_int("axis")}})
                    : b.emit(Op::gather_nd_, {from, indices}, {{"batch_dims", int64_t{0}}});
  };
  const std::string& combiner = v.attrs().get_string("combiner");
  if (combiner == "assign") {
    if (v.wants(0)) v.give(0, scatter(v.g, v.zeros(updates), "assign"));
    if (v.wants(2)) v.give(2, at_indices(v.g));
  } else if (combiner == "add") {
    v.give(0, v.g);
    if (v.wants(2)) v.give(2, at_indices(v.g));
  } else if (combiner == "max" || combiner == "min") {
    const DType dtype = v.g->type.dtype, wide = compute_dtype(dtype);  // 16 bits do not count far
    Value* old_wins = b.binary(Op::eq_, data, y);
    Value* update_wins = b.binary(Op::eq_, updates, at_indices(y));
    Value* share = b.cast(b.div(b.cast(v.g, wide), scatter(b.cast(old_wins, wide), b.cast(update_wins, wide), "add")), dtype);
    if (v.wants(0)) v.give(0, v.where(old_wins, share));
    if (v.wants(2)) v.give(2, v.where(update_wins, at_indices(share)));
  } else {
    Value* ones = b.full_like(data, 1);
    if (v.wants(0)) v.give(0, b.mul(v.g, scatter(ones, updates, "mul")));
    if (!v.wants(2)) return;
    // What an update was multiplied with: the result over it, or, when it is the only zero there, the product of the rest. With two zeros, 0.
    Value* zero = b.binary(Op::eq_, updates, 0.0);
    Value* safe = b.select(zero, b.full_like(updates, 1), updates);
    Value* zeros = at_indices(scatter(v.zeros(data), b.cast(zero, updates->type.dtype), "add"));
    Value* single = b.binary(Op::and_, zero, b.binary(Op::eq_, zeros, 1.0));
    Value* rest = at_indices(scatter(data, safe, "mul"));
    Value* others = b.select(single, rest, b.div(at_indices(y), safe));
    v.give(2, b.mul(at_indices(v.g), others));
  }
}

}  // namespace

void vjp_scatter_elements(Vjp& v) { differentiate_scatter(v); }
void vjp_scatter_nd(Vjp& v) { differentiate_scatter(v); }

/// The indices of one line differ, so that assigning is enough.
void vjp_topk(Vjp& v) {
  if (v.g == nullptr) return;
  v.give(0, v.b.emit(Op::scatter_elements_, {v.zeros(v.x()), v.y(1), v.g}, {{"axis", v.attrs().get_int("axis")}, {"combiner", "assign"}}));
}

}  // namespace tcc::autograd
