#include "cli/command_line.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tcc/frontend/import.h"
#include "tcc/support/suggest.h"

namespace tcc::cli {

namespace {

[[noreturn]] void usage(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

/// "800M", "6GiB", "1.5e9": bytes. K, M, G and T count in thousands with B or alone, in 1024 with iB.
int64_t parse_size(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit(end);
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    const size_t power = std::string("KMGT").find(unit[0] >= 'a' ? static_cast<char>(unit[0] - 'a' + 'A') : unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string::npos || (rest != "" && rest != "B" && rest != "iB")) end = const_cast<char*>(text.c_str());
    else factor = std::pow(rest == "iB" ? 1024.0 : 1000.0, static_cast<double>(power) + 1);
  }
  const double bytes = number * factor;
  if (end == text.c_str() || !(bytes >= 1) || bytes > 1e18) {
    usage(flag + "=" + text + ": a size was expected", "sizes are written 800M, 6GiB, 1500000000");
  }
  return static_cast<int64_t>(bytes);
}

CLI::Option* group(CLI::Option* option, const char* name) { return option->group(name); }

}  // namespace

void require_one_of(const std::string& flag, const std::string& value, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  usage(flag + "=" + value + ": there is no such choice", suggest(value, "choices", choices));
}

CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& description) {
  return app.add_option(name, values, description)->allow_extra_args(false);
}

void CompileFlags::add_to(CLI::App& app, bool generates_code) {
  app_ = &app;
  add_common_flags(app, generates_code);
  add_input_flags(app);
  if (generates_code) add_code_flags(app);
  add_training_flags(app);
  add_manners(app);
}

void CompileFlags::add_common_flags(CLI::App& app, bool generates_code) {
  driver::Options& o = *options;
  app.get_help_ptr()->group("Common flags");
  app.add_option("model", o.model, "an .onnx file, or with --from a printed form; - reads standard input")->required()->type_name("");
  const char* common = "Common flags";
  group(add_list(app, "--target", targets, "devices that the library has code for: cuda, cpu (both)")
            ->delimiter(',')
            ->type_name("DEVICE,..."),
        common);
  group(add_list(app, "--shapes", o.shapes, "sizes of inputs, needed where the model has symbolic ones: x:8x3x224x224,mask:8x77")
            ->type_name("NAME:SIZES,..."),
        common);
  group(add_list(app, "--bind", o.bind,
                 "gives a symbolic size, or makes an input a constant (a number, true, false, or a .npy, .npz or .pb file): "
                 "batch=8,training=false")
            ->type_name("NAME=VALUE,..."),
        common);
  group(app.add_option("--mode", mode, "what the library computes: infer, grad: gradients too, train: whole training steps (infer)")
            ->type_name("MODE"),
        common);
  group(
      app.add_option("--precision", precision, "bf16, f16: mixed precision, as torch.autocast has it; keep: the dtypes of the model (keep)")
          ->type_name("P"),
      common);
  if (generates_code) group(app.add_option("-O", o.optimization, "effort of code generation, 0 to 3 (2)")->type_name("N"), common);
  group(app.add_flag("-q,--quiet", o.quiet, "no warnings, no progress"), common);
}

void CompileFlags::add_input_flags(CLI::App& app) {
  driver::Options& o = *options;
  std::string kinds;
  for (const std::string& kind : model_kinds()) kinds += (kinds.empty() ? "" : ", ") + kind;
  group(app.add_option("-x", o.format, "kind of the model: " + kinds + " (found by content)")->type_name("KIND"), "Input");
  group(app.add_option("--function", o.function, "of a file with several graphs (tcc.fx JSON), the one to take (all)")->type_name("NAME"),
        "Input");
  group(app.add_option("--parameters", o.parameters, "values of parameters: what a training saved (safetensors); the rest is the model's")
            ->type_name("FILE"),
        "Input");
  group(app.add_option("--from", o.from, "the input is what --emit printed: graph, prims, loop, kernel")->type_name("FORM"), "Input");
}

void CompileFlags::add_code_flags(CLI::App& app) {
  driver::Options& o = *options;
  group(add_list(app, "--march", o.march,
                 "CUDA: chips that get code of their own (sm_80, sm_90a), and the word ptx (ptx, and sm_90 where "
                 "ptxas is found)")
            ->delimiter(',')
            ->type_name("CHIP,..."),
        "Code");
  group(add_list(app, "--cpu", o.cpu_levels, "CPU: levels x86-64-v3, x86-64-v4; the best that the machine has is taken at load (x86-64-v3)")
            ->delimiter(',')
            ->type_name("LEVEL,..."),
        "Code");
  group(add_list(app, "--schedule", o.schedules, "replaces schedules of units: lines as --emit=schedule prints them, of one target")
            ->type_name("[TARGET=]FILE"),
        "Code");
  group(app.add_option("--tune-db", o.tune_db, "takes the schedules that `tcc tune` has measured to be the fastest")->type_name("FILE"),
        "Code");
  group(app.add_flag("--tune-frozen", o.tune_frozen,
                     "with --tune-db: what the file lacks is an error, so that every machine builds the same"),
        "Code");
  group(add_list(app, "--kernel", o.kernels, "replaces a kernel by a text as --emit=kernel prints it")->type_name("kN=FILE"), "Code");
  group(app.add_option("--matmul-precision", matmul_precision,
                       "of f32 products and convolutions: ieee (multiply-adds); highest (as exact); high, medium: tf32 on CUDA, 10 bits "
                       "of each factor (highest)")
            ->type_name("P"),
        "Code");
  group(
      app.add_flag("--deterministic", o.deterministic, "each run computes the same bits: updates that meet are made in order on CUDA, too"),
      "Code");
}

void CompileFlags::add_training_flags(CLI::App& app) {
  driver::Options& o = *options;
  const char* training = "Gradients and training";
  group(
      app.add_option("--loss", o.loss, "cross_entropy, nll, mse, l1, huber, bce, output:NAME; options follow a colon: cross_entropy:axis=1")
          ->type_name("LOSS"),
      training);
  group(add_list(app, "--wrt", o.wrt, "grad: what to differentiate by, globs over inputs and parameters (what would train)")
            ->delimiter(',')
            ->type_name("GLOB,..."),
        training);
  group(app.add_option("--optimizer", o.optimizer, "train: sgd, adam, adamw, adagrad; options follow a colon: sgd:momentum=0.9,lr=0.1")
            ->type_name("NAME"),
        training);
  group(add_list(app, "--train", o.train, "trains these parameters alone")->delimiter(',')->type_name("GLOB,..."), training);
  group(add_list(app, "--freeze", o.freeze, "does not train these parameters")->delimiter(',')->type_name("GLOB,..."), training);
  group(app.add_option("--batch-norm", batch_norm, "keep: batch norms as exported, train: in training form (keep)")->type_name("FORM"),
        training);
  group(app.add_option("--clip-norm", o.clip_norm, "train: bound on the norm of all gradients together (none)")->type_name("X"), training);
  group(app.add_option("--clip-value", o.clip_value, "train: bound on each element of a gradient (none)")->type_name("X"), training);
  group(app.add_option("--accumulate", o.accumulate, "train: micro-batches whose gradients one update takes (1)")->type_name("N"),
        training);
  group(app.add_option("--loss-scale", o.loss_scale, "train: a factor that keeps gradients in the range of f16, or dynamic (1)")
            ->type_name("S"),
        training);
  group(app.add_option("--remat", remat, "auto, none, full: what is computed again in place of kept (auto)")->type_name("CHOICE"),
        training);
  group(app.add_option("--mem-budget", memory_budget, "bound on the planned peak: 800M, 6GiB (none)")->type_name("SIZE"), training);
}

void CompileFlags::add_manners(CLI::App& app) {
  driver::Options& o = *options;
  group(app.add_option("-j", o.threads, "threads of the compiler (the cores of this machine)")->type_name("N"), "Manners");
  group(app.add_option("--progress", progress, "auto, plain, json, off; auto: a line on a terminal, once it takes a second (auto)")
            ->type_name("STYLE"),
        "Manners");
  group(app.add_option("--diagnostics", diagnostics, "messages as text or json (text)")->type_name("FORM"), "Manners");
  group(app.add_flag("--verify-passes", o.verify_passes, "run the verifiers after every stage"), "Manners");
}

bool CompileFlags::given(const char* flag) const {
  const CLI::Option* option = app_->get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

/// Flags that other flags leave without effect: whoever gives them expects one.
void CompileFlags::refuse_idle_flags() const {
  const driver::Options& o = *options;
  const auto refuse = [&](bool idle, const char* flag, const std::string& beside, const std::string& help) {
    if (idle && given(flag)) usage(written_name(flag) + " says nothing with " + beside, help);
  };
  refuse(!o.from.empty(), "--function", "--from=" + o.from, "a printed form is one function");
  refuse(!o.cuda, "--march", "--target=cpu", "it goes with --target=cuda; --cpu chooses the levels of the CPU");
  refuse(!o.cpu, "--cpu", "--target=cuda", "it goes with --target=cpu; -march chooses the chips of CUDA");
  refuse(o.from == "kernel", "--schedule", "--from=kernel", "kernels are scheduled already");
  refuse(o.from == "kernel", "--kernel", "--from=kernel", "edit the text itself");
  refuse(o.from == "kernel", "--tune-db", "--from=kernel", "kernels are scheduled already");
  if (o.tune_frozen && o.tune_db.empty())
    usage("--tune-frozen says nothing without --tune-db", "name the file that `tcc tune` has written");
  if (o.from.empty()) return;
  const std::string from = "--from=" + o.from;
  refuse(true, "-x", from, "the form of the text is that of --from");
  if (o.from == "graph") return;
  refuse(true, "--shapes", from, "sizes are fixed before that form; give it to the model or with --from=graph");
  refuse(true, "--bind", from, "inputs are fixed before that form; give it to the model or with --from=graph");
  refuse(o.precision.has_value(), "--precision", from, "dtypes are fixed before that form; give it to the model or with --from=graph");
  if (o.from == "prims") return;
  refuse(o.mode != driver::Mode::infer, "--mode", from, "gradients are taken of a model, or with --from=graph");
}

void CompileFlags::apply_training() {
  driver::Options& o = *options;
  const bool train = o.mode == driver::Mode::train, grad = o.mode == driver::Mode::grad;
  require_one_of("--remat", remat, {"auto", "none", "full"});
  o.remat = remat == "none" ? driver::Remat::none : remat == "full" ? driver::Remat::full : driver::Remat::automatic;
  require_one_of("--batch-norm", batch_norm, {"keep", "train"});
  o.train_batch_norms = batch_norm == "train";
  if (!memory_budget.empty()) o.memory_budget = parse_size("--mem-budget", memory_budget);
  const auto only_with = [&](bool given, bool allowed, const char* flag, const char* modes) {
    if (given && !allowed) usage(std::string(flag) + " says nothing with --mode=" + mode, std::string("it goes with ") + modes);
  };
  const bool any = train || grad;
  const char* both = "--mode=grad and --mode=train";
  only_with(!o.loss.empty(), any, "--loss", both);
  only_with(!o.freeze.empty(), any, "--freeze", both);
  only_with(!o.train.empty(), any, "--train", both);
  only_with(o.train_batch_norms, any, "--batch-norm=train", both);
  only_with(remat != "auto", any, "--remat", both);
  only_with(!memory_budget.empty(), any, "--mem-budget", both);
  only_with(!o.wrt.empty(), grad, "--wrt", "--mode=grad; --train and --freeze choose what trains");
  only_with(!o.optimizer.empty(), train, "--optimizer", "--mode=train");
  only_with(o.clip_norm != 0, train, "--clip-norm", "--mode=train");
  only_with(o.clip_value != 0, train, "--clip-value", "--mode=train");
  only_with(o.accumulate != 1, train, "--accumulate", "--mode=train");
  only_with(!o.loss_scale.empty(), train, "--loss-scale", "--mode=train");
  if (!(o.clip_norm >= 0)) usage("--clip-norm=" + std::to_string(o.clip_norm) + ": a positive number was expected");
  if (!(o.clip_value >= 0)) usage("--clip-value=" + std::to_string(o.clip_value) + ": a positive number was expected");
  if (o.accumulate < 1) usage("--accumulate=" + std::to_string(o.accumulate) + ": a number of micro-batches was expected, at least 1");
  if (train && o.loss.empty()) usage("--mode=train needs a loss", "name it with --loss, e.g. --loss=cross_entropy or --loss=output:NAME");
  if (train && o.optimizer.empty()) usage("--mode=train needs an optimizer", "name it with --optimizer, e.g. --optimizer=adamw");
}

void CompileFlags::apply() {
  driver::Options& o = *options;
  require_one_of("--diagnostics", diagnostics, {"text", "json"});
  o.json_diagnostics = diagnostics == "json";
  require_one_of("--progress", progress, {"auto", "plain", "json", "off"});
  o.progress = progress == "plain"            ? driver::ProgressStyle::plain
               : progress == "json"           ? driver::ProgressStyle::json
               : progress == "off" || o.quiet ? driver::ProgressStyle::off
                                              : driver::ProgressStyle::automatic;
  require_one_of("--mode", mode, {"infer", "grad", "train"});
  o.mode = mode == "grad" ? driver::Mode::grad : mode == "train" ? driver::Mode::train : driver::Mode::infer;
  apply_training();
  require_one_of("--matmul-precision", matmul_precision, {"ieee", "highest", "high", "medium"});
  o.allow_tf32 = matmul_precision == "high" || matmul_precision == "medium";
  o.split_f32 = matmul_precision != "ieee";
  require_one_of("--precision", precision, {"keep", "bf16", "f16"});
  if (precision != "keep") o.precision = parse_dtype(precision);
  if (o.optimization < 0 || o.optimization > 3) usage("-O" + std::to_string(o.optimization) + ": levels are 0 to 3");
  if (o.threads < 0) usage("-j " + std::to_string(o.threads) + ": a number of threads was expected");
  if (!targets.empty()) {
    o.cpu = o.cuda = false;
    for (const std::string& target : targets) {
      require_one_of("--target", target, {"cuda", "cpu"});
      (target == "cpu" ? o.cpu : o.cuda) = true;
    }
  }
  refuse_idle_flags();
}

runtime::Device parse_device(const std::string& text) {
  require_one_of("--device", text, {"auto", "cpu", "cuda"});
  return text == "cpu" ? runtime::Device::cpu : text == "cuda" ? runtime::Device::cuda : runtime::Device::automatic;
}

}  // namespace tcc::cli
