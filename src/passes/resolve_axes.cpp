// Resolve rules of ops whose axis, count or offset is an operand.

#include <algorithm>
#include <numeric>
#include <string>

#include "passes/resolve.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

using Results = std::optional<std::vector<Value*>>;

}  // namespace

// No axes mean all, unless the flag says none; even then the op's element-wise part is applied (the square of a sum of squares).
Results resolve_dynamic_reduce(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  std::vector<int64_t> axes;
  if (node.operand(1) != nullptr) {
    const auto given = context.ints(node, 1, "axes");
    if (!given) return std::nullopt;
    axes = normalize_axes(*given, x->type.rank(), "axes", x->type);
    std::sort(axes.begin(), axes.end());
  }
  if (axes.empty() && !node.attrs.get_bool("noop_with_empty_axes")) {
    axes.resize(static_cast<size_t>(x->type.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const std::string& op = node.attrs.get_string("op");
  if (axes.empty() && (op == "sum" || op == "mean" || op == "max" || op == "min" || op == "prod")) return {{x}};
  return {{context.builder().emit(Op::reduce_, {x}, {{"op", op}, {"axes", axes}, {"keepdims", node.attrs.get_bool("keepdims")}})}};
}

Results resolve_dynamic_cumsum(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const auto axis = context.scalar(node, 1, "axis");
  if (!axis) return std::nullopt;
  return {{context.builder().emit(Op::cumulative_, {x},
                                  {{"op", node.attrs.get_string("op")},
                                   {"axis", normalize_axis(*axis, x->type.rank(), "axis", x->type)},
                                   {"reverse", node.attrs.get_bool("reverse")},
                                   {"exclusive", node.attrs.get_bool("exclusive")}})}};
}

Results resolve_dynamic_trilu(ResolveContext& context, const Node& node) {
  std::optional<int64_t> k = 0;
  if (node.operand(1) != nullptr) k = context.scalar(node, 1, "k");
  if (!k) return std::nullopt;
  return {{context.builder().emit(Op::trilu_, {node.operand(0)}, {{"upper", node.attrs.get_bool("upper")}, {"k", *k}})}};
}

Results resolve_dynamic_one_hot(ResolveContext& context, const Node& node) {
  Value* indices = node.operand(0);
  const auto depth = context.scalar(node, 1, "depth");
  if (!depth) return std::nullopt;
  if (*depth < 0) type_error("`depth` is " + std::to_string(*depth) + ", expected no negative number");
  const int64_t axis = normalize_axis(node.attrs.get_int("axis"), indices->type.rank() + 1, "axis", indices->type);
  const DType dtype = indices->type.dtype;
  if (dtype != DType::i32 && dtype != DType::i64) indices = context.builder().cast(indices, DType::i64);
  return {{context.builder().emit(Op::one_hot_, {indices, node.operand(2)}, {{"axis", axis}, {"depth", *depth}})}};
}

Results resolve_dynamic_topk(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const auto k = context.scalar(node, 1, "k");
  if (!k) return std::nullopt;
  const int64_t axis = normalize_axis(node.attrs.get_int("axis"), x->type.rank(), "axis", x->type);
  // The prim always sorts, which is one of the orders that `sorted=false` allows.
  return context.builder().emit_node(Op::topk_, {x}, {{"k", *k}, {"axis", axis}, {"largest", node.attrs.get_bool("largest")}})->results;
}

}  // namespace tcc
