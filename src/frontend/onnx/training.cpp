// Update steps of ai.onnx.preview.training. After the learning rate R and the step count T come groups of equally many tensors:
// parameters, gradients, then one group per state; the results are the new parameters, then the new states. Formulas are ONNX's.
#include <array>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// Scalars in the type of the tensors, and what all rules have.
class Update : public Arithmetic {
 public:
  explicit Update(NodeContext& node) : Arithmetic(node), node_(node), dtype_(node.dtype(0)) {}
  Value* number(double value) { return Arithmetic::number(dtype_, value); }
  Value* rate() { return node_.in(0); }
  Value* steps() { return cast(node_.in(1), dtype_); }
  /// T > 0 ? later : first
  Value* unless_first(Value* later, Value* first) {
    Value* zero = node_.build().full_int(node_.dtype(1), {}, 0);
    return select(node_.emit(Op::gt_, {node_.in(1), zero}), later, first);
  }
  Value* power(double base, Value* exponent) { return node_.emit(Op::pow_, {number(base), exponent}); }

 private:
  NodeContext& node_;
  DType dtype_;
};

/// How many tensors are updated, when each has `groups` operands.
int count_tensors(NodeContext& node, int groups) {
  const int rest = node.num_inputs() - 2;
  if (rest < groups || rest % groups != 0) {
    node.refuse("malformed-file",
                std::to_string(rest) + " operands follow R and T, a multiple of " + std::to_string(groups) + " was expected");
  }
  return rest / groups;
}

/// The gradient with the L2 penalty.
Value* regularized(Update& m, double coefficient, Value* x, Value* gradient) {
  return coefficient == 0 ? gradient : m.add(m.scale(coefficient, x), gradient);
}

void import_adagrad(NodeContext& node) {
  const double decay = node.number("decay_factor", 0), epsilon = node.number("epsilon", 1e-6F), norm = node.number("norm_coefficient", 0);
  const int n = count_tensors(node, 3);
  Update m(node);
  Value* rate = m.div(m.rate(), m.add(m.number(1), m.scale(decay, m.steps())));
  for (int i = 0; i < n; ++i) {
    Value *x = node.in(2 + i), *h = node.in(2 + 2 * n + i);
    Value* g = regularized(m, norm, x, node.in(2 + n + i));
    Value* h_new = m.add(h, m.mul(g, g));
    node.set(i, m.sub(x, m.div(m.mul(rate, g), m.add(m.sqrt(h_new), m.number(epsilon)))));
    node.set(n + i, h_new);
  }
}

void import_adam(NodeContext& node) {
  const double alpha = node.number("alpha", 0.9F), beta = node.number("beta", 0.999F), epsilon = node.number("epsilon", 1e-6F);
  const double norm = node.number("norm_coefficient", 0), norm_post = node.number("norm_coefficient_post", 0);
  const int n = count_tensors(node, 4);
  Update m(node);
  Value* corrected =
      m.div(m.mul(m.rate(), m.sqrt(m.sub(m.number(1), m.power(beta, m.steps())))), m.sub(m.number(1), m.power(alpha, m.steps())));
  Value* rate = m.unless_first(corrected, m.rate());
  for (int i = 0; i < n; ++i) {
    Value *x = node.in(2 + i), *v = node.in(2 + 2 * n + i), *h = node.in(2 + 3 * n + i);
    Value* g = regularized(m, norm, x, node.in(2 + n + i));
    Value* v_new = m.add(m.scale(alpha, v), m.scale(1 - alpha, g));
    Value* h_new = m.add(m.scale(beta, h), m.scale(1 - beta, m.mul(g, g)));
    Value* x_new = m.sub(x, m.div(m.mul(rate, v_new), m.add(m.sqrt(h_new), m.number(epsilon))));
    node.set(i, norm_post == 0 ? x_new : m.scale(1 - norm_post, x_new));
    node.set(n + i, v_new);
    node.set(2 * n + i, h_new);
  }
}

void import_momentum(NodeContext& node) {
  if (!node.has_attribute("alpha") || !node.has_attribute("beta")) node.refuse("malformed-file", "attribute `alpha` or `beta` is missing");
  const double alpha = node.number("alpha", 0), beta = node.number("beta", 0), norm = node.number("norm_coefficient", 0);
  const std::string mode = node.text("mode");
  if (mode != "standard" && mode != "nesterov")
    node.refuse("unsupported-attribute", "`mode` is `" + mode + "`, standard and nesterov are known");
  const int n = count_tensors(node, 3);
  Update m(node);
  Value* share = m.unless_first(m.number(beta), m.number(1));
  for (int i = 0; i < n; ++i) {
    Value *x = node.in(2 + i), *v = node.in(2 + 2 * n + i);
    Value* g = regularized(m, norm, x, node.in(2 + n + i));
    Value* v_new = m.add(m.scale(alpha, v), m.mul(share, g));
    Value* step = mode == "standard" ? v_new : m.add(g, m.scale(alpha, v_new));
    node.set(i, m.sub(x, m.mul(m.rate(), step)));
    node.set(n + i, v_new);
  }
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"ai.onnx.preview.training", "Adagrad", import_adagrad},
    {"ai.onnx.preview.training", "Adam", import_adam},
    {"ai.onnx.preview.training", "Momentum", import_momentum},
});

}  // namespace

std::span<const Handler> training_handlers() { return kHandlers; }

}  // namespace tcc::onnx
