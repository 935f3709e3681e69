// Ops that take tensors apart and put them together: concat, split, slice, pad, blocks, triangles.
#include <array>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_concat(NodeContext& node) { node.result(Op::concat_, node.all_inputs(), {{"axis", node.axis("axis")}}); }

void import_split(NodeContext& node) {
  Attrs attrs{{"axis", node.axis("axis", 0)}};
  Value* sizes = node.operand_or_ints(1, "split", 13);
  int64_t parts = node.num_outputs();
  if (node.opset() >= 18 && node.has_attribute("num_outputs")) {
    parts = node.integer("num_outputs", 0);
    if (parts < node.num_outputs())
      node.refuse("malformed-file",
                  "`num_outputs` is " + std::to_string(parts) + ", the node has " + std::to_string(node.num_outputs()) + " outputs");
  }
  if (parts < 1) node.refuse("malformed-file", "the node has no outputs");
  std::vector<Value*> operands{node.in(0)};
  if (sizes != nullptr) operands.push_back(sizes);
  else attrs.set("num_outputs", parts);
  node.result(Op::dynamic_split_, std::move(operands), std::move(attrs), static_cast<int>(parts));
}

void import_slice(NodeContext& node) {
  if (node.opset() < 10) {
    const auto starts = node.integers("starts"), ends = node.integers("ends");
    std::vector<int64_t> axes = node.integers("axes");
    if (starts.empty() || starts.size() != ends.size())
      node.refuse("malformed-file", "`starts` has " + std::to_string(starts.size()) + " values, `ends` has " + std::to_string(ends.size()));
    if (axes.empty()) {
      for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    }
    return node.result(Op::dynamic_slice_, {node.in(0), node.ints(starts, "starts"), node.ints(ends, "ends"), node.ints(axes, "axes")});
  }
  std::vector<Value*> operands{node.in(0), node.in(1), node.in(2)};
  if (node.has(3) || node.has(4)) operands.push_back(node.maybe(3));
  if (node.has(4)) operands.push_back(node.maybe(4));
  node.result(Op::dynamic_slice_, std::move(operands));
}

void import_pad(NodeContext& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    node.refuse("unsupported-attribute", "`mode` is `" + mode + "`, constant, reflect, edge and wrap are known");
  const Attrs attrs{{"mode", mode}};
  if (node.opset() < 11) {
    std::vector<Value*> operands{node.in(0), node.ints(node.integers("pads"), "pads")};
    const double value = node.number("value", 0);
    if (value != 0) operands.push_back(node.scalar(node.dtype(), value));
    return node.result(Op::dynamic_pad_, std::move(operands), attrs);
  }
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2) || node.has(3)) operands.push_back(node.maybe(2));
  if (node.has(3)) operands.push_back(node.in(3));
  node.result(Op::dynamic_pad_, std::move(operands), attrs);
}

void import_depth_to_space(NodeContext& node) {
  const std::string mode = node.opset() >= 11 ? node.text("mode", "DCR") : "DCR";
  if (mode != "DCR" && mode != "CRD") node.refuse("unsupported-attribute", "`mode` is `" + mode + "`, DCR and CRD are known");
  node.result(Op::depth_to_space_, {node.in(0)}, {{"blocksize", node.integer("blocksize")}, {"mode", mode}});
}

/// The new channels are [position in the block, channel]; in the mode CRD the channel comes first.
void import_space_to_depth(NodeContext& node) {
  const std::string mode = node.opset() >= 28 ? node.text("mode", "DCR") : "DCR";
  if (mode != "DCR" && mode != "CRD") node.refuse("unsupported-attribute", "`mode` is `" + mode + "`, DCR and CRD are known");
  const int64_t block = node.integer("blocksize");
  Attrs attrs{{"blocksize", block}};
  if (mode == "DCR") return node.result(Op::space_to_depth_, {node.in(0)}, std::move(attrs));
  if (block < 1 || block > INT32_MAX) node.refuse("type-error", "`blocksize` is " + std::to_string(block) + ", expected 1 or more");
  Arithmetic m(node);
  Value* y = node.emit(Op::space_to_depth_, {node.in(0)}, std::move(attrs));
  Value* positions = node.ints({block * block}, "positions");
  Value* split = m.reshape(y, m.join({m.size(y, 0), positions, m.size(node.in(0), 1), m.size(y, 2), m.size(y, 3)}, 0));
  node.result(Op::dynamic_reshape_, {m.transpose(split, {0, 2, 1, 3, 4}), m.shape(y)}, {{"allowzero", true}});
}

void import_trilu(NodeContext& node) {
  std::vector<Value*> operands{node.in(0)};
  if (node.has(1)) operands.push_back(node.in(1));
  node.result(Op::dynamic_trilu_, std::move(operands), {{"upper", node.flag("upper", true)}});
}

/// Along each batch the first `sequence_lens` elements change places: element t comes from length - 1 - t.
void import_reverse_sequence(NodeContext& node) {
  const int64_t time = node.integer("time_axis", 0), batch = node.integer("batch_axis", 1);
  if (time + batch != 1 || (time != 0 && batch != 0))
    node.refuse("malformed-file",
                "`time_axis` is " + std::to_string(time) + ", `batch_axis` is " + std::to_string(batch) + ", expected 0 and 1");
  Arithmetic m(node);
  Value* x = node.in(0);
  Value* length = m.unsqueeze(m.cast(node.in(1), DType::i64), {time});
  Value* position = m.unsqueeze(m.count_to(m.scalar(m.size(x, time))), {batch});
  Value* mirrored = m.sub(m.sub(length, m.number(DType::i64, 1)), position);
  Value* from = m.select(node.emit(Op::lt_, {position, length}), mirrored, position);
  std::vector<int64_t> others;
  for (int64_t axis = 2; axis < node.rank(0); ++axis) others.push_back(axis);
  if (!others.empty()) from = m.unsqueeze(from, others);
  node.result(Op::gather_elements_, {x, node.emit(Op::dynamic_expand_, {from, m.shape(x)})}, {{"axis", time}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Concat", import_concat},
    {"", "DepthToSpace", import_depth_to_space},
    {"", "Pad", import_pad},
    {"", "ReverseSequence", import_reverse_sequence},
    {"", "Slice", import_slice},
    {"", "SpaceToDepth", import_space_to_depth},
    {"", "Split", import_split},
    {"", "Trilu", import_trilu},
});

}  // namespace

std::span<const Handler> structure_handlers() { return kHandlers; }

}  // namespace tcc::onnx
