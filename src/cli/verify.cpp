// tcc verify model.onnx: compiled and run, against the interpreter.
#include "tcc/driver/verify.h"

#include "cli/command_line.h"
#include "cli/verify_report.h"
#include "tcc/driver/array_files.h"
#include "tcc/driver/pipeline.h"
#include "tcc/graph/ranges.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

struct VerifyFlags {
  driver::Options options;
  driver::VerifyOptions verify;
  driver::InputOptions input;
  bool differences = true, json = false;
};

void refuse(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

double bound(const CLI::Option* option, double value) {
  if (value >= 0) return value;  // not NaN either
  throw Error(ExitCode::usage, "invalid-argument", "",
              option->get_name() + "=" + number_text(value) + ": a number was expected, at least 0");
}

/// False when it was a request for help.
bool read_flags(const Arguments& arguments, VerifyFlags& flags) {
  CompileFlags compile(&flags.options);
  std::string device = "auto";
  double rtol = 0, atol = 0;
  bool no_random = false, no_differences = false;
  CLI::App app(
      "Compiles a model, runs it and compares every output with the interpreter; with --mode=grad every gradient too, and that with finite "
      "differences. Inputs that are not given are random. Also for the text of a graph, of prims, of one unit of loops or of one kernel.",
      "tcc verify");
  compile.add_to(app);
  add_list(app, "--input", flags.input.inputs,
           "a .npy or .pb file for the next input or the one named, or an .npz with arrays named like inputs")
      ->type_name("[NAME=]FILE")
      ->group("Run");
  app.add_flag("--random", flags.input.random, "the default: inputs that are not given are random")->group("Run");
  app.add_flag("--no-random", no_random, "every input has to be given")->group("Run");
  add_list(app, "--range", flags.input.ranges,
           "what random elements of an input are drawn from, both included (indices and classes: what is valid; other integers: 0:1; "
           "floats: normal)")
      ->type_name("NAME=LOW:HIGH")
      ->group("Run");
  app.add_option("--seed", flags.input.seed, "of random inputs (0)")->type_name("N")->group("Run");
  app.add_option("--device", device, "auto, cuda, cpu")->type_name("DEVICE")->group("Run");
  app.add_option("--threads", flags.verify.threads, "of the CPU")->type_name("N")->group("Run");
  auto* const rtol_option =
      app.add_option("--rtol", rtol, "relative tolerance (f32 1e-4, f16 1e-2, bf16 4e-2, f64 1e-9)")->type_name("X")->group("Run");
  auto* const atol_option =
      app.add_option("--atol", atol, "absolute tolerance (f32 1e-5 or 2e-5 of the largest element, and so on for other dtypes)")
          ->type_name("X")
          ->group("Run");
  app.add_flag("--no-finite-differences", no_differences, "with --mode=grad: compares with the interpreter's gradients alone")
      ->group("Run");
  add_list(app, "--pass", flags.options.passes, "with --from=loop: primitives of a schedule, in the place of the one that is chosen")
      ->type_name("PASS")
      ->group("Run");
  app.add_flag("--json", flags.json, "prints one JSON object")->group("Run");
  if (!parse(app, arguments)) return false;
  compile.apply();
  const driver::Options& options = flags.options;
  if (options.mode == driver::Mode::train)
    refuse("a training step is not verified as a whole", "--mode=grad with the same --loss compares all its gradients");
  const bool is_unit = options.from == "loop" || options.from == "kernel";
  if (is_unit && options.mode == driver::Mode::grad)
    refuse("--mode=grad says nothing with --from=" + options.from, "loops have no gradients");
  if (!options.passes.empty() && options.from != "loop")
    refuse("--pass says nothing without --from=loop", "a model is verified as it is compiled");
  if (no_differences && options.mode != driver::Mode::grad)
    refuse("--no-finite-differences says nothing with --mode=infer", "it goes with --mode=grad");
  if (flags.input.random && no_random) refuse("--random says nothing with --no-random", "leave one of them out");
  flags.input.random = !no_random;
  flags.differences = !no_differences && options.mode == driver::Mode::grad;
  flags.verify.device = parse_device(device);
  if (rtol_option->count() > 0) flags.verify.rtol = bound(rtol_option, rtol);
  if (atol_option->count() > 0) flags.verify.atol = bound(atol_option, atol);
  return true;
}

driver::InputTensors read_inputs(const std::vector<driver::ExpectedTensor>& expected, const VerifyFlags& flags) {
  return driver::gather_inputs(expected, flags.input, flags.options.model);
}

int verify_unit(const VerifyFlags& flags) {
  const driver::UnitText text(flags.options);
  std::vector<driver::ExpectedTensor> expected;
  for (const auto& [name, type] : text.inputs()) expected.push_back({name, type.dtype, type.shape(), std::nullopt});
  const driver::InputTensors inputs = read_inputs(expected, flags);
  VerifyReport report(flags.options.model, flags.json);
  report.add(text.verify(inputs.tensors, flags.verify), inputs.drawn);
  return report.finish();
}

int verify_graph(const VerifyFlags& flags) {
  const driver::Options& options = flags.options;
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  const auto ranges = input_ranges(*prims);
  std::vector<driver::ExpectedTensor> expected;
  for (const Value* value : prims->body.args) {
    const auto range = ranges.find(value);
    expected.push_back(
        {value->name, value->type.dtype, value->type.shape(), range == ranges.end() ? std::nullopt : std::optional(range->second)});
  }
  const driver::InputTensors inputs = read_inputs(expected, flags);
  const driver::Verification result = driver::verify_prims(*prims, inputs.tensors, options, flags.verify);
  print_diagnostics(diagnostics, options);
  VerifyReport report(options.model, flags.json);
  report.add(result, inputs.drawn);
  if (flags.differences) {
    driver::check_gradients(*prims, inputs.tensors, flags.input.seed,
                            [&](const driver::DirectionalDerivative& derivative) { report.add(derivative); });
  }
  if (!result.passed) {
    for (const auto& [name, tensor] : result.state) prims->find_weight(name)->weight->tensor = tensor;
    // It is searched for in parts of the model, whose kernels have other numbers than those that were replaced.
    if (options.schedules.empty() && options.kernels.empty())
      report.add(driver::find_first_difference(*prims, inputs.tensors, options, flags.verify));
  }
  return report.finish();
}

}  // namespace

int verify(const Arguments& arguments) {
  VerifyFlags flags;
  if (!read_flags(arguments, flags)) return 0;
  return flags.options.from == "loop" || flags.options.from == "kernel" ? verify_unit(flags) : verify_graph(flags);
}

}  // namespace tcc::cli
