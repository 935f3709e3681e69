// Resize and its older name Upsample.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// The operand, or nothing when it is absent or has no elements (how opset 11 says "absent").
Value* unless_empty(NodeContext& node, int i) {
  Value* value = node.maybe(i);
  if (value != nullptr && value->type.ranked && value->type.rank() == 1 && value->type.dims[0] == Dim(0)) return nullptr;
  return value;
}

Attrs resize_attributes(const std::string& mode) {
  return {{"mode", mode},
          {"coordinate_transformation_mode", std::string("asymmetric")},
          {"nearest_mode", std::string("floor")},
          {"cubic_coeff_a", -0.75},
          {"exclude_outside", false},
          {"extrapolation_value", 0.0},
          {"antialias", false},
          {"axes", std::vector<int64_t>()},
          {"keep_aspect_ratio_policy", std::string("stretch")}};
}

void import_upsample(NodeContext& node) {
  std::string mode = node.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  Value* scales = nullptr;
  if (node.opset() >= 9) {
    scales = node.in(1);
  } else {
    const auto factors = node.numbers("scales");
    Tensor tensor(DType::f32, {static_cast<int64_t>(factors.size())});
    for (size_t i = 0; i < factors.size(); ++i) tensor.set_double(static_cast<int64_t>(i), factors[i]);
    scales = node.build().constant(tensor, node.build().loc().node.str() + ".scales");
  }
  node.result(Op::dynamic_resize_, {node.in(0), nullptr, scales, nullptr}, resize_attributes(mode));
}

void import_resize(NodeContext& node) {
  Attrs attrs = resize_attributes(node.text("mode", "nearest"));
  if (node.opset() < 11) return node.result(Op::dynamic_resize_, {node.in(0), nullptr, node.in(1), nullptr}, std::move(attrs));
  attrs.set("coordinate_transformation_mode", node.text("coordinate_transformation_mode", "half_pixel"));
  attrs.set("nearest_mode", node.text("nearest_mode", "round_prefer_floor"));
  attrs.set("cubic_coeff_a", node.number("cubic_coeff_a", -0.75));
  attrs.set("exclude_outside", node.flag("exclude_outside", false));
  attrs.set("extrapolation_value", node.number("extrapolation_value", 0));
  if (node.opset() >= 18) {
    attrs.set("antialias", node.flag("antialias", false));
    attrs.set("axes", node.integers("axes"));
    attrs.set("keep_aspect_ratio_policy", node.text("keep_aspect_ratio_policy", "stretch"));
  }
  node.result(Op::dynamic_resize_, {node.in(0), unless_empty(node, 1), unless_empty(node, 2), unless_empty(node, 3)}, std::move(attrs));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Resize", import_resize},
    {"", "Upsample", import_upsample},
});

}  // namespace

std::span<const Handler> resize_handlers() { return kHandlers; }

}  // namespace tcc::onnx
