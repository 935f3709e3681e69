// The two loss ops. With c = class of an element's target, w = weight[c] (1 without weights) and 0 where the target is `ignore_index`:
//   loss = -log_probability[c] * w;   sum: over all;   mean: sum of losses / sum of weights.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// Sets result 0. `log_probability` is [N, C, d...], `target` [N, d...], both of any rank; the axis of classes is 1.
void negative_log_likelihood(NodeContext& node, Value* log_probability, Value* target, Value* weight) {
  const DType dtype = log_probability->type.dtype;
  const std::string reduction = node.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    node.refuse("unsupported-attribute", "`reduction` is `" + reduction + "`, none, sum and mean are known");
  }
  Builder& b = node.build();
  if (target->type.dtype != DType::i32 && target->type.dtype != DType::i64) target = b.cast(target, DType::i64);

  Value* counted = nullptr;  // whether the element has a class that counts
  if (node.has_attribute("ignore_index")) {
    Value* ignored = b.full_int(target->type.dtype, {}, node.integer("ignore_index", 0));
    counted = node.emit(Op::ne_, {target, ignored});
    target = node.emit(Op::select_, {counted, target, b.full_int(target->type.dtype, {}, 0)});  // any class: its loss is dropped below
  }
  Value* class_axis = node.ints({1}, "class_axis");
  Value* column = node.emit(Op::dynamic_unsqueeze_, {target, class_axis});
  Value* picked =
      node.emit(Op::dynamic_squeeze_, {node.emit(Op::gather_elements_, {log_probability, column}, {{"axis", int64_t{1}}}), class_axis});
  Value* loss = node.emit(Op::check_classes_, {node.emit(Op::neg_, {picked}), target, log_probability}, {{"axis", int64_t{1}}});

  Value* weights = nullptr;  // nullptr: ones
  if (weight != nullptr) weights = node.emit(Op::gather_, {weight, target}, {{"axis", int64_t{0}}});
  if (counted != nullptr) {
    Value* zero = node.scalar(dtype, 0);
    Value* kept = weights != nullptr ? weights : node.scalar(dtype, 1);
    weights = node.emit(Op::select_, {counted, kept, zero});
    // Select, not multiply: the loss of a dropped element may be infinite.
    loss = node.emit(Op::select_, {counted, loss, zero});
  }
  if (weights != nullptr) loss = node.emit(Op::mul_, {loss, weights});

  auto reduced = [&](const char* op, Value* x) {
    return node.emit(Op::dynamic_reduce_, {x}, {{"op", std::string(op)}, {"keepdims", false}, {"noop_with_empty_axes", false}});
  };
  if (reduction == "none") node.result(Op::identity_, {loss});
  else if (reduction == "sum") node.result(Op::identity_, {reduced("sum", loss)});
  else if (weights == nullptr) node.result(Op::identity_, {reduced("mean", loss)});
  else node.result(Op::div_, {reduced("sum", loss), reduced("sum", weights)});
}

void import_nll_loss(NodeContext& node) { negative_log_likelihood(node, node.in(0), node.in(1), node.maybe(2)); }

void import_softmax_cross_entropy(NodeContext& node) {
  Value* log_probability = node.emit(Op::log_softmax_, {node.in(0)}, {{"axis", int64_t{1}}});
  negative_log_likelihood(node, log_probability, node.in(1), node.maybe(2));
  node.set(1, log_probability);
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "NegativeLogLikelihoodLoss", import_nll_loss},
    {"", "SoftmaxCrossEntropyLoss", import_softmax_cross_entropy},
});

}  // namespace

std::span<const Handler> loss_handlers() { return kHandlers; }

}  // namespace tcc::onnx
