// New tensors made of others' elements: joined, repeated, padded, turned around.
#include <algorithm>
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

std::vector<Value*> promoted_list(Call& call, std::string_view name) {
  std::vector<Value*> values = call.tensors(name);
  if (values.empty()) Call::refuse("malformed-file", "an empty list of tensors is joined");
  std::vector<Operand> operands;
  for (Value* value : values) {
    if (value == nullptr) Call::refuse("malformed-file", "a tensor of a list is None");
    operands.push_back({value, false});
  }
  const DType dtype = promoted(operands);
  for (Value*& value : values) value = call.build().cast(value, dtype);
  return values;
}

void import_cat(Call& call) {
  std::vector<Value*> values = promoted_list(call, "tensors");
  // An old kindness of the framework: a tensor of shape [0] joins with any.
  if (std::any_of(values.begin(), values.end(), [](const Value* value) { return value->type.rank() > 1; }))
    std::erase_if(values, [](const Value* value) { return value->type.rank() == 1 && value->type.dims[0].bound == 0; });
  const int64_t axis = call.axis("dim", values[0]);
  call.result(values.size() == 1 ? values[0] : call.build().concat(values, axis));
}

void import_stack(Call& call) {
  std::vector<Value*> values = promoted_list(call, "tensors");
  const int64_t axis = Call::axis_of(call.integer("dim"), values[0]->type.rank() + 1);
  for (Value*& value : values) {
    Shape shape = shape_of(value);
    shape.insert(shape.begin() + axis, 1);
    value = call.build().reshape(value, shape);
  }
  call.result(values.size() == 1 ? values[0] : call.build().concat(values, axis));
}

/// Copies along each axis; axes are added in front.
Value* repeat(Builder& b, Value* x, const std::vector<int64_t>& times) {
  Shape shape = shape_of(x), apart, repeated, result;
  if (times.size() < shape.size()) Call::refuse("type-error", "`repeats` has fewer numbers than the tensor has axes");
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (times[i] < 0) Call::refuse("type-error", "a tensor is repeated " + std::to_string(times[i]) + " times");
    apart.insert(apart.end(), {1, shape[i]});
    repeated.insert(repeated.end(), {times[i], shape[i]});
    result.push_back(fx::times(times[i], shape[i]));
  }
  return b.reshape(b.broadcast_to(b.reshape(x, apart), repeated), result);
}

void import_repeat(Call& call) { call.result(repeat(call.build(), call.in("self"), call.integers("repeats"))); }

void import_tile(Call& call) {
  Value* x = call.in("self");
  std::vector<int64_t> times = call.integers("dims");
  if (times.size() < at(x->type.rank())) times.insert(times.begin(), at(x->type.rank()) - times.size(), 1);
  call.result(repeat(call.build(), x, times));
}

/// Each element `repeats` times in a row, along an axis or of the flat tensor.
void import_repeat_interleave(Call& call) {
  Value* x = call.in("self");
  const int64_t times = call.integer("repeats");
  if (times < 0) Call::refuse("type-error", "elements are repeated " + std::to_string(times) + " times");
  if (!call.has("dim")) x = call.build().reshape(x, {x->type.count()});
  const int64_t axis = call.has("dim") ? call.axis("dim", x) : 0;
  Shape result = shape_of(x), apart = result;
  apart.insert(apart.begin() + axis + 1, 1);
  Shape repeated = apart;
  repeated[at(axis) + 1] = times;
  result[at(axis)] = fx::times(result[at(axis)], times);
  call.result(call.build().reshape(call.build().broadcast_to(call.build().reshape(x, apart), repeated), result));
}

void import_flip(Call& call) {
  Value* x = call.in("self");
  std::vector<int64_t> axes;
  for (const int64_t axis : call.integers("dims")) axes.push_back(Call::axis_of(axis, x->type.rank()));
  std::sort(axes.begin(), axes.end());
  call.result(axes.empty() ? x : call.emit(Op::reverse_, {x}, {{"axes", axes}}));
}

Value* part(Builder& b, Value* x, int64_t axis, int64_t start, int64_t end) {
  const Shape shape = shape_of(x);
  std::vector<int64_t> starts(shape.size(), 0), limits = shape;
  starts[at(axis)] = start;
  limits[at(axis)] = end;
  return b.slice(x, starts, limits);
}

void import_roll(Call& call) {
  Value* x = call.in("self");
  const Shape shape = shape_of(x);
  std::vector<int64_t> axes = call.integers("dims"), shifts = call.integers("shifts");
  const bool flat = axes.empty();
  if (flat) {
    x = call.build().reshape(x, {x->type.count()});
    axes = {0};
  }
  if (axes.size() != shifts.size()) Call::refuse("malformed-file", "`shifts` and `dims` differ in length");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = Call::axis_of(axes[i], x->type.rank()), extent = x->type.dims[at(axis)].bound;
    if (extent == 0) continue;
    const int64_t shift = ((shifts[i] % extent) + extent) % extent;
    if (shift == 0) continue;
    x = call.build().concat({part(call.build(), x, axis, extent - shift, extent), part(call.build(), x, axis, 0, extent - shift)}, axis);
  }
  call.result(flat ? call.build().reshape(x, shape) : x);
}

// ---- padding: pairs of pads, the last axis first

struct Pads {
  std::vector<int64_t> low, high;
};

Pads pads_of(Call& call, std::string_view name, size_t rank) {
  const std::vector<int64_t> given = call.integers(name);
  if (given.size() % 2 != 0 || given.size() / 2 > rank)
    Call::refuse("malformed-file", "pads of " + std::to_string(given.size()) + " numbers for rank " + std::to_string(rank));
  Pads pads{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < given.size() / 2; ++i) {
    pads.low[rank - 1 - i] = given[2 * i];
    pads.high[rank - 1 - i] = given[2 * i + 1];
  }
  return pads;
}

/// Negative pads cut.
Value* crop(Builder& b, Value* x, Pads& pads) {
  const Shape shape = shape_of(x);
  std::vector<int64_t> starts(shape.size(), 0), limits = shape;
  bool cuts = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    starts[i] = pads.low[i] < 0 ? times(pads.low[i], -1) : 0;
    limits[i] = pads.high[i] < 0 ? plus(shape[i], pads.high[i]) : shape[i];
    if (starts[i] > limits[i]) Call::refuse("type-error", "pads cut more than axis " + std::to_string(i) + " has");
    cuts = cuts || pads.low[i] < 0 || pads.high[i] < 0;
    pads.low[i] = std::max<int64_t>(0, pads.low[i]);
    pads.high[i] = std::max<int64_t>(0, pads.high[i]);
  }
  return cuts ? b.slice(x, starts, limits) : x;
}

void pad_constant(Call& call, const Number& value) {
  Value* x = call.in("self");
  Pads pads = pads_of(call, "pad", at(x->type.rank()));
  x = crop(call.build(), x, pads);
  call.result(call.build().pad(x, call.constant(x->type.dtype, value), pads.low, pads.high));
}

void pad_mode(Call& call, std::string_view name, const char* mode) {
  Value* x = call.in("self");
  Pads pads = pads_of(call, name, at(x->type.rank()));
  x = crop(call.build(), x, pads);
  call.result(call.emit(Op::pad_with_input_, {x}, {{"mode", mode}, {"low", pads.low}, {"high", pads.high}}));
}

void import_constant_pad(Call& call) { pad_constant(call, call.scalar("value")); }
void import_reflect_pad(Call& call) { pad_mode(call, "padding", "reflect"); }
void import_edge_pad(Call& call) { pad_mode(call, "padding", "edge"); }

void import_pad(Call& call) {
  const std::string mode = call.text("mode");
  if (mode == "constant") return pad_constant(call, call.has("value") ? call.scalar("value") : Number(int64_t{0}));
  if (mode == "reflect") return pad_mode(call, "pad", "reflect");
  if (mode == "replicate") return pad_mode(call, "pad", "edge");
  if (mode == "circular") return pad_mode(call, "pad", "wrap");
  Call::refuse("unsupported-attribute", "`mode` is '" + mode + "'");
}

// ---- images

constexpr int64_t kLargestFactor = 1 << 20;

/// [.., c * r * r, h, w] -> [.., c, h * r, w * r]
void import_pixel_shuffle(Call& call) {
  Value* x = call.in("self");
  const int64_t r = call.integer("upscale_factor");
  const Shape shape = shape_of(x);
  if (shape.size() < 3 || r < 1 || r > kLargestFactor || shape[shape.size() - 3] % (r * r) != 0)
    Call::refuse("type-error", "channels of " + to_string(x->type) + " don't divide by the square of " + std::to_string(r));
  const int64_t c = shape[shape.size() - 3] / (r * r), h = shape[shape.size() - 2], w = shape.back();
  const int64_t batch = num_elements(std::span(shape).first(shape.size() - 3));
  Shape result(shape.begin(), shape.end() - 3);
  result.insert(result.end(), {c, h * r, w * r});
  Value* apart = call.build().reshape(x, {batch, c, r, r, h, w});
  call.result(call.build().reshape(call.build().transpose(apart, {0, 1, 4, 2, 5, 3}), result));
}

/// [.., c, h * r, w * r] -> [.., c * r * r, h, w]
void import_pixel_unshuffle(Call& call) {
  Value* x = call.in("self");
  const int64_t r = call.integer("downscale_factor");
  const Shape shape = shape_of(x);
  if (shape.size() < 3 || r < 1 || r > kLargestFactor || shape[shape.size() - 2] % r != 0 || shape.back() % r != 0)
    Call::refuse("type-error", "an image of " + to_string(x->type) + " doesn't divide by " + std::to_string(r));
  const int64_t c = shape[shape.size() - 3], h = shape[shape.size() - 2] / r, w = shape.back() / r;
  const int64_t batch = num_elements(std::span(shape).first(shape.size() - 3));
  Shape result(shape.begin(), shape.end() - 3);
  result.insert(result.end(), {c * r * r, h, w});
  Value* apart = call.build().reshape(x, {batch, c, h, r, w, r});
  call.result(call.build().reshape(call.build().transpose(apart, {0, 1, 3, 5, 2, 4}), result));
}

/// One tensor per operand, each spread over all axes; 'xy' swaps the first two.
void import_meshgrid(Call& call) {
  const std::vector<Value*> values = call.tensors("tensors");
  const bool swapped = call.text("indexing") == "xy" && values.size() >= 2;
  Shape shape;
  for (const Value* value : values) shape.push_back(value->type.count());
  if (swapped) std::swap(shape[0], shape[1]);
  std::vector<Value*> results;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t axis = swapped && i < 2 ? 1 - i : i;
    Shape own(shape.size(), 1);
    own[axis] = shape[axis];
    results.push_back(call.build().broadcast_to(call.build().reshape(values[i], own), shape));
  }
  call.result_list(results);
}

template <bool upper> void import_triangle(Call& call) {
  call.result(call.emit(Op::trilu_, {call.in("self")}, {{"upper", upper}, {"k", call.integer("diagonal")}}));
}

/// Windows along an axis; what lies within one becomes the last axis.
void import_unfold(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  const int64_t size = call.integer("size"), step = call.integer("step");
  if (x->type.rank() == 0) x = b.reshape(x, {1});
  const int64_t axis = call.axis("dimension", x), extent = x->type.dims[at(axis)].bound;
  if (size < 1 || step < 1 || size > extent)
    Call::refuse("type-error",
                 "windows of " + std::to_string(size) + ", " + std::to_string(step) + " apart, of an axis of " + std::to_string(extent));
  const int64_t count = (extent - size) / step + 1;
  Value* first = b.binary(Op::mul_, b.iota(DType::i64, {count, size}, 0), b.full_int(DType::i64, {}, step));
  Value* windows = call.emit(Op::gather_, {x, b.add(first, b.iota(DType::i64, {count, size}, 1))}, {{"axis", axis}});
  std::vector<int64_t> order;
  for (int64_t i = 0; i < windows->type.rank(); ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  call.result(b.transpose(windows, order));
}

void import_size(Call& call) {
  const Value* x = call.in("self");
  call.result_number(x->type.dims[at(call.axis("dim", x))].bound);
}

void import_numel(Call& call) { call.result_number(call.in("self")->type.count()); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"cat.default(tensors, dim=0)", import_cat},
    {"stack.default(tensors, dim=0)", import_stack},
    {"repeat.default(self, repeats)", import_repeat},
    {"tile.default(self, dims)", import_tile},
    {"repeat_interleave.self_int(self, repeats, dim=None, output_size=None)", import_repeat_interleave},
    {"flip.default(self, dims)", import_flip},
    {"roll.default(self, shifts, dims=[])", import_roll},
    {"constant_pad_nd.default(self, pad, value=0)", import_constant_pad},
    {"pad.default(self, pad, mode='constant', value=None)", import_pad},
    {"reflection_pad1d.default(self, padding)", import_reflect_pad},
    {"reflection_pad2d.default(self, padding)", import_reflect_pad},
    {"reflection_pad3d.default(self, padding)", import_reflect_pad},
    {"replication_pad1d.default(self, padding)", import_edge_pad},
    {"replication_pad2d.default(self, padding)", import_edge_pad},
    {"replication_pad3d.default(self, padding)", import_edge_pad},
    {"pixel_shuffle.default(self, upscale_factor)", import_pixel_shuffle},
    {"pixel_unshuffle.default(self, downscale_factor)", import_pixel_unshuffle},
    {"meshgrid.indexing(tensors, indexing)", import_meshgrid},
    {"meshgrid.default(tensors, indexing='ij')", import_meshgrid},
    {"tril.default(self, diagonal=0)", import_triangle<false>},
    {"triu.default(self, diagonal=0)", import_triangle<true>},
    {"unfold.default(self, dimension, size, step)", import_unfold},
    {"unfold_copy.default(self, dimension, size, step)", import_unfold},
    {"sym_size.int(self, dim)", import_size},
    {"sym_numel.default(self)", import_numel},
});

}  // namespace

std::span<const Handler> structure_handlers() { return kHandlers; }

}  // namespace tcc::fx
