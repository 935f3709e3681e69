// Normalisations, softmax and dropout.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// Statistics are computed in f32 for the 16-bit floats (graph.h), which is what `stash_type` 1 asks for.
void check_stash_type(NodeContext& node) {
  const int64_t type = node.integer("stash_type", pb::TensorProto::FLOAT);
  if (type != pb::TensorProto::FLOAT)
    node.refuse("unsupported-attribute", "`stash_type` is " + std::to_string(type) + ", lowered is 1 (f32)");
}

/// Training form: before opset 7 without `is_test`, before 14 when the statistics are outputs, later by attribute.
bool is_training(NodeContext& node) {
  if (node.opset() < 7) {
    if (node.flag("is_test", false)) return false;
    if (!node.wants(1)) node.refuse("unsupported-attribute", "`is_test` is 0 in a node that gives no statistics, lowered is 1");
    return true;
  }
  if (node.opset() < 14) return node.wants(1);
  return node.flag("training_mode", false);
}

void import_batch_norm(NodeContext& node) {
  if (node.opset() < 9 && !node.flag("spatial", true)) node.refuse("unsupported-attribute", "`spatial` is 0, lowered is 1");
  const double epsilon = node.number("epsilon", 1e-5F), momentum = node.number("momentum", 0.9F);
  const std::vector<Value*> operands{node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)};
  if (is_training(node)) {
    node.result(Op::batch_norm_train_, operands, {{"epsilon", epsilon}, {"momentum", momentum}}, 3);
  } else {
    node.result(Op::batch_norm_, operands, {{"epsilon", epsilon}});
  }
}

void import_instance_norm(NodeContext& node) {
  node.result(Op::instance_norm_, {node.in(0), node.in(1), node.in(2)}, {{"epsilon", node.number("epsilon", 1e-5F)}});
}

void import_layer_norm(NodeContext& node) {
  check_stash_type(node);
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result(Op::layer_norm_, std::move(operands), {{"axis", node.axis("axis", -1)}, {"epsilon", node.number("epsilon", 1e-5F)}},
              node.num_outputs());
}

void import_rms_norm(NodeContext& node) {
  check_stash_type(node);
  node.result(Op::rms_norm_, {node.in(0), node.in(1)}, {{"axis", node.axis("axis", -1)}, {"epsilon", node.number("epsilon", 1e-5F)}});
}

void import_group_norm(NodeContext& node) {
  if (node.opset() >= 21) check_stash_type(node);
  node.result(Op::group_norm_, {node.in(0), node.in(1), node.in(2)},
              {{"epsilon", node.number("epsilon", 1e-5F)}, {"num_groups", node.integer("num_groups")}});
}

void import_lrn(NodeContext& node) {
  node.result(Op::lrn_, {node.in(0)},
              {{"alpha", node.number("alpha", 1e-4F)},
               {"beta", node.number("beta", 0.75)},
               {"bias", node.number("bias", 1)},
               {"size", node.integer("size")}});
}

void import_mean_variance_norm(NodeContext& node) {
  std::vector<int64_t> axes{0, 2, 3};
  if (node.has_attribute("axes")) axes = node.integers("axes");
  node.result(Op::mean_variance_norm_, {node.in(0)}, {{"axes", axes}});
}

void import_lp_norm(NodeContext& node) {
  node.result(Op::lp_norm_, {node.in(0)}, {{"axis", node.axis("axis", -1)}, {"p", node.integer("p", 2)}});
}

/// Before opset 13 the axes from `axis` on are one: flatten to a matrix, normalise its rows, give the shape back.
template <Op op> void import_softmax(NodeContext& node) {
  Value* x = node.in(0);
  if (node.opset() >= 13) return node.result(op, {x}, {{"axis", node.axis("axis", -1)}});
  const int64_t axis = node.axis("axis", 1);
  if (axis == -1 || (x->type.ranked && (axis < 0 ? axis + x->type.rank() : axis) == x->type.rank() - 1)) {
    return node.result(op, {x}, {{"axis", int64_t{-1}}});
  }
  Value* rows = node.emit(op, {node.emit(Op::flatten_, {x}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  Value* shape = node.emit(Op::shape_of_, {x}, {{"start", int64_t{0}}});
  node.result(Op::dynamic_reshape_, {rows, shape}, {{"allowzero", true}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "BatchNormalization", import_batch_norm},
    {"", "GroupNormalization", import_group_norm},
    {"", "Hardmax", import_softmax<Op::hardmax_>},
    {"", "InstanceNormalization", import_instance_norm},
    {"", "LRN", import_lrn},
    {"", "LayerNormalization", import_layer_norm},
    {"", "LogSoftmax", import_softmax<Op::log_softmax_>},
    {"", "LpNormalization", import_lp_norm},
    {"", "MeanVarianceNormalization", import_mean_variance_norm},
    {"", "RMSNormalization", import_rms_norm},
    {"", "SimplifiedLayerNormalization", import_rms_norm},  // contrib op that exporters write without a domain
    {"", "Softmax", import_softmax<Op::softmax_>},
});

}  // namespace

std::span<const Handler> norm_handlers() { return kHandlers; }

}  // namespace tcc::onnx
