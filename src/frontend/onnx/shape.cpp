// Ops that make, read or change shapes. What was an attribute before opset 13 becomes an operand, as in the newest form.
#include <array>
#include <limits>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_shape(NodeContext& node) {
  Attrs attrs{{"start", node.integer("start", 0)}};
  if (node.has_attribute("end")) attrs.set("end", node.integer("end", 0));
  node.result(Op::shape_of_, {node.in(0)}, std::move(attrs));
}

void import_size(NodeContext& node) { node.result(Op::size_of_, {node.in(0)}); }

void import_reshape(NodeContext& node) {
  node.result(Op::dynamic_reshape_, {node.in(0), node.in(1)}, {{"allowzero", node.flag("allowzero", false)}});
}

void import_flatten(NodeContext& node) { node.result(Op::flatten_, {node.in(0)}, {{"axis", node.axis("axis", 1)}}); }

void import_squeeze(NodeContext& node) {
  Value* axes = node.operand_or_ints(1, "axes", 13);
  node.result(Op::dynamic_squeeze_, axes == nullptr ? std::vector{node.in(0)} : std::vector{node.in(0), axes});
}

void import_unsqueeze(NodeContext& node) {
  Value* axes = node.operand_or_ints(1, "axes", 13);
  if (axes == nullptr) node.refuse("malformed-file", "`axes` is missing");
  node.result(Op::dynamic_unsqueeze_, {node.in(0), axes});
}

void import_expand(NodeContext& node) { node.result(Op::dynamic_expand_, {node.in(0), node.in(1)}); }

void import_tile(NodeContext& node) { node.result(Op::dynamic_tile_, {node.in(0), node.in(1)}); }

void import_constant_of_shape(NodeContext& node) {
  Attrs attrs{{"value", 0.0}, {"dtype", DType::f32}};
  if (const auto value = node.tensor("value")) {
    if (value->count() != 1) node.refuse("malformed-file", "`value` has " + std::to_string(value->count()) + " elements, 1 was expected");
    attrs.set("dtype", value->dtype());
    if (is_float(value->dtype())) attrs.set("value", value->as_double(0));
    else attrs.set("value", value->as_int64(0));
  }
  node.result(Op::constant_of_shape_, {node.in(0)}, std::move(attrs));
  node.set_narrow(0, node.narrow_tensor("value"));
}

void import_range(NodeContext& node) {
  if (node.opset() >= 27) node.ignore("stash_type");
  node.result(Op::range_, {node.in(0), node.in(1), node.in(2)});
}

void import_eye_like(NodeContext& node) {
  node.result(Op::eye_like_, {node.in(0)}, {{"dtype", node.dtype_attribute("dtype", node.dtype())}, {"k", node.integer("k", 0)}});
}

/// Without `perm` the axes are reversed; where the rank is not known yet, an empty permutation says so.
void import_transpose(NodeContext& node) {
  std::vector<int64_t> permutation = node.integers("perm");
  if (permutation.empty() && node.in(0)->type.ranked) {
    for (int64_t axis = node.rank(0); axis-- > 0;) permutation.push_back(axis);
  }
  node.result(Op::transpose_, {node.in(0)}, {{"permutation", permutation}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "ConstantOfShape", import_constant_of_shape},
    {"", "Expand", import_expand},
    {"", "EyeLike", import_eye_like},
    {"", "Flatten", import_flatten},
    {"", "Range", import_range},
    {"", "Reshape", import_reshape},
    {"", "Shape", import_shape},
    {"", "Size", import_size},
    {"", "Squeeze", import_squeeze},
    {"", "Tile", import_tile},
    {"", "Transpose", import_transpose},
    {"", "Unsqueeze", import_unsqueeze},
});

}  // namespace

std::span<const Handler> shape_handlers() { return kHandlers; }

}  // namespace tcc::onnx
