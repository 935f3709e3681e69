#include "tcc/driver/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/random.h"

namespace tcc::driver {

namespace {

// Steps are this share of the tensor's size: the error of a central difference goes with its square, that of rounding with its inverse.
constexpr double kStep = 1e-5;
constexpr double kRelative = 1e-4;   ///< of the sum of the products' magnitudes, which does not cancel
constexpr double kRounding = 1e-13;  ///< of the function's value, over the step
constexpr int kMaxShorter = 2;       ///< times that a step is shortened a hundredfold where it leads out of the function's domain
constexpr int kMaxProbes = 16;       ///< elements without a gradient that are moved one at a time

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
    here_ = interpret(*graph_, inputs_, true);
  }

  bool is_finite_here() const {
    return std::all_of(here_.begin(), here_.end(), [](const Tensor& output) {
      for (int64_t i = 0; i < output.count(); ++i) {
        if (!std::isfinite(output.as_double(i))) return false;
      }
      return true;
    });
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
      for (int64_t k = 0; k < outputs[i].count(); ++k) {
        if (std::isfinite(here_[i].as_double(k))) sum += outputs[i].as_double(k) * weights_[i]->as_double(k);
      }
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
  std::vector<Tensor> here_;            ///< the outputs where nothing has moved
};

Tensor moved(const Tensor& tensor, const std::vector<double>& direction, double step) {
  Tensor result(DType::f64, tensor.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) result.set_double(i, tensor.as_double(i) + step * direction[static_cast<size_t>(i)]);
  return result;
}

/// The function at a point and a step to both sides of it.
struct Sides {
  double step = 0, before = 0, here = 0, after = 0;
  bool finite() const { return std::isfinite(before) && std::isfinite(here) && std::isfinite(after); }
  double difference() const { return (after - before) / (2 * step); }
};

Sides look_around(Function& function, const std::string& name, const Tensor& tensor, const std::vector<double>& direction, double step) {
  Sides sides;
  sides.here = function.at(name, moved(tensor, direction, 0));
  for (int shorter = 0; shorter <= kMaxShorter; ++shorter, step /= 100) {
    sides.step = step;
    sides.after = function.at(name, moved(tensor, direction, step));
    sides.before = function.at(name, moved(tensor, direction, -step));
    if (sides.finite()) break;
  }
  return sides;
}

/// Of elements whose gradient is no number: the first one for which the function has a finite difference all the same, or -1.
int64_t find_finite_difference(Function& function, const std::string& name, const Tensor& tensor, const Tensor& gradient, double step,
                               Sides* sides) {
  if (!function.is_finite_here()) return -1;  // the outputs that are no numbers are left out, so nothing is known of these elements
  int probes = 0;
  for (int64_t i = 0; i < tensor.count() && probes < kMaxProbes; ++i) {
    if (!std::isnan(gradient.as_double(i))) continue;
    ++probes;
    std::vector<double> direction(static_cast<size_t>(tensor.count()));
    direction[static_cast<size_t>(i)] = 1;
    *sides = look_around(function, name, tensor, direction, step);
    if (sides->finite()) return i;
  }
  return -1;
}

void compare_sides(const Sides& sides, double magnitude, DirectionalDerivative& derivative) {
  derivative.difference = sides.difference();
  const double tolerance = kRelative * magnitude + kRounding * (std::abs(sides.here) + 1) / sides.step;
  derivative.agrees = std::abs(derivative.gradient - derivative.difference) <= tolerance;
  if (derivative.agrees) return;
  const double right = (sides.after - sides.here) / sides.step, left = (sides.here - sides.before) / sides.step;
  derivative.at_kink = derivative.gradient >= std::min(left, right) - tolerance && derivative.gradient <= std::max(left, right) + tolerance;
  derivative.agrees = derivative.at_kink;
}

}  // namespace

std::vector<DirectionalDerivative> check_gradients(const Graph& joint, const std::vector<Tensor>& inputs, uint64_t seed,
                                                   const std::function<void(const DirectionalDerivative&)>& observe) {
  const std::vector<Tensor> results = interpret(joint, inputs, true);
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
      largest = std::max(largest, std::abs(tensor->as_double(at)));
      if (!std::isfinite(gradient.as_double(at))) {
        ++derivative.num_not_finite;
        continue;
      }
      direction[k] = static_cast<double>(random.normal(k));
      derivative.gradient += gradient.as_double(at) * direction[k];
      magnitude += std::abs(gradient.as_double(at) * direction[k]);
    }
    const double step = kStep * std::max(largest, 1e-3);
    Sides sides;
    if (find_finite_difference(function, derivative.name, *tensor, gradient, step, &sides) >= 0) {
      derivative.gradient = std::numeric_limits<double>::quiet_NaN();
      derivative.difference = sides.difference();
      derivative.agrees = false;
    } else {
      sides = look_around(function, derivative.name, *tensor, direction, step);
      if (sides.finite()) compare_sides(sides, magnitude, derivative);
      else
        derivative.difference = std::numeric_limits<double>::quiet_NaN();  // no step stays where the function is finite: nothing to compare
    }
    if (observe) observe(derivative);
    derivatives.push_back(derivative);
  }
  return derivatives;
}

}  // namespace tcc::driver
