// Matrix products.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_matmul(NodeContext& node) { node.result(Op::matmul_, {node.in(0), node.in(1)}); }

void import_gemm(NodeContext& node) {
  if (node.opset() < 7) node.ignore("broadcast");  // later versions always broadcast C
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result(Op::gemm_, std::move(operands),
              {{"alpha", node.number("alpha", 1)},
               {"beta", node.number("beta", 1)},
               {"transpose_a", node.flag("transA", false)},
               {"transpose_b", node.flag("transB", false)}});
}

void import_einsum(NodeContext& node) { node.result(Op::einsum_, node.all_inputs(), {{"equation", node.text("equation")}}); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Einsum", import_einsum},
    {"", "Gemm", import_gemm},
    {"", "MatMul", import_matmul},
});

}  // namespace

std::span<const Handler> contraction_handlers() { return kHandlers; }

}  // namespace tcc::onnx
