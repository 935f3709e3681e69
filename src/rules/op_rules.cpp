// Which functions the rows of ops.def name. A missing one stops the link.
#include "tcc/rules/infer.h"
#include "tcc/rules/rules.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

struct Rules {
  InferRule infer = nullptr;
  EvalRule evaluate = nullptr;
  DecomposeRule decompose = nullptr;
};

constexpr Rules rules_of(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::none: break;
#define TCC_SCALAR_CLASS(name, operands, infer_rule, eval_rule) \
  case ScalarClass::name: return {infer_rule, eval_rule};
#include "tcc/ops/ops.def"
  }
  return {};
}

constexpr Rules kRules[] = {
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) rules_of(ScalarClass::scalar_class),
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  {infer_rule, eval_rule},
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  {infer_rule, nullptr, decompose_rule},
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) {infer_rule},
#include "tcc/ops/ops.def"
};

}  // namespace

InferRule infer_rule(Op op) { return kRules[static_cast<size_t>(op)].infer; }
EvalRule eval_rule(Op op) { return kRules[static_cast<size_t>(op)].evaluate; }
DecomposeRule decompose_rule(Op op) { return kRules[static_cast<size_t>(op)].decompose; }

std::vector<Value*> decompose_node(Builder& builder, const Node& node) {
  const DecomposeRule rule = decompose_rule(node.op);
  check(rule != nullptr, "decompose_node is called with an op that is not a composite");
  return rule(builder, node);
}

}  // namespace tcc
