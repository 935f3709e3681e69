// tcc: finds the verb, runs it, and turns what goes wrong into a message and an exit code.
#include <cstdio>
#include <cstring>
#include <map>
#include <new>

#include "cli/command_line.h"
#include "driver/emit.h"
#include "tcc/codegen/codegen.h"
#include "tcc/support/process.h"

namespace {

using Verb = int (*)(const tcc::cli::Arguments&);

int dispatch(const tcc::cli::Arguments& arguments) {
  static const std::map<std::string, Verb> verbs = {
      {"run", tcc::cli::run}, {"bench", tcc::cli::bench}, {"verify", tcc::cli::verify}, {"check", tcc::cli::check}};
  if (!arguments.empty()) {
    if (arguments[0] == "--version") {
      tcc::driver::write_stdout("tcc " TCC_VERSION "\n");
      return 0;
    }
    const auto verb = verbs.find(arguments[0]);
    if (verb != verbs.end()) return verb->second({arguments.begin() + 1, arguments.end()});
  }
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
