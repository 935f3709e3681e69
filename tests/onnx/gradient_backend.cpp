// The interpreter again, and in each test the gradients of what it runs: along a direction at random they equal a difference quotient in f64, unless the
// function has a kink there. So every op that imports is differentiated, in the forms in which ONNX's tests have it.
#include <cmath>

#include "autograd/weighted_sum.h"
#include "onnx/backend.h"
#include "tcc/autograd/autograd.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/random.h"

namespace tcc::onnx_suite {
namespace {

class GradientBackend : public Backend {
 public:
  void compile(const std::string& path, const Bindings& bindings) override { graph_ = import_resolved(path, bindings); }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) override {
    check_gradients(inputs);
    return interpret(*graph_, inputs, false);
  }

 private:
  void check_gradients(const std::vector<Tensor>& inputs) {
    uint64_t stream = 0;
    std::vector<Tensor> point, direction, weights;
    for (const Tensor& input : inputs) {
      const bool moves = is_float(input.dtype());
      point.push_back(moves ? input.cast_to(DType::f64) : input);
      direction.push_back(moves ? random_uniform(DType::f64, input.shape(), {1, ++stream, 0}, -1, 1) : Tensor());
    }
    for (const Value* output : graph_->body.results) {
      if (is_float(output->type.dtype)) weights.push_back(random_uniform(DType::f64, output->type.shape(), {2, ++stream, 0}, 0.5, 1.5));
    }
    if (weights.empty() || stream == weights.size()) return;  // nothing to differentiate

    GradOptions options;
    options.wrt = {"*"};
    Diagnostics diagnostics;
    const auto joint = build_joint(*graph_, options, diagnostics);
    const auto faults = verify(*joint, GraphStage::resolved);
    if (!faults.empty()) throw Error(ExitCode::internal, "internal-error", "", "the joint graph is not well formed: " + faults.front());
    std::vector<Tensor> all = point;
    all.insert(all.end(), weights.begin(), weights.end());
    const auto outputs = interpret(*joint, all, true);
    double slope = 0;
    for (size_t i = 0, at = graph_->body.results.size(); i < inputs.size(); ++i) {
      if (!direction[i].defined()) continue;
      const Tensor& gradient = outputs.at(at++);
      for (int64_t k = 0; k < gradient.count(); ++k) slope += gradient.as_double(k) * direction[i].as_double(k);
    }

    const auto value = [&](double distance) {
      std::vector<Tensor> moved = point;
      for (size_t i = 0; i < moved.size(); ++i) {
        if (!direction[i].defined()) continue;
        moved[i] = Tensor(DType::f64, point[i].shape());
        for (int64_t k = 0; k < moved[i].count(); ++k) moved[i].set_double(k, point[i].as_double(k) + distance * direction[i].as_double(k));
      }
      return weighted_sum(interpret(*graph_, moved, true), weights);
    };
    const double h = 1e-5, here = value(0), right = (value(h) - here) / h, left = (here - value(-h)) / h;
    const double nearer = (value(h / 4) - here) / (h / 4);
    const double tolerance = 1e-3 * (1 + std::abs(left) + std::abs(right)) + 1e-9 * std::abs(here) / h;
    if (!(std::abs(right - left) <= tolerance && std::abs(right - nearer) <= 4 * tolerance)) return;  // a kink or a step, or no number
    if (std::abs(slope - (left + right) / 2) <= tolerance) return;
    throw Error(ExitCode::verification, "verification-failed", "",
                "the gradients give a slope of " + std::to_string(slope) + ", differences " + std::to_string(left) + " and " +
                    std::to_string(right));
  }

  std::unique_ptr<Graph> graph_;
};

}  // namespace

std::unique_ptr<Backend> make_gradient_backend() { return std::make_unique<GradientBackend>(); }

}  // namespace tcc::onnx_suite
