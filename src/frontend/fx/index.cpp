// Elements by index: embeddings, gathers, scatters, and Python's x[i, j] with tensors.
#include <algorithm>
#include <array>
#include <limits>

#include "frontend/base/stop_gradient.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

/// Indices are i32 or i64 in the graph.
Value* as_index(Builder& b, Value* index) {
  const DType dtype = index->type.dtype;
  if (dtype == DType::boolean) Call::refuse("data-dependent-size", "a mask chooses elements: how many depends on its values");
  return dtype == DType::i32 || dtype == DType::i64 ? index : b.cast(index, DType::i64);
}

/// Rows by index. No gradient goes to the row `padding_idx`.
void import_embedding(Call& call) {
  Builder& b = call.build();
  Value *weight = call.in("weight"), *index = as_index(b, call.in("indices"));
  Value* y = call.emit(Op::gather_, {weight, index}, {{"axis", int64_t{0}}});
  const int64_t padding = call.integer("padding_idx");
  if (padding < 0) return call.result(y);
  Shape spread = shape_of(index);
  spread.push_back(1);
  Value* is_padding = b.reshape(b.binary(Op::eq_, index, b.full_int(index->type.dtype, {}, padding)), spread);
  call.result(b.select(is_padding, stop_gradient(b, y), y));
}

void import_index_select(Call& call) {
  Value *x = call.in("self"), *index = as_index(call.build(), call.in("index"));
  if (x->type.rank() == 0) return call.result(x);
  if (index->type.rank() == 0) index = call.build().reshape(index, {1});
  call.result(call.emit(Op::gather_, {x, index}, {{"axis", call.axis("dim", x)}}));
}

/// The part of `x` that an index of smaller extents reaches, along all axes but one.
Value* reached(Builder& b, Value* x, const Shape& index, int64_t axis) {
  const Shape shape = shape_of(x);
  std::vector<int64_t> limits = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != at(axis)) limits[i] = std::min(limits[i], index[i]);
  }
  return limits == shape ? x : b.slice(x, std::vector<int64_t>(shape.size(), 0), limits);
}

void check_rank(const Value* x, const Value* index) {
  if (x->type.rank() != index->type.rank())
    Call::refuse("type-error", "`index` is " + to_string(index->type) + ", the tensor is " + to_string(x->type));
}

void import_gather(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *index = as_index(b, call.in("index"));
  check_rank(x, index);
  if (x->type.rank() == 0) return call.result(x);
  const int64_t axis = call.axis("dim", x);
  call.result(call.emit(Op::gather_elements_, {reached(b, x, shape_of(index), axis), index}, {{"axis", axis}}));
}

// ---- x[i, j, ...]: tensors in the places of some axes

struct Indexing {
  std::vector<int64_t> axes;    ///< that are indexed
  std::vector<Value*> indices;  ///< of one shape
  Shape shape;                  ///< of each index
};

/// `clamped`: indices outside of their axis are moved into it.
Indexing read_indices(Call& call, const Value* x, bool clamped = false) {
  Indexing indexing;
  const std::vector<Value*> given = call.tensors("indices");
  if (given.size() > at(x->type.rank())) Call::refuse("type-error", "more indices than the tensor has axes");
  for (size_t axis = 0; axis < given.size(); ++axis) {
    if (given[axis] == nullptr) continue;
    indexing.axes.push_back(static_cast<int64_t>(axis));
    Value* index = call.build().cast(as_index(call.build(), given[axis]), DType::i64);
    if (clamped) {
      const int64_t last = std::max<int64_t>(x->type.dims[axis].bound, 1) - 1;
      index =
          call.build().min(call.build().max(index, call.build().full_int(DType::i64, {}, 0)), call.build().full_int(DType::i64, {}, last));
    }
    indexing.indices.push_back(index);
  }
  if (indexing.axes.empty()) Call::refuse("malformed-file", "no index is given");
  indexing.indices = call.build().broadcast_together(indexing.indices);
  indexing.shape = shape_of(indexing.indices[0]);
  return indexing;
}

/// Indexed axes first, the others behind them in their order.
std::vector<int64_t> indexed_first(const Indexing& indexing, const Value* x) {
  std::vector<int64_t> order = indexing.axes;
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
    if (std::find(indexing.axes.begin(), indexing.axes.end(), axis) == indexing.axes.end()) order.push_back(axis);
  }
  return order;
}

bool are_neighbours(const Indexing& indexing) {
  return indexing.axes.back() - indexing.axes.front() + 1 == static_cast<int64_t>(indexing.axes.size());
}

/// The indices of each element side by side: [..., axes].
Value* tuples(Builder& b, const Indexing& indexing) {
  Shape shape = indexing.shape;
  shape.push_back(1);
  std::vector<Value*> columns;
  for (Value* index : indexing.indices) columns.push_back(b.reshape(index, shape));
  return columns.size() == 1 ? columns[0] : b.concat(columns, static_cast<int64_t>(shape.size()) - 1);
}

/// Where the axes of the indices stand in the result: in the place of neighbouring axes, else in front. The order that takes them there from the
/// front.
std::vector<int64_t> order_of_result(const Indexing& indexing, const Value* x) {
  const auto index_rank = static_cast<int64_t>(indexing.shape.size());
  const int64_t rest = x->type.rank() - static_cast<int64_t>(indexing.axes.size());
  const int64_t before = are_neighbours(indexing) ? indexing.axes.front() : 0;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < before; ++i) order.push_back(index_rank + i);
  for (int64_t i = 0; i < index_rank; ++i) order.push_back(i);
  for (int64_t i = before; i < rest; ++i) order.push_back(index_rank + i);
  return order;
}

Value* indexed(Call& call, Value* x, const Indexing& indexing) {
  Builder& b = call.build();
  if (indexing.axes.size() == 1) return call.emit(Op::gather_, {x, indexing.indices[0]}, {{"axis", indexing.axes[0]}});
  Value* gathered =
      call.emit(Op::gather_nd_, {b.transpose(x, indexed_first(indexing, x)), tuples(b, indexing)}, {{"batch_dims", int64_t{0}}});
  return b.transpose(gathered, order_of_result(indexing, x));
}

void import_index(Call& call) {
  Value* x = call.in("self");
  call.result(indexed(call, x, read_indices(call, x)));
}

/// `fill` where the mask is false, whatever the indices are there.
void import_masked_index(Call& call) {
  Value* x = call.in("self");
  Value* values = indexed(call, x, read_indices(call, x, true));
  call.result(call.build().select(call.in("mask"), values, call.constant(x->type.dtype, call.scalar("fill"))));
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[at(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

/// Slices of x along the axis by index, each replaced by (or combined with) a slice of the updates.
Value* put_slices(Call& call, Value* x, int64_t axis, Value* index, Value* updates, const char* combiner) {
  Builder& b = call.build();
  Shape own(at(x->type.rank()), 1), shape = shape_of(x);
  own[at(axis)] = shape[at(axis)] = index->type.count();
  Value* spread = b.broadcast_to(b.reshape(index, own), shape);
  return call.emit(Op::scatter_elements_, {x, spread, b.reshape(updates, shape)}, {{"axis", axis}, {"combiner", combiner}});
}

Value* put(Call& call, Value* x, const Indexing& indexing, Value* values, const char* combiner) {
  Builder& b = call.build();
  const std::vector<int64_t> order = indexed_first(indexing, x), result_order = order_of_result(indexing, x);
  Shape in_front = indexing.shape, shape;
  for (size_t i = indexing.axes.size(); i < order.size(); ++i) in_front.push_back(x->type.dims[at(order[i])].bound);
  for (const int64_t axis : result_order) shape.push_back(in_front[at(axis)]);
  values = b.broadcast_to(values, shape);
  // Where x lies as it is: what stays of a buffer is then not moved.
  if (indexing.axes.size() == 1 && indexing.axes[0] > 0)
    return put_slices(call, x, indexing.axes[0], indexing.indices[0], values, combiner);
  Value* turned = b.transpose(x, order);
  Value* updates = b.transpose(values, inverse_of(result_order));
  Value* written = call.emit(Op::scatter_nd_, {turned, tuples(b, indexing), updates}, {{"combiner", combiner}});
  return b.transpose(written, inverse_of(order));
}

/// x[i, j] = values, or += values. A mask alone in the place of the first axes chooses between the two tensors.
void import_index_put(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *values = b.cast(call.in("values"), x->type.dtype);
  const bool accumulate = call.flag("accumulate");
  const std::vector<Value*> given = call.tensors("indices");
  if (given.size() == 1 && given[0] != nullptr && given[0]->type.dtype == DType::boolean && values->type.count() == 1) {
    Shape shape = shape_of(given[0]);
    shape.resize(at(x->type.rank()), 1);
    Value* mask = b.reshape(given[0], shape);
    Value* value = b.reshape(values, {});
    return call.result(b.select(mask, accumulate ? b.add(x, value) : value, x));
  }
  call.result(put(call, x, read_indices(call, x), values, accumulate ? "add" : "assign"));
}

void import_masked_index_put(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *values = b.cast(call.in("values"), x->type.dtype);
  values = b.select(call.in("mask"), values, call.constant(x->type.dtype, int64_t{0}));
  call.result(put(call, x, read_indices(call, x, true), values, "add"));
}

// ---- elements of a source in turn, where a mask is true

void import_masked_scatter(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *source = b.cast(call.in("source"), x->type.dtype);
  const std::vector<Value*> both = b.broadcast_together({x, call.in("mask")});
  const Shape shape = shape_of(both[0]);
  const int64_t count = num_elements(shape), available = source->type.count();
  if (count == 0) return call.result(both[0]);
  if (available == 0) Call::refuse("type-error", "`source` has no elements");
  Value* counted = b.cast(b.reshape(both[1], {count}), DType::i64);
  Value* number = call.emit(Op::cumulative_, {counted}, {{"op", "sum"}, {"axis", int64_t{0}}, {"reverse", false}, {"exclusive", true}});
  number = b.min(number, b.full_int(DType::i64, {}, available - 1));  // what is not masked reads anything
  Value* taken = call.emit(Op::gather_, {b.reshape(source, {available}), b.reshape(number, shape)}, {{"axis", int64_t{0}}});
  call.result(b.select(both[1], taken, both[0]));
}

/// The gradient of the source, whose size is given.
void import_masked_scatter_backward(Call& call) {
  Value* gradient = call.in("grad_output");
  Rebuilt forward(call, "masked_scatter.default");
  forward.set_unread("self", gradient->type);
  forward.set_unread("source", Type(gradient->type.dtype, call.integers("sizes")));
  call.results(forward.gradients({{0, gradient}}, {"source"}));
}

// ---- sums, means and extremes of bags of rows: bag i holds the indices from offsets[i] on

struct Bags {
  Value *of_index, *is_member, *size;  ///< of each index its bag, and whether it counts; of each bag how many count, i64
  int64_t count;
};

Bags read_bags(Call& call, Value* indices, Value* offsets) {
  Builder& b = call.build();
  const int64_t n = indices->type.count(), given = offsets->type.count(), count = given - (call.flag("include_last_offset") ? 1 : 0);
  if (indices->type.rank() != 1 || offsets->type.rank() != 1 || count < 0)
    Call::refuse("type-error", "bags of " + to_string(indices->type) + " by " + to_string(offsets->type));
  Value* starts = b.slice(b.cast(offsets, DType::i64), {0}, {count});
  Value* begun = b.binary(Op::le_, b.broadcast_to(b.reshape(starts, {1, count}), {n, count}), b.iota(DType::i64, {n, count}, 0));
  Value* number = b.reduce(Op::reduce_sum_, b.cast(begun, DType::i64), {1});
  Bags bags{b.binary(Op::sub_, number, b.full_int(DType::i64, {}, 1)), b.full_int(DType::boolean, {n}, 1), nullptr, count};
  const int64_t padding = call.maybe_integer("padding_idx").value_or(-1);
  if (padding >= 0) bags.is_member = b.binary(Op::ne_, b.cast(indices, DType::i64), b.full_int(DType::i64, {}, padding));
  Value* in_bag = b.binary(Op::eq_, b.reshape(bags.of_index, {n, 1}), b.iota(DType::i64, {n, count}, 1));
  in_bag = b.binary(Op::and_, in_bag, b.reshape(bags.is_member, {n, 1}));
  bags.size = b.reduce(Op::reduce_sum_, b.cast(in_bag, DType::i64), {0});
  return bags;
}

/// `mode`: 0 sum, 1 mean, 2 max. Bags without rows are zeros.
Value* reduce_bags(Call& call, const Bags& bags, Value* rows, int64_t mode) {
  Builder& b = call.build();
  const DType dtype = rows->type.dtype;
  const double nothing = mode == 2 ? -std::numeric_limits<double>::infinity() : 0;
  rows = b.select(b.reshape(bags.is_member, {rows->type.dims[0].bound, 1}), rows, b.full(dtype, {}, nothing));
  Value* start = b.full(dtype, {bags.count, rows->type.dims[1].bound}, nothing);
  Value* at_bag = b.broadcast_to(b.reshape(bags.of_index, {rows->type.dims[0].bound, 1}), shape_of(rows));
  Value* result = call.emit(Op::scatter_elements_, {start, at_bag, rows}, {{"axis", int64_t{0}}, {"combiner", mode == 2 ? "max" : "add"}});
  Value* size = b.reshape(bags.size, {bags.count, 1});
  if (mode == 1) result = b.div(result, b.cast(b.max(size, b.full_int(DType::i64, {}, 1)), dtype));
  if (mode == 2) result = b.select(b.binary(Op::eq_, size, b.full_int(DType::i64, {}, 0)), b.full(dtype, {}, 0), result);
  return result;
}

/// The result; then, for the backward form, the bag of each index, the sizes of bags, and of a maximum the rows that have it. What no device
/// needs is empty.
void import_embedding_bag(Call& call) {
  Builder& b = call.build();
  Value *weight = call.in("weight"), *indices = as_index(b, call.in("indices"));
  const int64_t mode = call.integer("mode");
  if (mode < 0 || mode > 2 || weight->type.rank() != 2) Call::refuse("type-error", "bags of rows of " + to_string(weight->type));
  const Bags bags = read_bags(call, indices, call.in("offsets"));
  Value* rows = call.emit(Op::gather_, {weight, indices}, {{"axis", int64_t{0}}});
  if (call.has("per_sample_weights"))
    rows = b.mul(rows, b.reshape(b.cast(call.in("per_sample_weights"), rows->type.dtype), {indices->type.count(), 1}));
  const DType dtype = indices->type.dtype;
  const auto or_filler = [&](size_t i, Value* value) {
    const auto type = call.declared(i);
    return !type || type->shape() == shape_of(value) ? b.cast(value, type ? type->dtype : dtype) : call.filler(i, value->type);
  };
  call.results(
      {reduce_bags(call, bags, rows, mode), or_filler(1, bags.of_index), or_filler(2, bags.size), call.filler(3, Type(dtype, {0}))});
}

// ---- other ways to look up

/// Of the flat tensor.
Value* take(Call& call, Value* x, Value* index) {
  return call.emit(Op::gather_, {call.build().reshape(x, {x->type.count()}), as_index(call.build(), index)}, {{"axis", int64_t{0}}});
}

void import_take(Call& call) { call.result(take(call, call.in("self"), call.in("index"))); }

/// The axes beside `dim` are broadcast.
void import_take_along(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *index = as_index(b, call.in("indices"));
  if (!call.has("dim")) return call.result(take(call, x, b.reshape(index, {index->type.count()})));
  check_rank(x, index);
  const int64_t axis = call.axis("dim", x);
  Shape of_x = shape_of(x), of_index = shape_of(index);
  for (size_t i = 0; i < of_x.size(); ++i) {
    if (i == at(axis)) continue;
    if (of_x[i] == 1) of_x[i] = of_index[i];
    if (of_index[i] == 1) of_index[i] = of_x[i];
  }
  call.result(call.emit(Op::gather_elements_, {b.broadcast_to(x, of_x), b.broadcast_to(index, of_index)}, {{"axis", axis}}));
}

/// Each of the elements against all of the list, as a last axis.
Value* against_all(Call& call, Op op, Value* list, Value* elements) {
  Builder& b = call.build();
  const DType dtype = promoted(std::array{Operand{list, false}, Operand{elements, false}});
  Shape shape = shape_of(elements), listed = shape_of(list);
  shape.push_back(1);
  if (listed.size() > 1) listed.insert(listed.end() - 1, 1);
  return b.binary(op, b.reshape(b.cast(list, dtype), listed), b.reshape(b.cast(elements, dtype), shape));
}

void import_isin(Call& call) {
  Builder& b = call.build();
  Value *elements = call.in("elements"), *list = call.in("test_elements");
  Value* equal = against_all(call, Op::eq_, b.reshape(list, {list->type.count()}), elements);
  Value* found = b.reduce(Op::reduce_or_, equal, {equal->type.rank() - 1});
  call.result(call.flag("invert") ? call.emit(Op::not_, {found}) : found);
}

/// How many of the boundaries are below an element, or (`right`) not above it.
void count_below(Call& call, Value* boundaries, Value* elements, bool right) {
  Builder& b = call.build();
  if (boundaries->type.rank() == 0 || (boundaries->type.rank() > 1 && boundaries->type.rank() != elements->type.rank()))
    Call::refuse("type-error", "boundaries are " + to_string(boundaries->type));
  Value* below = against_all(call, right ? Op::le_ : Op::lt_, boundaries, elements);
  const DType dtype = call.flag("out_int32") ? DType::i32 : DType::i64;
  call.result(b.reduce(Op::reduce_sum_, b.cast(below, dtype), {below->type.rank() - 1}));
}

void import_searchsorted(Call& call) {
  if (call.has("sorter")) Call::refuse("unsupported-attribute", "`sorter` is given");
  const bool right = call.has("side") ? call.text("side") == "right" : call.flag("right");
  count_below(call, call.in("sorted_sequence"), call.in("self"), right);
}

void import_bucketize(Call& call) { count_below(call, call.in("boundaries"), call.in("self"), call.flag("right")); }

// ---- scatter along one axis

const char* combiner_of(const std::string& reduce) {
  if (reduce == "add" || reduce == "sum") return "add";
  if (reduce == "multiply" || reduce == "prod") return "mul";
  if (reduce == "amax") return "max";
  if (reduce == "amin") return "min";
  Call::refuse("unsupported-attribute", "`reduce` is '" + reduce + "', lowered are sum, prod, amax and amin");
}

/// Updates are as many as indices; the framework lets them be more.
void scatter(Call& call, Value* updates, const char* combiner) {
  Builder& b = call.build();
  Value *x = call.in("self"), *index = as_index(b, call.in("index"));
  if (x->type.rank() == 0) {
    Value* one = b.reshape(x, {1});
    Value* written = call.emit(Op::scatter_elements_, {one, b.reshape(index, {1}), b.reshape(b.cast(updates, x->type.dtype), {1})},
                               {{"axis", int64_t{0}}, {"combiner", combiner}});
    return call.result(b.reshape(written, {}));
  }
  check_rank(x, index);
  const Shape shape = shape_of(index);
  updates = b.cast(updates, x->type.dtype);
  if (updates->type.rank() == 0) updates = b.broadcast_to(updates, shape);
  else if (shape_of(updates) != shape) updates = b.slice(updates, std::vector<int64_t>(shape.size(), 0), shape);
  call.result(call.emit(Op::scatter_elements_, {x, index, updates}, {{"axis", call.axis("dim", x)}, {"combiner", combiner}}));
}

void import_scatter_src(Call& call) { scatter(call, call.in("src"), "assign"); }
void import_scatter_value(Call& call) { scatter(call, call.constant(call.in("self")->type.dtype, call.scalar("value")), "assign"); }
void import_scatter_add(Call& call) { scatter(call, call.in("src"), "add"); }

template <bool of_value> void import_scatter_with(Call& call) {
  Value* updates = of_value ? call.constant(call.in("self")->type.dtype, call.scalar("value")) : call.in("src");
  scatter(call, updates, combiner_of(call.text("reduce")));
}

void import_scatter_reduce(Call& call) {
  if (!call.flag("include_self")) Call::refuse("unsupported-attribute", "`include_self` is False, lowered is True");
  scatter(call, call.in("src"), combiner_of(call.text("reduce")));
}

/// Whole slices by index.
void slices(Call& call, std::string_view source, const char* combiner, const Number& alpha) {
  Builder& b = call.build();
  Value *x = call.in("self"), *updates = b.cast(call.in(source), x->type.dtype), *index = as_index(b, call.in("index"));
  if (std::holds_alternative<double>(alpha) || std::get<int64_t>(alpha) != 1) updates = b.mul(updates, call.constant(x->type.dtype, alpha));
  if (x->type.rank() == 0) {
    Value* one = put_slices(call, b.reshape(x, {1}), 0, index, b.reshape(updates, {1}), combiner);
    return call.result(b.reshape(one, {}));
  }
  const int64_t axis = call.axis("dim", x);
  Shape expected = shape_of(x);
  expected[at(axis)] = index->type.count();
  if (shape_of(updates) != expected) {
    Call::refuse("type-error", "`" + std::string(source) + "` is " + to_string(updates->type) + ", " +
                                   to_string(std::span<const int64_t>(expected)) + " was expected");
  }
  call.result(put_slices(call, x, axis, index, updates, combiner));
}

void import_index_fill(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *index = as_index(b, call.in("index")), *value = b.cast(call.in("value"), x->type.dtype);
  if (value->type.count() != 1) Call::refuse("type-error", "`value` is " + to_string(value->type) + ", one element was expected");
  value = b.reshape(value, {});
  if (x->type.rank() == 0) return call.result(b.broadcast_to(value, {}));
  const int64_t axis = call.axis("dim", x);
  Shape shape = shape_of(x);
  shape[at(axis)] = index->type.count();
  call.result(put_slices(call, x, axis, index, b.broadcast_to(value, shape), "assign"));
}

void import_index_add(Call& call) { slices(call, "source", "add", call.scalar("alpha")); }
void import_index_copy(Call& call) { slices(call, "source", "assign", int64_t{1}); }

// ---- parts by position

void import_slice_scatter(Call& call) {
  Value *x = call.in("self"), *part = call.build().cast(call.in("src"), x->type.dtype);
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound;
  const auto clamp = [extent](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent); };
  const int64_t start = clamp(call.maybe_integer("start").value_or(0)),
                end = std::max(start, clamp(call.maybe_integer("end").value_or(extent)));
  call.result(put_slice(call.build(), x, part, axis, start, end, call.integer("step")));
}

void import_select_scatter(Call& call) {
  Value *x = call.in("self"), *part = call.build().cast(call.in("src"), x->type.dtype);
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound;
  const int64_t given = call.integer("index"), index = given < 0 ? given + extent : given;
  if (index < 0 || index >= extent)
    Call::refuse("type-error", "`index` is " + std::to_string(given) + ", the axis has " + std::to_string(extent) + " elements");
  Shape kept = shape_of(x);
  kept[at(axis)] = 1;
  call.result(put_slice(call.build(), x, call.build().reshape(part, kept), axis, index, index + 1, 1));
}

void import_one_hot(Call& call) {
  Value* x = call.in("self");
  const int64_t classes = call.integer("num_classes");
  if (classes < 0) Call::refuse("data-dependent-size", "`num_classes` depends on the largest index");
  Shape shape = shape_of(x), own = shape;
  shape.push_back(classes);
  own.push_back(1);
  Builder& b = call.build();
  Value* positions = b.iota(DType::i64, shape, static_cast<int64_t>(shape.size()) - 1);
  call.result(b.cast(b.binary(Op::eq_, b.reshape(b.cast(x, DType::i64), own), positions), DType::i64));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"masked_scatter.default(self, mask, source)", import_masked_scatter},
    {"masked_scatter_backward.default(grad_output, mask, sizes)", import_masked_scatter_backward},
    {"_embedding_bag.default(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, "
     "include_last_offset=False, padding_idx=-1)",
     import_embedding_bag},
    {"embedding_bag.default(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, "
     "include_last_offset=False, padding_idx=-1)",
     import_embedding_bag},
    {"embedding_bag.padding_idx(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, "
     "padding_idx)",
     import_embedding_bag},
    {"_embedding_bag_forward_only.default(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, "
     "per_sample_weights=None, include_last_offset=False, padding_idx=-1)",
     import_embedding_bag},
    {"embedding.default(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)", import_embedding},
    {"index_select.default(self, dim, index)", import_index_select},
    {"gather.default(self, dim, index, sparse_grad=False)", import_gather},
    {"take.default(self, index)", import_take},
    {"take_along_dim.default(self, indices, dim=None)", import_take_along},
    {"index_fill.int_Scalar(self, dim, index, value)", import_index_fill},
    {"index_fill.int_Tensor(self, dim, index, value)", import_index_fill},
    {"isin.Tensor_Tensor(elements, test_elements, assume_unique=False, invert=False)", import_isin},
    {"searchsorted.Tensor(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None)", import_searchsorted},
    {"bucketize.Tensor(self, boundaries, out_int32=False, right=False)", import_bucketize},
    {"index.Tensor(self, indices)", import_index},
    {"_unsafe_index.Tensor(self, indices)", import_index},
    {"index_put.default(self, indices, values, accumulate=False)", import_index_put},
    {"_unsafe_index_put.default(self, indices, values, accumulate=False)", import_index_put},
    {"_unsafe_masked_index.default(self, mask, indices, fill)", import_masked_index},
    {"_unsafe_masked_index_put_accumulate.default(self, mask, indices, values)", import_masked_index_put},
    {"scatter.src(self, dim, index, src)", import_scatter_src},
    {"scatter.value(self, dim, index, value)", import_scatter_value},
    {"scatter.reduce(self, dim, index, src, reduce)", import_scatter_with<false>},
    {"scatter.value_reduce(self, dim, index, value, reduce)", import_scatter_with<true>},
    {"scatter_add.default(self, dim, index, src)", import_scatter_add},
    {"scatter_reduce.two(self, dim, index, src, reduce, include_self=True)", import_scatter_reduce},
    {"index_add.default(self, dim, index, source, alpha=1)", import_index_add},
    {"index_copy.default(self, dim, index, source)", import_index_copy},
    {"slice_scatter.default(self, src, dim=0, start=None, end=None, step=1)", import_slice_scatter},
    {"select_scatter.default(self, src, dim, index)", import_select_scatter},
    {"one_hot.default(self, num_classes=-1)", import_one_hot},
});

}  // namespace

std::span<const Handler> index_handlers() { return kHandlers; }

}  // namespace tcc::fx
