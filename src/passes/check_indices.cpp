// At run time such an index reads 0 and writes nothing. One that stands in the model is a fault of the model, with its place and the range.

#include "passes/check_indices.h"

#include <optional>
#include <string>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

/// Which axis of the data an element of the indices addresses.
struct Addressing {
  int64_t first_axis = 0;
  bool tuples = false;  ///< the last axis of the indices holds one index for each of several axes
};

int64_t axis_of(const Node& node) {
  const int64_t axis = node.attrs.get_int("axis");
  return axis < 0 ? axis + node.operand(0)->type.rank() : axis;
}

std::optional<Addressing> addressing_of(const Node& node) {
  switch (node.op) {
    case Op::gather_:
    case Op::gather_elements_:
    case Op::scatter_elements_: return Addressing{axis_of(node), false};
    case Op::gather_nd_: return Addressing{node.attrs.get_int("batch_dims"), true};
    case Op::scatter_nd_: return Addressing{0, true};
    default: return std::nullopt;
  }
}

}  // namespace

void check_indices(const Node& node, const std::function<const Tensor*(const Value*)>& known) {
  const std::optional<Addressing> addressing = addressing_of(node);
  if (!addressing) return;
  const Tensor* indices = known(node.operand(1));
  if (indices == nullptr || indices->count() == 0) return;
  const Shape data = node.operand(0)->type.shape();
  const int64_t depth = addressing->tuples ? indices->shape().back() : 1;
  for (int64_t i = 0; i < indices->count(); ++i) {
    const int64_t axis = addressing->first_axis + i % depth, extent = data[static_cast<size_t>(axis)], index = indices->as_int64(i);
    if (index >= -extent && index < extent) continue;
    const std::string range =
        extent == 0 ? "there is nothing to address" : "the range is " + std::to_string(-extent) + " to " + std::to_string(extent - 1);
    throw RuleError{"index-out-of-range", "index " + std::to_string(index) + " (element " + std::to_string(i) +
                                              " of the indices) for axis " + std::to_string(axis) + " of extent " + std::to_string(extent) +
                                              ": " + range};
  }
}

}  // namespace tcc
