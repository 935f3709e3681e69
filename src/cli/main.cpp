// tcc: finds the verb, runs it, and turns what goes wrong into a message and an exit code.
#include <new>

#include "cli/command_line.h"
#include "tcc/codegen/codegen.h"
#include "tcc/support/process.h"
#include "tcc/support/suggest.h"

namespace tcc::cli {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> list = {
      {"run", run, "run a library on given or random inputs, or train with it"},
      {"bench", bench, "time a library"},
      {"tune", tune, "time other schedules for a model's units, and note the fastest in a file for compiling"},
      {"verify", verify, "compile a model, run it and compare every output and gradient with the interpreter in f64"},
      {"check", check, "list everything in a model that is not supported"},
      {"inspect", inspect, "say what a model, a library, a printed form or a state file holds"},
      {"explain", explain, "say more about a kind of message, such as unsupported-op"},
      {"help", help, "the help of tcc or of a verb"}};
  return list;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  return names;
}

int help(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") return compile({"--help"});
  for (const Verb& verb : verbs()) {
    if (arguments[0] == verb.name && verb.run != help) return verb.run({"--help"});
  }
  if (arguments[0] == "help" || arguments[0] == "compile") return compile({"--help"});
  throw Error(ExitCode::usage, "invalid-argument", "", "there is no verb `" + arguments[0] + "`",
              suggest(arguments[0], "verbs", verb_names()));
}

}  // namespace tcc::cli

namespace {

int dispatch(const tcc::cli::Arguments& arguments) {
  if (arguments.empty()) return tcc::cli::compile(arguments);
  for (const tcc::cli::Verb& verb : tcc::cli::verbs()) {
    if (arguments[0] == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
  }
  // tcc --help run
  if ((arguments[0] == "--help" || arguments[0] == "-h") && arguments.size() == 2) return tcc::cli::help({arguments[1]});
  return tcc::cli::compile(arguments);
}

// Known before flags are parsed, since parsing may fail as well.
bool wants_json(const tcc::cli::Arguments& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--diagnostics=json" || (arguments[i] == "--diagnostics" && i + 1 < arguments.size() && arguments[i + 1] == "json"))
      return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tcc;
  const cli::Arguments arguments(argv + 1, argv + argc);
  handle_signals();
  handle_faults(wants_json(arguments) ? FaultText::json : FaultText::plain);
  codegen::handle_faults_of_llvm();
  try {
    return dispatch(arguments);
  } catch (const Error& error) {
    cli::print_error(error, wants_json(arguments));
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    cli::print_error(Error(ExitCode::environment, "out-of-memory", "", "there is not enough memory"), wants_json(arguments));
    return static_cast<int>(ExitCode::environment);
  } catch (const std::exception& error) {
    Diagnostic diagnostic{Diagnostic::Severity::internal_error, "internal-error", "", std::string("unexpected exception: ") + error.what(),
                          ""};
    cli::print_error(Error(ExitCode::internal, {diagnostic}), wants_json(arguments));
    return static_cast<int>(ExitCode::internal);
  }
}
