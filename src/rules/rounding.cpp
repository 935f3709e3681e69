// rounding_of_outputs: what the values of a graph were rounded to on their way, see reference.h.

#include "rules/rounding.h"

#include <algorithm>

#include "tcc/rules/reference.h"

namespace tcc {

int digits_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 53;
    case DType::f32: return 24;
    case DType::f16: return 11;
    case DType::bf16: return 8;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return 3;
    default: return 4;
  }
}

namespace {

using Rounding = std::optional<DType>;

Rounding coarser(Rounding a, Rounding b) {
  if (!a || !b) return a ? a : b;
  return digits_of(*a) <= digits_of(*b) ? a : b;
}

bool is_one_of(Op op, std::initializer_list<Op> ops) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

}  // namespace

bool only_chooses(const Node& node) {
  switch (info(node.op).lowering) {
    case Lowering::create:
    case Lowering::view:
    case Lowering::concat:
    case Lowering::indexed:
    case Lowering::sort: return true;
    case Lowering::scatter:
      return is_one_of(node.op, {Op::scatter_elements_, Op::scatter_nd_}) && node.attrs.get_string("combiner") != "add" &&
             node.attrs.get_string("combiner") != "mul";
    case Lowering::scan:
    case Lowering::window: return node.attrs.has("op") && (node.attrs.get_string("op") == "max" || node.attrs.get_string("op") == "min");
    case Lowering::reduce: return !is_one_of(node.op, {Op::reduce_sum_, Op::reduce_prod_});
    case Lowering::pointwise:
      return is_one_of(node.op, {Op::neg_, Op::abs_, Op::sign_, Op::ceil_, Op::floor_, Op::trunc_, Op::round_even_, Op::max_, Op::min_,
                                 Op::select_, Op::clamp_, Op::bitcast_, Op::check_index_});
    default: return false;
  }
}

namespace {

class Tracer {
 public:
  explicit Tracer(const Graph& graph) : of_(static_cast<size_t>(graph.num_values())) {}

  void visit(const Node& node) {
    Rounding of_operands;
    for (const Value* operand : node.operands) {
      if (operand != nullptr) of_operands = coarser(of_operands, of(*operand));
    }
    for (const Value* result : node.results) of_[static_cast<size_t>(result->id)] = after(node, result->type.dtype, of_operands);
  }

  Rounding of(const Value& value) const { return of_[static_cast<size_t>(value.id)]; }
  std::vector<Rounding> all() && { return std::move(of_); }

 private:
  static Rounding after(const Node& node, DType dtype, Rounding of_operands) {
    if (node.op == Op::cast_) {
      if (!of_operands) return of_operands;  // one rounding of an exact value: every program has the same
      const DType from = node.operand(0)->type.dtype;
      if (is_float(from) && is_integer(dtype)) return coarser(of_operands, DType::bf16);
      return is_float(dtype) && is_float(from) ? coarser(of_operands, dtype) : of_operands;
    }
    return is_float(dtype) && !only_chooses(node) ? coarser(of_operands, dtype) : of_operands;
  }

  std::vector<Rounding> of_;  // by value id
};

}  // namespace

std::vector<std::optional<DType>> rounding_of_values(const Graph& prims) {
  Tracer tracer(prims);
  for (const Node* node : prims.body.nodes) tracer.visit(*node);
  return std::move(tracer).all();
}

std::vector<std::optional<DType>> rounding_of_outputs(const Graph& prims) {
  const std::vector<Rounding> of_values = rounding_of_values(prims);
  std::vector<Rounding> roundings;
  for (const Value* output : prims.body.results)
    roundings.push_back(is_float(output->type.dtype) ? of_values[static_cast<size_t>(output->id)] : std::nullopt);
  return roundings;
}

}  // namespace tcc
