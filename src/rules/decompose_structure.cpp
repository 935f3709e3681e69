// Ops that move or mask data: views where possible, iota and compare for masks, a constant index map for the pads that repeat the input.

#include <cmath>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

void check_blocks(const Node& node, int64_t divided, int64_t divisor, const char* what) {
  if (node.operand(0)->type.rank() != 4)
    throw RuleError{"type-error", "the input is `" + to_string(node.operand(0)->type) + "`, rank 4 is needed"};
  if (divisor < 1 || divided % divisor != 0) {
    throw RuleError{"type-error", "`blocksize` is " + std::to_string(node.attrs.get_int("blocksize")) + ", which does not fit " +
                                      std::to_string(divided) + " " + what};
  }
}

/// Where element i of the padded axis comes from.
int64_t source_of(int64_t i, int64_t extent, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, extent - 1);
  if (mode == "wrap") return (i % extent + extent) % extent;
  if (extent == 1) return 0;
  const int64_t period = 2 * (extent - 1);  // reflect: 0 1 2 3 2 1 | 0 1 2 ...
  const int64_t at = (i % period + period) % period;
  return at < extent ? at : period - at;
}

}  // namespace

Results decompose_flatten(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = rules::shape_of(x);
  int64_t axis = node.attrs.get_int("axis");
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis > rank) throw RuleError{"type-error", "`axis` is " + std::to_string(axis) + ", rank is " + std::to_string(rank)};
  if (axis < 0) axis += rank;
  return {b.reshape(x, {num_elements(std::span(shape).first(static_cast<size_t>(axis))),
                        num_elements(std::span(shape).subspan(static_cast<size_t>(axis)))})};
}

Results decompose_depth_to_space(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const int64_t n = node.attrs.get_int("blocksize");
  const Shape s = rules::shape_of(x);
  check_blocks(node, s.size() == 4 ? s[1] : 0, n * n, "channels");
  const std::string& mode = node.attrs.get_string("mode");
  if (mode != "DCR" && mode != "CRD") throw RuleError{"unsupported-attribute", "`mode` is \"" + mode + "\", known are DCR and CRD"};
  const int64_t depth = s[1] / (n * n);
  Value* blocks = mode == "DCR" ? b.transpose(b.reshape(x, {s[0], n, n, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
                                : b.transpose(b.reshape(x, {s[0], depth, n, n, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  return {b.reshape(blocks, {s[0], depth, s[2] * n, s[3] * n})};
}

Results decompose_space_to_depth(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const int64_t n = node.attrs.get_int("blocksize");
  const Shape s = rules::shape_of(x);
  check_blocks(node, s.size() == 4 ? s[2] : 0, n, "rows");
  check_blocks(node, s[3], n, "columns");
  Value* blocks = b.transpose(b.reshape(x, {s[0], s[1], s[2] / n, n, s[3] / n, n}), {0, 3, 5, 1, 2, 4});
  return {b.reshape(blocks, {s[0], s[1] * n * n, s[2] / n, s[3] / n})};
}

Results decompose_eye_like(Builder& b, const Node& node) {
  const Shape shape = rules::shape_of(node.operand(0));
  if (shape.size() != 2) throw RuleError{"type-error", "the input is `" + to_string(node.operand(0)->type) + "`, rank 2 is needed"};
  const int64_t k = std::clamp(node.attrs.get_int("k"), -shape[0] - shape[1], shape[0] + shape[1]);  // beyond there is no diagonal either
  Value* row = b.binary(Op::add_, b.iota(DType::i64, shape, 0), static_cast<double>(k));
  return {b.cast(b.binary(Op::eq_, row, b.iota(DType::i64, shape, 1)), node.attrs.get_dtype("dtype"))};
}

/// Upper keeps column >= row + k, lower column <= row + k.
Results decompose_trilu(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = rules::shape_of(x);
  if (shape.size() < 2) throw RuleError{"type-error", "the input is `" + to_string(x->type) + "`, rank 2 or more is needed"};
  const int64_t rank = static_cast<int64_t>(shape.size());
  // A k beyond the matrix is as good as one at its edge, and does not overflow.
  const int64_t reach = shape[shape.size() - 2] + shape.back();
  const int64_t k = std::clamp(node.attrs.get_int("k"), -reach, reach);
  Value* diagonal = b.binary(Op::add_, b.iota(DType::i64, shape, rank - 2), static_cast<double>(k));
  Value* keep = b.binary(node.attrs.get_bool("upper") ? Op::ge_ : Op::le_, b.iota(DType::i64, shape, rank - 1), diagonal);
  return {b.select(keep, x, b.full_like(x, 0))};
}

/// An index below 0 counts from the end; one outside [-depth, depth) is hot nowhere.
Results decompose_one_hot(Builder& b, const Node& node) {
  Value* indices = b.cast(node.operand(0), DType::i64);
  Value* values = node.operand(1);
  const int64_t depth = node.attrs.get_int("depth");
  Shape shape = rules::shape_of(indices);
  const int64_t axis = rules::normal_axis(node.attrs.get_int("axis"), static_cast<int>(shape.size()) + 1);
  shape.insert(shape.begin() + axis, depth);
  Value* wrapped = b.select(b.binary(Op::lt_, indices, 0.0), b.binary(Op::add_, indices, static_cast<double>(depth)), indices);
  Value* hot = b.binary(Op::eq_, b.iota(DType::i64, shape, axis), rules::spread(b, wrapped, shape, {axis}));
  auto value = [&](int64_t i) { return b.broadcast_to(b.reshape(b.slice(values, {i}, {i + 1}), {}), shape); };
  return {b.select(hot, value(1), value(0))};
}

/// What ONNX asks of the targets of its losses: positions along the axis of classes, none of them negative.
Results decompose_check_classes(Builder& b, const Node& node) {
  const Value* scores = node.operand(2);
  const int64_t axis = rules::normal_axis(node.attrs.get_int("axis"), scores->type.rank());
  const int64_t extent = rules::extent_of(scores, axis);
  if (extent < 1) return {node.operand(0)};
  return {b.emit(Op::check_index_, {node.operand(0), node.operand(1)}, {{"extent", extent}})};
}

Results decompose_cast_like(Builder& b, const Node& node) { return {b.cast(node.operand(0), rules::dtype_of(node.operand(1)))}; }

Results decompose_pad_with_input(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const std::string& mode = node.attrs.get_string("mode");
  if (mode != "reflect" && mode != "edge" && mode != "wrap") {
    throw RuleError{"unsupported-attribute", "`mode` is \"" + mode + "\", known are reflect, edge and wrap"};
  }
  const std::vector<int64_t>& low = node.attrs.get_ints("low");
  const std::vector<int64_t>& high = node.attrs.get_ints("high");
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) {
    const size_t i = static_cast<size_t>(axis);
    if (low[i] == 0 && high[i] == 0) continue;
    for (const int64_t amount : {low[i], high[i]}) checked_extent(std::abs(static_cast<double>(amount)), "the padding of an axis");
    const int64_t extent = rules::extent_of(x, axis), padded = checked_add(extent, low[i] + high[i], "the padded extent");
    if (extent == 0 && padded > 0)
      throw RuleError{"type-error",
                      "axis " + std::to_string(axis) + " of `" + to_string(x->type) + "` is empty, there is nothing to repeat"};
    if (low[i] <= 0 && high[i] <= 0) {
      std::vector<int64_t> starts(rules::shape_of(x).size(), 0), limits = rules::shape_of(x);
      starts[i] = -low[i];
      limits[i] = extent + high[i];
      x = b.slice(x, starts, limits);
      continue;
    }
    check_table(static_cast<double>(padded), "padding an axis to " + std::to_string(padded) + " with \"" + mode + "\"");
    std::vector<int64_t> sources;
    for (int64_t at = 0; at < padded; ++at) sources.push_back(source_of(at - low[i], extent, mode));
    x = b.emit(Op::gather_, {x, b.constant(Tensor::from_ints(sources), "pad_sources")}, {{"axis", axis}});
  }
  return {x};
}

}  // namespace tcc
