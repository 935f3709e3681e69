// Operators on whole tensors that are a few others: stacks, diagonals, products of other shapes, similarities.
#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

int64_t extent(const Value* x, int64_t axis) { return x->type.dims[at(axis)].bound; }

// ---- stacks

std::vector<Value*> listed(Call& call) {
  std::vector<Value*> values = call.tensors("tensors");
  if (values.empty()) Call::refuse("malformed-file", "an empty list of tensors is joined");
  std::vector<Operand> operands;
  for (Value* value : values) {
    if (value == nullptr) Call::refuse("malformed-file", "a tensor of a list is None");
    operands.push_back({value, false});
  }
  for (Value*& value : values) value = call.build().cast(value, promoted(operands));
  return values;
}

/// [n] as a row [1, n], and with three axes as [1, n, 1]; a matrix gets its third axis behind.
Value* at_least(Builder& b, Value* x, size_t rank) {
  Shape shape = shape_of(x);
  if (shape.size() >= rank) return x;
  if (shape.empty()) return b.reshape(x, Shape(rank, 1));
  if (shape.size() == 1 && rank > 1) shape.insert(shape.begin(), 1);
  shape.resize(rank, 1);
  return b.reshape(x, shape);
}

template <size_t rank, int64_t axis> void import_stack_along(Call& call) {
  std::vector<Value*> values = listed(call);
  for (Value*& value : values) value = at_least(call.build(), value, rank);
  const int64_t along = values[0]->type.rank() == 1 ? 0 : axis;  // vectors that stand side by side
  call.result(values.size() == 1 ? values[0] : call.build().concat(values, along));
}

/// Vectors are columns.
void import_column_stack(Call& call) {
  std::vector<Value*> values = listed(call);
  for (Value*& value : values) {
    if (value->type.rank() < 2) value = call.build().reshape(value, {value->type.count(), 1});
  }
  call.result(values.size() == 1 ? values[0] : call.build().concat(values, 1));
}

void import_block_diagonal(Call& call) {
  Builder& b = call.build();
  std::vector<Value*> rows;
  int64_t columns = 0, before = 0;
  for (Value* value : listed(call)) {
    if (value->type.rank() > 2) Call::refuse("type-error", "a block of " + to_string(value->type));
    rows.push_back(at_least(b, value, 2));
    columns = plus(columns, extent(rows.back(), 1));
  }
  for (Value*& row : rows) {
    const int64_t own = extent(row, 1);
    row = b.pad(row, call.constant(row->type.dtype, int64_t{0}), {0, before}, {0, columns - before - own});
    before += own;
  }
  call.result(rows.size() == 1 ? rows[0] : b.concat(rows, 0));
}

void import_broadcast_tensors(Call& call) {
  std::vector<Value*> values = call.tensors("tensors");
  Shape shape;
  std::vector<Value*> results;
  for (Value* value : values) {
    if (value == nullptr) Call::refuse("malformed-file", "a tensor of a list is None");
    // Dtypes stay: shapes alone are joined.
    Value* zeros = call.build().full_int(DType::boolean, shape_of(value), 0);
    shape = shape_of(call.build().broadcast_together({call.build().full_int(DType::boolean, shape, 0), zeros})[0]);
  }
  for (Value* value : values) results.push_back(call.build().broadcast_to(value, shape));
  call.result_list(results);
}

void import_channel_shuffle(Call& call) {
  Value* x = call.in("self");
  const Shape shape = shape_of(x);
  const int64_t groups = call.integer("groups");
  if (shape.size() < 3 || groups < 1 || shape[1] % groups != 0)
    Call::refuse("type-error", to_string(x->type) + " has no " + std::to_string(groups) + " groups of channels");
  const int64_t rest = num_elements(std::span(shape).subspan(2));
  Value* apart = call.build().reshape(x, {shape[0], groups, shape[1] / groups, rest});
  call.result(call.build().reshape(call.build().transpose(apart, {0, 2, 1, 3}), shape));
}

/// A quarter turn flips the second axis and swaps the two.
void import_rotate(Call& call) {
  Value* x = call.in("self");
  const std::vector<int64_t> dims = call.integers("dims");
  if (dims.size() != 2) Call::refuse("type-error", "a rotation of " + std::to_string(dims.size()) + " axes");
  const int64_t first = Call::axis_of(dims[0], x->type.rank()), second = Call::axis_of(dims[1], x->type.rank());
  if (first == second) Call::refuse("type-error", "a rotation of an axis into itself");
  const int64_t turns = ((call.integer("k") % 4) + 4) % 4;
  if (turns == 0) return call.result(call.emit(Op::identity_, {x}));
  std::vector<int64_t> flipped = turns == 1 ? std::vector{second} : turns == 3 ? std::vector{first} : std::vector{first, second};
  std::sort(flipped.begin(), flipped.end());
  Value* turned = call.emit(Op::reverse_, {x}, {{"axes", flipped}});
  if (turns == 2) return call.result(turned);
  std::vector<int64_t> order(at(x->type.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[at(first)], order[at(second)]);
  call.result(call.build().transpose(turned, order));
}

template <int64_t axis> void import_flip_axis(Call& call) {
  Value* x = call.in("self");
  call.result(call.emit(Op::reverse_, {x}, {{"axes", std::vector<int64_t>{Call::axis_of(axis, x->type.rank())}}}));
}

// ---- diagonals

/// Where column - row is `offset`.
Value* on_diagonal(Builder& b, const Shape& matrix, int64_t offset) {
  Value* distance = b.sub(b.iota(DType::i64, matrix, 1), b.iota(DType::i64, matrix, 0));
  return b.binary(Op::eq_, distance, b.full_int(DType::i64, {}, offset));
}

constexpr int64_t kLargestOffset = int64_t{1} << 31;

/// [.., n] -> [.., n + |offset|, n + |offset|], the last axis along a diagonal of zeros.
Value* to_diagonal(Call& call, Value* x, int64_t offset) {
  Builder& b = call.build();
  Shape shape = shape_of(x);
  if (offset > kLargestOffset || offset < -kLargestOffset) Call::refuse("type-error", "a diagonal " + std::to_string(offset) + " off");
  const int64_t size = plus(shape.back(), std::abs(offset));
  std::vector<int64_t> low(shape.size(), 0), high(shape.size(), 0);
  (offset < 0 ? low : high).back() = std::abs(offset);
  Value* zero = call.constant(x->type.dtype, int64_t{0});
  Value* rows = b.pad(x, zero, low, high);
  shape.back() = size;
  shape.push_back(1);
  rows = b.reshape(rows, shape);
  shape.back() = size;
  return b.select(on_diagonal(b, {size, size}, offset), b.broadcast_to(rows, shape), zero);
}

/// The diagonal of a matrix.
Value* diagonal_of(Call& call, Value* x, int64_t offset) {
  Builder& b = call.build();
  const int64_t rows = extent(x, 0), columns = extent(x, 1);
  offset = std::clamp(offset, -rows, columns);
  const int64_t first_row = std::max<int64_t>(-offset, 0), first_column = std::max<int64_t>(offset, 0);
  const int64_t length = std::max<int64_t>(0, std::min(rows - first_row, columns - first_column));
  Value* square = b.slice(x, {first_row, first_column}, {first_row + length, first_column + length});
  Value* others_are_zero = b.select(on_diagonal(b, {length, length}, 0), square, call.constant(x->type.dtype, int64_t{0}));
  return b.reduce(Op::reduce_sum_, others_are_zero, {1});
}

void import_diag(Call& call) {
  Value* x = call.in("self");
  if (x->type.rank() == 1) return call.result(to_diagonal(call, x, call.integer("diagonal")));
  if (x->type.rank() != 2) Call::refuse("type-error", "the diagonal of " + to_string(x->type));
  call.result(diagonal_of(call, x, call.integer("diagonal")));
}

void import_diag_embed(Call& call) {
  Value* x = call.in("self");
  const int64_t rank = x->type.rank() + 1;
  if (x->type.rank() == 0) Call::refuse("type-error", "a diagonal of a tensor without axes");
  if (Call::axis_of(call.integer("dim1"), rank) != rank - 2 || Call::axis_of(call.integer("dim2"), rank) != rank - 1)
    Call::refuse("unsupported-attribute", "`dim1` and `dim2` are not the last two axes");
  call.result(to_diagonal(call, x, call.integer("offset")));
}

void import_trace(Call& call) {
  Value* x = call.in("self");
  if (x->type.rank() != 2) Call::refuse("type-error", "the trace of " + to_string(x->type));
  if (!is_float(x->type.dtype)) x = call.build().cast(x, DType::i64);
  call.result(call.build().reduce(Op::reduce_sum_, diagonal_of(call, x, 0), {0}));
}

// ---- products

/// Sums over pairs of axes; the axes left of `a`, then those of `b`.
Value* contract(Call& call, Value* a, Value* b, const std::vector<int64_t>& of_a, const std::vector<int64_t>& of_b) {
  Builder& build = call.build();
  if (of_a.size() != of_b.size()) Call::refuse("type-error", "unequal numbers of axes are contracted");
  Shape result;
  const auto matrix = [&](Value* x, const std::vector<int64_t>& axes, bool summed_last) {
    std::vector<int64_t> summed, kept;
    int64_t rows = 1, columns = 1;
    for (const int64_t axis : axes) summed.push_back(Call::axis_of(axis, x->type.rank()));
    for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
      const bool is_summed = std::find(summed.begin(), summed.end(), axis) != summed.end();
      (is_summed ? columns : rows) *= extent(x, axis);
      if (is_summed) continue;
      kept.push_back(axis);
      result.push_back(extent(x, axis));
    }
    std::vector<int64_t> order = summed_last ? kept : summed;
    order.insert(order.end(), summed_last ? summed.begin() : kept.begin(), summed_last ? summed.end() : kept.end());
    if (at(x->type.rank()) != order.size()) Call::refuse("type-error", "an axis is contracted twice");
    return build.reshape(build.transpose(x, order), summed_last ? Shape{rows, columns} : Shape{columns, rows});
  };
  Value *left = matrix(a, of_a, true), *right = matrix(b, of_b, false);
  return build.reshape(call.emit(Op::matmul_, {left, right}), result);
}

void import_tensordot(Call& call) {
  call.result(contract(call, call.in("self"), call.in("other"), call.integers("dims_self"), call.integers("dims_other")));
}

void import_inner(Call& call) {
  Value *a = call.in("self"), *b = call.in("other");
  if (a->type.rank() == 0 || b->type.rank() == 0) return call.result(call.build().mul(a, b));
  call.result(contract(call, a, b, {-1}, {-1}));
}

/// beta * self + alpha * product. With beta 0 `self` counts for nothing.
void add_scaled(Call& call, Value* product) {
  Builder& b = call.build();
  const Number alpha = call.scalar("alpha"), beta = call.scalar("beta");
  const DType dtype = product->type.dtype;
  if (to_double(alpha) != 1) product = b.mul(product, call.constant(dtype, alpha));
  if (to_double(beta) == 0) return call.result(b.broadcast_together({product, call.in("self")})[0]);
  Value* start = b.cast(call.in("self"), dtype);
  call.result(b.add(to_double(beta) == 1 ? start : b.mul(start, call.constant(dtype, beta)), product));
}

void import_addr(Call& call) {
  Value *a = call.in("vec1"), *b = call.in("vec2");
  add_scaled(call, call.build().mul(call.build().reshape(a, {a->type.count(), 1}), b));
}

void import_addbmm(Call& call) {
  Value* products = call.emit(Op::matmul_, {call.in("batch1"), call.in("batch2")});
  add_scaled(call, call.build().reduce(Op::reduce_sum_, products, {0}));
}

/// Each element of `self` times all of `other`, as a block.
void import_kron(Call& call) {
  Builder& build = call.build();
  const Operand first = call.operand("self"), second = call.operand("other");
  const DType dtype = promoted(std::array{first, second});
  Value *a = as_tensor(call, first, dtype), *b = as_tensor(call, second, dtype);
  Shape of_a = shape_of(a), of_b = shape_of(b), left, right, result;
  const size_t rank = std::max(of_a.size(), of_b.size());
  of_a.insert(of_a.begin(), rank - of_a.size(), 1);
  of_b.insert(of_b.begin(), rank - of_b.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    left.insert(left.end(), {of_a[i], 1});
    right.insert(right.end(), {1, of_b[i]});
    result.push_back(fx::times(of_a[i], of_b[i]));
  }
  call.result(build.reshape(build.mul(build.reshape(a, left), build.reshape(b, right)), result));
}

/// y[.., o] = sum over i, j of x1[.., i] * weight[o, i, j] * x2[.., j]
void import_bilinear(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("input1"), *y = call.in("input2"), *weight = call.in("weight"), *bias = call.maybe("bias");
  if (x->type.rank() < 1 || y->type.rank() < 1 || weight->type.rank() != 3)
    Call::refuse("type-error", "a bilinear form of " + to_string(weight->type));
  Shape result = shape_of(x);
  const int64_t batch = num_elements(std::span(result).first(result.size() - 1));
  Value* form = call.emit(Op::einsum_, {b.reshape(x, {batch, result.back()}), weight, b.reshape(y, {batch, shape_of(y).back()})},
                          {{"equation", "ni,oij,nj->no"}});
  result.back() = extent(weight, 0);
  form = b.reshape(form, result);
  call.result(bias == nullptr ? form : b.add(form, bias));
}

/// The vector product along an axis of 3; by default the first such.
void import_cross(Call& call) {
  Builder& build = call.build();
  const Operand first = call.operand("self"), second = call.operand("other");
  const DType dtype = promoted(std::array{first, second});
  const std::vector<Value*> both = build.broadcast_together({as_tensor(call, first, dtype), as_tensor(call, second, dtype)});
  const Shape shape = shape_of(both[0]);
  const auto default_axis = std::find(shape.begin(), shape.end(), 3) - shape.begin();
  const int64_t axis = call.has("dim") ? call.axis("dim", both[0]) : static_cast<int64_t>(default_axis);
  if (axis >= both[0]->type.rank() || shape[at(axis)] != 3) Call::refuse("type-error", "a vector product of " + to_string(both[0]->type));
  const auto turned = [&](Value* x, const std::vector<int64_t>& order) {
    return call.emit(Op::gather_, {x, build.constant(Tensor::from_ints(order), "order")}, {{"axis", axis}});
  };
  Value* forward = build.mul(turned(both[0], {1, 2, 0}), turned(both[1], {2, 0, 1}));
  call.result(build.sub(forward, build.mul(turned(both[0], {2, 0, 1}), turned(both[1], {1, 2, 0}))));
}

constexpr int64_t kLargestPower = 64;

void import_matrix_power(Call& call) {
  Value* x = call.in("self");
  const int64_t n = call.integer("n");
  if (n < 1 || n > kLargestPower) Call::refuse("unsupported-attribute", "`n` is " + std::to_string(n) + ", lowered are 1 to 64");
  Value* power = nullptr;
  for (int64_t rest = n; rest > 0; rest /= 2) {
    if (rest % 2 == 1) power = power == nullptr ? x : call.emit(Op::matmul_, {power, x});
    if (rest > 1) x = call.emit(Op::matmul_, {x, x});
  }
  call.result(n == 1 ? call.emit(Op::identity_, {power}) : power);
}

// ---- similarities

Value* sum_along(Call& call, Value* x, int64_t axis) { return call.build().reduce(Op::reduce_sum_, x, {axis}); }

/// Of vectors along an axis; norms are at least `eps`.
void import_cosine_similarity(Call& call) {
  Builder& b = call.build();
  const std::vector<Value*> both = b.broadcast_together({call.in("x1"), call.in("x2")});
  const int64_t axis = call.axis("dim", both[0]);
  const double eps = call.number("eps");
  const auto norm = [&](Value* x) { return b.binary(Op::max_, call.emit(Op::sqrt_, {sum_along(call, b.mul(x, x), axis)}), eps); };
  call.result(b.div(sum_along(call, b.mul(both[0], both[1]), axis), b.mul(norm(both[0]), norm(both[1]))));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"hstack.default(tensors)", import_stack_along<1, 1>},
    {"vstack.default(tensors)", import_stack_along<2, 0>},
    {"dstack.default(tensors)", import_stack_along<3, 2>},
    {"column_stack.default(tensors)", import_column_stack},
    {"block_diag.default(tensors)", import_block_diagonal},
    {"broadcast_tensors.default(tensors)", import_broadcast_tensors},
    {"channel_shuffle.default(self, groups)", import_channel_shuffle},
    {"native_channel_shuffle.default(self, groups)", import_channel_shuffle},
    {"rot90.default(self, k=1, dims=[0, 1])", import_rotate},
    {"fliplr.default(self)", import_flip_axis<1>},
    {"flipud.default(self)", import_flip_axis<0>},
    {"diag.default(self, diagonal=0)", import_diag},
    {"diag_embed.default(self, offset=0, dim1=-2, dim2=-1)", import_diag_embed},
    {"trace.default(self)", import_trace},
    {"tensordot.default(self, other, dims_self, dims_other)", import_tensordot},
    {"inner.default(self, other)", import_inner},
    {"addr.default(self, vec1, vec2, beta=1, alpha=1)", import_addr},
    {"addbmm.default(self, batch1, batch2, beta=1, alpha=1)", import_addbmm},
    {"kron.default(self, other)", import_kron},
    {"bilinear.default(input1, input2, weight, bias=None)", import_bilinear},
    {"cross.default(self, other, dim=None)", import_cross},
    {"linalg_cross.default(self, other, dim=-1)", import_cross},
    {"matrix_power.default(self, n)", import_matrix_power},
    {"linalg_matrix_power.default(self, n)", import_matrix_power},
    {"cosine_similarity.default(x1, x2, dim=1, eps=1e-8)", import_cosine_similarity},
});

}  // namespace

std::span<const Handler> composed_handlers() { return kHandlers; }

}  // namespace tcc::fx
