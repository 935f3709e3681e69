#include "cli/command_line.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "driver/emit.h"

namespace tcc::cli {

namespace {

// Names with a single dash, as compilers have them; CLI11 knows only --long and -s.
constexpr const char* kSingleDash[] = {"march", "MD", "MF"};

std::string with_double_dash(const std::string& argument) {
  for (const std::string name : kSingleDash) {
    if (argument == "-" + name || argument.starts_with("-" + name + "=")) return "-" + argument;
  }
  return argument;
}

std::string with_single_dash(std::string help) {
  for (const std::string name : kSingleDash) {
    for (size_t at = 0; (at = help.find("--" + name, at)) != std::string::npos;) help.replace(at, 2, "-");
  }
  return help;
}

[[noreturn]] void usage(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

void require_one_of(const std::string& flag, const std::string& value, const std::vector<std::string>& choices) {
  std::string list;
  for (const std::string& choice : choices) {
    if (choice == value) return;
    list += (list.empty() ? "" : ", ") + choice;
  }
  usage(flag + "=" + value + ": there is no such choice", "choices are " + list);
}

[[noreturn]] void not_supported(const std::string& where, const std::string& message, const std::string& help) {
  Diagnostics diagnostics;
  diagnostics.not_supported("unsupported-option", where, message);
  diagnostics.help(where, help);
  diagnostics.checkpoint(ExitCode::model);
  std::abort();  // the checkpoint has thrown
}

std::string_view severity_name(Diagnostic::Severity severity) {
  switch (severity) {
    case Diagnostic::Severity::error: return "error";
    case Diagnostic::Severity::not_supported: return "not supported yet";
    case Diagnostic::Severity::internal_error: return "internal error";
    case Diagnostic::Severity::warning: return "warning";
    case Diagnostic::Severity::note: return "note";
    case Diagnostic::Severity::help: return "help";
  }
  return "error";
}

void print_json(const Diagnostic& diagnostic) {
  nlohmann::ordered_json object;
  object["severity"] = severity_name(diagnostic.severity);
  if (!diagnostic.kind.empty()) object["kind"] = diagnostic.kind;
  object["where"] = diagnostic.where;
  object["message"] = diagnostic.message;
  if (!diagnostic.snippet.empty()) object["snippet"] = diagnostic.snippet;
  std::fprintf(stderr, "%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

bool parse(CLI::App& app, const Arguments& arguments) {
  std::vector<std::string> reversed;  // the order that CLI11 wants
  for (auto at = arguments.rbegin(); at != arguments.rend(); ++at) reversed.push_back(with_double_dash(*at));
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    driver::write_stdout(with_single_dash(app.help()));
    return false;
  } catch (const CLI::ParseError& error) {
    const std::string name = app.get_name();
    usage(with_single_dash(error.what()), "`" + name + " --help` lists what it takes");
  }
  return true;
}

CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::string& description) {
  return app.add_option(name, values, description)->allow_extra_args(false);
}

void CompileFlags::add_to(CLI::App& app) {
  driver::Options& o = *options;
  app.add_option("model", o.model, "the model, an .onnx file; - reads standard input")->required()->type_name("");
  const auto group = [](CLI::Option* option, const char* name) { return option->group(name); };
  group(app.add_option("-x", o.format, "kind of the model, found by content otherwise: onnx, pt2, fx")->type_name("KIND"), "Input");
  group(add_list(app, "--shapes", o.shapes, "sizes of inputs: x:8x3x224x224,mask:8x77")->type_name("NAME:SIZES,..."), "Input");
  group(add_list(app, "--bind", o.bind, "makes an input a constant, or gives a symbolic size")->type_name("NAME=FILE|VALUE"), "Input");
  group(app.add_option("--from", o.from, "the input is printed IR: graph, prims, loop, kernel")->type_name("FORM"), "Input");

  group(app.add_option("-O", o.optimization, "effort, 0 to 3 (2)")->type_name("N"), "Code");
  group(add_list(app, "--target", targets, "devices that the library has code for (cuda,cpu)")->delimiter(',')->type_name("DEVICE,..."),
        "Code");
  group(add_list(app, "--march", o.march, "CUDA code: chips for cubins (sm_80, sm_90a), and ptx")->delimiter(',')->type_name("CHIP,..."),
        "Code");
  group(add_list(app, "--cpu", o.cpu_levels, "CPU code: x86-64-v3 (the default), x86-64-v4; the best is taken at load")
            ->delimiter(',')
            ->type_name("LEVEL,..."),
        "Code");
  group(app.add_option("--mode", mode, "infer (grad and train come later)")->type_name("MODE"), "Code");
  group(app.add_option("--matmul-precision", matmul_precision, "of f32 products: highest")->type_name("P"), "Code");
  group(app.add_option("--precision", precision, "of everything else: keep")->type_name("P"), "Code");

  group(app.add_option("-j", o.threads, "threads of the compiler (the cores of this machine)")->type_name("N"), "Manners");
  group(app.add_flag("-v,--verbose", o.verbose, "say more"), "Manners");
  group(app.add_flag("-q,--quiet", o.quiet, "no warnings, no progress"), "Manners");
  group(app.add_option("--progress", progress, "auto, plain, json, off")->type_name("STYLE"), "Manners");
  group(app.add_flag("--time-report", o.time_report, "how long each stage took"), "Manners");
  group(app.add_option("--diagnostics", diagnostics, "text, json")->type_name("FORM"), "Manners");
  group(app.add_flag("--verify-passes", o.verify_passes, "run the verifiers after every stage"), "Manners");
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
  if (mode != "infer") not_supported(o.model, "--mode=" + mode + ": gradients and training", "--mode=infer compiles the model as it is");
  require_one_of("--matmul-precision", matmul_precision, {"highest", "high", "medium"});
  if (matmul_precision != "highest")
    not_supported(o.model, "--matmul-precision=" + matmul_precision, "leave it out: f32 products are exact to f32");
  require_one_of("--precision", precision, {"keep", "bf16", "f16"});
  if (precision != "keep") not_supported(o.model, "--precision=" + precision, "export the model in the precision wanted");
  if (o.optimization < 0 || o.optimization > 3) usage("-O" + std::to_string(o.optimization) + ": levels are 0 to 3");
  if (o.threads < 0) usage("-j " + std::to_string(o.threads) + ": a number of threads was expected");
  if (!targets.empty()) {
    o.cpu = o.cuda = false;
    for (const std::string& target : targets) {
      require_one_of("--target", target, {"cuda", "cpu"});
      (target == "cpu" ? o.cpu : o.cuda) = true;
    }
  }
}

runtime::Device parse_device(const std::string& text) {
  require_one_of("--device", text, {"auto", "cpu", "cuda"});
  return text == "cpu" ? runtime::Device::cpu : text == "cuda" ? runtime::Device::cuda : runtime::Device::automatic;
}

void print_diagnostics(const Diagnostics& diagnostics, const driver::Options& options) {
  if (options.quiet) return;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (options.json_diagnostics) print_json(diagnostic);
    else std::fprintf(stderr, "%s\n", to_string(diagnostic).c_str());
  }
}

void print_error(const Error& error, bool json) {
  if (!json) {
    std::fprintf(stderr, "%s\n", error.what());
    return;
  }
  for (const Diagnostic& diagnostic : error.diagnostics()) print_json(diagnostic);
}

}  // namespace tcc::cli
