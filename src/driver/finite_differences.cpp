#include "driver/finite_differences.h"

#include <algorithm>
#include <cmath>

#include "tcc/graph/passes.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/random.h"

namespace tcc::driver {

namespace {

// Steps are this share of the tensor's size: the error of a central difference goes with its square, that of rounding with its inverse.
constexpr double kStep = 1e-5;
constexpr double kRelative = 1e-4;   ///< of the sum of the products' magnitudes, which does not cancel
constexpr double kRounding = 1e-13;  ///< of the function's value, over the step

bool is_gradient(const std::string& name) { return name.rfind("grad.", 0) == 0; }

/// The forward half of a joint graph as a function of one tensor.
class Function {
 public:
  Function(const Graph& joint, const std::vector<Tensor>& inputs) : graph_(joint.clone()), inputs_(inputs) {
    std::vector<Value*> results;
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_->body.results.size(); ++i) {
      if (is_gradient(graph_->output_names[i])) continue;
      results.push_back(graph_->body.results[i]);
      names.push_back(graph_->output_names[i]);
    }
    graph_->body.results = results;
    graph_->output_names = names;
    graph_->state_updates.clear();
    for (const std::string& name : names) weights_.push_back(cotangent(name));
    eliminate_dead_code(*graph_);
  }

  /// Null when the graph has no such input or weight.
  const Tensor* tensor(const std::string& name) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (graph_->body.args[i]->name == name) return &inputs_[i];
    }
    const Value* weight = graph_->find_weight(name);
    return weight == nullptr ? nullptr : &weight->weight->tensor;
  }

  /// With `value` in the place of the tensor `name`.
  double at(const std::string& name, const Tensor& value) {
    Tensor* place = const_cast<Tensor*>(tensor(name));
    const Tensor before = *place;
    *place = value;
    const std::vector<Tensor> outputs = interpret(*graph_, inputs_, true);
    *place = before;
    double sum = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (weights_[i] == nullptr) return outputs[i].as_double(0);
      for (int64_t k = 0; k < outputs[i].count(); ++k) sum += outputs[i].as_double(k) * weights_[i]->as_double(k);
    }
    return sum;
  }

 private:
  const Tensor* cotangent(const std::string& output) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (graph_->body.args[i]->name == "cotangent." + output) return &inputs_[i];
    }
    return nullptr;
  }

  std::unique_ptr<Graph> graph_;
  std::vector<Tensor> inputs_;
  std::vector<const Tensor*> weights_;  ///< the cotangent of each output; null: it is the loss
};

Tensor moved(const Tensor& tensor, const std::vector<double>& direction, double step) {
  Tensor result(DType::f64, tensor.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) result.set_double(i, tensor.as_double(i) + step * direction[static_cast<size_t>(i)]);
  return result;
}

}  // namespace

std::vector<DirectionalDerivative> check_gradients(const Graph& joint, const std::vector<Tensor>& inputs,
                                                   const std::vector<Tensor>& results, uint64_t seed,
                                                   const std::function<void(const DirectionalDerivative&)>& observe) {
  Function function(joint, inputs);
  std::vector<DirectionalDerivative> derivatives;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_gradient(joint.output_names[i])) continue;
    DirectionalDerivative derivative;
    derivative.name = joint.output_names[i].substr(5);
    const Tensor* tensor = function.tensor(derivative.name);
    if (tensor == nullptr || tensor->count() == 0) continue;  // nothing depends on it, or there is nothing to move
    const Tensor& gradient = results[i];
    const RandomStream random{seed, i, 0};
    std::vector<double> direction(static_cast<size_t>(tensor->count()));
    double largest = 0, magnitude = 0;
    for (size_t k = 0; k < direction.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      direction[k] = static_cast<double>(random.normal(k));
      derivative.gradient += gradient.as_double(at) * direction[k];
      magnitude += std::abs(gradient.as_double(at) * direction[k]);
      largest = std::max(largest, std::abs(tensor->as_double(at)));
    }
    const double step = kStep * std::max(largest, 1e-3);
    const double here = function.at(derivative.name, moved(*tensor, direction, 0));
    const double after = function.at(derivative.name, moved(*tensor, direction, step));
    const double before = function.at(derivative.name, moved(*tensor, direction, -step));
    derivative.difference = (after - before) / (2 * step);
    const double tolerance = kRelative * magnitude + kRounding * (std::abs(here) + 1) / step;
    derivative.agrees = std::abs(derivative.gradient - derivative.difference) <= tolerance;
    if (!derivative.agrees) {
      const double right = (after - here) / step, left = (here - before) / step;
      derivative.at_kink =
          derivative.gradient >= std::min(left, right) - tolerance && derivative.gradient <= std::max(left, right) + tolerance;
      derivative.agrees = derivative.at_kink;
    }
    if (observe) observe(derivative);
    derivatives.push_back(derivative);
  }
  return derivatives;
}

}  // namespace tcc::driver
