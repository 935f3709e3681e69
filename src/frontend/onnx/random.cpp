// Random ops. What ONNX leaves open is fixed here: they read the run-time input `seed`, an i64 that stands behind the model's own inputs, and each has
// a stream of its own: its number among the random ops of the model, with the bits of the attribute `seed`, if the model has one, above it. So a
// model repeats itself for one seed, and two ops never see the same numbers.
#include <array>
#include <bit>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

int64_t stream_of(NodeContext& node) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(node.number("seed", 0)));
  return static_cast<int64_t>((static_cast<uint64_t>(bits) << 32) | static_cast<uint32_t>(node.count_random_op()));
}

/// The type of the result, where that of the operand is the default. Ops that make floats take an operand of integers for its shape alone.
DType dtype_or_that_of_operand(NodeContext& node) { return node.dtype_attribute("dtype", node.dtype()); }

Attrs uniform_attrs(NodeContext& node, DType dtype, std::vector<int64_t> shape) {
  return {{"dtype", dtype},
          {"shape", std::move(shape)},
          {"stream", stream_of(node)},
          {"low", node.number("low", 0)},
          {"high", node.number("high", 1)}};
}

Attrs normal_attrs(NodeContext& node, DType dtype, std::vector<int64_t> shape) {
  return {{"dtype", dtype},
          {"shape", std::move(shape)},
          {"stream", stream_of(node)},
          {"mean", node.number("mean", 0)},
          {"scale", node.number("scale", 1)}};
}

template <Op op, Attrs (*attrs)(NodeContext&, DType, std::vector<int64_t>)> void import_random(NodeContext& node) {
  if (!node.has_attribute("shape")) node.refuse("malformed-file", "attribute `shape` is missing");
  Attrs all = attrs(node, node.dtype_attribute("dtype", DType::f32), node.integers("shape"));
  node.result(op, {node.seed()}, std::move(all));
}

template <Op op, Attrs (*attrs)(NodeContext&, DType, std::vector<int64_t>)> void import_random_like(NodeContext& node) {
  Attrs all = attrs(node, dtype_or_that_of_operand(node), {});
  node.result(op, {node.seed(), node.in(0)}, std::move(all));
}

void import_bernoulli(NodeContext& node) {
  Attrs attrs{{"dtype", dtype_or_that_of_operand(node)}, {"stream", stream_of(node)}};
  node.result(Op::bernoulli_, {node.in(0), node.seed()}, std::move(attrs));
}

void import_multinomial(NodeContext& node) {
  Attrs attrs{
      {"dtype", node.dtype_attribute("dtype", DType::i32)}, {"stream", stream_of(node)}, {"sample_size", node.integer("sample_size", 1)}};
  node.result(Op::multinomial_, {node.in(0), node.seed()}, std::move(attrs));
}

/// Everything is kept: the identity, and a mask that says so (of the data's type before opset 10).
void keep_all(NodeContext& node, bool bool_mask) {
  Value* x = node.in(0);
  node.result(Op::identity_, {x});
  if (!node.wants(1)) return;
  Value* shape = node.emit(Op::shape_of_, {x}, {{"start", int64_t{0}}});
  Attrs attrs{{"dtype", bool_mask ? DType::boolean : node.dtype()}};
  if (bool_mask) attrs.set("value", int64_t{1});
  else attrs.set("value", 1.0);
  node.set(1, node.emit(Op::constant_of_shape_, {shape}, std::move(attrs)));
}

/// Whether the node says that it trains: by an operand since opset 12, by `is_test` of 0 up to opset 6, never between.
bool trains(NodeContext& node) {
  if (node.opset() >= 12) return node.has(2) && node.require_constant(2, "training_mode").as_int64(0) != 0;
  return node.opset() < 7 && node.has_attribute("is_test") && !node.flag("is_test", true);
}

void import_dropout(NodeContext& node) {
  const bool bool_mask = node.opset() >= 10;
  double ratio = 0.5;
  if (node.opset() < 12) ratio = node.number("ratio", 0.5);
  else node.ignore("seed");
  if (!trains(node)) return keep_all(node, bool_mask);
  if (node.opset() >= 12 && node.has(1)) ratio = node.require_constant(1, "ratio").as_double(0);
  if (ratio == 0) return keep_all(node, bool_mask);
  // `seed` is an integer here, as nowhere else.
  const auto attribute = static_cast<uint32_t>(node.opset() >= 12 ? node.integer("seed", 0) : 0);
  const auto stream = static_cast<int64_t>((static_cast<uint64_t>(attribute) << 32) | static_cast<uint32_t>(node.count_random_op()));
  node.result(Op::dropout_, {node.in(0), node.seed()}, {{"ratio", ratio}, {"stream", stream}}, 2);
  if (!bool_mask && node.wants(1)) node.set(1, node.build().cast(node.made(1), node.dtype()));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Bernoulli", import_bernoulli},
    {"", "Dropout", import_dropout},
    {"", "Multinomial", import_multinomial},
    {"", "RandomNormal", import_random<Op::random_normal_, normal_attrs>},
    {"", "RandomNormalLike", import_random_like<Op::random_normal_, normal_attrs>},
    {"", "RandomUniform", import_random<Op::random_uniform_, uniform_attrs>},
    {"", "RandomUniformLike", import_random_like<Op::random_uniform_, uniform_attrs>},
});

}  // namespace

std::span<const Handler> random_handlers() { return kHandlers; }

}  // namespace tcc::onnx
