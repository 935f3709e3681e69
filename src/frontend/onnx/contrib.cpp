// Ops of ONNX Runtime (domain com.microsoft) that its optimizer and the builders of language models write.
#include <array>
#include <functional>
#include <limits>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/convolution.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

Value* with_bias(NodeContext& node, int bias) { return node.has(bias) ? node.emit(Op::add_, {node.in(0), node.in(bias)}) : node.in(0); }

void import_gelu(NodeContext& node) { node.result(Op::gelu_, {node.in(0)}, {{"approximate", std::string("none")}}); }
void import_bias_gelu(NodeContext& node) { node.result(Op::gelu_, {with_bias(node, 1)}, {{"approximate", std::string("none")}}); }
void import_fast_gelu(NodeContext& node) { node.result(Op::gelu_, {with_bias(node, 1)}, {{"approximate", std::string("tanh")}}); }

void import_quick_gelu(NodeContext& node) {
  Value* scaled = node.emit(Op::mul_, {node.in(0), node.scalar(node.dtype(), node.number("alpha", 1.702F))});
  node.result(Op::mul_, {node.in(0), node.emit(Op::sigmoid_, {scaled})});
}

Value* swap_last_two(NodeContext& node, int i, bool swap) {
  if (!swap) return node.in(i);
  const int64_t rank = node.rank(i);
  if (rank < 2) return node.in(i);  // vectors have no transpose
  std::vector<int64_t> permutation;
  for (int64_t axis = 0; axis < rank; ++axis) permutation.push_back(axis);
  std::swap(permutation[static_cast<size_t>(rank - 1)], permutation[static_cast<size_t>(rank - 2)]);
  return node.emit(Op::transpose_, {node.in(i)}, {{"permutation", permutation}});
}

void import_fused_matmul(NodeContext& node) {
  for (const char* name : {"transBatchA", "transBatchB"}) {
    if (node.flag(name, false)) node.refuse("unsupported-attribute", "`" + std::string(name) + "` is 1, lowered is 0");
  }
  const double alpha = node.number("alpha", 1);
  Value* a = swap_last_two(node, 0, node.flag("transA", false));
  Value* b = swap_last_two(node, 1, node.flag("transB", false));
  if (alpha == 1) return node.result(Op::matmul_, {a, b});
  node.result(Op::mul_, {node.emit(Op::matmul_, {a, b}), node.scalar(node.dtype(), alpha)});
}

/// Residual sum, then a norm of it; the sum itself is result 3.
void import_skip_norm(NodeContext& node, Op norm, int scale, int shift, int bias) {
  Value* sum = node.emit(Op::add_, {node.in(0), node.in(1)});
  if (node.has(bias)) sum = node.emit(Op::add_, {sum, node.in(bias)});
  std::vector<Value*> operands{sum, node.in(scale)};
  if (shift >= 0 && node.has(shift)) operands.push_back(node.in(shift));
  node.result(norm, std::move(operands), {{"axis", int64_t{-1}}, {"epsilon", node.number("epsilon", 1e-12F)}}, 1);
  node.set(3, sum);
}

void import_simplified_norm(NodeContext& node) {
  node.ignore("stash_type");
  node.result(Op::rms_norm_, {node.in(0), node.in(1)}, {{"axis", node.axis("axis", -1)}, {"epsilon", node.number("epsilon", 1e-5F)}});
}

/// Parameters of an activation that is part of another op, by place.
using Parameter = std::function<double(int place, double otherwise)>;

Value* activated(NodeContext& node, Value* x, const std::string& activation, const Parameter& parameter) {
  const DType dtype = x->type.dtype;
  if (activation.empty()) return x;
  if (activation == "Relu") return node.emit(Op::relu_, {x});
  if (activation == "Tanh") return node.emit(Op::tanh_, {x});
  if (activation == "Sigmoid") return node.emit(Op::sigmoid_, {x});
  if (activation == "Softplus") return node.emit(Op::softplus_, {x});
  if (activation == "Softsign") return node.emit(Op::softsign_, {x});
  if (activation == "LeakyRelu") return node.emit(Op::leaky_relu_, {x}, {{"alpha", parameter(0, 0.01F)}});
  if (activation == "Elu") return node.emit(Op::elu_, {x}, {{"alpha", parameter(0, 1)}});
  if (activation == "ThresholdedRelu") return node.emit(Op::thresholded_relu_, {x}, {{"alpha", parameter(0, 1)}});
  if (activation == "HardSigmoid") return node.emit(Op::hard_sigmoid_, {x}, {{"alpha", parameter(0, 0.2F)}, {"beta", parameter(1, 0.5)}});
  if (activation == "Clip") {
    constexpr double kLargest = std::numeric_limits<float>::max();
    Value *low = node.scalar(dtype, parameter(0, -kLargest)), *high = node.scalar(dtype, parameter(1, kLargest));
    return node.emit(Op::clip_, {x, low, high});
  }
  node.refuse("unsupported-attribute",
              "`activation` is `" + activation +
                  "`, known are Clip, Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu");
}

/// A convolution, then a sum with operand 3, then an activation.
void import_fused_conv(NodeContext& node) {
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  Value* y = node.emit(Op::conv_, std::move(operands), convolution_attributes(node));
  if (node.has(3)) y = node.emit(Op::add_, {y, node.in(3)});
  const std::vector<double> parameters = node.numbers("activation_params");
  const auto parameter = [&](int place, double otherwise) {
    return static_cast<size_t>(place) < parameters.size() ? parameters[static_cast<size_t>(place)] : otherwise;
  };
  node.result(Op::identity_, {activated(node, y, node.text("activation", ""), parameter)});
}

void import_fused_gemm(NodeContext& node) {
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  Value* y = node.emit(Op::gemm_, std::move(operands),
                       {{"alpha", node.number("alpha", 1)},
                        {"beta", node.number("beta", 1)},
                        {"transpose_a", node.flag("transA", false)},
                        {"transpose_b", node.flag("transB", false)}});
  // Of the three an activation reads those that it has.
  const char* const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  for (const char* name : names) node.ignore(name);
  const auto parameter = [&](int place, double otherwise) { return node.number(names[place], otherwise); };
  node.result(Op::identity_, {activated(node, y, node.text("activation", ""), parameter)});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"com.microsoft", "BiasGelu", import_bias_gelu},
    {"com.microsoft", "FastGelu", import_fast_gelu},
    {"com.microsoft", "FusedConv", import_fused_conv},
    {"com.microsoft", "FusedGemm", import_fused_gemm},
    {"com.microsoft", "FusedMatMul", import_fused_matmul},
    {"com.microsoft", "Gelu", import_gelu},
    {"com.microsoft", "QuickGelu", import_quick_gelu},
    {"com.microsoft", "SimplifiedLayerNormalization", import_simplified_norm},
    {"com.microsoft", "SkipLayerNormalization", [](NodeContext& node) { import_skip_norm(node, Op::layer_norm_, 2, 3, 4); }},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", [](NodeContext& node) { import_skip_norm(node, Op::rms_norm_, 2, -1, 3); }},
});

}  // namespace

std::span<const Handler> contrib_handlers() { return kHandlers; }

}  // namespace tcc::onnx
