#include "tcc/driver/verify.h"

#include <algorithm>
#include <cmath>

#include "driver/trial_library.h"
#include "tcc/driver/pipeline.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

bool is_gradient(const std::string& output) { return output.starts_with("grad."); }

struct Place {
  size_t node;
  int result;
};

/// A copy of the graph that gives one value of its body and nothing else.
std::unique_ptr<Graph> only_value(const Graph& prims, const Place& place) {
  std::unique_ptr<Graph> graph = prims.clone();
  Value* value = graph->body.nodes[place.node]->result(place.result);
  graph->body.results.clear();
  graph->output_names.clear();
  graph->add_output(value, value->name);
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
void allow_what_rounding_moves(const Graph& prims, const std::vector<Tensor>& inputs, const std::vector<Tensor>& found,
                               const std::vector<Tensor>& expected, Verification& result) {
  constexpr uint64_t kRuns = 3;
  constexpr double kTimes = 4;  // the most of a few random moves is not the most there is
  std::vector<double> moved(found.size());
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<Tensor> noisy = interpret_reference(prims, inputs, seed);
    for (size_t i = 0; i < found.size(); ++i) moved[i] = std::max(moved[i], largest_difference(noisy[i], expected[i]));
  }
  result.passed = true;
  for (size_t i = 0; i < found.size(); ++i) {
    Verification::Output& output = result.outputs[i];
    if (output.comparison.num_wrong > 0 && output.rounding) {
      output.tolerance.moved = kTimes * moved[i];
      output.comparison = compare(found[i], expected[i], output.tolerance);
    }
    result.passed &= output.comparison.num_wrong == 0;
  }
}

}  // namespace

Verification verify_prims(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify) {
  const TrialLibrary trial(options, verify, [&](const Options& only_used, const std::string& path) {
    compile_prims_to_library(prims.clone(), only_used, path);
  });
  runtime::Instance& instance = trial.instance();
  const auto& scalars = trial.library().scalars();
  std::vector<Tensor> tensors;  // the graph's inputs that are the caller's; scalars such as the seed are set
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = prims.body.args[i]->name;
    const auto is_it = [&](const runtime::ScalarInfo& scalar) { return scalar.name == name; };
    if (std::any_of(scalars.begin(), scalars.end(), is_it)) instance.set_scalar(name, inputs[i].as_double(0));
    else tensors.push_back(inputs[i]);
  }
  const std::vector<Tensor> found = instance.run(tensors);
  const std::vector<Tensor> expected = interpret_reference(prims, inputs);
  const std::vector<std::optional<DType>> roundings = rounding_of_outputs(prims);
  Verification result;
  result.device = instance.device_name();
  double largest_gradient = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (is_gradient(prims.output_names[i])) largest_gradient = std::max(largest_gradient, largest_magnitude(expected[i]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    Verification::Output output;
    output.name = prims.output_names[i];
    output.type = prims.body.results[i]->type;
    output.rounding = roundings[i];
    output.is_gradient = is_gradient(prims.output_names[i]);
    output.tolerance =
        with_options(output.is_gradient ? gradient_tolerance(roundings[i], largest_gradient) : default_tolerance(roundings[i]), verify);
    output.comparison = compare(found[i], expected[i], output.tolerance);
    result.passed &= output.comparison.num_wrong == 0;
    result.outputs.push_back(output);
  }
  if (!result.passed && !verify.rtol && !verify.atol) allow_what_rounding_moves(prims, inputs, found, expected, result);
  return result;
}

FirstDifference find_first_difference(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options,
                                      const VerifyOptions& verify) {
  std::vector<Place> places;
  for (size_t n = 0; n < prims.body.nodes.size(); ++n) {
    for (size_t r = 0; r < prims.body.nodes[n]->results.size(); ++r) places.push_back({n, static_cast<int>(r)});
  }
  Comparison at_first;
  const auto differs = [&](const Place& place) {
    const Verification single = verify_prims(*only_value(prims, place), inputs, options, verify);
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
