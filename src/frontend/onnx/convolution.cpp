// Convolutions. Lists that are absent stay empty: their defaults (ones, zeros) depend on the rank, which the decomposition knows.
#include "frontend/onnx/convolution.h"

#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {

std::string auto_pad_of(NodeContext& node) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID") {
    node.refuse("unsupported-attribute", "`auto_pad` is `" + mode + "`, NOTSET, SAME_UPPER, SAME_LOWER and VALID are known");
  }
  return mode;
}

Attrs convolution_attributes(NodeContext& node) {
  return {{"strides", node.integers("strides")}, {"dilations", node.integers("dilations")}, {"pads", node.integers("pads")},
          {"groups", node.integer("group", 1)},  {"auto_pad", auto_pad_of(node)},           {"kernel", node.integers("kernel_shape")}};
}

namespace {

std::vector<Value*> operands_of(NodeContext& node) {
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  return operands;
}

void import_conv(NodeContext& node) { node.result(Op::conv_, operands_of(node), convolution_attributes(node)); }

void import_conv_transpose(NodeContext& node) {
  Attrs attrs = convolution_attributes(node);
  attrs.set("output_padding", node.integers("output_padding"));
  attrs.set("output_shape", node.integers("output_shape"));
  node.result(Op::conv_transpose_, operands_of(node), std::move(attrs));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Conv", import_conv},
    {"", "ConvTranspose", import_conv_transpose},
});

}  // namespace

std::span<const Handler> convolution_handlers() { return kHandlers; }

}  // namespace tcc::onnx
