// tcc verify model.onnx: compiled and run, against the interpreter in f64.
#include "tcc/driver/verify.h"

#include <cstdio>

#include "cli/command_line.h"
#include "cli/tensor_summary.h"
#include "driver/array_files.h"
#include "driver/emit.h"
#include "driver/finite_differences.h"
#include "tcc/driver/pipeline.h"
#include "tcc/graph/ranges.h"

namespace tcc::cli {

namespace {

std::string describe(const driver::Comparison& comparison) {
  return std::to_string(comparison.num_wrong) + " of " + std::to_string(comparison.num_elements) +
         " elements differ, the worst is element " + std::to_string(comparison.worst) + ": " + number_text(comparison.found) +
         ", the interpreter gives " + number_text(comparison.expected);
}

/// Each gradient by the interpreter, layer by layer, against differences of the forward pass: a line each.
void verify_rules(const Graph& joint, const std::vector<Tensor>& inputs, const std::vector<Tensor>& results, uint64_t seed,
                  const std::string& where, Diagnostics& differences) {
  driver::check_gradients(joint, inputs, results, seed, [&](const driver::DirectionalDerivative& derivative) {
    const std::string text = "gradient " + number_text(derivative.gradient) + " along a random direction, finite difference " +
                             number_text(derivative.difference);
    driver::write_stdout(derivative.name + ": " + text + (derivative.at_kink ? ", at a kink\n" : derivative.agrees ? "\n" : ", differs\n"));
    if (!derivative.agrees) differences.error("verification-failed", where, "`" + derivative.name + "`: " + text);
  });
}

}  // namespace

int verify(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  driver::VerifyOptions verify_options;
  driver::InputOptions input;
  std::string device = "auto";
  double rtol = -1, atol = -1;
  bool no_random = false, no_differences = false;
  CLI::App app(
      "Compiles a model, runs it and compares every output with the interpreter in f64; with --mode=grad every gradient too, and that "
      "with finite differences. Inputs that are not given are random.",
      "tcc verify");
  flags.add_to(app);
  add_list(app, "--input", input.inputs, "a .npy or .pb file for the next input or the one named, or an .npz with arrays named like inputs")
      ->type_name("[NAME=]FILE")
      ->group("Run");
  app.add_flag("--random", input.random, "the default: inputs that are not given are random")->group("Run");
  app.add_flag("--no-random", no_random, "every input has to be given")->group("Run");
  add_list(app, "--range", input.ranges,
           "what random elements of an input are drawn from, both included (indices and classes: what is valid; other integers: 0:1; "
           "floats: normal)")
      ->type_name("NAME=LOW:HIGH")
      ->group("Run");
  app.add_option("--seed", input.seed, "of random inputs (0)")->type_name("N")->group("Run");
  app.add_option("--device", device, "auto, cuda, cpu")->type_name("DEVICE")->group("Run");
  app.add_option("--threads", verify_options.threads, "of the CPU")->type_name("N")->group("Run");
  app.add_option("--rtol", rtol, "relative tolerance (f32 1e-4, f16 1e-2, bf16 4e-2, f64 1e-9)")->type_name("X")->group("Run");
  app.add_option("--atol", atol, "absolute tolerance (f32 1e-5, f16 1e-3, bf16 1e-2, f64 1e-12)")->type_name("X")->group("Run");
  app.add_flag("--no-finite-differences", no_differences, "with --mode=grad: compares with the interpreter's gradients alone")
      ->group("Run");
  if (!parse(app, arguments)) return 0;
  flags.apply();
  if (options.mode == driver::Mode::train) {
    throw Error(ExitCode::usage, "invalid-argument", "", "a training step is not verified as a whole",
                "--mode=grad with the same --loss compares all its gradients");
  }
  input.random = !no_random;
  verify_options.device = parse_device(device);
  if (rtol >= 0) verify_options.rtol = rtol;
  if (atol >= 0) verify_options.atol = atol;

  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  std::vector<driver::ExpectedTensor> expected;
  const auto ranges = input_ranges(*prims);
  for (const Value* value : prims->body.args) {
    const auto range = ranges.find(value);
    expected.push_back(
        {value->name, value->type.dtype, value->type.shape(), range == ranges.end() ? std::nullopt : std::optional(range->second)});
  }
  const auto [inputs, drawn] = driver::gather_inputs(expected, input, options.model);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The interpreter takes what it is given; the library would refuse it.
    if (inputs[i].dtype() == expected[i].dtype && inputs[i].shape() == expected[i].shape) continue;
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "input `" + expected[i].name + "` is " + to_string(Type(inputs[i].dtype(), inputs[i].shape())) + ", expected " +
                    to_string(Type(expected[i].dtype, expected[i].shape)));
  }

  const driver::Verification result = driver::verify_prims(*prims, inputs, options, verify_options);
  std::string text = "device: " + result.device + "\n";
  for (const driver::Drawn& one : drawn) text += driver::describe(one) + "\n";
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const driver::Comparison& comparison = result.outputs[i];
    text += prims->output_names[i] + ": " + to_string(prims->body.results[i]->type) + " largest difference " +
            number_text(comparison.max_absolute) + ", relative " + number_text(comparison.max_relative) +
            (comparison.num_wrong == 0 ? "\n" : ", differs\n");
  }
  driver::write_stdout(text);
  print_diagnostics(diagnostics, options);
  Diagnostics differences;
  if (options.mode == driver::Mode::grad && !no_differences)
    verify_rules(*prims, inputs, result.expected, input.seed, options.model, differences);
  if (result.passed) {
    differences.checkpoint(ExitCode::verification);
    return 0;
  }

  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (result.outputs[i].num_wrong > 0) {
      differences.error("verification-failed", options.model, "output `" + prims->output_names[i] + "`: " + describe(result.outputs[i]));
    }
  }
  const driver::FirstDifference first = driver::find_first_difference(*prims, inputs, options, verify_options);
  if (first.node != nullptr) {
    const std::string where = (first.node->loc.file.empty() ? options.model : first.node->loc.file) +
                              (first.node->loc.node.empty() ? "" : ":" + first.node->loc.node);
    differences.add({Diagnostic::Severity::note, "", where, "the first value that differs is made here: " + describe(first.comparison),
                     print(*first.node)});
  } else {
    differences.note(
        options.model,
        "every value is right when it is computed as an output of its own: the fault shows only in how they are computed together");
  }
  differences.checkpoint(ExitCode::verification);
  return static_cast<int>(ExitCode::verification);
}

}  // namespace tcc::cli
