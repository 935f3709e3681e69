// Activations.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

template <Op op> void import_plain(NodeContext& node) { node.result(op, {node.in(0)}); }

/// An activation whose only attribute is `alpha`, with its default in thousandths.
template <Op op, int default_milli> void import_alpha(NodeContext& node) {
  node.result(op, {node.in(0)}, {{"alpha", node.number("alpha", default_milli / 1000.0)}});
}

void import_leaky_relu(NodeContext& node) { node.result(Op::leaky_relu_, {node.in(0)}, {{"alpha", node.number("alpha", 0.01F)}}); }

/// The slope is broadcast as numpy does; opset 6 has one slope for all or one per channel.
void import_prelu(NodeContext& node) {
  Value* slope = node.in(1);
  if (node.opset() < 7 && node.rank(1) == 1 && node.rank(0) > 2 && !(node.type_of(slope).dims[0] == Dim(1))) {
    std::vector<int64_t> axes;
    for (int64_t axis = 1; axis < node.rank(0) - 1; ++axis) axes.push_back(axis);
    slope = node.emit(Op::dynamic_unsqueeze_, {slope, node.ints(axes, "axes")});
  }
  node.result(Op::prelu_, {node.in(0), slope});
}

void import_hard_sigmoid(NodeContext& node) {
  node.result(Op::hard_sigmoid_, {node.in(0)}, {{"alpha", node.number("alpha", 0.2F)}, {"beta", node.number("beta", 0.5)}});
}

void import_selu(NodeContext& node) {
  node.result(Op::selu_, {node.in(0)},
              {{"alpha", node.number("alpha", 1.67326319217681884765625)}, {"gamma", node.number("gamma", 1.05070102214813232421875)}});
}

void import_shrink(NodeContext& node) {
  node.result(Op::shrink_, {node.in(0)}, {{"bias", node.number("bias", 0)}, {"lambd", node.number("lambd", 0.5)}});
}

void import_gelu(NodeContext& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.refuse("unsupported-attribute", "`approximate` is `" + approximate + "`, none and tanh are known");
  node.result(Op::gelu_, {node.in(0)}, {{"approximate", approximate}});
}

Value* swish(NodeContext& node, Value* x, double alpha) {
  if (alpha == 1) return node.emit(Op::silu_, {x});
  return node.emit(Op::mul_, {x, node.emit(Op::sigmoid_, {node.emit(Op::mul_, {x, node.scalar(x->type.dtype, alpha)})})});
}

void import_swish(NodeContext& node) { node.set(0, swish(node, node.in(0), node.number("alpha", 1))); }

void import_swiglu(NodeContext& node) { node.result(Op::mul_, {swish(node, node.in(0), node.number("alpha", 1)), node.in(1)}); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Celu", import_alpha<Op::celu_, 1000>},
    {"", "Elu", import_alpha<Op::elu_, 1000>},
    {"", "Gelu", import_gelu},
    {"", "HardSigmoid", import_hard_sigmoid},
    {"", "HardSwish", import_plain<Op::hard_swish_>},
    {"", "LeakyRelu", import_leaky_relu},
    {"", "Mish", import_plain<Op::mish_>},
    {"", "PRelu", import_prelu},
    {"", "Relu", import_plain<Op::relu_>},
    {"", "Selu", import_selu},
    {"", "Shrink", import_shrink},
    {"", "Sigmoid", import_plain<Op::sigmoid_>},
    {"", "Softplus", import_plain<Op::softplus_>},
    {"", "Softsign", import_plain<Op::softsign_>},
    {"", "SwiGLU", import_swiglu},
    {"", "Swish", import_swish},
    {"", "ThresholdedRelu", import_alpha<Op::thresholded_relu_, 1000>},
});

}  // namespace

std::span<const Handler> activation_handlers() { return kHandlers; }

}  // namespace tcc::onnx
