// Ops of ai.onnx.preview.training: update steps, and derivatives inside the model.
//
// Update steps. After the learning rate R and the step count T come groups of equally many tensors:
// parameters, gradients, then one group per state; the results are the new parameters, then the new states. Formulas are ONNX's.
#include <array>

#include <unordered_map>

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
  // Before the first step nothing is corrected; what is not taken then must be finite for derivatives to be.
  Value* steps = node.emit(Op::max_, {m.steps(), m.number(1)});
  Value* corrected = m.div(m.mul(m.rate(), m.sqrt(m.sub(m.number(1), m.power(beta, steps)))), m.sub(m.number(1), m.power(alpha, steps)));
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

/// `y` at another point: what lies between it and the keys of `point`, once more, with what they are mapped to in their place.
Value* at_point(NodeContext& node, Value* y, const std::unordered_map<const Value*, Value*>& point) {
  std::unordered_map<const Value*, Value*> moved = point;
  std::vector<std::pair<const Node*, size_t>> stack;  // a node, and which operand comes next
  const auto enter = [&](Value* value) {
    if (value == nullptr || moved.contains(value)) return;
    if (value->producer == nullptr) {
      moved.emplace(value, value);
      return;
    }
    for (Value* result : value->producer->results) moved.emplace(result, result);
    stack.emplace_back(value->producer, 0);
  };
  enter(y);
  while (!stack.empty()) {
    const Node* step = stack.back().first;
    if (stack.back().second < step->operands.size()) {
      enter(step->operands[stack.back().second++]);
      continue;
    }
    stack.pop_back();
    std::vector<Value*> operands;
    for (Value* operand : step->operands) operands.push_back(operand == nullptr ? nullptr : moved.at(operand));
    if (operands == step->operands) continue;
    const Node* copy = node.build().emit_node(step->op, std::move(operands), step->attrs, static_cast<int>(step->results.size()));
    for (size_t i = 0; i < step->results.size(); ++i)
      if (!point.contains(step->results[i])) moved[step->results[i]] = copy->results[i];
  }
  return moved.at(y);
}

/// The derivative of the tensor named `y` with respect to those named `xs`, at the values that the operands have: first one for each of `xs`, then one
/// for each of `zs`, which are held.
void import_gradient(NodeContext& node) {
  const std::vector<std::string> xs = node.texts("xs"), zs = node.texts("zs");
  std::vector<std::string> names = xs;
  names.insert(names.end(), zs.begin(), zs.end());
  if (xs.empty()) node.refuse("malformed-file", "attribute `xs` is missing");
  if (node.num_inputs() != static_cast<int>(names.size())) {
    node.refuse("malformed-file", "there are " + std::to_string(node.num_inputs()) + " operands, `xs` and `zs` name " +
                                      std::to_string(names.size()) + " tensors");
  }
  if (node.num_outputs() > static_cast<int>(xs.size())) {
    node.refuse("malformed-file",
                "there are " + std::to_string(node.num_outputs()) + " results, `xs` names " + std::to_string(xs.size()) + " tensors");
  }
  std::unordered_map<const Value*, Value*> point;
  bool elsewhere = false;
  std::vector<Value*> operands{nullptr};
  for (int i = 0; i < node.num_inputs(); ++i) {
    Value* variable = node.named(names[static_cast<size_t>(i)], i < static_cast<int>(xs.size()) ? "one of `xs`" : "one of `zs`");
    operands.push_back(node.in(i));
    elsewhere = elsewhere || variable != node.in(i);
  }
  Value* y = node.named(node.text("y"), "`y`");
  if (elsewhere) {
    // Values of their own: the same tensor may be given for two variables.
    for (size_t i = 1; i < operands.size(); ++i) {
      operands[i] = node.emit(Op::identity_, {operands[i]});
      point[node.named(names[i - 1], "")] = operands[i];
    }
  }
  operands[0] = elsewhere ? at_point(node, y, point) : y;
  node.result(Op::gradient_, std::move(operands), {}, static_cast<int>(xs.size()));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"ai.onnx.preview.training", "Adagrad", import_adagrad},
    {"ai.onnx.preview.training", "Adam", import_adam},
    {"ai.onnx.preview.training", "Gradient", import_gradient},
    {"ai.onnx.preview.training", "Momentum", import_momentum},
});

}  // namespace

std::span<const Handler> training_handlers() { return kHandlers; }

}  // namespace tcc::onnx
