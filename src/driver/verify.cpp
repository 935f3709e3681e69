#include "tcc/driver/verify.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tcc/driver/pipeline.h"
#include "tcc/graph/passes.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

/// A library for a moment.
class TemporaryLibrary {
 public:
  TemporaryLibrary() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/tcc-verify-XXXXXX";
    const int file = ::mkstemp(path_.data());
    if (file < 0) throw Error(ExitCode::environment, "unwritable-file", path_, "a temporary file can't be made");
    ::close(file);
  }
  ~TemporaryLibrary() { ::unlink(path_.c_str()); }
  TemporaryLibrary(const TemporaryLibrary&) = delete;
  TemporaryLibrary& operator=(const TemporaryLibrary&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool same(double found, double expected) { return found == expected || (std::isnan(found) && std::isnan(expected)); }

Tolerance with_options(Tolerance tolerance, const VerifyOptions& options) {
  if (options.rtol) tolerance.rtol = *options.rtol;
  if (options.atol) tolerance.atol = *options.atol;
  return tolerance;
}

/// Over elements that are finite.
double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double value = std::abs(tensor.as_double(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

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

}  // namespace

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return {1e-9, 1e-12};
    case DType::f32: return {1e-4, 1e-5};
    case DType::f16: return {1e-2, 1e-3};
    case DType::bf16: return {4e-2, 1e-2};
    default: return is_float(dtype) ? Tolerance{0.2, 0.05} : Tolerance{0, 0};
  }
}

Tolerance gradient_tolerance(DType dtype, double largest, double largest_of_model) {
  const Tolerance tolerance = default_tolerance(dtype);
  return {10 * tolerance.rtol, tolerance.atol * std::max(largest, largest_of_model / 100)};
}

Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance) {
  Comparison result;
  result.num_elements = found.count();
  if (found.shape() != expected.shape())
    internal_error("a result is " + to_string(std::span(found.shape())) + ", the interpreter gives " +
                   to_string(std::span(expected.shape())));
  double furthest = 0;
  for (int64_t i = 0; i < result.num_elements; ++i) {
    const double f = found.as_double(i), e = expected.as_double(i);
    if (same(f, e)) continue;
    double beyond = std::numeric_limits<double>::infinity();
    if (std::isfinite(f) && std::isfinite(e)) {
      const double difference = std::abs(f - e);
      result.max_absolute = std::max(result.max_absolute, difference);
      if (std::abs(e) > 1e-6) result.max_relative = std::max(result.max_relative, difference / std::abs(e));
      beyond = difference - (tolerance.atol + tolerance.rtol * std::abs(e));
    }
    if (!(beyond > 0)) continue;
    ++result.num_wrong;
    if (beyond > furthest || result.worst < 0) {
      furthest = beyond;
      result.worst = i;
      result.found = f;
      result.expected = e;
    }
  }
  return result;
}

Verification verify_prims(const Graph& prims, const std::vector<Tensor>& inputs, const Options& options, const VerifyOptions& verify) {
  const TemporaryLibrary file;
  Options only_used = options;
  only_used.weights = WeightsPlace::embed;
  if (verify.device == runtime::Device::cpu) only_used.cuda = false;
  if (verify.device == runtime::Device::cuda) only_used.cpu = false;
  compile_prims_to_library(prims.clone(), only_used, file.path());
  const auto library = runtime::Library::open(file.path());
  runtime::InstanceOptions instance_options;
  instance_options.device = verify.device;
  instance_options.num_threads = verify.threads;
  runtime::Instance instance(library, instance_options);
  std::vector<Tensor> tensors;  // the graph's inputs that are the caller's; scalars such as the seed are set
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = prims.body.args[i]->name;
    const auto is_it = [&](const runtime::ScalarInfo& scalar) { return scalar.name == name; };
    if (std::any_of(library->scalars().begin(), library->scalars().end(), is_it)) instance.set_scalar(name, inputs[i].as_double(0));
    else tensors.push_back(inputs[i]);
  }
  const std::vector<Tensor> found = instance.run(tensors);
  Verification result;
  result.expected = interpret(prims, inputs, true);
  result.device = instance.device_name();
  double largest_gradient = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (is_gradient(prims.output_names[i])) largest_gradient = std::max(largest_gradient, largest_magnitude(result.expected[i]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    Tolerance tolerance = default_tolerance(found[i].dtype());
    if (is_gradient(prims.output_names[i]))
      tolerance = gradient_tolerance(found[i].dtype(), largest_magnitude(result.expected[i]), largest_gradient);
    result.outputs.push_back(compare(found[i], result.expected[i], with_options(tolerance, verify)));
    result.passed &= result.outputs.back().num_wrong == 0;
  }
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
    if (!single.passed) at_first = single.outputs[0];
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
