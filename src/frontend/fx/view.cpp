// Views: tensors that share the memory of another. Each is a step from its base, and the way back for a write in place (aliases.h).
#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/base/stop_gradient.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

// A program names each part of a split.
constexpr int64_t kMostParts = 1 << 20;

// ---- steps

ViewStep identity() {
  return {[](Builder&, Value* base) { return base; }, [](Builder&, Value*, Value* view) { return view; }};
}

ViewStep reshape_to(const Shape& shape) {
  return {[shape](Builder& b, Value* base) { return b.reshape(base, shape); },
          [](Builder& b, Value* base, Value* view) { return b.reshape(view, shape_of(base)); }};
}

ViewStep permute_by(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[at(order[i])] = static_cast<int64_t>(i);
  return {[order](Builder& b, Value* base) { return b.transpose(base, order); },
          [inverse](Builder& b, Value*, Value* view) { return b.transpose(view, inverse); }};
}

/// Elements of several views may be one element of the base: there is no way back.
ViewStep expand_to(const Shape& shape) {
  return {[shape](Builder& b, Value* base) { return b.broadcast_to(base, shape); }, nullptr};
}

struct Slice {
  int64_t axis, start, end, step;
};

Value* take(Builder& b, Value* x, const Slice& slice) {
  const Shape shape = shape_of(x);
  std::vector<int64_t> starts(shape.size(), 0), limits = shape, steps(shape.size(), 1);
  starts[at(slice.axis)] = slice.start;
  limits[at(slice.axis)] = slice.end;
  steps[at(slice.axis)] = slice.step;
  return b.slice(x, starts, limits, steps);
}

ViewStep slice_by(const Slice& slice) {
  return {
      [slice](Builder& b, Value* base) { return take(b, base, slice); },
      [slice](Builder& b, Value* base, Value* view) { return put_slice(b, base, view, slice.axis, slice.start, slice.end, slice.step); }};
}

/// The element of an axis, which leaves the shape.
ViewStep select_at(int64_t axis, int64_t index, const Shape& base_shape) {
  Shape without = base_shape, kept = base_shape;
  without.erase(without.begin() + axis);
  kept[at(axis)] = 1;
  const Slice slice{axis, index, index + 1, 1};
  return {[=](Builder& b, Value* base) { return b.reshape(take(b, base, slice), without); },
          [=](Builder& b, Value* base, Value* view) { return put_slice(b, base, b.reshape(view, kept), axis, index, index + 1, 1); }};
}

// ---- handlers

/// The extent given as -1 is what is left.
Shape with_inferred(Shape shape, int64_t count) {
  int64_t known = 1;
  auto unknown = shape.end();
  for (auto extent = shape.begin(); extent != shape.end(); ++extent) {
    if (*extent < -1 || (*extent == -1 && unknown != shape.end()))
      Call::refuse("type-error", "the size " + to_string(std::span(shape)) + " is asked for");
    if (*extent == -1) unknown = extent;
    else if (__builtin_mul_overflow(known, *extent, &known))
      Call::refuse("type-error", "the size " + to_string(std::span(shape)) + " is too large");
  }
  if (unknown != shape.end()) *unknown = known == 0 ? 0 : count / known;
  return shape;
}

void import_view(Call& call) {
  const Value* x = call.in("self");
  call.view("self", reshape_to(with_inferred(call.integers("size"), x->type.count())));
}

void import_reshape(Call& call) {
  const Value* x = call.in("self");
  call.view("self", reshape_to(with_inferred(call.integers("shape"), x->type.count())));
}

void import_view_as(Call& call) { call.view("self", reshape_to(shape_of(call.in("other")))); }

void import_unsqueeze(Call& call) {
  Shape shape = shape_of(call.in("self"));
  const int64_t axis = Call::axis_of(call.integer("dim"), static_cast<int64_t>(shape.size()) + 1);
  shape.insert(shape.begin() + axis, 1);
  call.view("self", reshape_to(shape));
}

void import_squeeze(Call& call) {
  const Value* x = call.in("self");
  const std::vector<int64_t> axes = call.axes("dim", x);
  Shape shape;
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
    const bool dropped = x->type.dims[at(axis)].bound == 1 && std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!dropped) shape.push_back(x->type.dims[at(axis)].bound);
  }
  call.view("self", reshape_to(shape));
}

void import_squeeze_all(Call& call) {
  Shape shape = shape_of(call.in("self"));
  std::erase(shape, 1);
  call.view("self", reshape_to(shape));
}

void import_flatten(Call& call) {
  const Shape shape = shape_of(call.in("self"));
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0) return call.view("self", reshape_to({1}));
  const int64_t first = Call::axis_of(call.integer("start_dim"), rank), last = Call::axis_of(call.integer("end_dim"), rank);
  if (first > last) Call::refuse("type-error", "`start_dim` lies behind `end_dim`");
  Shape flat(shape.begin(), shape.begin() + first);
  flat.push_back(num_elements(std::span(shape).subspan(at(first), at(last - first + 1))));
  flat.insert(flat.end(), shape.begin() + last + 1, shape.end());
  call.view("self", reshape_to(flat));
}

void import_unflatten(Call& call) {
  const Value* x = call.in("self");
  Shape shape = shape_of(x);
  const int64_t axis = call.axis("dim", x);
  const Shape parts = with_inferred(call.integers("sizes"), shape[at(axis)]);
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, parts.begin(), parts.end());
  call.view("self", reshape_to(shape));
}

std::vector<int64_t> identity_order(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void import_permute(Call& call) {
  const Value* x = call.in("self");
  std::vector<int64_t> order;
  for (const int64_t axis : call.integers("dims")) order.push_back(Call::axis_of(axis, x->type.rank()));
  call.view("self", permute_by(order));
}

void swap_axes(Call& call, std::string_view first, std::string_view second) {
  const Value* x = call.in("self");
  std::vector<int64_t> order = identity_order(at(x->type.rank()));
  if (!order.empty()) std::swap(order[at(call.axis(first, x))], order[at(call.axis(second, x))]);
  call.view("self", permute_by(order));
}

void import_transpose(Call& call) { swap_axes(call, "dim0", "dim1"); }
void import_swapaxes(Call& call) { swap_axes(call, "axis0", "axis1"); }

void import_t(Call& call) {
  std::vector<int64_t> order = identity_order(at(call.in("self")->type.rank()));
  std::reverse(order.begin(), order.end());
  call.view("self", permute_by(order));
}

/// The last two axes in turn.
void import_mt(Call& call) {
  std::vector<int64_t> order = identity_order(at(call.in("self")->type.rank()));
  if (order.size() >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
  call.view("self", permute_by(order));
}

/// The axes of `source`, in order, go to the places `destination`.
void import_movedim(Call& call) {
  const Value* x = call.in("self");
  const std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
  if (from.size() != to.size()) Call::refuse("malformed-file", "`source` and `destination` differ in length");
  std::vector<int64_t> order(at(x->type.rank()), -1);
  std::vector<bool> moved(order.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    order[at(Call::axis_of(to[i], x->type.rank()))] = Call::axis_of(from[i], x->type.rank());
    moved[at(Call::axis_of(from[i], x->type.rank()))] = true;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (next < moved.size() && moved[next]) ++next;
    axis = static_cast<int64_t>(next++);
  }
  call.view("self", permute_by(order));
}

void import_expand(Call& call) {
  const Shape from = shape_of(call.in("self"));
  Shape shape = call.integers("size");
  if (shape.size() < from.size()) Call::refuse("type-error", "`size` has fewer axes than the tensor");
  const size_t added = shape.size() - from.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) shape[i] = i < added ? 1 : from[i - added];
  }
  call.view("self", expand_to(shape));
}

void import_expand_as(Call& call) { call.view("self", expand_to(shape_of(call.in("other")))); }

/// Starts and ends beyond the axis are cut to it.
Slice clamped(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step, int64_t extent) {
  const auto clamp = [extent](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent); };
  const int64_t first = clamp(start.value_or(0)), last = end ? clamp(*end) : extent;
  if (step < 1) Call::refuse("type-error", "`step` is " + std::to_string(step) + ", expected is 1 or more");
  return {axis, first, std::max(first, last), step};
}

void import_slice(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  call.view("self", slice_by(clamped(axis, call.maybe_integer("start"), call.maybe_integer("end"), call.integer("step"),
                                     x->type.dims[at(axis)].bound)));
}

void import_narrow(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound;
  const int64_t given = call.integer("start"), start = given < 0 ? given + extent : given;
  const int64_t length = call.integer("length");
  if (start < 0 || length < 0 || start > extent - length) Call::refuse("type-error", "the part lies outside of the axis");
  call.view("self", slice_by({axis, start, start + length, 1}));
}

void import_select(Call& call) {
  const Value* x = call.in("self");
  if (x->type.rank() == 0) Call::refuse("type-error", "an element of a tensor without axes is asked for");
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound;
  const int64_t given = call.integer("index"), index = given < 0 ? given + extent : given;
  if (index < 0 || index >= extent)
    Call::refuse("type-error", "`index` is " + std::to_string(given) + ", the axis has " + std::to_string(extent) + " elements");
  call.view("self", select_at(axis, index, shape_of(x)));
}

/// Parts of given sizes along an axis.
void split(Call& call, const std::vector<int64_t>& sizes, int64_t axis) {
  std::vector<ViewStep> steps;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (size < 0) Call::refuse("type-error", "a part of " + std::to_string(size) + " elements is asked for");
    steps.push_back(slice_by({axis, start, plus(start, size), 1}));
    start = plus(start, size);
  }
  call.views("self", std::move(steps));
}

std::vector<int64_t> equal_parts(int64_t extent, int64_t size) {
  if (size < 1) Call::refuse("type-error", "parts of " + std::to_string(size) + " elements are asked for");
  check_count(extent / size, kMostParts, "parts");
  std::vector<int64_t> sizes(static_cast<size_t>(extent / size), size);
  if (extent % size != 0 || extent == 0) sizes.push_back(extent % size);
  return sizes;
}

void import_split(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  split(call, equal_parts(x->type.dims[at(axis)].bound, call.integer("split_size")), axis);
}

void import_split_with_sizes(Call& call) { split(call, call.integers("split_sizes"), call.axis("dim", call.in("self"))); }

void import_chunk(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound, chunks = call.integer("chunks");
  if (chunks < 1) Call::refuse("type-error", "`chunks` is " + std::to_string(chunks));
  split(call, equal_parts(extent, std::max<int64_t>(extent / chunks + (extent % chunks != 0 ? 1 : 0), 1)), axis);
}

/// So many parts; the first ones are one larger where they don't come out even.
void split_evenly(Call& call, int64_t sections, int64_t axis) {
  const int64_t extent = call.in("self")->type.dims[at(axis)].bound;
  if (sections < 1) Call::refuse("type-error", "`sections` is " + std::to_string(sections));
  check_count(sections, kMostParts, "parts");
  std::vector<int64_t> sizes(at(sections), extent / sections);
  for (int64_t i = 0; i < extent % sections; ++i) ++sizes[at(i)];
  split(call, sizes, axis);
}

void import_tensor_split(Call& call) { split_evenly(call, call.integer("sections"), call.axis("dim", call.in("self"))); }

/// Between positions, as slices of Python lie.
void import_tensor_split_at(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x), extent = x->type.dims[at(axis)].bound;
  const auto position = [&](int64_t given) { return std::clamp<int64_t>(given < 0 ? given + extent : given, 0, extent); };
  std::vector<ViewStep> steps;
  int64_t start = 0;
  std::vector<int64_t> ends = call.integers("indices");
  ends.push_back(extent);
  for (const int64_t given : ends) {
    const int64_t end = position(given);
    steps.push_back(slice_by({axis, start, std::max(start, end), 1}));
    start = end;
  }
  call.views("self", std::move(steps));
}

/// hsplit, vsplit, dsplit: vectors have their one axis split.
template <int64_t axis> void import_split_along(Call& call) {
  const Value* x = call.in("self");
  const int64_t along = Call::axis_of(axis == 1 && x->type.rank() == 1 ? 0 : axis, x->type.rank());
  if (call.integer("sections") < 1 || x->type.dims[at(along)].bound % call.integer("sections") != 0)
    Call::refuse("type-error", to_string(x->type) + " doesn't split into " + std::to_string(call.integer("sections")) + " parts");
  split_evenly(call, call.integer("sections"), along);
}

/// [n] is [1, n], and with three axes [1, n, 1].
template <size_t rank> void import_at_least(Call& call) {
  Shape shape = shape_of(call.in("self"));
  if (shape.size() == 1 && rank > 1) shape.insert(shape.begin(), 1);
  if (shape.size() < rank) shape.resize(rank, 1);
  call.view("self", reshape_to(shape));
}

void import_unbind(Call& call) {
  const Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  check_count(x->type.dims[at(axis)].bound, kMostParts, "parts");
  std::vector<ViewStep> steps;
  for (int64_t i = 0; i < x->type.dims[at(axis)].bound; ++i) steps.push_back(select_at(axis, i, shape_of(x)));
  call.views("self", std::move(steps));
}

/// The diagonal of two axes becomes the last axis: a mask keeps it and a sum along the second axis collects it.
ViewStep diagonal_of(Call& call, const Value* x) {
  const int64_t first = call.axis("dim1", x), second = call.axis("dim2", x);
  const Shape shape = shape_of(x);
  if (first == second || shape.size() < 2) Call::refuse("type-error", "a diagonal of two axes of " + to_string(x->type));
  const int64_t rows = shape[at(first)], columns = shape[at(second)];
  const int64_t offset = std::clamp(call.integer("offset"), -rows, columns);
  const int64_t length = std::max<int64_t>(0, std::min(rows - std::max<int64_t>(-offset, 0), columns - std::max<int64_t>(offset, 0)));
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
    if (axis != first && axis != second) order.push_back(axis);
  }
  Shape flat;
  for (const int64_t axis : order) flat.push_back(shape[at(axis)]);
  const auto last = static_cast<int64_t>(flat.size());
  flat.push_back(rows * columns);
  order.push_back(first);
  order.push_back(second);
  const int64_t start = offset >= 0 ? offset : -offset * columns;
  const int64_t end = length == 0 ? start : start + (length - 1) * (columns + 1) + 1;
  ViewStep moved = permute_by(order), flattened = reshape_to(flat),
           taken = slice_by({last, std::min(start, rows * columns), std::max(std::min(start, rows * columns), end), columns + 1});
  return {[=](Builder& b, Value* base) { return taken.derive(b, flattened.derive(b, moved.derive(b, base))); },
          [=](Builder& b, Value* base, Value* view) {
            Value* turned = moved.derive(b, base);
            Value* as_row = flattened.derive(b, turned);
            return moved.write_back(b, base, flattened.write_back(b, turned, taken.write_back(b, as_row, view)));
          }};
}

void import_diagonal(Call& call) { call.view("self", diagonal_of(call, call.in("self"))); }

void import_diagonal_scatter(Call& call) {
  Value* x = call.in("self");
  call.result(diagonal_of(call, x).write_back(call.build(), x, call.build().cast(call.in("src"), x->type.dtype)));
}

// ---- positions in memory, by strides. The tensor's own memory must be known, and be row-major

/// The elements that a tensor of this shape and of these strides has in row-major memory of `count` elements.
struct Strided {
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset;

  /// The part of the memory from the first element to the last is the tensor itself.
  bool is_dense() const {
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected = times(expected, shape[i]);
    }
    return true;
  }
  Value* positions(Builder& b) const {
    Value* sum = b.full_int(DType::i64, shape, offset);
    for (size_t i = 0; i < shape.size(); ++i) {
      Value* along = b.iota(DType::i64, shape, static_cast<int64_t>(i));
      sum = b.add(sum, b.binary(Op::mul_, along, b.full_int(DType::i64, {}, strides[i])));
    }
    return sum;
  }
};

bool is_row_major(const Shape& shape, const std::vector<int64_t>& strides) {
  return shape.size() == strides.size() && (num_elements(shape) == 0 || Strided{shape, strides, 0}.is_dense());
}

Strided strided_of(Call& call) {
  const Value* x = call.in("self");
  const auto layout = call.layout("self");
  if (!layout) Call::refuse("unsupported-attribute", "the strides of what " + call.op() + " reads are not said by the program");
  if (!is_row_major(shape_of(x), layout->strides))
    Call::refuse("unsupported-attribute", "what " + call.op() + " reads has the strides " +
                                              to_string(std::span<const int64_t>(layout->strides)) +
                                              ", lowered are those of row-major memory");
  Strided strided{call.integers("size"), call.integers("stride"), call.maybe_integer("storage_offset").value_or(layout->offset)};
  if (strided.shape.size() != strided.strides.size()) Call::refuse("malformed-file", "`size` and `stride` differ in length");
  strided.offset = minus(strided.offset, layout->offset);
  int64_t last = strided.offset, count = 1;
  for (size_t i = 0; i < strided.shape.size(); ++i) {
    if (strided.shape[i] < 0 || strided.strides[i] < 0) Call::refuse("type-error", "a size or a stride is negative");
    last = plus(last, times(std::max<int64_t>(strided.shape[i] - 1, 0), strided.strides[i]));
    count = times(count, strided.shape[i]);
  }
  if (count > 0 && (strided.offset < 0 || last >= x->type.count()))
    Call::refuse("unsupported-attribute", "the elements " + std::to_string(strided.offset) + " to " + std::to_string(last) +
                                              " are named, of a tensor of " + std::to_string(x->type.count()));
  return strided;
}

Value* flat(Builder& b, Value* x) { return b.reshape(x, {x->type.count()}); }

Value* read_strided(Builder& b, Value* base, const Strided& strided) {
  const int64_t count = num_elements(strided.shape);
  if (strided.is_dense() || count == 0)
    return b.reshape(b.slice(flat(b, base), {count == 0 ? 0 : strided.offset}, {count == 0 ? 0 : strided.offset + count}), strided.shape);
  return b.emit(Op::gather_, {flat(b, base), strided.positions(b)}, {{"axis", int64_t{0}}});
}

Value* write_strided(Builder& b, Value* base, Value* view, const Strided& strided) {
  const int64_t count = num_elements(strided.shape);
  if (count == 0) return base;
  Value* updates = flat(b, view);
  Value* written = strided.is_dense() ? put_slice(b, flat(b, base), updates, 0, strided.offset, strided.offset + count, 1)
                                      : b.emit(Op::scatter_elements_, {flat(b, base), flat(b, strided.positions(b)), updates},
                                               {{"axis", int64_t{0}}, {"combiner", "assign"}});
  return b.reshape(written, shape_of(base));
}

void import_as_strided(Call& call) {
  const Strided strided = strided_of(call);
  call.view("self", {[=](Builder& b, Value* base) { return read_strided(b, base, strided); },
                     [=](Builder& b, Value* base, Value* view) { return write_strided(b, base, view, strided); }});
}

void import_as_strided_scatter(Call& call) {
  Value *x = call.in("self"), *part = call.build().cast(call.in("src"), x->type.dtype);
  const Strided strided = strided_of(call);
  if (shape_of(part) != strided.shape) Call::refuse("type-error", "`src` is " + to_string(part->type) + ", not of the given size");
  call.result(write_strided(call.build(), x, part, strided));
}

void import_stride(Call& call) {
  const auto layout = call.layout("self");
  const int64_t axis = call.axis("dim", call.in("self"));
  if (!layout || at(axis) >= layout->strides.size())
    Call::refuse("unsupported-attribute", "the strides of what " + call.op() + " reads are not said by the program");
  call.result_number(layout->strides[at(axis)]);
}

void import_is_contiguous(Call& call) {
  const auto layout = call.layout("self");
  if (!layout) Call::refuse("unsupported-attribute", "the strides of what " + call.op() + " reads are not said by the program");
  call.result_number(is_row_major(shape_of(call.in("self")), layout->strides));
}

/// To its own size. To another one a tensor would get elements that it has not.
void import_resize(Call& call) {
  const Value* x = call.in("self");
  const Shape size = call.integers("size");
  if (size != shape_of(x))
    Call::refuse("unsupported-attribute", to_string(x->type) + " is resized in place to " + to_string(std::span<const int64_t>(size)));
  call.same("self");
}

void import_storage_offset(Call& call) {
  const auto layout = call.layout("self");
  if (!layout) Call::refuse("unsupported-attribute", "the strides of what " + call.op() + " reads are not said by the program");
  call.result_number(layout->offset);
}

void import_detach(Call& call) {
  call.view("self", {[](Builder& b, Value* base) { return stop_gradient(b, base); }, [](Builder&, Value*, Value* view) { return view; }});
}

void import_same(Call& call) { call.view("self", identity()); }

/// A tensor of another dtype is new; of its own dtype it is the tensor itself.
void convert(Call& call, std::optional<DType> dtype) {
  Value* x = call.in("self");
  if (!dtype || *dtype == x->type.dtype) return call.view("self", identity());
  call.result(call.build().cast(x, *dtype));
}

void import_to(Call& call) { convert(call, call.maybe_dtype("dtype")); }
void import_to_other(Call& call) { convert(call, call.in("other")->type.dtype); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"view.default(self, size)", import_view},
    {"_unsafe_view.default(self, size)", import_view},
    {"reshape.default(self, shape)", import_reshape},
    {"view_as.default(self, other)", import_view_as},
    {"reshape_as.default(self, other)", import_view_as},
    {"unsqueeze.default(self, dim)", import_unsqueeze},
    {"squeeze.default(self)", import_squeeze_all},
    {"squeeze.dim(self, dim)", import_squeeze},
    {"squeeze.dims(self, dim)", import_squeeze},
    {"flatten.using_ints(self, start_dim=0, end_dim=-1)", import_flatten},
    {"unflatten.int(self, dim, sizes)", import_unflatten},
    {"permute.default(self, dims)", import_permute},
    {"transpose.int(self, dim0, dim1)", import_transpose},
    {"swapaxes.default(self, axis0, axis1)", import_swapaxes},
    {"swapdims.default(self, dim0, dim1)", import_transpose},
    {"t.default(self)", import_t},
    {"numpy_T.default(self)", import_t},
    {"mT.default(self)", import_mt},
    {"mH.default(self)", import_mt},
    {"adjoint.default(self)", import_mt},
    {"atleast_1d.default(self)", import_at_least<1>},
    {"atleast_2d.default(self)", import_at_least<2>},
    {"atleast_3d.default(self)", import_at_least<3>},
    {"movedim.int(self, source, destination)", import_movedim},
    {"movedim.intlist(self, source, destination)", import_movedim},
    {"expand.default(self, size, implicit=False)", import_expand},
    {"expand_as.default(self, other)", import_expand_as},
    {"broadcast_to.default(self, size)", import_expand},
    {"slice.Tensor(self, dim=0, start=None, end=None, step=1)", import_slice},
    {"narrow.default(self, dim, start, length)", import_narrow},
    {"select.int(self, dim, index)", import_select},
    {"split.Tensor(self, split_size, dim=0)", import_split},
    {"split.default(self, split_size, dim=0)", import_split},
    {"split_with_sizes.default(self, split_sizes, dim=0)", import_split_with_sizes},
    {"split.sizes(self, split_sizes, dim=0)", import_split_with_sizes},
    {"chunk.default(self, chunks, dim=0)", import_chunk},
    {"tensor_split.sections(self, sections, dim=0)", import_tensor_split},
    {"tensor_split.indices(self, indices, dim=0)", import_tensor_split_at},
    {"hsplit.int(self, sections)", import_split_along<1>},
    {"vsplit.int(self, sections)", import_split_along<0>},
    {"dsplit.int(self, sections)", import_split_along<2>},
    {"unbind.int(self, dim=0)", import_unbind},
    {"diagonal.default(self, offset=0, dim1=0, dim2=1)", import_diagonal},
    {"diagonal_scatter.default(self, src, offset=0, dim1=0, dim2=1)", import_diagonal_scatter},
    {"as_strided.default(self, size, stride, storage_offset=None)", import_as_strided},
    {"as_strided_scatter.default(self, src, size, stride, storage_offset=None)", import_as_strided_scatter},
    {"sym_stride.int(self, dim)", import_stride},
    {"sym_storage_offset.default(self)", import_storage_offset},
    {"sym_is_contiguous.default(self, memory_format=None)", import_is_contiguous},
    {"resize_.default(self, size, memory_format=None)", import_resize},
    {"alias.default(self)", import_same},
    {"detach.default(self)", import_detach},
    {"contiguous.default(self, memory_format=None)", import_same},
    {"to.device(self, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None)", import_to},
    {"to.dtype(self, dtype, non_blocking=False, copy=False, memory_format=None)", import_to},
    {"to.dtype_layout(self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, memory_format=None)",
     import_to},
    {"to.other(self, other, non_blocking=False, copy=False, memory_format=None)", import_to_other},
    {"type_as.default(self, other)", import_to_other},
});

}  // namespace

Value* put_slice(Builder& b, Value* base, Value* part, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const Shape shape = shape_of(base);
  const int64_t extent = shape[at(axis)], count = shape_of(part)[at(axis)];
  if (count == 0) return base;
  if (step == 1) {
    std::vector<Value*> pieces;
    if (start > 0) pieces.push_back(take(b, base, {axis, 0, start, 1}));
    pieces.push_back(part);
    if (end < extent) pieces.push_back(take(b, base, {axis, end, extent, 1}));
    return pieces.size() == 1 ? pieces[0] : b.concat(pieces, axis);
  }
  // Spread over the axis, and taken where a position is one of the slice.
  std::vector<int64_t> low(shape.size(), 0), high(shape.size(), 0), interior(shape.size(), 0);
  low[at(axis)] = start;
  interior[at(axis)] = step - 1;
  high[at(axis)] = extent - (start + (count - 1) * step + 1);
  Value* zero = is_float(part->type.dtype) ? b.full(part->type.dtype, {}, 0) : b.full_int(part->type.dtype, {}, 0);
  Value* spread = b.pad(part, zero, low, high, interior);
  Value* position = b.iota(DType::i64, shape, axis);
  Value* offset = b.binary(Op::sub_, position, b.full_int(DType::i64, {}, start));
  Value* on_step = b.binary(Op::eq_, b.binary(Op::mod_, offset, b.full_int(DType::i64, {}, step)), b.full_int(DType::i64, {}, 0));
  Value* in_range = b.binary(Op::and_, b.binary(Op::ge_, position, b.full_int(DType::i64, {}, start)),
                             b.binary(Op::lt_, position, b.full_int(DType::i64, {}, end)));
  return b.select(b.binary(Op::and_, on_step, in_range), spread, base);
}

std::span<const Handler> view_handlers() { return kHandlers; }

}  // namespace tcc::fx
