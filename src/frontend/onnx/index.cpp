// Ops with indices: gather, scatter, one-hot, top-k; and the running sums, whose axis is an operand.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// Indices of a type that gather takes.
Value* index_operand(NodeContext& node, int i) {
  const DType dtype = node.dtype(i);
  return dtype == DType::i32 || dtype == DType::i64 ? node.in(i) : node.build().cast(node.in(i), DType::i64);
}

void import_gather(NodeContext& node) { node.result(Op::gather_, {node.in(0), node.in(1)}, {{"axis", node.axis("axis", 0)}}); }

void import_gather_elements(NodeContext& node) {
  node.result(Op::gather_elements_, {node.in(0), node.in(1)}, {{"axis", node.axis("axis", 0)}});
}

void import_gather_nd(NodeContext& node) {
  node.result(Op::gather_nd_, {node.in(0), node.in(1)}, {{"batch_dims", node.opset() >= 12 ? node.integer("batch_dims", 0) : 0}});
}

std::string combiner(NodeContext& node) {
  const std::string reduction = node.opset() >= 16 ? node.text("reduction", "none") : "none";
  if (reduction == "none") return "assign";
  if (reduction == "add" || reduction == "mul" || ((reduction == "max" || reduction == "min") && node.opset() >= 18)) return reduction;
  node.refuse("unsupported-attribute", "`reduction` is `" + reduction + "`, none, add, mul, max and min are known");
}

void import_scatter_elements(NodeContext& node) {
  node.result(Op::scatter_elements_, {node.in(0), node.in(1), node.in(2)}, {{"axis", node.axis("axis", 0)}, {"combiner", combiner(node)}});
}

void import_scatter_nd(NodeContext& node) {
  node.result(Op::scatter_nd_, {node.in(0), node.in(1), node.in(2)}, {{"combiner", combiner(node)}});
}

void import_one_hot(NodeContext& node) {
  node.result(Op::dynamic_one_hot_, {index_operand(node, 0), node.in(1), node.in(2)}, {{"axis", node.integer("axis", -1)}});
}

void import_topk(NodeContext& node) {
  Attrs attrs{{"axis", node.axis("axis", -1)}, {"largest", true}, {"sorted", true}};
  if (node.opset() >= 11) {
    attrs.set("largest", node.flag("largest", true));
    attrs.set("sorted", node.flag("sorted", true));
  }
  Value* k = node.opset() >= 10 ? node.in(1) : node.ints({node.integer("k")}, "k");
  node.result(Op::dynamic_topk_, {node.in(0), k}, std::move(attrs));
}

template <bool product> void import_cumulative(NodeContext& node) {
  node.result(Op::dynamic_cumsum_, {node.in(0), node.in(1)},
              {{"op", std::string(product ? "prod" : "sum")},
               {"exclusive", node.flag("exclusive", false)},
               {"reverse", node.flag("reverse", false)}});
}

/// With a condition that is known while importing this is a gather; otherwise the size of the result depends on data.
void import_compress(NodeContext& node) {
  const Tensor condition = node.require_constant(1, "condition");
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.count(); ++i) {
    if (condition.as_int64(i) != 0) chosen.push_back(i);
  }
  Value* x = node.in(0);
  const bool has_axis = node.has_attribute("axis");
  const int64_t axis = has_axis ? node.axis("axis") : 0;
  if (!has_axis) x = node.emit(Op::dynamic_reshape_, {x, node.ints({-1}, "flat")}, {{"allowzero", false}});
  node.result(Op::gather_, {x, node.ints(chosen, "chosen")}, {{"axis", axis}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Compress", import_compress},
    {"", "CumProd", import_cumulative<true>},
    {"", "CumSum", import_cumulative<false>},
    {"", "Gather", import_gather},
    {"", "GatherElements", import_gather_elements},
    {"", "GatherND", import_gather_nd},
    {"", "OneHot", import_one_hot},
    {"", "Scatter", import_scatter_elements},
    {"", "ScatterElements", import_scatter_elements},
    {"", "ScatterND", import_scatter_nd},
    {"", "TopK", import_topk},
});

}  // namespace

std::span<const Handler> index_handlers() { return kHandlers; }

}  // namespace tcc::onnx
