#include "tcc/driver/verify.h"

#include <algorithm>
#include <cmath>

#include "driver/trial_library.h"
#include "tcc/driver/pipeline.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/reference.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

bool is_gradient(const std::string& output) { return output.starts_with("grad."); }

struct Place {
  size_t node;
  int result;
};

constexpr int kRunsWithState = 3;

/// A copy whose further outputs are what the graph leaves in its state: what one run means.
std::unique_ptr<Graph> with_state_as_outputs(const Graph& prims) {
  std::unique_ptr<Graph> graph = prims.clone();
  for (const StateUpdate& update : graph->state_updates) graph->add_output(update.value, update.weight->name);
  graph->state_updates.clear();
  return graph;
}

/// A copy of the graph that gives one value of its body and nothing else.
std::unique_ptr<Graph> only_value(const Graph& prims, const Place& place) {
  std::unique_ptr<Graph> graph = prims.clone();
  Value* value = graph->body.nodes[place.node]->result(place.result);
  graph->body.results.clear();
  graph->output_names.clear();
  graph->add_output(value, value->name);
  graph->state_updates.clear();
  eliminate_dead_code(*graph);
  return graph;
}

/// The largest difference of elements that are finite in both.
double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double difference = std::abs(a.as_double(i) - b.as_double(i));
    if (std::isfinite(difference)) largest = std::max(largest, difference);
  }
  return largest;
}

/// Judges what differs once more: by how far noise in the last places of all values moves it, several times over.
void allow_what_rounding_moves(const Graph& reference, const std::vector<Tensor>& inputs, const std::vector<Tensor>& found,
                               const std::vector<Tensor>& expected, std::span<Verification::Output> outputs) {
  constexpr uint64_t kRuns = 3;
  constexpr double kTimes = 4;  // the most of a few random moves is not the most there is
  std::vector<double> moved(found.size());
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<Tensor> noisy = interpret_reference(reference, inputs, seed);
    for (size_t i = 0; i < found.size(); ++i) moved[i] = std::max(moved[i], largest_difference(noisy[i], expected[i]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    Verification::Output& output = outputs[i];
    if (output.comparison.num_wrong == 0 || !output.rounding) continue;
    output.tolerance.moved = kTimes * moved[i];
    output.comparison = compare(found[i], expected[i], output.tolerance);
  }
}

bool all_right(std::span<const Verification::Output> outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.comparison.num_wrong == 0; });
}

/// Compiled prims, and what they mean: one run after the other, from the state that the library has.
class Verifier {
 public:
  Verifier(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify)
      : trial_(options, verify,
               [&](const Options& only_used, const std::string& path) { compile_prims_to_library(prims.clone(), only_used, path); }),
        reference_(with_state_as_outputs(prims)),
        roundings_(rounding_of_outputs(*reference_)),
        inputs_(inputs),
        verify_(verify),
        num_outputs_(prims.body.results.size()) {
    const auto& scalars = trial_.library().scalars();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = prims.body.args[i]->name;
      const auto is_it = [&](const runtime::ScalarInfo& scalar) { return scalar.name == name; };
      if (std::any_of(scalars.begin(), scalars.end(), is_it)) trial_.instance().set_scalar(name, inputs[i].as_double(0));
      else tensors_.push_back(inputs[i]);
    }
    result_.device = trial_.instance().device_name();
  }

  Verification run() {
    // The text of a training step has state that nothing says the place of: its updates are left out.
    const bool has_state = reference_->body.results.size() > num_outputs_ && !trial_.library().state().empty();
    for (int run = 1; run <= (has_state ? kRunsWithState : 1) && result_.passed; ++run) {
      if (has_state) take_state();
      std::vector<Tensor> found;
      try {
        found = trial_.instance().run(tensors_);
      } catch (const Error& error) {
        if (run > 1 && runtime::is_index_error(error)) break;
        throw;
      }
      for (size_t i = num_outputs_; has_state && i < reference_->body.results.size(); ++i)
        found.push_back(trial_.instance().read_state(reference_->output_names[i]));
      compare_run(found, run);
      result_.num_runs = run;
    }
    return std::move(result_);
  }

 private:
  void take_state() {
    for (const runtime::StateInfo& info : trial_.library().state()) {
      Value* weight = reference_->find_weight(info.name);
      if (weight == nullptr) continue;
      result_.state[info.name] = weight->weight->tensor = trial_.instance().read_state(info.name);
    }
  }

  void compare_run(const std::vector<Tensor>& found, int run) {
    const std::vector<Tensor> expected = interpret_reference(*reference_, inputs_);
    double largest_gradient = 0;
    for (size_t i = 0; i < num_outputs_; ++i) {
      if (is_gradient(reference_->output_names[i])) largest_gradient = std::max(largest_gradient, largest_magnitude(expected[i]));
    }
    for (size_t i = 0; i < found.size(); ++i) {
      Verification::Output output;
      output.name = reference_->output_names[i];
      output.type = reference_->body.results[i]->type;
      output.rounding = roundings_[i];
      output.is_state = i >= num_outputs_;
      output.is_gradient = !output.is_state && is_gradient(output.name);
      output.run = run;
      output.tolerance = with_options(
          output.is_gradient ? gradient_tolerance(roundings_[i], largest_gradient) : default_tolerance(roundings_[i]), verify_);
      output.comparison = compare(found[i], expected[i], output.tolerance);
      result_.outputs.push_back(output);
    }
    const std::span<Verification::Output> outputs = std::span(result_.outputs).last(found.size());
    if (!all_right(outputs) && !verify_.rtol && !verify_.atol) allow_what_rounding_moves(*reference_, inputs_, found, expected, outputs);
    result_.passed = all_right(outputs);
  }

  const TrialLibrary trial_;
  const std::unique_ptr<Graph> reference_;
  const std::vector<std::optional<DType>> roundings_;
  const std::vector<Tensor>& inputs_;
  const VerifyOptions& verify_;
  const size_t num_outputs_;
  std::vector<Tensor> tensors_;  ///< the graph's inputs that are the caller's; scalars such as the seed are set
  Verification result_;
};

}  // namespace

Verification verify_prims(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify) {
  return Verifier(prims, inputs, options, verify).run();
}

FirstDifference find_first_difference(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options,
                                      const VerifyOptions& verify) {
  std::vector<Place> places;
  for (size_t n = 0; n < prims.body.nodes.size(); ++n) {
    for (size_t r = 0; r < prims.body.nodes[n]->results.size(); ++r) places.push_back({n, static_cast<int>(r)});
  }
  Options of_parts = options;
  of_parts.tune_frozen = false;  // parts of the model have units that the file of --tune-db lacks
  Comparison at_first;
  const auto differs = [&](const Place& place) {
    const Verification single = verify_prims(*only_value(prims, place), inputs, of_parts, verify);
    if (!single.passed) at_first = single.outputs[0].comparison;
    return !single.passed;
  };
  // Everything below `low` is right, `high` is wrong: a fault stays visible in what is computed from it.
  size_t low = 0, high = places.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (differs(places[middle])) high = middle;
    else low = middle + 1;
  }
  if (high == places.size()) return {};
  return {prims.body.nodes[places[high].node], places[high].result, at_first};
}

}  // namespace tcc::driver
