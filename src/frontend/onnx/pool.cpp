// Pooling.
#include "frontend/onnx/pool.h"

#include <array>

#include "frontend/onnx/convolution.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {

Attrs window_attributes(NodeContext& node, bool has_dilations, bool has_ceil_mode) {
  std::vector<int64_t> kernel = node.integers("kernel_shape");
  if (kernel.empty()) node.refuse("malformed-file", "attribute `kernel_shape` is missing");
  return {{"kernel", std::move(kernel)},
          {"strides", node.integers("strides")},
          {"pads", node.integers("pads")},
          {"dilations", has_dilations ? node.integers("dilations") : std::vector<int64_t>()},
          {"ceil_mode", has_ceil_mode && node.flag("ceil_mode", false)},
          {"auto_pad", auto_pad_of(node)}};
}

namespace {

void import_max_pool(NodeContext& node) {
  Attrs attrs = window_attributes(node, node.opset() >= 10, node.opset() >= 10);
  attrs.set("storage_order", node.opset() >= 8 ? node.integer("storage_order", 0) : 0);
  node.result(Op::max_pool_, {node.in(0)}, std::move(attrs), node.wants(1) ? 2 : 1);
}

void import_average_pool(NodeContext& node) {
  Attrs attrs = window_attributes(node, node.opset() >= 19, node.opset() >= 10);
  attrs.set("count_include_pad", node.opset() >= 7 && node.flag("count_include_pad", false));
  node.result(Op::average_pool_, {node.in(0)}, std::move(attrs));
}

void import_global_average_pool(NodeContext& node) { node.result(Op::global_average_pool_, {node.in(0)}); }
void import_global_max_pool(NodeContext& node) { node.result(Op::global_max_pool_, {node.in(0)}); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "AveragePool", import_average_pool},
    {"", "GlobalAveragePool", import_global_average_pool},
    {"", "GlobalMaxPool", import_global_max_pool},
    {"", "MaxPool", import_max_pool},
});

}  // namespace

std::span<const Handler> pool_handlers() { return kHandlers; }

}  // namespace tcc::onnx
